//! Resuming a run by its id, if the server allows it.

use std::sync::Arc;

use retain_core::Json;
use retain_server::{Apps, Server};

use crate::adk::support::{Answer, ask, filing_agent, message, services, with_session};

/// A server whose runs are resumable or not.
fn server(resumable: bool) -> Arc<Server> {
    let services = services();
    let apps = Apps::new(services.clone()).with_agent("desk", Arc::new(filing_agent()));
    let apps = apps.with_resumable(resumable);
    Arc::new(Server { services, apps })
}

/// Make a run and resume it.
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
async fn error_of_resume_without_the_setting_names_the_setting() {
    let (events, again) = run_and_resume(&server(false)).await;
    assert_eq!(events.len(), 3, "no events beside ADK's: {events:?}");
    assert_eq!(again.status, 400, "{again:?}");
    for said in ["--resumable", "RETAIN_RESUMABLE"] {
        assert!(again.text.contains(said), "{again:?}");
    }
    assert!(!again.text.contains("resumable(true)"), "{again:?}");
}
