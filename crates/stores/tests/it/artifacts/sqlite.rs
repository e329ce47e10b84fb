//! Artifacts in the SQLite file that also holds the sessions.

use retain_core::{ArtifactKey, ArtifactService as _, Part, SessionLog as _};
use retain_stores::{SqliteArtifactService, SqliteSessionService};

#[tokio::test(flavor = "multi_thread")]
async fn erase_user_leaves_no_artifact_bytes_in_the_file() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("sessions.db");
    let uri = format!("sqlite:///{}", file.display());
    let sessions = SqliteSessionService::connect(&uri).await.unwrap();
    let artifacts = SqliteArtifactService::over(sessions.store().artifacts());
    let secret = "a unique secret";
    for user in ["ada", "grace"] {
        for number in 0..100 {
            let key = ArtifactKey::of_user("app", user, format!("user:{number}"));
            let part = Part::bytes(format!("{secret} of {user}").into_bytes(), "x/y");
            artifacts.save_artifact(&key, part, None).await.unwrap();
        }
    }
    let receipt = sessions.erase_user("app", "ada").await.unwrap();
    assert_eq!((receipt.artifacts, receipt.sessions), (100, 0));
    let left = artifacts
        .list_artifact_keys("app", "ada", None)
        .await
        .unwrap();
    assert!(left.is_empty());
    let others = artifacts.list_artifact_keys("app", "grace", None).await;
    assert_eq!(others.unwrap().len(), 100);
    let bytes = std::fs::read(&file).unwrap();
    let contains = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(contains(&format!("{secret} of grace")));
    assert!(!contains(&format!("{secret} of ada")));
}

#[tokio::test(flavor = "multi_thread")]
async fn open_adds_the_artifact_table_to_an_old_database() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("sessions.db");
    let uri = format!("sqlite:///{}", file.display());
    drop(SqliteSessionService::connect(&uri).await.unwrap());
    let connection = rusqlite::Connection::open(&file).unwrap();
    let downgrade = "DROP TABLE artifacts; DROP TABLE memories; DROP TABLE memory_scopes; \
                 DROP TABLE memory_touched; DROP TABLE memory_tombstones; \
                 DROP TABLE memory_models; DROP TABLE api_keys; \
                 DROP TABLE retain_migrations; DROP TABLE task_leases; DROP TABLE erasures; \
                 ALTER TABLE sessions DROP COLUMN pending_work; \
                 ALTER TABLE sessions DROP COLUMN log_bytes; \
                 ALTER TABLE sessions DROP COLUMN sized_to; PRAGMA user_version = 1";
    connection.execute_batch(downgrade).unwrap();
    drop(connection);
    let sessions = SqliteSessionService::connect(&uri).await.unwrap();
    let artifacts = SqliteArtifactService::over(sessions.store().artifacts());
    let key = ArtifactKey::of_user("app", "ada", "user:a");
    artifacts
        .save_artifact(&key, Part::text("x"), None)
        .await
        .unwrap();
}
