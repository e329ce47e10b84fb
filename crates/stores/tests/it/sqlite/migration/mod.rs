//! Migration of a whole database to another file, even if it is interrupted or the data changes.

mod archive;
pub(crate) mod fixture;
mod folders;
#[cfg(feature = "postgres")]
mod postgres;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fixture::{APPS, api_key, dump, fill, open, open_source, side};
use retain_core::{
    ArtifactAddress, ArtifactStore as _, Event, Forget, KeyStore as _, MemoryScope,
    MemoryStore as _, Migration, MigrationCounts, MigrationError, MigrationObserver,
    MigrationPhase, MigrationReport, MigrationSide, NewArtifact, NoObserver, Part, SessionKey,
    SessionLog as _, SessionService as _, SessionStore as _, StateOwner, StoreSessionService,
    TransferStore as _,
};
use retain_stores::{SqliteOptions, SqliteStore};
use retain_testkit::TestClock;
use rusqlite::Connection;
use tempfile::TempDir;

/// A folder with a filled source database `from.db`; tests add the targets.
struct MigrationTest {
    folder: TempDir,
    clock: TestClock,
}

impl MigrationTest {
    async fn new() -> MigrationTest {
        let folder = retain_testkit::scratch::folder();
        let clock = TestClock::default();
        fill(&folder.path().join("from.db"), &clock).await;
        MigrationTest { folder, clock }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Migrates `from.db` to the file `name`.
    async fn migrate_to(&self, name: &str, observer: Arc<dyn MigrationObserver>) -> Outcome {
        self.migrate(&self.path("from.db"), &self.path(name), observer)
            .await
    }

    async fn migrate(
        &self,
        from: &Path,
        to: &Path,
        observer: Arc<dyn MigrationObserver>,
    ) -> Outcome {
        let from = open_source(from, &self.clock).await;
        let to = side(open(to, &self.clock).await);
        self.migrate_between(from, to, observer).await
    }

    async fn migrate_between(
        &self,
        from: MigrationSide,
        to: MigrationSide,
        observer: Arc<dyn MigrationObserver>,
    ) -> Outcome {
        let clock = Arc::new(self.clock.clone());
        let migration = Migration::new(from, to).with_clock(clock);
        // A separate task, so that a panicking observer stops the migration as a crash would.
        let run = tokio::spawn(async move { migration.with_observer(observer).run().await });
        match run.await {
            Ok(outcome) => outcome,
            Err(panic) => {
                assert!(panic.is_panic());
                Err(MigrationError::Failed {
                    what: "stopped".to_owned(),
                    source: Box::new(panic),
                })
            }
        }
    }
}

type Outcome = Result<MigrationReport, MigrationError>;

fn error_text(outcome: Outcome) -> String {
    outcome.unwrap_err().to_string()
}

/// An observer that calls a function at a step of a phase.
struct StepObserver<F> {
    phase: MigrationPhase,
    step: u64,
    done: AtomicU64,
    current: Mutex<Option<MigrationPhase>>,
    action: F,
}

impl<F> std::fmt::Debug for StepObserver<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StepObserver")
    }
}

/// Calls `action` at a step of a phase. Step 0 is the start of the phase.
fn run_at<F: Fn() + Send + Sync + 'static>(
    phase: MigrationPhase,
    step: u64,
    action: F,
) -> Arc<dyn MigrationObserver> {
    Arc::new(StepObserver {
        phase,
        step,
        done: AtomicU64::new(0),
        current: Mutex::default(),
        action,
    })
}

impl<F: Fn() + Send + Sync + 'static> MigrationObserver for StepObserver<F> {
    fn begin(&self, phase: MigrationPhase, _steps: Option<u64>) {
        *self.current.lock().unwrap() = Some(phase);
        if phase == self.phase && self.step == 0 {
            (self.action)();
        }
    }

    fn advance(&self, steps: u64) {
        if *self.current.lock().unwrap() != Some(self.phase) {
            return;
        }
        let before = self.done.fetch_add(steps, Ordering::SeqCst);
        if before < self.step && self.step <= before + steps {
            (self.action)();
        }
    }
}

