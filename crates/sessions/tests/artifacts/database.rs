//! Artifacts as part of the session database.

use std::time::Duration;

use retain_core::{
    ArtifactKey, ArtifactService as _, CreateSession, Part, SessionKey, SessionLog as _,
    SessionService as _,
};
use retain_sessions::{SqliteArtifactService, SqliteSessionService};

#[tokio::test(flavor = "multi_thread")]
async fn erasing_a_user_erases_the_artifacts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sessions.db");
    let uri = format!("sqlite:///{}", file.display());
    let sessions = SqliteSessionService::connect(&uri).await.unwrap();
    let artifacts = SqliteArtifactService::over(sessions.store().artifacts());
    let secret = "a secret that is nowhere else";
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
    let holds = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(holds(&format!("{secret} of grace")));
    assert!(!holds(&format!("{secret} of ada")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_artifacts_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sessions.db");
    let uri = format!("sqlite:///{}", file.display());
    drop(SqliteSessionService::connect(&uri).await.unwrap());
    let connection = rusqlite::Connection::open(&file).unwrap();
    let later = "DROP TABLE artifacts; DROP TABLE memories; DROP TABLE memory_scopes; \
                 DROP TABLE memory_touched; DROP TABLE memory_tombstones; \
                 DROP TABLE memory_models; DROP TABLE api_keys; PRAGMA user_version = 1";
    connection.execute_batch(later).unwrap();
    drop(connection);
    let sessions = SqliteSessionService::connect(&uri).await.unwrap();
    let artifacts = SqliteArtifactService::over(sessions.store().artifacts());
    let key = ArtifactKey::of_user("app", "ada", "user:a");
    artifacts
        .save_artifact(&key, Part::text("x"), None)
        .await
        .unwrap();
}

/// Saves in sessions `s1` and `s2`, and for the user; gives the service.
async fn with_artifacts(sessions: &SqliteSessionService) -> SqliteArtifactService {
    let artifacts = SqliteArtifactService::over(sessions.store().artifacts());
    for (session, name) in [("s1", "a"), ("s1", "a"), ("s1", "user:u"), ("s2", "b")] {
        let key = ArtifactKey::in_session(&SessionKey::new("app", "ada", session), name);
        let saved = artifacts.save_artifact(&key, Part::text("x"), None);
        saved.await.unwrap();
    }
    artifacts
}

async fn seen(artifacts: &SqliteArtifactService, session: &str) -> Vec<String> {
    let listed = artifacts.list_artifact_keys("app", "ada", Some(session));
    listed.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_session_deletes_its_artifacts_and_no_others() {
    let sessions = SqliteSessionService::connect("sqlite::memory:")
        .await
        .unwrap();
    for id in ["s1", "s2"] {
        let created = sessions.create_session("app", "ada", None, Some(id));
        created.await.unwrap();
    }
    let artifacts = with_artifacts(&sessions).await;
    sessions.delete_session("app", "ada", "s1").await.unwrap();
    assert_eq!(seen(&artifacts, "s1").await, ["user:u"]);
    assert_eq!(seen(&artifacts, "s2").await, ["b", "user:u"]);
    let key = ArtifactKey::in_session(&SessionKey::new("app", "ada", "s1"), "a");
    assert!(artifacts.list_versions(&key).await.unwrap().is_empty());
    // The other user of that name in another app, and a session that was never there, lose nothing.
    sessions.delete_session("other", "ada", "s2").await.unwrap();
    assert_eq!(seen(&artifacts, "s2").await, ["b", "user:u"]);
    // More than one step of an erase removes, so that none is removed uncounted with its session.
    for number in 0..100 {
        let session = SessionKey::new("app", "ada", "s2");
        let key = ArtifactKey::in_session(&session, format!("{number}"));
        let saved = artifacts.save_artifact(&key, Part::text("x"), None);
        saved.await.unwrap();
    }
    let receipt = sessions.erase_user("app", "ada").await.unwrap();
    assert_eq!((receipt.artifacts, receipt.sessions), (102, 1));
    assert_eq!(seen(&artifacts, "s2").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_of_an_expired_session_are_swept_with_it() {
    let clock = retain_testkit::TestClock::default();
    let options = retain_sessions::SqliteOptions::in_memory();
    let options = options.with_clock(std::sync::Arc::new(clock.clone()));
    let store = retain_sessions::SqliteStore::open(options).await.unwrap();
    let sessions = SqliteSessionService::over(store).with_clock(clock.clone());
    let new = CreateSession {
        app_name: "app".into(),
        user_id: "ada".into(),
        session_id: Some("s1".into()),
        ttl: Some(Duration::from_secs(60)),
        state: None,
    };
    sessions.create(new.clone()).await.unwrap();
    let artifacts = with_artifacts(&sessions).await;
    clock.tick(Duration::from_secs(61));
    assert_eq!(sessions.sweep().await.unwrap(), 1);
    assert_eq!(seen(&artifacts, "s1").await, ["user:u"]);
    // Nor does a session that takes over the id of an expired one see what that one kept.
    sessions.create(new.clone()).await.unwrap();
    let artifacts = with_artifacts(&sessions).await;
    clock.tick(Duration::from_secs(61));
    sessions.create(new).await.unwrap();
    assert_eq!(seen(&artifacts, "s1").await, ["user:u"]);
}
