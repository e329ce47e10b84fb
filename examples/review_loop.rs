//! A writer and a critic run in a loop until the critic accepts the text.
//!
//! Run it with `cargo run --example review_loop`.

use std::sync::Arc;

use retain::{
    FunctionCall, GetSessionConfig, InMemorySessionService, Json, LlmAgent, Runner, ScriptedModel,
    SessionService as _, agent::LoopAgent, tool::exit_loop_tool,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let writer = LlmAgent::builder("writer")
        .model(
            ScriptedModel::new("scripted")
                .reply("Fog.")
                .reply("Fog rolls in."),
        )
        .instruction("Write one line about the sea. The critic said: {critique?}")
        .output_key("line")
        .build()?;
    let accept = FunctionCall::new("exit_loop", Json::Null);
    let critic = LlmAgent::builder("critic")
        .model(
            ScriptedModel::new("scripted")
                .reply("Too short.")
                .reply(accept),
        )
        .instruction("Judge this line: {line}. Call exit_loop when it is good.")
        .output_key("critique")
        .tool(exit_loop_tool())
        .build()?;
    let refine = LoopAgent::builder("refine")
        .max_iterations(5)
        .sub_agent(writer)
        .sub_agent(critic)
        .build()?;
    let sessions = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder()
        .app_name("poems")
        .agent(refine)
        .session_service(Arc::<InMemorySessionService>::clone(&sessions))
        .auto_create_session(true)
        .build()?;
    let run = runner
        .run("ada", Some("s1"), "A line about the sea, please.")
        .await?;
    for event in run.collect_events().await? {
        if event.actions.escalate == Some(true) {
            println!("{}: (accepts)", event.author);
        }
        let text = event.content().map(|content| content.text_concat());
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            println!("{}: {text}", event.author);
        }
    }
    let config = GetSessionConfig::default();
    let session = sessions.get_session("poems", "ada", "s1", config).await?;
    let session = session.ok_or("session not found")?;
    println!("in the state: {}", session.state["line"]);
    assert_eq!(session.state["line"], "Fog rolls in.");
    Ok(())
}
