//! Quotas and free space over HTTP: the errors of both APIs, usage, readiness and metrics.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, http::Method};
use retain_core::{Json, Quotas, Usage};
use retain_memory::StoreMemoryService;
use retain_server::{Guards, Services};
use retain_stores::{
    DiskSpace, InMemoryArtifactService, InMemoryMemoryStore, InMemorySessionService, SpaceProbe,
    SqliteArtifactService, SqliteOptions, SqliteSessionService, SqliteStore,
};
use retain_testkit::TestClock;

use crate::guards::support::{APP, Answer, ask, get, request, server};

/// A server whose users may store this much.
fn limited(user: Usage) -> Router {
    let quotas = Quotas::default().with_user(user);
    let memory = StoreMemoryService::over(InMemoryMemoryStore::default());
    let memory = Arc::new(memory.with_quotas(quotas.clone()));
    let services = Services::new(
        Arc::new(InMemorySessionService::new().with_quotas(quotas.clone())),
        Arc::clone(&memory) as _,
        Arc::new(InMemoryArtifactService::new().with_quotas(quotas.clone())),
    );
    let services = services.with_long_term_memory(memory).with_quotas(quotas);
    server(services).guarded_router(&Arc::new(Guards::default()))
}

async fn post(router: &Router, path: &str, body: &str) -> Answer {
    ask(router, request(&Method::POST, path, "", Some(body))).await
}

async fn create(router: &Router, id: &str) -> Answer {
    let path = format!("/apps/{APP}/users/ada/sessions/{id}");
    post(router, &path, "{}").await
}

async fn run(router: &Router, route: &str) -> Answer {
    let run = format!(
        r#"{{"appName":"{APP}","userId":"ada","sessionId":"s1",
        "newMessage":{{"role":"user","parts":[{{"text":"Hello."}}]}}}}"#
    );
    post(router, route, &run).await
}

/// Checks the status and detail of an error of ADK's API.
#[track_caller]
fn assert_detail(answer: &Answer, status: u16, text: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    let body = Json::parse(&answer.body).unwrap();
    let detail = body["detail"].as_str().unwrap_or_default();
    assert!(detail.contains(text), "{detail}");
}

#[tokio::test]
async fn adk_api_names_the_quota_that_is_exceeded() {
    let limits = Usage::default().with_sessions(1).with_artifact_bytes(10);
    let router = limited(limits);
    assert_eq!(create(&router, "s1").await.status, 200);
    let refused = create(&router, "s2").await;
    assert_detail(&refused, 429, "uses 1 of 1 sessions");
    assert_detail(&refused, 429, "max-sessions-per-user");
    let artifacts = format!("/apps/{APP}/users/ada/sessions/s1/artifacts");
    let large = r#"{"filename":"a.txt","artifact":{"text":"more than ten bytes"}}"#;
    let refused = post(&router, &artifacts, large).await;
    assert_detail(&refused, 413, "uses 0 of 10 artifact bytes");
}

