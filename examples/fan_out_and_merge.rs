//! Two agents run in parallel, and a third one merges their answers.
//!
//! Run it with `cargo run --example fan_out_and_merge`.

use std::sync::Arc;

use retain::{
    InMemorySessionService, LlmAgent, Runner, ScriptedModel,
    agent::{ParallelAgent, SequentialAgent},
};

/// Returns an agent that answers one part of the question and stores its answer in the state.
fn scout(name: &str, finding: &str) -> Result<LlmAgent, retain::agent::BuildError> {
    LlmAgent::builder(name)
        .model(ScriptedModel::new("scripted").reply(finding))
        .output_key(name)
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scouts = ParallelAgent::builder("scouts")
        .sub_agent(scout("weather", "Sunny.")?)
        .sub_agent(scout("prices", "Cheap.")?)
        .build()?;
    let merger = Arc::new(ScriptedModel::new("scripted").reply("Go: it is sunny and cheap."));
    let merge = LlmAgent::builder("merge")
        .model(Arc::clone(&merger))
        .instruction("Weigh this up. Weather: {weather} Prices: {prices}")
        .build()?;
    let trip = SequentialAgent::builder("trip")
        .sub_agent(scouts)
        .sub_agent(merge)
        .build()?;
    let runner = Runner::builder()
        .app_name("travel")
        .agent(trip)
        .session_service(Arc::new(InMemorySessionService::new()))
        .auto_create_session(true)
        .build()?;
    let run = runner
        .run("ada", Some("s1"), "Shall I go to Lisbon?")
        .await?;
    for event in run.collect_events().await? {
        let text = event
            .content()
            .map(|content| content.text_concat())
            .unwrap_or_default();
        let branch = event.branch.as_deref().unwrap_or("-");
        println!("{:<8} {branch:<16} {text}", event.author);
    }
    let requests = merger.requests();
    let instruction = requests[0]
        .config
        .system_instruction
        .clone()
        .unwrap_or_default();
    assert!(instruction.starts_with("Weigh this up. Weather: Sunny. Prices: Cheap."));
    Ok(())
}
