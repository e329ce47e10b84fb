//! Expired sessions with their artifacts and memories: hidden at once, and deleted by a sweep, in
//! every combination of stores.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use retain_core::{
    Append, ArtifactError, ArtifactKey, ArtifactService, ArtifactVersion, CreateSession, Event,
    ExpiringArtifacts, JsonMap, MemoryService, Part, SessionKey, SessionLog, StoreArtifactService,
    StoreSessionService, Window,
};
use retain_memory::{InMemoryMemoryService, StoreMemoryService};
use retain_runtime::{Maintenance, MaintenanceReport};
use retain_stores::{
    FileArtifactService, FileArtifactStore, InMemoryArtifactService, InMemoryMemoryStore,
    InMemoryStore, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore,
};
use retain_testkit::{
    TestClock,
    postgres::{TestDatabase, is_there},
    scratch,
};

const TTL: Duration = Duration::from_secs(100);
const USER: &str = "ada";

/// What is remembered of the session that does not expire.
const KEPT: &str = "We ate swordfish with lemon on a Tuesday.";

/// Sessions, and the artifacts and memories in their database, if it has them.
struct Sessions {
    name: &'static str,
    log: Arc<dyn SessionLog>,
    artifacts: Option<Arc<dyn ArtifactService>>,
    memory: Option<Arc<dyn MemoryService>>,
    _database: Option<TestDatabase>,
}

async fn in_sqlite(clock: &TestClock) -> Sessions {
    let options = SqliteOptions::in_memory().with_clock(Arc::new(clock.clone()));
    let store = SqliteStore::open(options).await.unwrap();
    Sessions {
        name: "sqlite",
        artifacts: Some(Arc::new(StoreArtifactService::over(store.artifacts()))),
        memory: Some(Arc::new(StoreMemoryService::over(store.memory()))),
        log: Arc::new(StoreSessionService::over(store)),
        _database: None,
    }
}

async fn all_sessions(clock: &TestClock) -> Vec<Sessions> {
    let in_memory = InMemoryStore::with_clock(Arc::new(clock.clone()));
    let mut all = vec![
        Sessions {
            name: "in memory",
            log: Arc::new(StoreSessionService::over(in_memory)),
            artifacts: None,
            memory: None,
            _database: None,
        },
        in_sqlite(clock).await,
    ];
    if is_there() {
        let database = TestDatabase::new().await;
        let options = PostgresOptions::from_uri(&database.uri()).unwrap();
        let options = options.with_clock(Arc::new(clock.clone()));
        let store = PostgresStore::open(options).await.unwrap();
        all.push(Sessions {
            name: "postgres",
            artifacts: Some(Arc::new(StoreArtifactService::over(store.artifacts()))),
            memory: Some(Arc::new(StoreMemoryService::over(store.memory()))),
            log: Arc::new(StoreSessionService::over(store)),
            _database: Some(database),
        });
    }
    all
}

/// One combination of services, with an app of its own.
struct Combination {
    name: String,
    app: String,
    log: Arc<dyn SessionLog>,
    /// The artifacts as agents see them.
    artifacts: Arc<dyn ArtifactService>,
    memory: Arc<dyn MemoryService>,
}

impl Combination {
    fn key(&self, session: &str) -> SessionKey {
        SessionKey::new(&self.app, USER, session)
    }

    fn artifact(&self, session: &str, name: &str) -> ArtifactKey {
        ArtifactKey::in_session(&self.key(session), name)
    }

    /// Creates a session with artifacts and memories that expires, and one that does not.
    async fn fill(&self) {
        for (id, ttl) in [("short", Some(TTL)), ("long", None)] {
            let mut new = CreateSession::new(&self.app, USER).with_session_id(id);
            new.ttl = ttl;
            self.log.create(new).await.unwrap();
            let text = match ttl {
                Some(_) => "The password of the vault is swordfish.",
                None => KEPT,
            };
            let append = Append::from(Event::user_text(text));
            self.log.append(&self.key(id), append).await.unwrap();
            let session = self.log.read(&self.key(id), Window::ALL).await.unwrap();
            self.memory
                .add_session_to_memory(&session.unwrap())
                .await
                .unwrap();
        }
        for (session, name) in [
            ("short", "a"),
            ("short", "a"),
            ("short", "user:u"),
            ("long", "b"),
        ] {
            let key = self.artifact(session, name);
            let saved = self.artifacts.save_artifact(&key, Part::text("x"), None);
            saved.await.unwrap();
        }
    }

