//! The shortest program with an agent and a session. It needs no API key, no network and no setup.
//!
//! Run it with `cargo run --example quickstart`.

use std::sync::Arc;

use retain::{LlmAgent, Runner, SqliteSessionService};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // With "sqlite:///sessions.db", the next start of the program continues the conversation.
    let sessions = SqliteSessionService::connect("sqlite::memory:").await?;
    let runner = Runner::builder()
        .app_name("quickstart")
        .agent(LlmAgent::builder("assistant").model("offline").build()?)
        .session_service(Arc::new(sessions))
        .auto_create_session(true)
        .build()?;
    let mut answer = String::new();
    for message in ["I live in Oslo.", "Where do I live?"] {
        let run = runner.run("ada", Some("s1"), message).await?;
        answer = run.answer().await?;
        println!("user:      {message}\nassistant: {answer}");
    }
    assert!(answer.contains("\"I live in Oslo.\""));
    Ok(())
}
