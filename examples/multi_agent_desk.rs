//! Several agents: the model transfers the conversation to another agent, which also gets the next
//! message.
//!
//! Run it with `cargo run --example multi_agent_desk`.

use std::sync::Arc;

use retain::{FunctionCall, InMemorySessionService, Json, LlmAgent, Runner, ScriptedModel};

/// Returns the call with which a model transfers to another agent.
fn transfer_to(agent: &str) -> FunctionCall {
    let args = serde_json::json!({"agent_name": agent});
    FunctionCall::new("transfer_to_agent", Json::from(args))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let billing = LlmAgent::builder("billing")
        .model(
            ScriptedModel::new("scripted")
                .reply("Which bill?")
                .reply("It is paid."),
        )
        .description("Knows all bills.")
        .build()?;
    let rooms = LlmAgent::builder("rooms")
        .model(ScriptedModel::new("scripted"))
        .description("Knows all rooms.")
        .build()?;
    let desk = LlmAgent::builder("desk")
        .model(ScriptedModel::new("scripted").reply(transfer_to("billing")))
        .instruction("Greet guests, and let the right colleague help them.")
        .sub_agent(billing)
        .sub_agent(rooms)
        .build()?;
    let runner = Runner::builder()
        .app_name("hotel")
        .agent(desk)
        .session_service(Arc::new(InMemorySessionService::new()))
        .auto_create_session(true)
        .build()?;
    let mut speakers = Vec::new();
    for message in ["I have a question about my bill.", "The one of last night."] {
        println!("guest:   {message}");
        for event in runner
            .run("ada", Some("s1"), message)
            .await?
            .collect_events()
            .await?
        {
            if let Some(target) = &event.actions.transfer_to_agent {
                println!("{}:    (hands over to {target})", event.author);
            }
            let text = event
                .content()
                .map(|content| content.text_concat())
                .unwrap_or_default();
            if !text.is_empty() {
                println!("{}: {text}", event.author);
                speakers.push(event.author);
            }
        }
    }
    // The second message went directly to the agent to which the first one was transferred.
    assert_eq!(speakers, ["billing", "billing"]);
    Ok(())
}
