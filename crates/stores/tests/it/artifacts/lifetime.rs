//! Artifacts in the database of the sessions are deleted with their session and erased with the
//! user.

use std::{any::Any, sync::Arc, time::Duration};

use retain_core::{
    ArtifactKey, ArtifactService, CreateSession, Part, SessionKey, SessionLog,
    StoreArtifactService, StoreSessionService,
};
use retain_testkit::TestClock;

/// Sessions and artifacts in one database, and a guard that keeps it alive.
struct Services {
    name: &'static str,
    clock: TestClock,
    sessions: Arc<dyn SessionLog>,
    artifacts: Arc<dyn ArtifactService>,
    _guard: Option<Box<dyn Any>>,
}

async fn open_databases() -> Vec<Services> {
    #[allow(unused_mut, reason = "unused without a database feature")]
    let mut databases = Vec::new();
    #[cfg(feature = "sqlite")]
    {
        use retain_stores::{SqliteOptions, SqliteStore};

        let clock = TestClock::default();
        let options = SqliteOptions::in_memory().with_clock(Arc::new(clock.clone()));
        let store = SqliteStore::open(options).await.unwrap();
        databases.push(Services {
            name: "sqlite",
            artifacts: Arc::new(StoreArtifactService::over(store.artifacts())),
            sessions: Arc::new(
                StoreSessionService::over(store).with_clock(Arc::new(clock.clone())),
            ),
            clock,
            _guard: None,
        });
    }
    #[cfg(feature = "postgres")]
    if retain_testkit::postgres::is_there() {
        use retain_stores::{PostgresOptions, PostgresStore};

        let clock = TestClock::default();
        let database = retain_testkit::postgres::TestDatabase::new().await;
        let options = PostgresOptions::from_uri(&database.uri()).unwrap();
        let options = options.with_clock(Arc::new(clock.clone()));
        let store = PostgresStore::open(options).await.unwrap();
        databases.push(Services {
            name: "postgres",
            artifacts: Arc::new(StoreArtifactService::over(store.artifacts())),
            sessions: Arc::new(
                StoreSessionService::over(store).with_clock(Arc::new(clock.clone())),
            ),
            clock,
            _guard: Some(Box::new(database)),
        });
    }
    databases
}

impl Services {
    /// Saves artifacts of the sessions `s1` and `s2`, and of the user.
    async fn fill(&self) {
        for (session, name) in [("s1", "a"), ("s1", "a"), ("s1", "user:u"), ("s2", "b")] {
            self.save(session, name).await;
        }
    }

    async fn save(&self, session: &str, name: &str) {
        let key = ArtifactKey::in_session(&SessionKey::new("app", "ada", session), name);
        let saved = self.artifacts.save_artifact(&key, Part::text("x"), None);
        saved.await.unwrap();
    }

    async fn list(&self, session: &str) -> Vec<String> {
        let listed = self
            .artifacts
            .list_artifact_keys("app", "ada", Some(session));
        listed.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_session_deletes_only_the_artifacts_of_the_session() {
    for services in open_databases().await {
        let (name, sessions) = (services.name, &services.sessions);
        for id in ["s1", "s2"] {
            let created = sessions.create_session("app", "ada", None, Some(id));
            created.await.unwrap();
        }
        services.fill().await;
        sessions.delete_session("app", "ada", "s1").await.unwrap();
        assert_eq!(services.list("s1").await, ["user:u"], "{name}");
        assert_eq!(services.list("s2").await, ["b", "user:u"], "{name}");
        let key = ArtifactKey::in_session(&SessionKey::new("app", "ada", "s1"), "a");
        let left = services.artifacts.list_versions(&key).await.unwrap();
        assert!(left.is_empty(), "{name}");
        // Deleting a session of another app deletes nothing here.
        sessions.delete_session("other", "ada", "s2").await.unwrap();
        assert_eq!(services.list("s2").await, ["b", "user:u"], "{name}");
        // Save more artifacts than one chunk of an erase removes; the receipt must count them all.
        for number in 0..100 {
            services.save("s2", &number.to_string()).await;
        }
        let receipt = sessions.erase_user("app", "ada").await.unwrap();
        assert_eq!((receipt.artifacts, receipt.sessions), (102, 1), "{name}");
        assert_eq!(services.list("s2").await, [""; 0], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_deletes_the_artifacts_of_an_expired_session() {
    for services in open_databases().await {
        let (name, sessions) = (services.name, &services.sessions);
        let new = CreateSession::new("app", "ada")
            .with_session_id("s1")
            .with_ttl(Duration::from_secs(60));
        sessions.create(new.clone()).await.unwrap();
        services.fill().await;
        services.clock.tick(Duration::from_secs(61));
        assert_eq!(sessions.sweep().await.unwrap(), 1, "{name}");
        assert_eq!(services.list("s1").await, ["user:u"], "{name}");
        // A new session with the id of an expired one does not see its artifacts.
        sessions.create(new.clone()).await.unwrap();
        services.fill().await;
        services.clock.tick(Duration::from_secs(61));
        sessions.create(new).await.unwrap();
        assert_eq!(services.list("s1").await, ["user:u"], "{name}");
    }
}
