//! The shortest way to an agent with a session: no key, no network, nothing to set up.
//!
//! Run it with `cargo run --example quickstart`.

use std::sync::Arc;

use retain::{LlmAgent, Runner, SqliteSessionService};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // With "sqlite:///sessions.db" the conversation goes on when the program is started again.
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
