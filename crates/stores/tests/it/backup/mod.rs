//! Backups of a set of stores, and restores of them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use retain_core::{
    ArtifactKey, ArtifactService as _, Event, Json, Migration, MigrationReport, Part, SessionKey,
    SessionLog as _, SessionService as _, SystemClock, Window,
};
use retain_stores::{
    BackupError, FileArtifactService, FileArtifactStore, SqliteOptions, SqliteSessionService,
    SqliteStore, StoreFiles, StoreKind, StoreSet, back_up, restore_backup,
};
use retain_testkit::TestClock;
use tempfile::TempDir;

use crate::sqlite::migration::fixture;

/// A folder with a set of stores in `from`, and places for a backup and its restore.
struct BackupTest {
    folder: TempDir,
}

impl BackupTest {
    fn new() -> BackupTest {
        BackupTest {
            folder: retain_testkit::scratch::folder(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sessions and memories in files, and artifacts in a folder.
    fn set(&self, name: &str) -> StoreSet {
        let folder = self.path(name);
        let sqlite = |file: &str| StoreFiles::Sqlite(SqliteOptions::file(folder.join(file)));
        StoreSet::new()
            .with_store(
                StoreKind::Artifacts,
                StoreFiles::Folder(folder.join("files")),
            )
            .with_store(StoreKind::Memories, sqlite("memory.db"))
            .with_store(StoreKind::Sessions, sqlite("sessions.db"))
    }

    /// Creates the stores `from` with records of every kind.
    async fn fill(&self) -> SqliteSessionService {
        let from = self.path("from");
        fs::create_dir(&from).unwrap();
        let clock = TestClock::default();
        fixture::fill(&from.join("memory.db"), &clock).await;
        fs::copy(from.join("memory.db"), from.join("sessions.db")).unwrap();
        let store = SqliteStore::open(SqliteOptions::file(from.join("sessions.db"))).await;
        let artifacts = self.artifacts();
        let key = SessionKey::new("app", "ada", "long");
        for (name, text) in [
            ("plans/a.txt", "one"),
            ("plans/a.txt", "two"),
            ("b", "three"),
        ] {
            let key = ArtifactKey::in_session(&key, name);
            artifacts
                .save_artifact(&key, Part::text(text), None)
                .await
                .unwrap();
        }
        SqliteSessionService::over(store.unwrap())
    }

    fn artifacts(&self) -> FileArtifactService {
        let store = FileArtifactStore::open(self.path("from/files")).unwrap();
        FileArtifactService::over(store)
    }

    async fn back_up(&self) {
        let (set, folder) = (self.set("from"), self.path("backup"));
        back_up(&set, &folder, &SystemClock).await.unwrap();
    }

    /// Restores the backup to `to`, which must fail, and returns the error.
    async fn restore_fails(&self) -> BackupError {
        let restored = restore_backup(&self.path("backup"), &self.set("to")).await;
        restored.unwrap_err()
    }

    /// Compares two sets of stores, record by record.
    async fn compare(&self, one: &str, other: &str) -> MigrationReport {
        let one = self.set(one).open_read_only().await.unwrap();
        let other = self.set(other).open_read_only().await.unwrap();
        Migration::new(one, other).compare().await.unwrap()
    }
}

/// All files in a folder with their contents.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => files.push((path.clone(), fs::read(&path).unwrap())),
            }
        }
    }
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_stores_equal_the_source_by_digest() {
    let test = BackupTest::new();
    drop(test.fill().await);
    test.back_up().await;
    let report = restore_backup(&test.path("backup"), &test.set("to"))
        .await
        .unwrap();
    let compared = test.compare("from", "to").await;
    assert_eq!(report.compared.unwrap().digest, compared.digest);
    assert!(compared.counts.artifact_versions >= 3);
    assert!(compared.counts.memories > 0 && compared.counts.api_keys > 0);
    let left: Vec<PathBuf> = contents(&test.path("to"))
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.to_string_lossy().contains("restoring"))
        .collect();
    assert_eq!(left, [] as [PathBuf; 0]);
}

