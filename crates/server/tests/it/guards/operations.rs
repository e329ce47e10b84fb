//! The routes for operators, the log and the counters.

use std::sync::Arc;

use axum::http::Method;
use retain_memory::StoreMemoryService;
use retain_server::{Guards, Services};
use retain_stores::{SqliteArtifactService, SqliteSessionService};

use crate::guards::support::{APP, World, ask, get, request, server};

#[tokio::test(flavor = "multi_thread")]
async fn ready_fails_while_the_store_is_unavailable() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let uri = format!("sqlite:///{}", file.display());
    let sessions = SqliteSessionService::connect(&uri).await.unwrap();
    let memory = Arc::new(StoreMemoryService::over(sessions.store().memory()));
    let services = Services {
        memory: Arc::clone(&memory) as _,
        long_term_memory: Some(memory),
        artifacts: Arc::new(SqliteArtifactService::over(sessions.store().artifacts())),
        sessions: Arc::new(sessions),
    };
    let router = server(services).guarded_router(&Arc::new(Guards::default()));
    assert_eq!(get(&router, "/ready", "").await.status, 200);

    let connection = rusqlite::Connection::open(&file).unwrap();
    let known: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    connection
        .pragma_update(None, "user_version", known + 1)
        .unwrap();
    let refused = get(&router, "/ready", "").await;
    assert_eq!(refused.status, 503);
    assert!(!refused.body.contains("s.db"), "{}", refused.body);
    connection
        .pragma_update(None, "user_version", known)
        .unwrap();
    assert_eq!(get(&router, "/ready", "").await.status, 200);

    std::fs::remove_file(&file).unwrap();
    assert_eq!(get(&router, "/ready", "").await.status, 503);
    // The server is alive, though not ready.
    assert_eq!(get(&router, "/health", "").await.status, 200);
}

#[tokio::test]
async fn metrics_count_requests() {
    let world = World::new();
    let router = world.router(|guards| guards.keys = Default::default());
    let session = format!("/apps/{APP}/users/ada/sessions/s1");
    let create = request(&Method::POST, &session, "", Some("{}"));
    assert_eq!(ask(&router, create).await.status, 200);
    let run = format!(
        r#"{{"appName":"{APP}","userId":"ada","sessionId":"s1",
        "newMessage":{{"role":"user","parts":[{{"text":"Hello."}}]}}}}"#
    );
    let run = request(&Method::POST, "/run", "", Some(&run));
    assert_eq!(ask(&router, run).await.status, 200);
    assert_eq!(get(&router, "/nowhere/ada", "").await.status, 404);
    let text = get(&router, "/metrics", "").await.body;
    for line in [
        "retain_http_requests_total{method=\"POST\",route=\"/run\",status=\"200\"} 1",
        "retain_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"} 1",
        "retain_runs_total 1",
        "retain_runs_active 0",
        "retain_events_appended_total 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    // Metrics do not name users.
    assert!(!text.contains("ada"), "{text}");
}

#[tokio::test]
async fn response_has_a_request_id_and_keeps_a_valid_given_one() {
    let world = World::new();
    let router = world.router(|_| ());
    let answer = get(&router, "/health", "").await;
    assert!(!answer.headers["x-request-id"].is_empty());
    for (given, is_kept) in [
        ("abc-1.2:3_4", true),
        ("a b", false),
        (&"x".repeat(129), false),
    ] {
        let mut asked = request(&Method::GET, "/health", "", None);
        asked
            .headers_mut()
            .insert("x-request-id", given.parse().unwrap());
        let answer = ask(&router, asked).await;
        assert_eq!(answer.headers["x-request-id"] == given, is_kept, "{given}");
    }
}