    async fn listed(&self, session: &str) -> Vec<String> {
        let listed = self
            .artifacts
            .list_artifact_keys(&self.app, USER, Some(session));
        listed.await.unwrap()
    }

    /// Returns the number of versions of an artifact, if all ways to read it agree.
    async fn versions(&self, key: &ArtifactKey) -> usize {
        let artifacts = &self.artifacts;
        let numbers = artifacts.list_versions(key).await.unwrap().len();
        let versions = artifacts.list_artifact_versions(key).await.unwrap().len();
        let newest = artifacts.get_artifact_version(key, None).await.unwrap();
        let first = artifacts.get_artifact_version(key, Some(0)).await.unwrap();
        let loaded = artifacts.load_artifact(key, None).await.unwrap();
        let first_loaded = artifacts.load_artifact(key, Some(0)).await.unwrap();
        let is_there = [
            newest.is_some(),
            first.is_some(),
            loaded.is_some(),
            first_loaded.is_some(),
        ];
        assert_eq!(numbers, versions, "{}", self.name);
        assert_eq!(is_there, [numbers > 0; 4], "{}", self.name);
        numbers
    }

    async fn remembered(&self) -> Vec<String> {
        let found = self
            .memory
            .search_memory(&self.app, USER, "swordfish")
            .await;
        let memories = found.unwrap().memories.into_iter();
        let mut texts: Vec<String> = memories.map(|it| it.content.text_concat()).collect();
        texts.sort();
        texts
    }

    async fn sweep(&self) -> MaintenanceReport {
        let maintenance = Maintenance::new(Arc::clone(&self.log))
            .with_artifacts(Arc::clone(&self.artifacts))
            .with_memory(Arc::clone(&self.memory));
        maintenance.run_once().await.unwrap()
    }
}

