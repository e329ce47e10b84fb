//! A tool call that the user must approve. The call waits until a later message confirms it.
//!
//! Run it with `cargo run --example approval_by_the_user`.

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
    let pay_call = FunctionCall::new("pay", Json::from(serde_json::json!({"amount": 500})));
    let clerk = LlmAgent::builder("clerk")
        .model(
            ScriptedModel::new("scripted")
                .reply(pay_call)
                .reply("It is paid."),
        )
        // Small amounts need no approval.
        .tool(pay.with_confirmation_when(|args| args["amount"].as_i64() > Some(100)))
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
    let request = calls.find(|call| call.name.as_deref() == Some("adk_request_confirmation"));
    let request = request.ok_or("the agent did not ask for approval")?;
    let args = request.args.clone().unwrap_or_default();
    println!("the clerk asks to approve {}", args["originalFunctionCall"]);

    // The confirmation may come minutes or days later, also from another process.
    let id = request.id.clone().unwrap_or_default();
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
