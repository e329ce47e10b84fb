//! A database with every kind of record, and a dump of all its content.

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::TryStreamExt as _;
use retain_core::{
    ApiKey, ArtifactKey, ArtifactService as _, ArtifactStore as _, Clock as _, Content,
    CreateSession, Event, ExportScope, Forget, Json, JsonMap, KeyScope, KeyStore as _, KeyText,
    MemoryBatch, MemoryEdit, MemoryKind, MemoryLimits, MemoryOrigin, MemoryRows, MemoryScope,
    MemoryStore as _, MemoryUpdate, MemoryVector, MemoryVectors, MigrationSide, NewMemory, Part,
    PreparedMemory, ReadDetail, RepeatPolicy, SessionKey, SessionLog as _, SessionService as _,
    SessionStore as _, State, StateOwner, StoreArtifactService, StoreSessionService,
    TransferStore as _, Window,
};
use retain_stores::{Durability, SqliteOptions, SqliteStore};
use retain_testkit::{TestClock, TestIds};

/// App names; two need escaping.
pub(super) const APPS: [&str; 3] = ["app", "it's \"so\"; DROP TABLE sessions --", "é🦀 %_"];

/// Opens the store in the file at `path`.
pub(crate) async fn open(path: &Path, clock: &TestClock) -> SqliteStore {
    let options = SqliteOptions::file(path).with_durability(Durability::Off);
    let options = options.with_clock(Arc::new(clock.clone()));
    SqliteStore::open(options).await.unwrap()
}

/// Opens the file at `path` as a read-only migration source.
pub(super) async fn open_source(path: &Path, clock: &TestClock) -> MigrationSide {
    let options = SqliteOptions::file(path).read_only();
    let options = options.with_clock(Arc::new(clock.clone()));
    side(SqliteStore::open(options).await.unwrap())
}

pub(crate) fn side(store: SqliteStore) -> MigrationSide {
    MigrationSide {
        memory: Some(Arc::new(store.memory())),
        artifacts: Some(Arc::new(store.artifacts())),
        keys: Some(Arc::new(store.keys())),
        sessions: Some(Arc::new(store)),
    }
}

fn parse_map(text: &str) -> JsonMap {
    let parsed = Json::parse(text).unwrap();
    parsed.as_object().cloned().unwrap()
}

fn event(id: &str, invocation: &str, delta: &str) -> Event {
    let text = format!(
        r#"{{"id":"{id}","timestamp":1600000000.25,"author":"user","invocationId":"{invocation}",
        "content":{{"role":"user","parts":[{{"text":"NUL \u0000 and \ud83e\udd80","newField":[1.0]}}]}},
        "actions":{{"stateDelta":{delta},"unheardOf":{{"b":1,"a":2}}}},"fromTheFuture":{{"z":null}}}}"#
    );
    Event::from_json(&text).unwrap()
}

async fn create(
    sessions: &StoreSessionService<SqliteStore>,
    key: &SessionKey,
    state: &str,
    ttl: Option<Duration>,
) {
    let mut new = CreateSession::new(&key.app, &key.user)
        .with_session_id(&key.id)
        .with_state(State::from(parse_map(state)));
    new.ttl = ttl;
    sessions.create(new).await.unwrap();
}

