//! A payment that a person has to approve: the call waits, the answer comes in a later message.
//!
//! Run it with `cargo run --example approval_by_a_person`.

use std::sync::Arc;

use retain::{
    Content, FunctionCall, FunctionTool, InMemorySessionService, Json, LlmAgent, Runner,
    ScriptedModel, ToolContext, ToolError, model::FunctionResponse,
};

/// The arguments of the tool.
#[derive(schemars::JsonSchema, serde::Deserialize)]
struct Payment {
    amount: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pay = FunctionTool::new(
        "pay",
        "Pays.",
        |_: ToolContext, payment: Payment| async move {
            Ok::<_, ToolError>(serde_json::json!({"paid": payment.amount}))
        },
    );
    let wanted = FunctionCall::new("pay", Json::from(serde_json::json!({"amount": 500})));
    let clerk = LlmAgent::builder("clerk")
        .model(
            ScriptedModel::new("scripted")
                .reply(wanted)
                .reply("It is paid."),
        )
        // Small amounts need no approval.
        .tool(pay.require_confirmation_when(|args| args["amount"].as_i64() > Some(100)))
        .build()?;
    let runner = Runner::builder()
        .app_name("office")
        .agent(clerk)
        .session_service(Arc::new(InMemorySessionService::new()))
        .auto_create_session(true)
        .build()?;

    let run = runner.run("ada", Some("s1"), "Pay the rent.").await?;
    let events = run.collect_events().await?;
    let mut calls = events.iter().flat_map(|event| event.function_calls());
    let question = calls.find(|call| call.name.as_deref() == Some("adk_request_confirmation"));
    let question = question.ok_or("the agent did not ask for approval")?;
    let args = question.args.clone().unwrap_or_default();
    println!("the clerk asks about {}", args["originalFunctionCall"]);

    // Minutes or days later, in this process or another one:
    let id = question.id.clone().unwrap_or_default();
    let yes = FunctionResponse::new(id, "adk_request_confirmation", [("confirmed", true)].into());
    let answer = Content::new("user", vec![yes.into()]);
    let answer = runner
        .run("ada", Some("s1"), answer)
        .await?
        .answer()
        .await?;
    println!("clerk: {answer}");
    assert_eq!(answer, "It is paid.");
    Ok(())
}
