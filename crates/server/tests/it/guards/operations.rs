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
    let artifacts = Arc::new(SqliteArtifactService::over(sessions.store().artifacts()));
    let services = Services::new(Arc::new(sessions), Arc::clone(&memory) as _, artifacts)
        .with_long_term_memory(memory);
    let router = server(services).guarded_router(&Arc::new(Guards::default()));
    assert_eq!(get(&router, "/ready", "").await.status, 200);

    let connection = rusqlite::Connection::open(&file).unwrap();
    let known: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    connection
        .pragma_update(None, "user_version", known + 1)
        .unwrap();
    let rejected = get(&router, "/ready", "").await;
    assert_eq!(rejected.status, 503);
    assert!(!rejected.body.contains("s.db"), "{}", rejected.body);
    connection
        .pragma_update(None, "user_version", known)
        .unwrap();
    assert_eq!(get(&router, "/ready", "").await.status, 200);

    std::fs::remove_file(&file).unwrap();
    assert_eq!(get(&router, "/ready", "").await.status, 503);
    // The server is alive although it is not ready.
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
async fn response_has_the_request_id_of_the_client_or_a_new_one() {
    let world = World::new();
    let router = world.router(|_| ());
    let answer = get(&router, "/health", "").await;
    assert!(!answer.headers["x-request-id"].is_empty());
    for (given, is_used) in [
        ("abc-1.2:3_4", true),
        ("a b", false),
        (&"x".repeat(129), false),
    ] {
        let mut sent = request(&Method::GET, "/health", "", None);
        sent.headers_mut()
            .insert("x-request-id", given.parse().unwrap());
        let answer = ask(&router, sent).await;
        assert_eq!(answer.headers["x-request-id"] == given, is_used, "{given}");
    }
}
