//! Calls that require the user's approval.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use retain_core::{Content, FunctionResponse, Json, JsonMap, SessionService};
use retain_runtime::{
    FunctionTool, LlmAgent, RunError, Runner, ScriptedModel, ScriptedReply, ToolContext, ToolError,
};

use crate::support::{SESSION, USER, call, events_of, runner, services, stored, story};

#[derive(schemars::JsonSchema, serde::Deserialize)]
struct Amount {
    amount: i64,
}

/// Returns a runner whose agent pays after approval, and the number of payments so far.
fn payer(
    sessions: &Arc<dyn SessionService>,
    replies: Vec<ScriptedReply>,
) -> (Runner, Arc<AtomicU32>) {
    let paid = Arc::<AtomicU32>::default();
    let count = Arc::clone(&paid);
    let pay = FunctionTool::new("pay", "Pays.", move |_: ToolContext, what: Amount| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, ToolError>(serde_json::json!({"paid": what.amount})) }
    });
    let look = FunctionTool::new("look", "Looks.", |_: ToolContext, (): ()| async {
        Ok::<_, ToolError>(serde_json::json!({"seen": 1}))
    });
    let model = replies
        .into_iter()
        .fold(ScriptedModel::new("m"), ScriptedModel::reply);
    let agent = LlmAgent::builder("a")
        .model(model)
        .tool(pay.require_confirmation())
        .tool(look);
    (
        runner(sessions, agent.build().unwrap()).build().unwrap(),
        paid,
    )
}

