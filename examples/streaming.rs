//! Streams partial events of a run, and cancels a run through its handle.
//!
//! Run it with `cargo run --example streaming`.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use retain::{
    Content, Event, GetSessionConfig, InMemorySessionService, LlmAgent, Model, Runner,
    SessionService as _,
    model::{LlmRequest, LlmResponse, ModelStream},
    runner::{RunConfig, RunRequest},
};

type Error = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let sessions = Arc::new(InMemorySessionService::new());
    let offline = LlmAgent::builder("assistant").model("offline").build()?;
    stream_answer(&runner(&sessions, offline)?).await?;
    let counter = LlmAgent::builder("counter").model(Endless).build()?;
    cancel_run(&runner(&sessions, counter)?).await?;

    // The session has a message with its answer, and a message with the event of the cancelled run.
    let config = GetSessionConfig::default();
    let session = sessions.get_session("app", "ada", "s1", config).await?;
    let session = session.ok_or("session not found")?;
    assert_eq!(session.events.len(), 4);
    Ok(())
}

fn runner(sessions: &Arc<InMemorySessionService>, agent: LlmAgent) -> Result<Runner, Error> {
    let runner = Runner::builder().app_name("app").agent(agent);
    let runner = runner.session_service(sessions.clone());
    Ok(runner.auto_create_session(true).build()?)
}

/// Prints the answer. Partial events are not stored; the complete event comes last and is stored.
async fn stream_answer(runner: &Runner) -> Result<(), Error> {
    let request = RunRequest::new("I live in Oslo.").with_config(RunConfig::streaming());
    let mut run = runner.run_with("ada", Some("s1"), request).await?;
    // The id is known before the first event.
    let invocation_id = run.invocation_id().to_owned();
    println!("run {invocation_id} in session {}", run.session_id());
    let (mut pieces, mut whole) = (String::new(), String::new());
    while let Some(event) = run.next().await {
        let event = event?;
        assert_eq!(event.invocation_id, invocation_id);
        match event.is_partial() {
            true => pieces += &text(&event),
            false => whole = text(&event),
        }
    }
    println!("{whole}");
    assert_eq!(pieces, whole);
    Ok(())
}

/// Cancels a run through its handle, as another task or a stop button could.
async fn cancel_run(runner: &Runner) -> Result<(), Error> {
    let request = RunRequest::new("Count.").with_config(RunConfig::streaming());
    let mut run = runner.run_with("ada", Some("s1"), request).await?;
    let stop = run.handle();
    let mut last = None;
    while let Some(event) = run.next().await {
        let event = event?;
        if text(&event) == "3 " {
            println!("cancelling the run");
            stop.cancel();
        }
        last = Some(event);
    }
    // The stream ends with an event that reports the cancellation; the lease is released.
    let code = last.and_then(|event| event.response.error_code.clone());
    println!(
        "error code in the log: {}",
        code.as_deref().unwrap_or("none")
    );
    assert_eq!(code.as_deref(), Some("INVOCATION_ABORTED"));
    Ok(())
}

fn text(event: &Event) -> String {
    let content = event.content();
    content.map(Content::text_concat).unwrap_or_default()
}

/// A model that counts to three and never ends its answer. Cancelling the run drops its stream.
#[derive(Debug)]
struct Endless;

impl Model for Endless {
    fn name(&self) -> &str {
        "endless"
    }

    fn generate(&self, _request: Arc<LlmRequest>, _stream: bool) -> ModelStream {
        let pieces = (1..=3).map(|number| LlmResponse {
            partial: Some(true),
            ..LlmResponse::from_content(Content::model(format!("{number} ")))
        });
        Box::pin(stream::iter(pieces.map(Ok)).chain(stream::pending()))
    }
}
