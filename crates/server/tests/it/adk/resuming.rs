//! Resuming a run by its invocation id, on servers that allow it and servers that do not.

use std::sync::Arc;

use retain_core::Json;
use retain_server::{Apps, Server};

use crate::adk::support::{Answer, ask, filing_agent, message, services, with_session};

/// Creates a server that allows or rejects resuming runs.
fn server(resumable: bool) -> Arc<Server> {
    let services = services();
    let apps = Apps::new(services.clone()).with_agent("desk", filing_agent());
    let apps = apps.with_resumable(resumable);
    Arc::new(Server::new(services, apps))
}

/// Runs an agent and resumes the run. Returns the events of the run and the response to the resume.
async fn run_and_resume(server: &Arc<Server>) -> (Vec<Json>, Answer) {
    with_session(server).await;
    let answer = ask(server, "POST", "/run", &message("hi", "")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let events = answer.json().as_array().expect("a list").to_vec();
    let run = events[0]["invocationId"].as_str().expect("a run");
    let again =
        format!(r#"{{"appName":"desk","userId":"ada","sessionId":"s","invocationId":"{run}"}}"#);
    let again = ask(server, "POST", "/run", &again).await;
    (events, again)
}

#[tokio::test]
async fn run_can_be_resumed_if_the_server_is_resumable() {
    let (events, again) = run_and_resume(&server(true)).await;
    assert_eq!(again.status, 200, "{again:?}");
    // The run was complete, so nothing is left to do.
    assert_eq!(again.text, "[]");
    let is_end = |event: &Json| event["actions"]["endOfAgent"] == true;
    assert!(events.iter().any(is_end), "{events:?}");
}

#[tokio::test]
async fn resume_error_names_the_setting_if_the_server_is_not_resumable() {
    let (events, again) = run_and_resume(&server(false)).await;
    assert_eq!(events.len(), 3, "no events beside ADK's: {events:?}");
    assert_eq!(again.status, 400, "{again:?}");
    for name in ["--resumable", "RETAIN_RESUMABLE"] {
        assert!(again.text.contains(name), "{again:?}");
    }
    assert!(!again.text.contains("resumable(true)"), "{again:?}");
}
