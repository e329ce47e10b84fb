//! Erasing a user removes all their data and no data of others.

use std::sync::Arc;

use retain_core::ArtifactService;
use retain_memory::InMemoryMemoryService;
use retain_server::{Apps, Server, Services};
use retain_stores::{
    FileArtifactService, FileArtifactStore, InMemoryArtifactService, InMemorySessionService,
    SqliteArtifactService, SqliteSessionService,
};

use crate::api::client::{Client, SESSIONS, event};

/// Stores sessions, artifacts and memories of a user.
async fn seed_user(client: &Client, user: &str) {
    let base = format!("/api/v1/apps/demo/users/{user}");
    for id in ["s1", "s2"] {
        let body = format!(r#"{{"sessionId":"{id}","state":{{"k":1,"user:k":2}}}}"#);
        client
            .post(&format!("{base}/sessions"), &body)
            .await
            .expect(201);
        client
            .say(&format!("{base}/sessions/{id}"), "e1", "text")
            .await;
        let artifact = r#"{"filename":"a.txt","artifact":{"text":"x"}}"#;
        let path = format!("{base}/sessions/{id}/artifacts");
        client.post(&path, artifact).await.expect(200);
        client.post(&path, artifact).await.expect(200);
    }
    let artifact = r#"{"filename":"user:b.txt","artifact":{"text":"x"}}"#;
    client
        .post(&format!("{base}/artifacts"), artifact)
        .await
        .expect(200);
    let events = format!(
        r#"{{"events":[{}],"sessionId":"s1"}}"#,
        event("e1", "remember me")
    );
    client
        .post(&format!("{base}/memory/events"), &events)
        .await
        .expect(200);
}

#[tokio::test]
async fn erase_deletes_from_every_store() {
    // In memory, each service has a store of its own; in SQLite, all share one database.
    for client in [Client::in_memory(), Client::sqlite().await] {
        seed_user(&client, "ada").await;
        seed_user(&client, "bob").await;
        let receipt = client
            .delete("/api/v1/apps/demo/users/ada")
            .await
            .expect(200);
        assert_eq!(
            (receipt["sessions"].as_u64(), receipt["events"].as_u64()),
            (Some(2), Some(2))
        );
        assert_eq!(receipt["artifacts"].as_u64(), Some(5), "{receipt}");
        assert_eq!(receipt["memories"].as_u64(), Some(1), "{receipt}");
        assert!(receipt["stateKeys"].as_u64().is_some_and(|keys| keys >= 3));
        for (user, left) in [("ada", false), ("bob", true)] {
            let base = format!("/api/v1/apps/demo/users/{user}");
            let sessions = client.get(&format!("{base}/sessions")).await.expect(200);
            assert_eq!(!sessions["sessions"].as_array().unwrap().is_empty(), left);
            let names = client.get(&format!("{base}/artifacts")).await.expect(200);
            assert_eq!(!names["names"].as_array().unwrap().is_empty(), left);
            let names = client
                .get(&format!("{base}/sessions/s1/artifacts"))
                .await
                .expect(200);
            assert_eq!(
                names["names"].as_array().unwrap().len(),
                if left { 2 } else { 0 }
            );
            let search = format!("{base}/memory/search");
            let found = client
                .post(&search, r#"{"query":"remember"}"#)
                .await
                .expect(200);
            assert_eq!(!found["memories"].as_array().unwrap().is_empty(), left);
            let state = client.get(&format!("{base}/state")).await.expect(200);
            assert_eq!(state["state"]["k"].as_i64(), left.then_some(2));
        }
        let nothing = client
            .delete("/api/v1/apps/demo/users/ada")
            .await
            .expect(200);
        assert_eq!(
            (nothing["sessions"].as_u64(), nothing["artifacts"].as_u64()),
            (Some(0), Some(0))
        );
    }
}

#[tokio::test]
async fn erase_deletes_from_the_word_matching_of_adk() {
    let client = Client::with_adk_memory();
    let receipt = client
        .delete("/api/v1/apps/demo/users/ada")
        .await
        .expect(200);
    assert_eq!(receipt["memories"].as_u64(), Some(0), "{receipt}");
}

/// Creates a client of a server with these artifacts and with sessions in another store.
fn with_artifacts(artifacts: Arc<dyn ArtifactService>) -> Client {
    let services = Services::new(
        Arc::new(InMemorySessionService::new()),
        Arc::new(InMemoryMemoryService::new()),
        artifacts,
    );
    let apps = Apps::new(services.clone());
    let mut client = Client::in_memory();
    client.router = Arc::new(Server::new(services, apps)).router();
    client
}

#[tokio::test]
async fn erase_deletes_artifacts_of_a_user_without_sessions() {
    let folder = retain_testkit::scratch::folder();
    let in_folder = FileArtifactStore::open(folder.path()).unwrap();
    let database = SqliteSessionService::connect("sqlite::memory:").await;
    let in_database = database.unwrap().store().artifacts();
    let elsewhere: [Arc<dyn ArtifactService>; 3] = [
        Arc::new(InMemoryArtifactService::new()),
        Arc::new(FileArtifactService::over(in_folder)),
        Arc::new(SqliteArtifactService::over(in_database)),
    ];
    for artifacts in elsewhere {
        let client = with_artifacts(artifacts).with_session().await;
        let artifact = r#"{"filename":"a.txt","artifact":{"text":"x"}}"#;
        for session in ["s1", "never-created"] {
            let path = format!("{SESSIONS}/{session}/artifacts");
            client.post(&path, artifact).await.expect(200);
        }
        let session = format!("{SESSIONS}/s1");
        assert!(client.delete(&session).await.status.is_success());
        for expected in [2, 0] {
            let receipt = client.delete("/api/v1/apps/demo/users/ada").await;
            let receipt = receipt.expect(200);
            assert_eq!(receipt["artifacts"].as_u64(), Some(expected), "{receipt}");
        }
        let client = client.with_session().await;
        for session in ["s1", "never-created"] {
            let path = format!("{SESSIONS}/{session}/artifacts");
            let names = client.get(&path).await.expect(200);
            assert!(names["names"].as_array().unwrap().is_empty(), "{names}");
        }
    }
    let left = std::fs::read_dir(folder.path().join("apps/demo/users")).unwrap();
    assert_eq!(left.count(), 0, "a folder still has the name of the user");
}
