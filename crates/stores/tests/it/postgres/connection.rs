//! Interrupted connections and cancelled writes: the store retries, and every acknowledged write is
//! stored exactly once.

use std::{sync::Arc, time::Duration};

use retain_core::{
    ApiKey, Append, ArtifactKey, ArtifactService as _, Content, Forget, KeyScope, KeyStore as _,
    MemoryBatch, MemoryLimits, MemoryRows, MemoryScope, MemoryStore as _, NewMemory, Part,
    PreparedMemory, RepeatPolicy, RunOptions, SessionLog as _, SessionService as _, State,
};
use retain_stores::{PostgresArtifactService, PostgresSessionService};

use super::{
    create, create_database, event, open,
    proxy::{Cut, Proxy},
    read_texts, wait_until,
};

/// The author of the events whose append is interrupted. If the head is cached, the append is one
/// message, so a cut at the message with this text interrupts the whole append.
const ONE_TRIP: &str = "in one";

/// The message that ends a transaction. The NUL at its end distinguishes it from `READ COMMITTED`.
const COMMIT: &str = "COMMIT\0";

/// Opens two services on one database: one through the proxy, one direct.
async fn open_both(proxy: &Proxy, uri: &str) -> (PostgresSessionService, PostgresSessionService) {
    (open(proxy.uri()).await, open(uri).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_append_is_stored_once() {
    let Some(database) = create_database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let (sessions, direct) = open_both(&proxy, &database.uri()).await;
    for (cut, text) in [
        (Cut::Before, ONE_TRIP),
        (Cut::After, ONE_TRIP),
        (Cut::Before, COMMIT),
        (Cut::After, COMMIT),
    ] {
        let name = text.trim_end_matches('\0');
        let key = create(&sessions, &format!("{cut:?} {name}")).await;
        sessions.append(&key, event("first").into()).await.unwrap();
        if text == COMMIT {
            // An append by another process makes the cached head stale.
            direct.append(&key, event("other").into()).await.unwrap();
        }
        let before = read_texts(&direct, &key).await.len() as u64;
        let cuts = proxy.cuts();
        let mut interrupted = event(&format!("cut {name}"));
        interrupted.author = ONE_TRIP.to_owned();
        proxy.cut_next(cut, text);
        let appended = sessions.append(&key, interrupted.into()).await.unwrap();
        assert_eq!(proxy.cuts(), cuts + 1, "{cut:?} {text}");
        assert_eq!(appended.events[0].0, before + 1, "{cut:?} {text}");
        sessions.append(&key, event("last").into()).await.unwrap();
        let texts = read_texts(&direct, &key).await;
        let found = texts.iter().filter(|text| text.starts_with("cut"));
        assert_eq!(found.count(), 1, "{cut:?} {text}: {texts:?}");
        assert_eq!(texts.len() as u64, before + 2, "{cut:?} {text}: {texts:?}");
    }
    assert_eq!(direct.check().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_whose_first_append_is_interrupted_keeps_its_lease() {
    let Some(database) = create_database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let (sessions, direct) = open_both(&proxy, &database.uri()).await;
    for text in [ONE_TRIP, COMMIT] {
        let key = create(&sessions, text.trim_end_matches('\0')).await;
        if text == COMMIT {
            direct.append(&key, event("other").into()).await.unwrap();
        }
        let mut first = event("begins");
        first.author = ONE_TRIP.to_owned();
        proxy.cut_next(Cut::After, text);
        let options = RunOptions::default().with_wait(Duration::from_secs(1));
        let begin = Append::from(first).beginning_run(options);
        // The retry must not wait for the lease that the interrupted attempt acquired.
        let run = sessions.append(&key, begin).await.unwrap().run.unwrap();
        let within = Append::from(event("within")).within_run(run);
        sessions.append(&key, within).await.unwrap();
        let other_run = Append::from(event("other"))
            .beginning_run(RunOptions::default().with_wait(Duration::ZERO));
        assert!(direct.append(&key, other_run).await.is_err());
        let end = Append::from(event("ends")).ending_run(run);
        sessions.append(&key, end).await.unwrap();
        let texts = read_texts(&direct, &key).await;
        assert_eq!(texts[texts.len() - 3..], ["begins", "within", "ends"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_create_fork_and_delete_apply_once() {
    let Some(database) = create_database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let sessions = open(proxy.uri()).await;
    create(&sessions, "before").await;
    for cut in [Cut::Before, Cut::After] {
        proxy.cut_next(cut, COMMIT);
        let state = State::from([("user:a", "1"), ("b", "2")]);
        let id = format!("{cut:?}");
        let created = sessions.create_session("app", "ada", Some(state), Some(&id));
        let created = created.await.unwrap();
        assert_eq!(created.state["b"], "2");
        let again = sessions.create_session("app", "ada", None, Some(&id)).await;
        assert!(again.is_err(), "{cut:?}");
        proxy.cut_next(cut, COMMIT);
        let (key, fork) = (created.key(), format!("fork {id}"));
        let forked = sessions.fork(&key, None, Some(&fork)).await.unwrap();
        assert_eq!(forked.state["b"], "2");
        proxy.cut_next(cut, COMMIT);
        sessions.delete_session("app", "ada", &id).await.unwrap();
        // Finish background work, which the next cut must not interrupt.
        sessions.store().purge().await.unwrap();
        assert!(
            sessions
                .read(&created.key(), retain_core::Window::NONE)
                .await
                .unwrap()
                .is_none()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erase_receipt_is_complete_after_an_interruption() {
    let Some(database) = create_database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let sessions = open(proxy.uri()).await;
    for cut in [Cut::Before, Cut::After] {
        for id in ["one", "two"] {
            let key = create(&sessions, id).await;
            sessions.append(&key, event("a").into()).await.unwrap();
        }
        sessions.store().purge().await.unwrap();
        let cuts = proxy.cuts();
        proxy.cut_next(cut, COMMIT);
        let receipt = sessions.erase_user("app", "ada").await.unwrap();
        assert_eq!(proxy.cuts(), cuts + 1, "{cut:?}");
        let found = (receipt.sessions, receipt.events, receipt.state_keys);
        assert_eq!(found, (2, 2, 2), "{cut:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn append_is_retried_when_its_backend_is_terminated() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = create(&sessions, "s").await;
    sessions.append(&key, event("first").into()).await.unwrap();
    let mut holder = database.client().await;
    let other = database.client().await;
    for n in 0..4 {
        let held = holder.transaction().await.unwrap();
        let lock = "SELECT FROM retain_sessions FOR UPDATE";
        held.execute(lock, &[]).await.unwrap();
        let waiting = {
            let (sessions, key) = (sessions.clone(), key.clone());
            let append = match n % 2 {
                // An append with shared state keys needs a transaction of several statements.
                0 => {
                    let mut shared = event(&format!("n{n}"));
                    shared.actions.state_delta.insert("user:n", n);
                    shared
                }
                _ => event(&format!("n{n}")),
            };
            tokio::spawn(async move { sessions.append(&key, append.into()).await })
        };
        let waits = "FROM pg_stat_activity WHERE application_name = 'retain' \
                     AND datname = current_database() AND wait_event_type = 'Lock'";
        wait_until(&other, &format!("SELECT count(*) = 1 {waits}")).await;
        let end = format!("SELECT pg_terminate_backend(pid) {waits}");
        other.query(&end, &[]).await.unwrap();
        held.rollback().await.unwrap();
        let appended = waiting.await.unwrap().unwrap();
        assert_eq!(appended.events[0].0, n as u64 + 2);
    }
    assert_eq!(
        read_texts(&sessions, &key).await,
        ["first", "n0", "n1", "n2", "n3"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_are_stored_once_when_all_connections_are_terminated() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = create(&sessions, "s").await;
    let other = database.client().await;
    let writers = (0..8).map(|writer| {
        let (sessions, key) = (sessions.clone(), key.clone());
        tokio::spawn(async move {
            for n in 0..25 {
                let event = event(&format!("{writer}-{n}"));
                sessions.append(&key, event.into()).await.unwrap();
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE application_name = 'retain' AND datname = current_database()";
    // Terminate a fixed number of times: on a slow machine, appends might never finish otherwise.
    for _ in 0..20 {
        other.query(end, &[]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut texts = read_texts(&sessions, &key).await;
    assert_eq!(texts.len(), 200);
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 200, "an event was stored twice");
}

/// The caller keeps the future but stops polling it.
#[tokio::test(flavor = "multi_thread")]
async fn unpolled_append_does_not_block_others() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = create(&sessions, "s").await;
    for n in 0..50 {
        let mut shared = event(&format!("{n}"));
        shared.actions.state_delta.insert("user:n", n);
        let mut paused = sessions.append(&key, shared.into());
        // Stop polling after this time.
        let poll_time = Duration::from_micros(n * 100);
        let done = tokio::time::timeout(poll_time, &mut paused).await;
        sessions.append(&key, event("other").into()).await.unwrap();
        if done.is_err() {
            paused.await.unwrap();
        }
    }
    assert_eq!(read_texts(&sessions, &key).await.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_append_leaves_no_open_transaction() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&format!("{}?pool_size=2", database.uri())).await;
    let key = create(&sessions, "s").await;
    let mut holder = database.client().await;
    let other = database.client().await;
    for n in 0..6 {
        let held = holder.transaction().await.unwrap();
        let lock = "SELECT FROM retain_sessions FOR UPDATE";
        held.execute(lock, &[]).await.unwrap();
        let waiting = {
            let (sessions, key) = (sessions.clone(), key.clone());
            let mut shared = event("cancelled");
            shared.actions.state_delta.insert("app:n", n);
            tokio::spawn(async move { sessions.append(&key, shared.into()).await })
        };
        let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        wait_until(&other, waits).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        held.rollback().await.unwrap();
        let open = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'retain' \
                    AND datname = current_database() AND state <> 'idle'";
        wait_until(&other, open).await;
    }
    sessions.append(&key, event("stays").into()).await.unwrap();
    let texts = read_texts(&sessions, &key).await;
    assert_eq!(texts.last().map(String::as_str), Some("stays"));
    assert!(texts.len() <= 7, "{texts:?}");
    assert_eq!(sessions.check().await.unwrap(), []);
}

fn memory_batch(ids: [&str; 2]) -> Arc<MemoryBatch> {
    let memories = ids.map(|id| {
        let new = NewMemory {
            id: id.to_owned(),
            session: Some("s1".to_owned()),
            content: Content::user(id),
            ..NewMemory::default()
        };
        PreparedMemory::new(new).unwrap()
    });
    Arc::new(MemoryBatch {
        scope: MemoryScope::new("app", "ada"),
        memories: memories.into(),
        repeats: RepeatPolicy::Replace,
        limits: MemoryLimits::default(),
        rooms: Vec::new(),
        now_us: 1,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_memory_writes_apply_once() {
    let Some(database) = create_database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let (sessions, direct) = (open(proxy.uri()).await, open(&database.uri()).await);
    let (memory, scope) = (sessions.store().memory(), MemoryScope::new("app", "ada"));
    for (cut, ids, cuts) in [(Cut::Before, ["a", "b"], 0), (Cut::After, ["c", "d"], 2)] {
        proxy.cut_next(cut, COMMIT);
        let added = memory.add(memory_batch(ids)).await.unwrap();
        assert_eq!((added.added, added.unchanged), (2, 0), "{cut:?}");
        assert_eq!(proxy.cuts(), cuts + 1, "{cut:?}");
        proxy.cut_next(cut, COMMIT);
        let forget = Forget::Ids(vec![ids[0].to_owned()]);
        let receipt = memory.forget(&scope, Arc::new(forget)).await.unwrap();
        assert_eq!((receipt.memories, receipt.tombstones), (1, 1), "{cut:?}");
        assert_eq!(proxy.cuts(), cuts + 2, "{cut:?}");
    }
    let all = MemoryRows::After { seq: 0, limit: 10 };
    let rows = direct.store().memory().rows(&scope, all, false).await;
    let ids: Vec<String> = rows.unwrap().into_iter().map(|row| row.info.id).collect();
    assert_eq!(ids, ["b", "d"]);
    let mark = memory.mark(&scope).await.unwrap();
    assert_eq!((mark.revision, mark.last_seq), (4, 4));
    assert_eq!(direct.check().await.unwrap(), []);
}

/// The caller keeps the future but stops polling it.
#[tokio::test(flavor = "multi_thread")]
async fn unpolled_memory_add_does_not_block_others() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let memory = sessions.store().memory();
    memory.add(memory_batch(["a", "b"])).await.unwrap();
    for number in 0..50 {
        let id = format!("paused {number}");
        let mut paused = memory.add(memory_batch([&id, "b"]));
        // Stop polling after this time.
        let poll_time = Duration::from_micros(number * 100);
        let done = tokio::time::timeout(poll_time, &mut paused).await;
        let other = format!("other {number}");
        let added = memory.add(memory_batch([&other, "b"])).await.unwrap();
        assert_eq!(added.added, 1);
        if done.is_err() {
            paused.await.unwrap();
        }
    }
    let statistics = memory.statistics(&MemoryScope::new("app", "ada"), 0).await;
    assert_eq!(statistics.unwrap().entries, 102);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_artifact_save_stores_one_version() {
    let Some(database) = create_database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let artifacts = PostgresArtifactService::over(open(proxy.uri()).await.store().artifacts());
    let key = ArtifactKey::of_user("app", "ada", "user:a");
    for (number, cut) in [(0, Cut::Before), (1, Cut::After)] {
        proxy.cut_next(cut, "these bytes");
        let part = Part::bytes(&b"these bytes"[..], "x/y");
        let version = artifacts.save_artifact(&key, part.clone(), None).await;
        assert_eq!(version.unwrap(), number, "{cut:?}");
        assert_eq!(proxy.cuts() as u64, number + 1);
        let loaded = artifacts.load_artifact(&key, None).await.unwrap();
        assert_eq!(loaded, Some(part), "{cut:?}");
    }
    assert_eq!(artifacts.list_versions(&key).await.unwrap(), [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_api_key_add_applies_once() {
    let Some(database) = create_database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let keys = open(proxy.uri()).await.store().keys();
    for (id, cut) in [("a", Cut::Before), ("b", Cut::After)] {
        let key = ApiKey {
            id: id.to_owned(),
            name: "an interrupted key".to_owned(),
            hash: [7; 32],
            app: None,
            user: None,
            scopes: vec![KeyScope::Run],
            created_us: 0,
            expires_us: None,
            revoked_us: None,
            last_used_us: None,
        };
        proxy.cut_next(cut, "an interrupted key");
        keys.add(&key).await.unwrap();
        assert!(keys.add(&key).await.is_err(), "{cut:?}");
    }
    assert_eq!(keys.keys().await.unwrap().len(), 2);
    assert_eq!(proxy.cuts(), 2);
}