/// Panics without a message on stderr, which stops the migration as a crash would.
fn stop_migration() {
    std::panic::resume_unwind(Box::new("stopped on purpose"));
}

fn no_observer() -> Arc<dyn MigrationObserver> {
    Arc::new(NoObserver)
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_copies_everything_and_keeps_the_source_unchanged() {
    let test = MigrationTest::new().await;
    let before = dump(&test.path("from.db"), &test.clock).await;
    let bytes = fs::read(test.path("from.db")).unwrap();
    let report = test.migrate_to("to.db", no_observer()).await.unwrap();
    assert_eq!(fs::read(test.path("from.db")).unwrap(), bytes);
    let after = dump(&test.path("to.db"), &test.clock).await;
    assert_eq!(after.len(), before.len());
    for (after, before) in after.iter().zip(&before) {
        assert_eq!(after, before);
    }
    assert_eq!(report.copied, report.counts);
    let mut expected = MigrationCounts::default();
    // Sessions per app: `long`, `fork`, one with a TTL of an hour, and two of other users.
    expected.sessions = 15;
    expected.events = 3 * (33 + 26);
    expected.shared_keys = 3 * 3 + 1;
    expected.memories = 2 * 17;
    expected.tombstones = 2 * 3;
    expected.artifact_versions = 5;
    expected.api_keys = 3;
    assert_eq!(report.counts, expected);
    let again = test.migrate_to("to.db", no_observer()).await.unwrap();
    assert_eq!(again.copied, MigrationCounts::default());
    assert_eq!(again.digest, report.digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn target_behaves_as_the_source_after_migration() {
    let test = MigrationTest::new().await;
    test.migrate_to("to.db", no_observer()).await.unwrap();
    let long = SessionKey::new("app", "ada", "long");
    let mut states = Vec::new();
    for name in ["from.db", "to.db"] {
        let store = open(&test.path(name), &test.clock).await;
        let sessions = StoreSessionService::over(store).with_clock(Arc::new(test.clock.clone()));
        // The target recognizes a repeated event, and a rewind restores the same state.
        let read = sessions
            .read(&long, retain_core::Window::ALL)
            .await
            .unwrap()
            .unwrap();
        let repeated: Event = read.events[4].clone();
        let again = sessions.append(&long, repeated.into()).await.unwrap();
        assert_eq!(again.events[0].0, 5);
        sessions.rewind(&long, "i7").await.unwrap();
        let now = sessions
            .read(&long, retain_core::Window::NONE)
            .await
            .unwrap();
        states.push(format!("{:?}", now.unwrap().state));
    }
    assert_eq!(states[0], states[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_stopped_at_any_step_resumes_to_the_same_result() {
    let test = MigrationTest::new().await;
    let whole = test.migrate_to("whole.db", no_observer()).await.unwrap();
    let expected = dump(&test.path("whole.db"), &test.clock).await;
    let steps = whole.counts.total();
    let mut stops = 0;
    // Testing every step would take too long. A prime stride covers all kinds of records.
    for step in (1..steps).step_by(7) {
        let name = format!("to-{step}.db");
        let stop = run_at(MigrationPhase::Copy, step, stop_migration);
        let error = error_text(test.migrate_to(&name, stop).await);
        assert!(
            error.contains("reading or writing stopped"),
            "{step}: {error}"
        );
        let rest = test.migrate_to(&name, no_observer()).await.unwrap();
        assert!(rest.copied.total() < steps, "{step}: started over");
        assert_eq!(rest.digest, whole.digest, "{step}");
        let found = dump(&test.path(&name), &test.clock).await;
        assert!(found == expected, "{step}");
        stops += 1;
    }
    assert!(stops > 20, "{stops}");
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_names_and_keeps_a_differing_target_record() {
    let test = MigrationTest::new().await;
    let scope = MemoryScope::new(APPS[1], "ada");
    for (kind, named) in [
        ("session", "session \"app\"/\"ada\"/\"long\""),
        ("state", "shared state of user \"ada\" of app \"app\""),
        ("memory", "memories of user \"Ada\""),
        ("artifact", "artifact \"a.txt\""),
        ("key", "key \"z\""),
        ("forgotten", "memories of user \"ada\""),
    ] {
        let path = test.path(&format!("{kind}.db"));
        let store = open(&path, &test.clock).await;
        match kind {
            "session" => {
                let sessions = StoreSessionService::over(open(&path, &test.clock).await);
                let created = sessions.create_session("app", "ada", None, Some("long"));
                created.await.unwrap();
            }
            "state" => {
                let owner = StateOwner::user("app", "ada");
                let keys = [("u", 2)].into_iter().collect();
                store.add_shared_state(&owner, &keys).await.unwrap();
            }
            "artifact" => {
                let address = ArtifactAddress {
                    app: "app".into(),
                    user: "ada".into(),
                    session: Some("long".into()),
                    name: "a.txt".into(),
                    filename: "a.txt".into(),
                };
                let new = NewArtifact {
                    part: Part::text("another"),
                    mime_type: None,
                    custom_metadata: Default::default(),
                    create_time: 1.0,
                };
                store.artifacts().put(&address, new).await.unwrap();
            }
            "key" => store.keys().add(&api_key("z2")).await.unwrap(),
            // Migrate, then change one record of the target.
            _ => {
                test.migrate_to(&format!("{kind}.db"), no_observer())
                    .await
                    .unwrap();
                let ids = Arc::new(Forget::Ids(vec!["m7".into()]));
                match kind {
                    "forgotten" => drop(store.memory().forget(&scope, ids).await.unwrap()),
                    _ => {
                        // Keep the length, so that only the content differs.
                        let sql = "UPDATE memories SET content = replace(content, 'text', 'test')";
                        Connection::open(&path).unwrap().execute(sql, []).unwrap();
                    }
                }
            }
        }
        drop(store);
        let before = dump(&path, &test.clock).await;
        let error = test
            .migrate_to(&format!("{kind}.db"), no_observer())
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, MigrationError::Differs { .. }),
            "{kind}: {text}"
        );
        assert!(text.contains(named), "{kind}: {text}");
        assert_eq!(dump(&path, &test.clock).await, before, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_names_an_extra_target_record() {
    let test = MigrationTest::new().await;
    for (kind, named) in [
        ("session", "session \"other\"/\"ada\"/\"s\""),
        ("state", "shared state of app \"other\""),
        ("memory", "memories of user \"ada\" of app \"other\""),
    ] {
        let name = format!("{kind}.db");
        test.migrate_to(&name, no_observer()).await.unwrap();
        let store = open(&test.path(&name), &test.clock).await;
        match kind {
            "session" => {
                let sessions = StoreSessionService::over(store);
                let created = sessions.create_session("other", "ada", None, Some("s"));
                created.await.unwrap();
            }
            "state" => {
                let keys = [("u", 2)].into_iter().collect();
                let owner = StateOwner::app("other");
                store.add_shared_state(&owner, &keys).await.unwrap();
            }
            _ => {
                let restore = retain_core::MemoryRestore {
                    scope: MemoryScope::new("other", "ada"),
                    memories: Vec::new(),
                    tombstones: vec![retain_core::Tombstone([7; 16])],
                };
                store.memory().restore(Arc::new(restore)).await.unwrap();
            }
        }
        let error = test.migrate_to(&name, no_observer()).await.unwrap_err();
        assert!(
            matches!(error, MigrationError::Extra { .. }),
            "{kind}: {error}"
        );
        assert!(error.to_string().contains(named), "{kind}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_finds_every_tampered_record() {
    let test = MigrationTest::new().await;
    for (sql, named) in [
        (
            "UPDATE events SET body = replace(body, 'NUL', 'NIL') WHERE event_id = 'e17'",
            "event 17",
        ),
        (
            "UPDATE state SET value = 'true' WHERE key = 'k1'",
            "its state after event",
        ),
        ("DELETE FROM events WHERE event_id = 'e17'", "session"),
        (
            "UPDATE sessions SET create_time = create_time + 1 WHERE id = 'long'",
            "its creation time",
        ),
        (
            "UPDATE sessions SET touched_us = touched_us + 1 WHERE ttl_us IS NOT NULL",
            "when it expires",
        ),
        ("DELETE FROM sessions WHERE id = 'long'", "missing"),
        (
            "UPDATE shared_state SET value = '7' WHERE key = 'u'",
            "key \"u\"",
        ),
        ("DELETE FROM shared_state WHERE key = 'p'", "key \"p\""),
        (
            "UPDATE memories SET body_hash = body_hash + 1 WHERE id = 'm8'",
            "memory \"m8\" (number 9)",
        ),
        (
            "UPDATE memories SET embedding = x'0000000000000000' WHERE embedding NOT NULL",
            "memory \"m4\"",
        ),
        ("DELETE FROM memories WHERE id = 'm18'", "memory \"m18\""),
        (
            "DELETE FROM memory_tombstones WHERE hash = (SELECT min(hash) FROM memory_tombstones)",
            "hash",
        ),
        (
            "UPDATE artifacts SET data = x'00ff0008' WHERE version = 1",
            "version 1",
        ),
        ("DELETE FROM artifacts WHERE version = 2", "3 versions"),
        ("UPDATE api_keys SET revoked_us = NULL", "key \"a\""),
    ] {
        let folder = retain_testkit::scratch::folder();
        let path = folder.path().join("to.db");
        let (file, sql) = (path.clone(), sql.to_owned());
        let statement = sql.clone();
        let tamper = run_at(MigrationPhase::Verify, 0, move || {
            let connection = Connection::open(&file).unwrap();
            assert!(
                connection.execute(&statement, []).unwrap() > 0,
                "{statement}"
            );
        });
        let error = test
            .migrate(&test.path("from.db"), &path, tamper)
            .await
            .unwrap_err();
        let text = format!("{error} {:?}", std::error::Error::source(&error));
        assert!(text.contains(named), "{sql}: {text}");
        // The store reports a gap in a log (`Failed`); the migration reports the other changes.
        let is_reported = matches!(
            error,
            MigrationError::Mismatch { .. } | MigrationError::Failed { .. }
        );
        assert!(is_reported, "{sql}: {text}");
        assert!(
            !text.contains("NIL"),
            "{sql}: the error reveals content: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_fails_if_the_source_is_written() {
    let test = MigrationTest::new().await;
    let steps = test
        .migrate_to("first.db", no_observer())
        .await
        .unwrap()
        .counts
        .total();
    // Write to the source before and after the session is compared.
    for (name, step) in [("early.db", 0), ("late.db", steps)] {
        let (path, clock) = (test.path("from.db"), test.clock.clone());
        let write = run_at(MigrationPhase::Verify, step, move || {
            let (path, clock) = (path.clone(), clock.clone());
            let write = async move {
                let sessions = StoreSessionService::over(open(&path, &clock).await);
                let long = SessionKey::new("app", "ada", "long");
                let event = Event::user_text("late");
                sessions.append(&long, event.into()).await.unwrap();
            };
            let thread = std::thread::spawn(move || {
                tokio::runtime::Runtime::new().unwrap().block_on(write);
            });
            thread.join().unwrap();
        });
        let error = test.migrate_to(name, write).await.unwrap_err();
        assert!(
            matches!(error, MigrationError::SourceChanged { .. }),
            "{name}: {error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_skips_a_session_that_expires_meanwhile() {
    for phase in [MigrationPhase::Copy, MigrationPhase::Verify] {
        // Use a new database in each round: in a shared one, the session would have expired.
        let test = MigrationTest::new().await;
        let clock = test.clock.clone();
        let expire = run_at(phase, 0, move || clock.tick(Duration::from_secs(3600)));
        let report = test.migrate_to("to.db", expire).await.unwrap();
        assert_eq!(report.counts.sessions, 12, "{phase:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_rejects_the_source_as_its_own_target() {
    let test = MigrationTest::new().await;
    let from = test.path("from.db");
    let mut names = vec![test.path("./from.db")];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&from, test.path("link.db")).unwrap();
        fs::hard_link(&from, test.path("hard.db")).unwrap();
        names.extend([test.path("link.db"), test.path("hard.db")]);
    }
    for name in names {
        let error = test.migrate(&from, &name, no_observer()).await.unwrap_err();
        assert!(matches!(error, MigrationError::SameStore), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn survey_counts_and_writes_nothing() {
    let test = MigrationTest::new().await;
    let stop = run_at(MigrationPhase::Copy, 100, stop_migration);
    test.migrate_to("to.db", stop).await.unwrap_err();
    let before = dump(&test.path("to.db"), &test.clock).await;
    let from = open_source(&test.path("from.db"), &test.clock).await;
    let to = open_source(&test.path("to.db"), &test.clock).await;
    let survey = Migration::new(from, to).with_clock(Arc::new(test.clock.clone()));
    let survey = survey.survey().await.unwrap();
    assert_eq!(survey.found.sessions, 15);
    let present = survey.present.total();
    assert!(present > 0 && present < survey.found.total(), "{survey:?}");
    assert_eq!(dump(&test.path("to.db"), &test.clock).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_keeps_had_any_of_the_key_store() {
    let folder = retain_testkit::scratch::folder();
    let (clock, from) = (TestClock::default(), folder.path().join("from.db"));
    let store = open(&from, &clock).await;
    let mut key = api_key("a");
    key.user = Some("ada".to_owned());
    store.keys().add(&key).await.unwrap();
    store.erase_user("app", "ada").await.unwrap();
    drop(store);
    let to = folder.path().join("to.db");
    for _ in 0..2 {
        let sides = (
            open_source(&from, &clock).await,
            side(open(&to, &clock).await),
        );
        Migration::new(sides.0, sides.1).run().await.unwrap();
        let keys = open(&to, &clock).await.keys();
        assert!(keys.had_any().await.unwrap());
        assert_eq!(keys.keys().await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_keeps_the_in_order_flag() {
    let test = MigrationTest::new().await;
    test.migrate_to("to.db", no_observer()).await.unwrap();
    let sql = "SELECT id FROM sessions WHERE NOT in_order ORDER BY app";
    let connection = Connection::open(test.path("to.db")).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let out_of_order = statement.query_map([], |row| row.get(0)).unwrap();
    let out_of_order: Vec<String> = out_of_order.map(Result::unwrap).collect();
    // Events after a rewind have an earlier time than the rewind itself.
    assert_eq!(out_of_order, ["long"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_store_rejects_writes_and_old_schemas() {
    let test = MigrationTest::new().await;
    let options = || SqliteOptions::file(test.path("from.db")).read_only();
    let store = SqliteStore::open(options()).await.unwrap();
    let owner = StateOwner::app("app");
    let keys = [("new", 2)].into_iter().collect();
    assert!(store.add_shared_state(&owner, &keys).await.is_err());
    assert_eq!(store.shared_state("app", None).await.unwrap().len(), 1);
    let missing = SqliteOptions::file(test.path("missing.db")).read_only();
    assert!(SqliteStore::open(missing).await.is_err());
    assert!(!test.path("missing.db").exists());
    let old = test.path("old.db");
    drop(open(&old, &test.clock).await);
    let connection = Connection::open(&old).unwrap();
    connection.pragma_update(None, "user_version", 3).unwrap();
    let error = SqliteStore::open(SqliteOptions::file(&old).read_only()).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("run `retain upgrade`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_sessions_and_memories_migrate_in_chunks() {
    let folder = retain_testkit::scratch::folder();
    let (clock, from) = (TestClock::default(), folder.path().join("from.db"));
    let sessions = StoreSessionService::over(open(&from, &clock).await);
    let created = sessions.create_session("app", "ada", None, Some("s"));
    let key = created.await.unwrap().key();
    for batch in 0..6 {
        let events = (0..500).map(|n| {
            let mut event = Event::user_text(format!("text {batch} {n}"));
            event.id = format!("{batch}-{n}");
            event.actions.state_delta.insert(format!("k{}", n % 3), n);
            event
        });
        let events: Vec<Event> = events.collect();
        sessions.append(&key, events.into()).await.unwrap();
    }
    // Append an event that is larger than one chunk of the migration.
    let large = Event::user_text("x".repeat(5_000_000));
    sessions.append(&key, large.into()).await.unwrap();
    drop(sessions);
    let to = folder.path().join("to.db");
    let sides = (
        open_source(&from, &clock).await,
        side(open(&to, &clock).await),
    );
    let report = Migration::new(sides.0, sides.1).run().await.unwrap();
    assert_eq!(report.counts.events, 3001);
}
