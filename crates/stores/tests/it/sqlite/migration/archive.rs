//! Export and import of sessions, memories and artifacts, for every pair of stores. The migration
//! compares the result: it finds nothing to copy and no difference.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use retain_core::{
    Archive, ArchiveKinds, ArtifactStore, ExportScope, MemoryStore, Migration, MigrationCounts,
    MigrationSide, SessionError, SessionLog, SessionStore as _, StoreSessionService, TransferStore,
};
use retain_stores::{
    FileArtifactStore, InMemoryArtifactStore, InMemoryMemoryStore, InMemoryStore, SqliteStore,
};
use retain_testkit::TestClock;

use super::{
    MigrationTest,
    fixture::{APPS, open},
};

/// A set of stores.
struct Stores {
    kind: &'static str,
    archive: Archive,
    side: MigrationSide,
    _folder: Option<tempfile::TempDir>,
    #[cfg(feature = "postgres")]
    _database: Option<retain_testkit::postgres::TestDatabase>,
}

impl Stores {
    fn new(
        kind: &'static str,
        sessions: impl TransferStore,
        memory: impl MemoryStore,
        artifacts: impl ArtifactStore,
        clock: &TestClock,
    ) -> Stores {
        let sessions = StoreSessionService::over(sessions).with_clock(Arc::new(clock.clone()));
        let (memory, artifacts) = (Arc::new(memory), Arc::new(artifacts));
        let side = MigrationSide {
            sessions: Some(sessions.shared_store()),
            memory: Some(memory.clone()),
            artifacts: Some(artifacts.clone()),
            keys: None,
        };
        let sessions: Arc<dyn SessionLog> = Arc::new(sessions);
        Stores {
            kind,
            archive: Archive::over(sessions, Some(memory), Some(artifacts)),
            side,
            _folder: None,
            #[cfg(feature = "postgres")]
            _database: None,
        }
    }

    fn in_memory(clock: &TestClock) -> Stores {
        let sessions = InMemoryStore::with_clock(Arc::new(clock.clone()));
        let (memory, artifacts) = Default::default();
        let (memory, artifacts): (InMemoryMemoryStore, InMemoryArtifactStore) = (memory, artifacts);
        Stores::new("in memory", sessions, memory, artifacts, clock)
    }

    fn sqlite(store: SqliteStore, clock: &TestClock) -> Stores {
        let (memory, artifacts) = (store.memory(), store.artifacts());
        Stores::new("sqlite", store, memory, artifacts, clock)
    }

    async fn new_sqlite(clock: &TestClock) -> Stores {
        let folder = retain_testkit::scratch::folder();
        let store = open(&folder.path().join("s.db"), clock).await;
        let mut stores = Stores::sqlite(store, clock);
        stores._folder = Some(folder);
        stores
    }

    /// Artifacts in a folder.
    fn folder(clock: &TestClock) -> Stores {
        let folder = retain_testkit::scratch::folder();
        let files = FileArtifactStore::open(folder.path()).unwrap();
        let sessions = InMemoryStore::with_clock(Arc::new(clock.clone()));
        let memory = InMemoryMemoryStore::default();
        let mut stores = Stores::new("folder", sessions, memory, files, clock);
        stores._folder = Some(folder);
        stores
    }

    #[cfg(feature = "postgres")]
    async fn postgres(clock: &TestClock) -> Stores {
        use retain_stores::{PostgresOptions, PostgresStore};

        let database = retain_testkit::postgres::TestDatabase::new().await;
        let options = PostgresOptions::from_uri(&database.uri()).unwrap();
        let options = options.with_clock(Arc::new(clock.clone()));
        let store = PostgresStore::open(options).await.unwrap();
        let (memory, artifacts) = (store.memory(), store.artifacts());
        let mut stores = Stores::new("postgres", store, memory, artifacts, clock);
        stores._database = Some(database);
        stores
    }

    /// New, empty stores of each kind.
    async fn all(clock: &TestClock) -> Vec<Stores> {
        let mut all = vec![
            Stores::in_memory(clock),
            Stores::new_sqlite(clock).await,
            Stores::folder(clock),
        ];
        #[cfg(feature = "postgres")]
        if retain_testkit::postgres::is_there() {
            all.push(Stores::postgres(clock).await);
        }
        all
    }

    /// Exports everything.
    async fn export(&self) -> Vec<String> {
        let apps = APPS.iter().copied().chain(["orphaned"]);
        let mut lines = Vec::new();
        for app in apps {
            let exported = self
                .archive
                .export(ExportScope::App { app: app.into() }, ArchiveKinds::ALL);
            lines.extend(exported.try_collect::<Vec<String>>().await.unwrap());
        }
        lines
    }