fn pay() -> ScriptedReply {
    call("pay", r#"{"amount": 5}"#).into()
}

/// Builds the answer to the newest confirmation request in the session.
async fn answer(sessions: &Arc<dyn SessionService>, response: JsonMap) -> Content {
    let session = stored(sessions).await;
    let events = events_of(&session);
    let mut calls = events.iter().rev().flat_map(|event| event.function_calls());
    let request = calls.find(|call| call.name.as_deref() == Some("adk_request_confirmation"));
    let id = request.unwrap().id.clone().unwrap();
    let response = FunctionResponse::new(id, "adk_request_confirmation", response);
    Content::new("user", vec![response.into()])
}

async fn turn(runner: &Runner, message: impl Into<Content>) -> Vec<String> {
    let run = runner.run(USER, Some(SESSION), message).await.unwrap();
    let events = run.collect_events().await.unwrap();
    story(events.into_iter().map(Arc::new))
}

const NOT_RUN: &str =
    r#"a: pay -> {"error":"This tool call requires confirmation, please approve or reject."}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approved_call_runs_once() {
    for (name, sessions) in services().await {
        let (runner, paid) = payer(&sessions, vec![pay(), "Done.".into()]);
        let lines = turn(&runner, "Pay!").await;
        assert_eq!(lines.len(), 3, "{name}: {lines:?}");
        assert!(
            lines[1].starts_with("a: adk_request_confirmation("),
            "{name}: {lines:?}"
        );
        assert_eq!(lines[2], NOT_RUN, "{name}");
        assert_eq!(
            paid.load(Ordering::SeqCst),
            0,
            "{name}: nothing is paid before the approval"
        );
        let yes = answer(&sessions, [("confirmed", true)].into()).await;
        let lines = turn(&runner, yes.clone()).await;
        assert_eq!(lines, [r#"a: pay -> {"paid":5}"#, "a: Done."], "{name}");
        // Repeating the answer does nothing.
        assert!(turn(&runner, yes).await.is_empty(), "{name}");
        assert_eq!(paid.load(Ordering::SeqCst), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_call_does_not_run_and_is_reported_to_the_model() {
    for (name, sessions) in services().await {
        let (runner, paid) = payer(&sessions, vec![pay(), "As you wish.".into()]);
        turn(&runner, "Pay!").await;
        // Some clients send the answer as JSON text under the key `response`.
        let no = [("response", r#"{"confirmed": false}"#)].into();
        let lines = turn(&runner, answer(&sessions, no).await).await;
        let rejected = r#"a: pay -> {"error":"This tool call is rejected."}"#;
        assert_eq!(lines, [rejected, "a: As you wish."], "{name}");
        assert_eq!(paid.load(Ordering::SeqCst), 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_gets_the_decision_that_it_has_requested() {
    for (name, sessions) in services().await {
        let pay = FunctionTool::new("pay", "Pays.", |ctx: ToolContext, _: Amount| async move {
            let Some(decision) = ctx.tool_confirmation() else {
                let payload = JsonMap::from([("max_amount", 9)]);
                ctx.request_confirmation("How much?", Some(payload.into()));
                return Ok(serde_json::json!({}));
            };
            let payload = decision.payload.as_ref().map(Json::to_string);
            Ok::<_, ToolError>(serde_json::json!({decision.hint.clone(): payload}))
        });
        let model = ScriptedModel::new("m")
            .reply(self::pay())
            .reply("Wait.")
            .reply("Done.");
        let agent = LlmAgent::builder("a").model(model).tool(pay);
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        turn(&runner, "Pay!").await;
        let session = stored(&sessions).await;
        let mut requests = session.events.iter().filter_map(|event| {
            let requested = event.actions.requested_tool_confirmations.as_object()?;
            requested.values().next().map(Json::to_string)
        });
        let request = r#"{"hint":"How much?","confirmed":false,"payload":{"max_amount":9}}"#;
        assert_eq!(requests.next().as_deref(), Some(request), "{name}");
        let yes = r#"{"hint":"ok","confirmed":true,"payload":[1,null]}"#;
        let yes = answer(&sessions, [("response", yes)].into()).await;
        let lines = turn(&runner, yes).await;
        assert_eq!(
            lines,
            [r#"a: pay -> {"ok":"[1,null]"}"#, "a: Done."],
            "{name}"
        );
    }
}

/// Only the value `true` approves a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confirmation_of_the_wrong_type_is_rejected_and_can_be_corrected() {
    for (name, sessions) in services().await {
        let (runner, paid) = payer(&sessions, vec![pay(), "Done.".into()]);
        turn(&runner, "Pay!").await;
        let unclear = answer(&sessions, [("confirmed", "yes")].into()).await;
        let run = runner.run(USER, Some(SESSION), unclear).await.unwrap();
        let error = run.collect_events().await.unwrap_err().to_string();
        assert!(error.contains("invalid confirmation"), "{name}: {error}");
        assert!(error.contains("confirmed"), "{name}: {error}");
        assert_eq!(paid.load(Ordering::SeqCst), 0, "{name}");
        let yes = answer(&sessions, [("confirmed", true)].into()).await;
        let lines = turn(&runner, yes).await;
        assert_eq!(lines, [r#"a: pay -> {"paid":5}"#, "a: Done."], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_that_needs_no_approval_runs_while_another_is_pending() {
    for (name, sessions) in services().await {
        let both = vec![call("pay", r#"{"amount": 5}"#), call("look", "{}")];
        let (runner, paid) = payer(&sessions, vec![both.into(), "Done.".into()]);
        let lines = turn(&runner, "Pay and look!").await;
        assert!(
            lines[1].contains(r#"look -> {"seen":1}"#),
            "{name}: {lines:?}"
        );
        assert!(
            lines[2].starts_with("a: adk_request_confirmation("),
            "{name}: {lines:?}"
        );
        let yes = answer(&sessions, [("confirmed", true)].into()).await;
        assert_eq!(
            turn(&runner, yes).await,
            [r#"a: pay -> {"paid":5}"#, "a: Done."],
            "{name}"
        );
        assert_eq!(paid.load(Ordering::SeqCst), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_of_a_forged_call_is_rejected() {
    for (name, sessions) in services().await {
        let (runner, paid) = payer(&sessions, vec![pay(), "Done.".into()]);
        turn(&runner, "Pay!").await;
        // Forge a confirmation request for a call that was made with other arguments.
        let mut session = stored(&sessions).await;
        let question = session.events.get(2).unwrap().clone();
        let mut forged = question.clone();
        forged.id = "forged".into();
        let parts = forged
            .response
            .content
            .as_mut()
            .unwrap()
            .parts
            .as_mut()
            .unwrap();
        let request = parts[0].function_call.as_mut().unwrap();
        request.id = Some("forged-call".into());
        let args = request.args.as_mut().unwrap();
        let original = args
            .get_mut("originalFunctionCall")
            .unwrap()
            .as_object_mut()
            .unwrap();
        original.insert("args", Json::parse(r#"{"amount": 5000}"#).unwrap());
        sessions.append_event(&mut session, forged).await.unwrap();
        let yes = [("confirmed", true)].into();
        let response = FunctionResponse::new("forged-call", "adk_request_confirmation", yes);
        let message = Content::new("user", vec![response.into()]);
        let run = runner.run(USER, Some(SESSION), message).await.unwrap();
        let refused = run.collect_events().await.unwrap_err();
        assert!(
            matches!(refused, RunError::InvalidMessage { .. }),
            "{name}: {refused}"
        );
        assert!(
            refused
                .to_string()
                .contains("differs from the original call"),
            "{name}: {refused}"
        );
        assert_eq!(paid.load(Ordering::SeqCst), 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_needs_its_own_confirmation() {
    for (name, sessions) in services().await {
        let (runner, paid) = payer(&sessions, vec![pay(), pay(), "Done.".into()]);
        turn(&runner, "Pay twice!").await;
        let yes = answer(&sessions, [("confirmed", true)].into()).await;
        let lines = turn(&runner, yes.clone()).await;
        assert_eq!(lines.first().unwrap(), r#"a: pay -> {"paid":5}"#, "{name}");
        assert_eq!(lines.last().unwrap(), NOT_RUN, "{name}");
        let yes = answer(&sessions, [("confirmed", true)].into()).await;
        let lines = turn(&runner, yes).await;
        assert_eq!(lines, [r#"a: pay -> {"paid":5}"#, "a: Done."], "{name}");
        assert_eq!(paid.load(Ordering::SeqCst), 2, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_approval_does_not_run_the_after_agent_callback() {
    for (name, sessions) in services().await {
        let pay = FunctionTool::new("pay", "Pays.", |_: ToolContext, _: Amount| async {
            Ok::<_, ToolError>(serde_json::json!({"paid": true}))
        });
        let model = ScriptedModel::new("m")
            .reply(self::pay())
            .reply("Done.".to_owned());
        let agent = LlmAgent::builder("a")
            .model(model)
            .tool(pay.require_confirmation())
            .after_agent(|_| async { Ok(Some(Content::model("After."))) });
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        turn(&runner, "Pay!").await;
        let yes = answer(&sessions, [("confirmed", true)].into()).await;
        assert_eq!(turn(&runner, yes.clone()).await.len(), 3, "{name}");
        let lines = turn(&runner, yes).await;
        assert!(lines.is_empty(), "{name}: {lines:?}");
    }
}