/// Calls `test` with each combination of stores.
async fn with_each_combination(clock: &TestClock, test: impl AsyncFn(&Combination)) {
    let folder = scratch::folder();
    for sessions in all_sessions(clock).await {
        let other = in_sqlite(clock).await;
        let files = FileArtifactStore::open(folder.path().join(sessions.name)).unwrap();
        let hidden = |artifacts: Arc<dyn ArtifactService>| -> Arc<dyn ArtifactService> {
            Arc::new(ExpiringArtifacts::new(artifacts, Arc::clone(&sessions.log)))
        };
        let artifacts = [
            ("same database", sessions.artifacts.clone()),
            ("other database", other.artifacts.clone().map(hidden)),
            (
                "folder",
                Some(hidden(Arc::new(FileArtifactService::over(files)))),
            ),
            (
                "memory",
                Some(hidden(Arc::new(InMemoryArtifactService::new()))),
            ),
        ];
        let in_memory = StoreMemoryService::over(InMemoryMemoryStore::default());
        let memories: [(&str, Option<Arc<dyn MemoryService>>); _] = [
            ("same database", sessions.memory.clone()),
            ("other database", other.memory.clone()),
            ("memory", Some(Arc::new(in_memory))),
            (
                "word matching",
                Some(Arc::new(InMemoryMemoryService::new())),
            ),
        ];
        let mut number = 0;
        for (artifacts_name, artifacts) in &artifacts {
            for (memory_name, memory) in &memories {
                let (Some(artifacts), Some(memory)) = (artifacts, memory) else {
                    continue;
                };
                number += 1;
                test(&Combination {
                    name: format!(
                        "sessions {}, artifacts {artifacts_name}, memories {memory_name}",
                        sessions.name
                    ),
                    app: format!("app{number}"),
                    log: Arc::clone(&sessions.log),
                    artifacts: Arc::clone(artifacts),
                    memory: Arc::clone(memory),
                })
                .await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_session_leaves_nothing_in_any_combination_of_stores() {
    let clock = TestClock::default();
    with_each_combination(&clock, async |stores| {
        let name = &stores.name;
        stores.fill().await;
        let bytes = stores.artifacts.usage(&stores.app, Some(USER)).await;
        assert!(bytes.unwrap() > Some(0), "{name}");
        let (short, long) = (stores.artifact("short", "a"), stores.artifact("long", "b"));
        assert_eq!(stores.versions(&short).await, 2, "{name}");
        assert_eq!(stores.listed("short").await, ["a", "user:u"], "{name}");
        clock.tick(TTL);
        // Hidden from the moment at which the session expires.
        assert_eq!(stores.versions(&short).await, 0, "{name}");
        assert_eq!(stores.listed("short").await, ["user:u"], "{name}");
        let swept = stores.sweep().await.swept;
        let counts = (swept.sessions, swept.artifacts, swept.memories);
        assert_eq!(counts, (1, 2, 1), "{name}");
        assert_eq!(swept.failures.len(), 0, "{name}");
        // The id can be used again, and nothing of the old session is there.
        let new = CreateSession::new(&stores.app, USER).with_session_id("short");
        stores.log.create(new).await.unwrap();
        assert_eq!(stores.versions(&short).await, 0, "{name}");
        assert_eq!(stores.listed("short").await, ["user:u"], "{name}");
        // Other sessions and the user's own artifacts stay.
        assert_eq!(stores.versions(&long).await, 1, "{name}");
        let user = ArtifactKey::of_user(&stores.app, USER, "user:u");
        assert_eq!(stores.versions(&user).await, 1, "{name}");
        assert_eq!(stores.remembered().await, [KEPT], "{name}");
        let swept = stores.sweep().await.swept;
        assert_eq!(
            (swept.sessions, swept.artifacts, swept.memories),
            (0, 0, 0),
            "{name}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explicit_delete_keeps_memories_as_adk_does() {
    let clock = TestClock::default();
    with_each_combination(&clock, async |stores| {
        stores.fill().await;
        stores
            .log
            .delete_session(&stores.app, USER, "short")
            .await
            .unwrap();
        stores.sweep().await;
        assert_eq!(stores.remembered().await.len(), 2, "{}", stores.name);
    })
    .await;
}

/// Artifacts whose deletion fails until the test repairs it.
#[derive(Debug)]
struct BrokenArtifacts {
    artifacts: Arc<dyn ArtifactService>,
    is_broken: AtomicBool,
}

#[async_trait]
impl ArtifactService for BrokenArtifacts {
    async fn save_artifact(
        &self,
        key: &ArtifactKey,
        artifact: Part,
        metadata: Option<JsonMap>,
    ) -> Result<u64, ArtifactError> {
        self.artifacts.save_artifact(key, artifact, metadata).await
    }

    async fn load_artifact(
        &self,
        key: &ArtifactKey,
        version: Option<u64>,
    ) -> Result<Option<Part>, ArtifactError> {
        self.artifacts.load_artifact(key, version).await
    }

    async fn list_artifact_keys(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        self.artifacts.list_artifact_keys(app, user, session).await
    }

    async fn delete_artifact(&self, key: &ArtifactKey) -> Result<(), ArtifactError> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(ArtifactError::NoService);
        }
        self.artifacts.delete_artifact(key).await
    }

    async fn list_versions(&self, key: &ArtifactKey) -> Result<Vec<u64>, ArtifactError> {
        self.artifacts.list_versions(key).await
    }

    async fn list_artifact_versions(
        &self,
        key: &ArtifactKey,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        self.artifacts.list_artifact_versions(key).await
    }

    async fn get_artifact_version(
        &self,
        key: &ArtifactKey,
        version: Option<u64>,
    ) -> Result<Option<ArtifactVersion>, ArtifactError> {
        self.artifacts.get_artifact_version(key, version).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_sweep_keeps_the_session_until_its_artifacts_are_deleted() {
    let clock = TestClock::default();
    let sessions = in_sqlite(&clock).await;
    let broken = Arc::new(BrokenArtifacts {
        artifacts: Arc::new(InMemoryArtifactService::new()),
        is_broken: AtomicBool::new(true),
    });
    let stores = Combination {
        name: String::new(),
        app: "app".to_owned(),
        log: Arc::clone(&sessions.log),
        artifacts: Arc::clone(&broken) as _,
        memory: sessions.memory.clone().unwrap(),
    };
    stores.fill().await;
    clock.tick(TTL);
    let swept = stores.sweep().await.swept;
    assert_eq!((swept.sessions, swept.failures.len()), (0, 1));
    assert_eq!(swept.failures[0].0, stores.key("short"));
    broken.is_broken.store(false, Ordering::SeqCst);
    let swept = stores.sweep().await.swept;
    assert_eq!((swept.sessions, swept.artifacts, swept.memories), (1, 2, 1));
    assert_eq!(stores.listed("short").await, ["user:u"]);
}
