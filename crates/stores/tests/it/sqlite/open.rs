//! Opening a database file: Retain rejects foreign files and leaves them unchanged; its errors tell
//! the user what to do.

use std::{fs, path::Path};

use retain_core::{SessionError, SessionLog as _, SessionService as _};
use retain_stores::{SqliteOptions, SqliteSessionService, SqliteStore};
use rusqlite::Connection;

async fn open_error(path: &Path) -> String {
    let error = SqliteStore::open(SqliteOptions::file(path))
        .await
        .unwrap_err();
    assert!(matches!(error, SessionError::Open { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn open_rejects_a_directory() {
    let folder = retain_testkit::scratch::folder();
    assert!(open_error(folder.path()).await.contains("is a folder"));
}

#[tokio::test]
async fn open_existing_does_not_create_a_missing_file() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("typo.db");
    let opened = SqliteStore::open(SqliteOptions::file(&file).existing()).await;
    assert!(
        opened
            .unwrap_err()
            .to_string()
            .contains("the file does not exist")
    );
    assert!(!file.exists());
    drop(super::open_service(&file).await);
    SqliteStore::open(SqliteOptions::file(&file).existing())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_does_not_wait_for_the_write_lock() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("sessions.db");
    drop(super::open_service(&file).await);
    let other = Connection::open(&file).unwrap();
    let expired_log = "INSERT INTO logs (purge_after_us) VALUES (0)";
    // In the second round, a log must be purged, but another process holds the write lock.
    for sql in ["", expired_log] {
        other.execute_batch(sql).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let sessions = super::open_service(&file).await;
        let none = sessions.list_sessions("app", Some("ada")).await.unwrap();
        assert_eq!(none.sessions, []);
        other.execute_batch("ROLLBACK").unwrap();
        // Later writes succeed and purge.
        super::fill(&sessions, "ada", "s1", 1).await;
        sessions.delete_session("app", "ada", "s1").await.unwrap();
    }
    let logs = other.query_row("SELECT count(*) FROM logs", [], |row| row.get(0));
    assert_eq!(logs, Ok(0));
}

#[tokio::test]
async fn open_error_names_a_missing_folder() {
    let folder = retain_testkit::scratch::folder();
    let message = open_error(&folder.path().join("nowhere/x.db")).await;
    assert!(
        message.contains("does not exist; create it first"),
        "{message}"
    );
}

#[tokio::test]
async fn open_rejects_and_keeps_a_file_that_is_not_a_database() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("notes.txt");
    let text = "These are my notes, not a database. ".repeat(100);
    fs::write(&file, &text).unwrap();
    assert!(open_error(&file).await.contains("is not a SQLite database"));
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[tokio::test]
async fn open_rejects_and_keeps_an_adk_database() {
    let folder = retain_testkit::scratch::folder();
    for (name, schema) in [
        (
            "sqlite_service.db",
            "CREATE TABLE sessions (id TEXT); CREATE TABLE events (id TEXT)",
        ),
        (
            "database_service.db",
            "CREATE TABLE adk_internal_metadata (key TEXT, value TEXT)",
        ),
    ] {
        let file = folder.path().join(name);
        Connection::open(&file)
            .unwrap()
            .execute_batch(schema)
            .unwrap();
        let before = fs::read(&file).unwrap();
        let message = open_error(&file).await;
        assert!(message.contains("Google's ADK"), "{message}");
        assert_eq!(fs::read(&file).unwrap(), before, "{name} was changed");
        assert!(!file.with_extension("db-wal").exists());
    }
}

#[tokio::test]
async fn open_rejects_and_keeps_a_foreign_database() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("music.db");
    let music = Connection::open(&file).unwrap();
    music
        .execute_batch("CREATE TABLE songs (name TEXT)")
        .unwrap();
    drop(music);
    let before = fs::read(&file).unwrap();
    assert!(open_error(&file).await.contains("another program"));
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[tokio::test]
async fn open_rejects_a_newer_schema() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    drop(super::open_service(&file).await);
    let connection = Connection::open(&file).unwrap();
    let version: rusqlite::Result<u32> =
        connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let newer = version.unwrap() + 1;
    let newer_row = "INSERT INTO retain_migrations \
                     SELECT max(version) + 1, 'from-the-future', 'x', max(version) + 1, '9.9.9' \
                     FROM retain_migrations";
    connection.execute_batch(newer_row).unwrap();
    connection
        .pragma_update(None, "user_version", newer)
        .unwrap();
    let before = fs::read(&file).unwrap();
    let message = open_error(&file).await;
    let needed = format!(
        "needs a program that supports schema version {newer} or later, such as Retain 9.9.9"
    );
    assert!(message.contains(&needed), "{message}");
    assert_eq!(fs::read(&file).unwrap(), before);
    connection
        .pragma_update(None, "user_version", newer + 1)
        .unwrap();
    let message = open_error(&file).await;
    let recorded = format!("records {newer} migrations");
    assert!(message.contains(&recorded), "{message}");
}

#[tokio::test]
async fn open_rejects_a_folder_that_is_not_writable() {
    // Tests may run as root, which can write to every folder except /proc.
    let message = open_error(Path::new("/proc/retain.db")).await;
    assert!(
        message.contains("check that the folder exists and is writable"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_processes_create_one_database() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let tasks = (0..8).map(|n| {
        let file = file.clone();
        tokio::spawn(async move {
            let sessions = super::open_service(&file).await;
            super::fill(&sessions, "ada", &format!("s{n}"), 3).await;
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let sessions = super::open_service(&file).await;
    assert_eq!(
        sessions
            .list_sessions("app", None)
            .await
            .unwrap()
            .sessions
            .len(),
        8
    );
    assert_eq!(sessions.check().await.unwrap(), []);
}

#[tokio::test]
async fn database_file_uses_wal_mode() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = super::open_service(&file).await;
    super::fill(&sessions, "ada", "s1", 1).await;
    let connection = Connection::open(&file).unwrap();
    let mode: String = connection
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn in_memory_database_is_not_shared_between_stores() {
    for uri in ["sqlite::memory:", "sqlite://:memory:"] {
        let sessions = SqliteSessionService::connect(uri).await.unwrap();
        super::fill(&sessions, "ada", "s1", 3).await;
        let other = SqliteSessionService::connect(uri).await.unwrap();
        assert!(
            other
                .list_sessions("app", None)
                .await
                .unwrap()
                .sessions
                .is_empty()
        );
    }
}
