//! A custom agent without a model: it implements the trait `Agent`.
//!
//! Run it with `cargo run --example custom_agent`.

use std::sync::Arc;

use async_trait::async_trait;
use retain::{
    Agent, Event, GetSessionConfig, InMemorySessionService, Runner, SessionService as _,
    agent::InvocationContext, runner::RunError,
};

/// Counts down. Each step emits one event that also changes the state.
#[derive(Debug)]
struct Countdown;

#[async_trait]
impl Agent for Countdown {
    fn name(&self) -> &str {
        "countdown"
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
        let text = ctx.user_content().text_concat();
        let from: u32 = text.trim().parse().map_err(|source| RunError::Agent {
            agent: self.name().to_owned(),
            source: Box::new(source),
        })?;
        for number in (0..=from).rev() {
            let mut event = Event::model_text(self.name(), format!("{number}"));
            event.actions.state_delta.insert("left", number);
            // When this returns, the event is stored and the caller of the run has received it.
            ctx.emit(event).await?;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sessions = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder()
        .app_name("app")
        .agent(Countdown)
        .session_service(sessions.clone())
        .auto_create_session(true)
        .build()?;
    let events = runner
        .run("ada", Some("s1"), "3")
        .await?
        .collect_events()
        .await?;
    let texts = events.iter().filter_map(|event| event.content());
    let texts: Vec<String> = texts.map(|content| content.text_concat()).collect();
    println!("{}", texts.join(", "));
    assert_eq!(texts, ["3", "2", "1", "0"]);

    // A failure ends the run with an error, and the session stores an event with the error code.
    let failed = runner
        .run("ada", Some("s1"), "three")
        .await?
        .collect_events()
        .await;
    println!("{}", failed.expect_err("three is not a number"));
    let config = GetSessionConfig::default();
    let session = sessions.get_session("app", "ada", "s1", config).await?;
    let session = session.ok_or("session not found")?;
    let last = session
        .events
        .last()
        .and_then(|event| event.response.error_code.as_deref());
    assert_eq!(last, Some("AgentError"));
    assert_eq!(session.state["left"], 0);
    Ok(())
}