/// A writer saves an artifact, then appends the event that names it, as a tool does.
#[tokio::test(flavor = "multi_thread")]
async fn event_in_a_backup_under_load_names_no_artifact_that_the_backup_lacks() {
    let test = BackupTest::new();
    let sessions = test.fill().await;
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|n| {
            let (sessions, artifacts, done) = (sessions.clone(), test.artifacts(), done.clone());
            tokio::spawn(async move {
                let id = format!("load{n}");
                let created = sessions.create_session("app", "ada", None, Some(&id)).await;
                let mut session = created.unwrap();
                let mut written = 0;
                while !done.load(Ordering::SeqCst) {
                    let key = ArtifactKey::in_session(&session.key(), "chart.txt");
                    let text = Part::text(format!("chart {written}"));
                    let version = artifacts.save_artifact(&key, text, None).await.unwrap();
                    let mut event = Event::user_text("saved");
                    event.actions.artifact_delta.insert("chart.txt", version);
                    sessions.append_event(&mut session, event).await.unwrap();
                    written += 1;
                }
                written
            })
        })
        .collect();
    // Begin when every writer has written something.
    for n in 0..3 {
        let key = SessionKey::new("app", "ada", format!("load{n}"));
        while sessions
            .read(&key, Window::NONE)
            .await
            .unwrap()
            .is_none_or(|it| it.position == 0)
        {
            tokio::task::yield_now().await;
        }
    }
    test.back_up().await;
    done.store(true, Ordering::SeqCst);
    for writer in writers {
        assert!(writer.await.unwrap() > 0);
    }
    drop(sessions);
    restore_backup(&test.path("backup"), &test.set("to"))
        .await
        .unwrap();
    let store = SqliteStore::open(SqliteOptions::file(test.path("to/sessions.db"))).await;
    let restored = SqliteSessionService::over(store.unwrap());
    assert_eq!(restored.check().await.unwrap(), []);
    let artifacts = FileArtifactStore::open(test.path("to/files")).unwrap();
    let artifacts = FileArtifactService::over(artifacts);
    let mut named = 0;
    for meta in restored
        .list_sessions("app", Some("ada"))
        .await
        .unwrap()
        .sessions
    {
        let session = restored
            .read(&meta.key(), Window::ALL)
            .await
            .unwrap()
            .unwrap();
        for event in session.events.iter() {
            let delta = event.actions.artifact_delta.iter();
            for (name, version) in delta.filter(|(name, _)| *name == "chart.txt") {
                let key = ArtifactKey::in_session(&meta.key(), name);
                let version = Json::as_u64(version);
                let found = artifacts.load_artifact(&key, version).await.unwrap();
                assert!(found.is_some(), "{key:?} {version:?}");
                named += 1;
            }
        }
    }
    assert!(named > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn corrupt_or_incomplete_backup_is_refused_and_changes_nothing() {
    let test = BackupTest::new();
    drop(test.fill().await);
    test.back_up().await;
    let backup = test.path("backup");
    let intact = contents(&backup);
    for (path, bytes) in &intact {
        let name = path
            .strip_prefix(&backup)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if name == "manifest.json" {
            continue;
        }
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        let cases: [(&str, Option<&[u8]>); 3] = [
            ("its SHA-256 differs", Some(&changed)),
            ("bytes instead of", Some(&bytes[..bytes.len() / 2])),
            ("it is missing", None),
        ];
        for (reason, damaged) in cases {
            match damaged {
                Some(damaged) => fs::write(path, damaged).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
            let error = test.restore_fails().await.to_string();
            assert!(
                error.contains(&name) && error.contains(reason),
                "{name}: {error}"
            );
            assert_eq!(contents(&test.path("to")), [], "{name}: {reason}");
            fs::write(path, bytes).unwrap();
        }
    }
    // A backup that was killed has no manifest.
    fs::remove_file(backup.join("manifest.json")).unwrap();
    let error = test.restore_fails().await;
    assert!(matches!(error, BackupError::Incomplete { .. }), "{error}");
    let again = back_up(&test.set("from"), &backup, &SystemClock)
        .await
        .unwrap_err();
    assert!(
        matches!(again, BackupError::FolderNotEmpty { .. }),
        "{again}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_to_a_store_with_data_is_refused_and_changes_nothing() {
    let test = BackupTest::new();
    drop(test.fill().await);
    test.back_up().await;
    for file in [
        "sessions.db",
        "sessions.db-wal",
        "memory.db",
        "files/apps/other",
        "files/mine.txt",
    ] {
        let path = test.path("to").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "mine").unwrap();
        let before = contents(&test.path("to"));
        let error = test.restore_fails().await;
        let is_refused = matches!(error, BackupError::TargetNotEmpty { .. });
        assert!(is_refused, "{file}: {error}");
        assert_eq!(contents(&test.path("to")), before, "{file}");
        fs::remove_dir_all(test.path("to")).unwrap();
    }
    restore_backup(&test.path("backup"), &test.set("to"))
        .await
        .unwrap();
    let before = contents(&test.path("to"));
    let error = test.restore_fails().await;
    assert!(
        matches!(error, BackupError::TargetNotEmpty { .. }),
        "{error}"
    );
    assert_eq!(contents(&test.path("to")), before);
}

/// What a restore leaves that is killed: copies beside the targets, or some stores complete. The
/// sessions are published last, so without them no program can use the rest.
#[tokio::test(flavor = "multi_thread")]
async fn restore_continues_after_it_was_killed() {
    let test = BackupTest::new();
    drop(test.fill().await);
    test.back_up().await;
    let (backup, to) = (test.path("backup"), test.path("to"));
    for published in 0..3 {
        fs::create_dir_all(to.join("files/.restoring/apps/half")).unwrap();
        fs::write(to.join("sessions.db.restoring"), "half a copy").unwrap();
        if published > 0 {
            fs::remove_dir_all(to.join("files")).unwrap();
            let restored = fs::read_dir(backup.join("artifacts")).unwrap().count();
            assert_eq!(restored, 1);
            copy_folder(&backup.join("artifacts"), &to.join("files"));
        }
        if published > 1 {
            fs::copy(backup.join("memories.db"), to.join("memory.db")).unwrap();
        }
        restore_backup(&backup, &test.set("to")).await.unwrap();
        test.compare("from", "to").await;
        let left = contents(&to);
        let is_left = |(path, _): &(PathBuf, Vec<u8>)| path.to_string_lossy().contains("restoring");
        assert!(!left.iter().any(is_left), "{published}");
        fs::remove_dir_all(&to).unwrap();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy_folder(&path, &target),
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_and_target_must_have_the_same_stores() {
    let test = BackupTest::new();
    drop(test.fill().await);
    test.back_up().await;
    let sqlite = |file: &str| StoreFiles::Sqlite(SqliteOptions::file(test.path("to").join(file)));
    let sessions = || StoreSet::new().with_store(StoreKind::Sessions, sqlite("s.db"));
    let two = sessions().with_store(StoreKind::Memories, sqlite("m.db"));
    let other = two.clone().with_store(StoreKind::Artifacts, sqlite("a.db"));
    for (set, reason) in [
        (sessions(), "in a store of their own"),
        (two, "in a store of their own"),
        (other, "restore to a store of the same kind"),
    ] {
        let restored = restore_backup(&test.path("backup"), &set).await;
        let error = restored.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(!test.path("to").exists());
    }
}