#[tokio::test]
async fn retain_api_answers_a_problem_that_names_the_quota() {
    let limits = Usage::default().with_event_bytes(500).with_memories(1);
    let router = limited(limits);
    let user = format!("/api/v1/apps/{APP}/users/ada");
    let new = post(
        &router,
        &format!("{user}/sessions"),
        r#"{"sessionId":"s1"}"#,
    )
    .await;
    assert_eq!(new.status, 201);
    let text = "x".repeat(1000);
    let event = format!(r#"{{"author":"user","content":{{"parts":[{{"text":"{text}"}}]}}}}"#);
    let path = format!("{user}/sessions/s1/events");
    let refused = post(&router, &path, &format!(r#"{{"events":[{event}]}}"#)).await;
    assert_eq!(refused.status, 413);
    let problem = Json::parse(&refused.body).unwrap();
    assert_eq!(problem["code"], "quota_exceeded");
    assert_eq!(problem["quota"], "max-event-bytes-per-user");
    assert_eq!(
        (problem["limit"].as_i64(), problem["used"].as_i64()),
        (Some(500), Some(0))
    );
    let entry = |text: &str| format!(r#"{{"content":{{"parts":[{{"text":"{text}"}}]}}}}"#);
    let entries = format!(r#"{{"memories":[{},{}]}}"#, entry("red"), entry("blue"));
    let refused = post(&router, &format!("{user}/memory/entries"), &entries).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(
        refused.body.contains("max-memories-per-user"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn run_is_refused_at_its_beginning_or_ends_with_the_same_error() {
    let router = limited(Usage::default().with_events(1));
    assert_eq!(create(&router, "s1").await.status, 200);
    // The message fits and the answer does not.
    assert_detail(&run(&router, "/run").await, 429, "uses 1 of 1 events");
    let session = format!("/apps/{APP}/users/ada/sessions/s1");
    let stored = get(&router, &session, "").await.body;
    assert_eq!(
        Json::parse(&stored).unwrap()["events"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // The message does not fit. The run before has released its lease.
    assert_detail(&run(&router, "/run").await, 429, "uses 1 of 1 events");
    let streamed = run(&router, "/run_sse").await;
    assert!(
        streamed.body.contains("max-events-per-user"),
        "{streamed:?}"
    );
    let metrics = get(&router, "/metrics", "").await.body;
    let count = "retain_quota_rejections_total{quota=\"events\",per=\"user\"}";
    let count = metrics.lines().find_map(|line| line.strip_prefix(count));
    assert!(
        count.is_some_and(|count| count.trim().parse::<u64>().unwrap() >= 3),
        "{metrics}"
    );
}

#[tokio::test]
async fn usage_has_the_counts_and_the_quotas() {
    let router = limited(Usage::default().with_events(10).with_sessions(5));
    assert_eq!(create(&router, "s1").await.status, 200);
    assert_eq!(run(&router, "/run").await.status, 200);
    let read = async |path: &str| {
        let answer = get(&router, path, "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        Json::parse(&answer.body).unwrap()
    };
    let user = read(&format!("/api/v1/apps/{APP}/users/ada/usage")).await;
    assert_eq!(user["sessions"].to_string(), r#"{"used":1,"limit":5}"#);
    assert_eq!(user["events"].to_string(), r#"{"used":2,"limit":10}"#);
    assert_eq!(
        user["artifactBytes"].to_string(),
        r#"{"used":0,"limit":null}"#
    );
    assert_eq!(user["memories"]["limit"].as_i64(), Some(1_000_000));
    let app = read(&format!("/api/v1/apps/{APP}/usage")).await;
    assert_eq!(app["eventBytes"]["used"], user["eventBytes"]["used"]);
    assert_eq!(app["events"].to_string(), r#"{"used":2,"limit":null}"#);
    let other = read(&format!("/api/v1/apps/{APP}/users/bob/usage")).await;
    assert_eq!(other["sessions"]["used"].as_i64(), Some(0));
}

/// A disk with this much free space.
#[derive(Debug)]
struct TestDisk(AtomicU64);

impl SpaceProbe for TestDisk {
    fn measure(&self, _: &Path) -> io::Result<DiskSpace> {
        Ok(DiskSpace {
            free: self.0.load(Ordering::SeqCst),
            total: u64::MAX,
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn low_space_is_507_and_the_server_stays_ready_and_says_so() {
    let folder = retain_testkit::scratch::folder();
    let (disk, clock) = (
        Arc::new(TestDisk(AtomicU64::new(u64::MAX))),
        TestClock::default(),
    );
    let options = SqliteOptions::file(folder.path().join("s.db"))
        .with_space_probe(Arc::clone(&disk) as Arc<dyn SpaceProbe>)
        .with_clock(Arc::new(clock.clone()));
    let sessions = SqliteSessionService::over(SqliteStore::open(options).await.unwrap());
    let memory = Arc::new(StoreMemoryService::over(sessions.store().memory()));
    let artifacts = Arc::new(SqliteArtifactService::over(sessions.store().artifacts()));
    let services = Services::new(Arc::new(sessions), Arc::clone(&memory) as _, artifacts)
        .with_long_term_memory(memory);
    let router = server(services).guarded_router(&Arc::new(Guards::default()));
    assert_eq!(create(&router, "s1").await.status, 200);
    let ready = get(&router, "/ready", "").await;
    assert_eq!(
        (ready.status.as_u16(), &*ready.body),
        (200, r#"{"status":"ready"}"#)
    );

    disk.0.store(1000, Ordering::SeqCst);
    clock.tick(Duration::from_secs(1));
    assert_detail(
        &create(&router, "s2").await,
        507,
        "no space left to create a session",
    );
    let user = format!("/api/v1/apps/{APP}/users/ada");
    let entry = r#"{"memories":[{"content":{"parts":[{"text":"red"}]}}]}"#;
    let refused = post(&router, &format!("{user}/memory/entries"), entry).await;
    assert_eq!(refused.status, 507, "{refused:?}");
    assert!(refused.body.contains("store_full"), "{refused:?}");
    let ready = get(&router, "/ready", "").await;
    assert_eq!(ready.status, 200);
    assert!(ready.body.contains("free space is low"), "{ready:?}");
    let metrics = get(&router, "/metrics", "").await.body;
    for line in [
        "retain_free_bytes 1000",
        "retain_low_space_rejections_total 2",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}\n{metrics}"
        );
    }
    let session = format!("/apps/{APP}/users/ada/sessions/s1");
    let deleted = ask(&router, request(&Method::DELETE, &session, "", None)).await;
    assert_eq!(deleted.status, 200, "{deleted:?}");

    disk.0.store(u64::MAX, Ordering::SeqCst);
    clock.tick(Duration::from_secs(1));
    assert_eq!(create(&router, "s2").await.status, 200);
}
