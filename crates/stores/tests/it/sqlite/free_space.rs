//! Writes that add data are refused while the disk is nearly full; deletions succeed.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use retain_core::{
    ArtifactError, ArtifactKey, ArtifactService as _, Clock as _, Event, MemoryScope,
    MemoryStore as _, Part, Result, RunOptions, SessionError, SessionKey, SessionLog as _,
    SessionService as _,
};
use retain_stores::{
    DiskSpace, SpaceProbe, SqliteArtifactService, SqliteOptions, SqliteSessionService, SqliteStore,
};
use retain_testkit::TestClock;

const MB: u64 = 1024 * 1024;

/// A disk of 1 TB with this much free space.
#[derive(Debug)]
struct TestDisk(AtomicU64);

impl SpaceProbe for TestDisk {
    fn measure(&self, _: &Path) -> io::Result<DiskSpace> {
        Ok(DiskSpace {
            free: self.0.load(Ordering::SeqCst),
            total: 1_000_000 * MB,
        })
    }
}

struct Fixture {
    sessions: SqliteSessionService,
    disk: Arc<TestDisk>,
    clock: TestClock,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Fixture {
        let folder = retain_testkit::scratch::folder();
        let (disk, clock) = (
            Arc::new(TestDisk(AtomicU64::new(1000 * MB))),
            TestClock::default(),
        );
        let options = SqliteOptions::file(folder.path().join("s.db"))
            .with_min_free_space(64 * MB)
            .with_space_probe(Arc::clone(&disk) as Arc<dyn SpaceProbe>)
            .with_clock(Arc::new(clock.clone()));
        let store = SqliteStore::open(options).await.unwrap();
        Fixture {
            sessions: SqliteSessionService::over(store),
            disk,
            clock,
            _folder: folder,
        }
    }

    fn set_free(&self, bytes: u64) {
        self.disk.0.store(bytes, Ordering::SeqCst);
        self.clock.tick(Duration::from_millis(250));
    }
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T>) {
    match result {
        Err(SessionError::Full { source, .. }) => {
            let text = source.to_string();
            assert!(text.contains("must stay free"), "{text}");
        }
        other => panic!("expected Full, got {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn low_space_refuses_added_data_and_admits_deletions() {
    let fixture = Fixture::new().await;
    let sessions = &fixture.sessions;
    let artifacts = SqliteArtifactService::over(sessions.store().artifacts());
    let file = ArtifactKey::of_user("app", "ada", "user:a");
    artifacts
        .save_artifact(&file, Part::text("x"), None)
        .await
        .unwrap();
    for (user, id) in [("ada", "s"), ("ada", "t"), ("bob", "s")] {
        sessions
            .create_session("app", user, None, Some(id))
            .await
            .unwrap();
    }
    let key = SessionKey::new("app", "ada", "s");
    let begin = retain_core::Append::default().beginning_run(RunOptions::default());
    let run = sessions.append(&key, begin).await.unwrap().run.unwrap();

    fixture.set_free(10 * MB);
    let space = sessions.free_space().unwrap();
    assert!(space.is_low);
    let append = || sessions.append(&key, Event::user_text("more").into());
    assert_refused(append().await);
    assert_refused(sessions.create_session("app", "ada", None, None).await);
    assert_refused(sessions.fork(&key, None, None).await);
    let saved = artifacts.save_artifact(&file, Part::text("y"), None).await;
    assert!(
        matches!(saved, Err(ArtifactError::Full { .. })),
        "{saved:?}"
    );
    assert_eq!(sessions.free_space().unwrap().refused, 4);

    sessions.renew_run(&key, run).await.unwrap();
    sessions.end_run(&key, run).await.unwrap();
    sessions.delete_session("app", "ada", "t").await.unwrap();
    artifacts.delete_artifact(&file).await.unwrap();
    sessions.sweep().await.unwrap();
    let now_us = fixture.clock.now_us();
    sessions.store().memory().expire(now_us, 10).await.unwrap();
    let nobody = MemoryScope::new("app", "eve");
    assert_eq!(
        sessions
            .store()
            .memory()
            .mark(&nobody)
            .await
            .unwrap()
            .revision,
        0
    );
    let erased = sessions.erase_user("app", "bob").await.unwrap();
    assert_eq!(erased.sessions, 1);
    assert!(sessions.ready().await.is_ok());

    fixture.set_free(100 * MB);
    append().await.unwrap();
    assert!(!sessions.free_space().unwrap().is_low);
}

#[tokio::test(flavor = "multi_thread")]
async fn space_of_deleted_sessions_admits_writes_again() {
    let fixture = Fixture::new().await;
    let sessions = &fixture.sessions;
    for id in ["old", "new"] {
        sessions
            .create_session("app", "ada", None, Some(id))
            .await
            .unwrap();
    }
    let (old, new) = (
        SessionKey::new("app", "ada", "old"),
        SessionKey::new("app", "ada", "new"),
    );
    for _ in 0..12 {
        let large = Event::user_text("x".repeat(MB as usize));
        sessions.append(&old, large.into()).await.unwrap();
    }
    // Enough for the write-ahead log, and 10 MB less than the minimum.
    fixture.set_free(54 * MB);
    let append = || sessions.append(&new, Event::user_text("more").into());
    assert_refused(append().await);
    sessions.delete_session("app", "ada", "old").await.unwrap();
    fixture.set_free(54 * MB);
    append().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn zero_disables_the_check_of_free_space() {
    let folder = retain_testkit::scratch::folder();
    let options = SqliteOptions::file(folder.path().join("s.db"))
        .with_min_free_space(0)
        .with_space_probe(Arc::new(TestDisk(AtomicU64::new(0))));
    let sessions = SqliteSessionService::over(SqliteStore::open(options).await.unwrap());
    sessions
        .create_session("app", "ada", None, None)
        .await
        .unwrap();
    assert_eq!(sessions.free_space(), None);
}