/// Fills the file at `path` and advances the clock.
pub(crate) async fn fill(path: &Path, clock: &TestClock) {
    let store = open(path, clock).await;
    fill_memory(&store).await;
    fill_keys(&store).await;
    let artifacts =
        StoreArtifactService::over(store.artifacts()).with_clock(Arc::new(clock.clone()));
    let sessions = StoreSessionService::over(store)
        .with_clock(Arc::new(clock.clone()))
        .with_ids(Arc::new(TestIds::default()));
    for app in APPS {
        fill_app(&sessions, app).await;
    }
    let owner = StateOwner::user("orphaned", "without a session");
    let keys = parse_map(r#"{"k":[1.50,"\u0000"]}"#);
    let store = sessions.store();
    store.add_shared_state(&owner, &keys).await.unwrap();

    let artifact_key =
        |id: &str, name: &str| ArtifactKey::in_session(&SessionKey::new("app", "ada", id), name);
    for (key, part) in [
        (artifact_key("long", "a.txt"), Part::text("one")),
        (
            artifact_key("long", "a.txt"),
            Part::bytes(vec![0, 255, 0, 7], "image/png"),
        ),
        (artifact_key("long", "a.txt"), Part::text("three \0")),
        (artifact_key("no such session", "x"), Part::text("x")),
        (
            artifact_key("long", "user:é"),
            Part::bytes(vec![7; 100_000], "x/y"),
        ),
        (artifact_key("expired", "gone.txt"), Part::text("gone")),
    ] {
        let metadata = parse_map(r#"{"n":1.0}"#);
        clock.tick(Duration::from_micros(3));
        let saved = artifacts.save_artifact(&key, part, Some(metadata));
        saved.await.unwrap();
    }
    clock.tick(Duration::from_secs(60));
}

async fn fill_app(sessions: &StoreSessionService<SqliteStore>, app: &str) {
    let key = |id: &str| SessionKey::new(app, "ada", id);
    let (long, hour) = (key("long"), Some(Duration::from_secs(3600)));
    let initial = r#"{"a":1,"n":null,"user:u":1.50,"app:p":[1]}"#;
    create(sessions, &long, initial, None).await;
    for n in 1..=30 {
        let delta = format!(r#"{{"a":{n},"k{}":"v\u0000","user:v":{n}}}"#, n % 5);
        let event = event(&format!("e{n}"), &format!("i{n}"), &delta);
        sessions.append(&long, event.into()).await.unwrap();
    }
    sessions.rewind(&long, "i20").await.unwrap();
    let more = event("more", "i31", r#"{"a":"after","k1":2}"#);
    sessions.append(&long, more.into()).await.unwrap();
    sessions.rewind(&long, "i31").await.unwrap();
    let fork = sessions
        .fork(&long, Some(25), Some("fork '\"\u{202e}"))
        .await;
    let fork_event = event("fork event", "i1", r#"{"f":1}"#);
    sessions
        .append(&fork.unwrap().key(), fork_event.into())
        .await
        .unwrap();
    create(sessions, &key("lives for an hour"), "{}", hour).await;
    create(
        sessions,
        &key("expired"),
        "{}",
        Some(Duration::from_secs(30)),
    )
    .await;
    create(sessions, &key("deleted"), "{}", None).await;
    sessions
        .delete_session(app, "ada", "deleted")
        .await
        .unwrap();
    create(
        sessions,
        &SessionKey::new(app, "x/../y", "\u{1}"),
        "{}",
        None,
    )
    .await;
    create(
        sessions,
        &SessionKey::new(app, "Ada", "long"),
        r#"{"s":"x"}"#,
        None,
    )
    .await;
}

fn memory(id: &str, text: &str) -> NewMemory {
    NewMemory {
        id: id.to_owned(),
        session: Some("long".to_owned()),
        position: 3,
        event_id: Some(id.to_owned()),
        author: Some("user".to_owned()),
        timestamp: 1_600_000_000.25,
        content: Content::user(text),
        ..NewMemory::default()
    }
}

async fn fill_memory(store: &SqliteStore) {
    let memory_store = store.memory();
    let now_us = TestClock::default().now_us();
    for user in ["ada", "Ada"] {
        let scope = MemoryScope::new(APPS[1], user);
        let mut memories: Vec<NewMemory> = (0..20)
            .map(|n| memory(&format!("m{n}"), &format!("text {n} \0")))
            .collect();
        memories[3].origin = MemoryOrigin::Tool { name: "web".into() };
        memories[4].vectors = MemoryVectors {
            fixed: None,
            embedding: Some(MemoryVector::from_floats("m", &[0.25, -1.0])),
        };
        memories[5].session = None;
        memories[5].kind = MemoryKind::Direct;
        memories[5].expires_us = Some(now_us + 1);
        memories[6].custom_metadata = parse_map(r#"{"note":1.0}"#);
        let batch = MemoryBatch {
            scope: scope.clone(),
            memories: memories
                .into_iter()
                .map(|it| PreparedMemory::new(it).unwrap())
                .collect(),
            repeats: RepeatPolicy::Keep,
            limits: MemoryLimits::default(),
            rooms: Vec::new(),
            now_us,
        };
        memory_store.add(Arc::new(batch)).await.unwrap();
        let edit = MemoryEdit {
            update: MemoryUpdate::default().with_content(Content::user("by hand")),
            limits: MemoryLimits::default(),
            now_us: now_us + 9,
        };
        memory_store
            .update(&scope, "m2", Arc::new(edit))
            .await
            .unwrap();
        let ids = Forget::Ids(vec!["m1".into(), "m19".into()]);
        memory_store.forget(&scope, Arc::new(ids)).await.unwrap();
        let tool = Forget::tool("web");
        memory_store.forget(&scope, Arc::new(tool)).await.unwrap();
    }
}

pub(super) fn api_key(id: &str) -> ApiKey {
    ApiKey {
        id: id.to_owned(),
        name: format!("\"{id}\" \0"),
        hash: KeyText::new(id, [9; retain_core::KEY_SECRET_BYTES]).hash(),
        app: Some("app".to_owned()),
        user: None,
        scopes: vec![KeyScope::Run, KeyScope::MemoryRead],
        created_us: 1,
        expires_us: Some(7),
        revoked_us: None,
        last_used_us: None,
    }
}

async fn fill_keys(store: &SqliteStore) {
    let keys = store.keys();
    for id in ["z", "a", "m"] {
        keys.add(&api_key(id)).await.unwrap();
    }
    keys.revoke("a", 5).await.unwrap();
    keys.note_use("m", 6).await.unwrap();
}

/// Returns the whole content of a database as texts.
pub(super) async fn dump(path: &Path, clock: &TestClock) -> Vec<String> {
    let store = open(path, clock).await;
    let mut all = Vec::new();
    for owner in store.state_owners(None, 1000).await.unwrap() {
        let keys = store.shared_state(&owner.app, owner.user.as_deref()).await;
        let mut keys: Vec<String> = keys.unwrap().iter().map(|it| format!("{it:?}")).collect();
        keys.sort();
        all.push(format!("{owner}: {keys:?}"));
    }
    for key in store.addresses(None, 1000).await.unwrap() {
        let mut header = store.log_header(&key).await.unwrap().unwrap();
        header.head.incarnation = 0;
        all.push(format!("{header:?}"));
        for position in 0..=header.head.position {
            let scope = ReadDetail::StateAt(position);
            let read = store.read(&key, Window::NONE, scope).await.unwrap();
            let state = read.unwrap().state.session;
            all.push(format!("{position}: {}", Json::from(state)));
        }
    }
    let memory = store.memory();
    for scope in memory.scopes(None, 1000).await.unwrap() {
        let after = MemoryRows::After {
            seq: 0,
            limit: 1000,
        };
        for mut row in memory.rows(&scope, after, true).await.unwrap() {
            let ids = [row.info.id.clone()];
            let session = row.info.session.clone();
            let hash = memory.body_hashes(&scope, session.as_deref(), &ids).await;
            row.info.revision = 0;
            all.push(format!("{row:?} {:?}", hash.unwrap()));
        }
        let hashes = memory.tombstones(&scope, None, 1000).await.unwrap();
        all.push(format!("{scope}: {hashes:?}"));
        let mut statistics = memory.statistics(&scope, clock.now_us()).await.unwrap();
        statistics.revision = 0;
        all.push(format!("{statistics:?}"));
    }
    let artifacts = store.artifacts();
    for address in artifacts.addresses(None, 1000).await.unwrap() {
        for about in artifacts.versions(&address).await.unwrap() {
            let part = artifacts.get(&address, Some(about.version)).await.unwrap();
            all.push(format!("{about:?} {part:?}"));
        }
    }
    let keys = store.keys();
    all.push(format!(
        "{:?} {}",
        keys.keys().await.unwrap(),
        keys.had_any().await.unwrap()
    ));
    assert_eq!(store.check().await.unwrap(), []);
    let sessions = StoreSessionService::over(store).with_clock(Arc::new(clock.clone()));
    for app in APPS {
        let lines = sessions.export(ExportScope::App { app: app.into() });
        all.extend(lines.try_collect::<Vec<_>>().await.unwrap());
    }
    all
}
