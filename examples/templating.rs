//! Instructions with placeholders that the state fills, and instructions that a function returns.
//!
//! Run it with `cargo run --example templating`.

use std::sync::Arc;

use retain::{
    InMemorySessionService, LlmAgent, Runner, ScriptedModel, SessionService as _, State,
    agent::{Instruction, ReadonlyContext},
    runner::RunError,
};

type Error = Box<dyn std::error::Error>;

/// Runs an agent once and returns the instruction that its model received.
async fn instruction_sent(instruction: impl Into<Instruction>) -> Result<String, Error> {
    let sessions = InMemorySessionService::new();
    let state = State::from([("user:name", "Ada"), ("topic", "bridges")]);
    sessions
        .create_session("app", "ada", Some(state), Some("s1"))
        .await?;
    let model = Arc::new(ScriptedModel::new("scripted").reply("Once upon a time."));
    let agent = LlmAgent::builder("teller")
        .model(Arc::clone(&model))
        .instruction(instruction)
        .build()?;
    let runner = Runner::builder().app_name("app").agent(agent);
    let runner = runner.session_service(Arc::new(sessions)).build()?;
    runner
        .run("ada", Some("s1"), "Go on.")
        .await?
        .answer()
        .await?;
    let sent = model.requests()[0].config.system_instruction.clone();
    Ok(sent.unwrap_or_default())
}

/// Returns an instruction that depends on more than single state values. Retain sends it unchanged,
/// so braces are safe. `inject_session_state` fills the placeholders of one part.
async fn provide(ctx: ReadonlyContext) -> Result<String, retain::BoxError> {
    let about = ctx.inject_session_state("Talk about {topic}.").await?;
    let turns = ctx.session().events.len();
    Ok(format!(
        "{about} Event {turns} of {}. Answer as {{\"text\": …}}.",
        ctx.user_id()
    ))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // A question mark marks a key that may be missing. Braces around anything except a name stay as
    // they are.
    let text = "Tell {user:name} about {topic}.{hint?} Answer as {\"text\": \"…\"}.";
    let sent = instruction_sent(text).await?;
    println!("placeholders: {sent}");
    assert!(sent.starts_with("Tell Ada about bridges. Answer as {\"text\": \"…\"}."));

    let sent = instruction_sent(Instruction::provider(provide)).await?;
    println!("provider:     {sent}");
    assert!(sent.starts_with("Talk about bridges. Event 1 of ada. Answer as {\"text\": …}."));

    // A missing key without a question mark fails the run, and the error names the key.
    let error = instruction_sent("Tell {user:nickname} a joke.")
        .await
        .expect_err("the key is missing");
    println!("missing:      {error}");
    assert!(matches!(
        error.downcast_ref(),
        Some(RunError::Template { .. })
    ));
    Ok(())
}