    async fn import(&self, lines: &[String], kinds: ArchiveKinds) -> Result<u64, SessionError> {
        let lines: Vec<Result<String, SessionError>> = lines.iter().cloned().map(Ok).collect();
        let receipt = self
            .archive
            .import(stream::iter(lines).boxed(), kinds)
            .await?;
        Ok(receipt.sessions + receipt.memories + receipt.tombstones + receipt.artifacts)
    }

    async fn assert_equal(&self, other: &Stores, clock: &TestClock) {
        let migration = Migration::new(self.side.clone(), other.side.clone());
        let report = migration.with_clock(Arc::new(clock.clone())).run().await;
        let report = report.unwrap_or_else(|e| panic!("{} to {}: {e}", self.kind, other.kind));
        let copied = MigrationCounts::default();
        assert_eq!(report.copied, copied, "{} to {}", self.kind, other.kind);
    }
}

/// Stores with every kind of record. An import starts the time to live of a session again, so the
/// sessions with one are deleted.
async fn source(test: &MigrationTest) -> Stores {
    let store = open(&test.path("from.db"), &test.clock).await;
    for key in store.addresses(None, 1000).await.unwrap() {
        let header = store.log_header(&key).await.unwrap().unwrap();
        if header.head.ttl.is_some() {
            store.delete(&key).await.unwrap();
        }
    }
    Stores::sqlite(store, &test.clock)
}

#[tokio::test(flavor = "multi_thread")]
async fn export_and_import_are_lossless_between_all_stores() {
    let test = MigrationTest::new().await;
    let clock = &test.clock;
    let source = source(&test).await;
    let lines = source.export().await;
    for kind in ["session", "shared", "memory", "tombstones", "artifact"] {
        let start = format!("{{\"retain\":\"{kind}\"");
        assert!(lines.iter().any(|line| line.starts_with(&start)), "{kind}");
    }
    for from in Stores::all(clock).await {
        assert!(from.import(&lines, ArchiveKinds::ALL).await.unwrap() > 0);
        source.assert_equal(&from, clock).await;
        let again = from.export().await;
        for to in Stores::all(clock).await {
            to.import(&again, ArchiveKinds::ALL).await.unwrap();
            from.assert_equal(&to, clock).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn import_of_selected_kinds_skips_the_others() {
    let test = MigrationTest::new().await;
    let lines = source(&test).await.export().await;
    let counts = |kinds: &'static str| {
        let (lines, clock) = (lines.clone(), test.clock.clone());
        async move {
            let to = Stores::in_memory(&clock);
            let kinds = ArchiveKinds::from_names(kinds.split(',')).unwrap();
            to.import(&lines, kinds).await.unwrap()
        }
    };
    let all = counts("sessions,memories,artifacts").await;
    let parts = [
        counts("sessions").await,
        counts("memories").await,
        counts("artifacts").await,
    ];
    assert!(parts.iter().all(|count| *count > 0), "{parts:?}");
    assert_eq!(parts.iter().sum::<u64>(), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn line_without_its_store_is_a_clear_error() {
    let test = MigrationTest::new().await;
    let lines = source(&test).await.export().await;
    let log: Arc<dyn SessionLog> = Arc::new(StoreSessionService::over(InMemoryStore::default()));
    let archive = Archive::over(log, None, None);
    for (kind, other) in [
        ("memory", "memory service"),
        ("artifact", "artifact service"),
    ] {
        let start = format!("{{\"retain\":\"{kind}\"");
        let at = lines
            .iter()
            .position(|line| line.starts_with(&start))
            .unwrap();
        let lines = [Ok(String::new()), Ok(lines[at].clone())];
        let imported = archive
            .import(stream::iter(lines).boxed(), ArchiveKinds::ALL)
            .await;
        let error = imported.unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains(other), "{error}");
    }
    let everything = ExportScope::App {
        app: APPS[0].into(),
    };
    let mut exported = archive.export(everything, ArchiveKinds::ALL);
    let error = exported.try_next().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("cannot export"), "{cause}");
}

#[tokio::test(flavor = "multi_thread")]
async fn corrupt_line_of_an_import_is_named_and_stores_nothing_of_its_record() {
    let test = MigrationTest::new().await;
    let lines = source(&test).await.export().await;
    for (start, field) in [
        ("{\"retain\":\"memory\"", "\"seq\""),
        ("{\"retain\":\"artifact\"", "\"number\""),
    ] {
        let line = lines.iter().find(|line| line.starts_with(start)).unwrap();
        let broken = line.replacen(field, "\"gone\"", 1);
        let to = Stores::in_memory(&test.clock);
        let error = to.import(&[broken], ArchiveKinds::ALL).await.unwrap_err();
        assert!(
            matches!(error, SessionError::Import { line: 1, .. }),
            "{error}"
        );
        assert!(to.export().await.is_empty());
    }
}
