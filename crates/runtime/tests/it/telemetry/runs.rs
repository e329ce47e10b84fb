//! The same agents as in `oracle.py`, and a function that runs them.

use std::sync::Arc;

use retain_core::{Content, FunctionCall, GenerateContentConfig, Json, JsonMap, LlmResponse};
use retain_runtime::{
    Agent, AgentTool, FunctionTool, LlmAgent, ModelError, ParallelAgent, RunRequest, Runner,
    ScriptedModel, ScriptedReply, SequentialAgent, Telemetry, ToolContext, ToolError,
};
use retain_stores::InMemorySessionService;

use crate::telemetry::collect::{Span, SpanRecorder};

pub(crate) const APP: &str = "app";
pub(crate) const USER: &str = "ada";
pub(crate) const SESSION: &str = "s1";
pub(crate) const MESSAGE: &str = "Hello!";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Summands {
    a: i64,
    b: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArgs {}

fn add() -> FunctionTool {
    FunctionTool::new(
        "add",
        "Adds.",
        |_: ToolContext, args: Summands| async move {
            // Yield, so that spans of several calls are open at the same time.
            tokio::task::yield_now().await;
            Ok::<_, ToolError>(serde_json::json!({ "sum": args.a + args.b }))
        },
    )
}

fn refuse() -> FunctionTool {
    FunctionTool::new("refuse", "Refuses.", |_: ToolContext, _: NoArgs| async {
        Ok::<_, ToolError>(serde_json::json!({ "error": "no" }))
    })
}

fn fail() -> FunctionTool {
    FunctionTool::new("fail", "Fails.", |_: ToolContext, _: NoArgs| async {
        Err::<Json, _>(ToolError::new("the secret of the tool"))
    })
}

pub(crate) fn model(name: &str, replies: Vec<ScriptedReply>) -> ScriptedModel {
    let model = ScriptedModel::new(name);
    replies.into_iter().fold(model, ScriptedModel::reply)
}

pub(crate) fn text(words: &str) -> ScriptedReply {
    let mut response = LlmResponse::from_content(Content::model(words));
    response.finish_reason = Some("STOP".to_owned());
    let usage = response.usage_metadata.get_or_insert_default();
    usage.prompt_token_count = Some(7);
    usage.candidates_token_count = Some(3);
    usage.thoughts_token_count = Some(2);
    usage.cached_content_token_count = Some(1);
    usage.tool_use_prompt_token_count = Some(4);
    response.into()
}

pub(crate) fn calls(made: &[(&str, &str, &str)]) -> ScriptedReply {
    let made = made.iter().map(|(id, name, args)| {
        let args = Json::parse(args).expect("JSON");
        FunctionCall {
            id: Some((*id).to_owned()),
            name: Some((*name).to_owned()),
            args: args.as_object().cloned(),
            ..FunctionCall::default()
        }
    });
    made.collect::<Vec<_>>().into()
}

fn agent(name: &str, description: &str, of: ScriptedModel) -> retain_runtime::LlmAgentBuilder {
    LlmAgent::builder(name).description(description).model(of)
}

/// Creates an agent that makes concurrent calls, one of them to an agent tool, and then transfers.
pub(crate) fn desk() -> Arc<dyn Agent> {
    let helper = agent("helper", "Helps.", model("gemini-x", vec![text("Helped.")]));
    let other = model(
        "openai/gpt",
        vec![calls(&[("c5", "nothing", "{}")]), text("Done.")],
    );
    let first_calls = [
        ("c1", "add", r#"{"a":1,"b":2}"#),
        ("c2", "refuse", "{}"),
        ("c3", "helper", r#"{"request":"Help!"}"#),
    ];
    let transfer = ("c4", "transfer_to_agent", r#"{"agent_name":"other"}"#);
    let config = GenerateContentConfig {
        top_p: Some(0.5),
        max_output_tokens: Some(99),
        thinking_config: Some(JsonMap::from([("thinking_budget", 11)]).into()),
        ..GenerateContentConfig::default()
    };
    let desk = agent(
        "desk",
        "A desk.",
        model("scripted", vec![calls(&first_calls), calls(&[transfer])]),
    )
    .generate_content_config(config)
    .tool(add())
    .tool(refuse())
    .tool(AgentTool::new(helper.build().expect("an agent")))
    .sub_agent(
        agent("other", "Takes over.", other)
            .build()
            .expect("an agent"),
    );
    Arc::new(desk.build().expect("an agent"))
}

/// Creates parallel agents, then an agent whose tool fails.
pub(crate) fn line() -> Arc<dyn Agent> {
    let one = agent("one", "", model("claude-x", vec![text("One.")]));
    let two = agent("two", "", model("m", vec![text("Two.")]));
    let pair = ParallelAgent::builder("pair")
        .sub_agent(one.build().expect("an agent"))
        .sub_agent(two.build().expect("an agent"));
    let last = agent("last", "", model("m", vec![calls(&[("c1", "fail", "{}")])])).tool(fail());
    let line = SequentialAgent::builder("line")
        .sub_agent(pair.build().expect("an agent"))
        .sub_agent(last.build().expect("an agent"));
    Arc::new(line.build().expect("an agent"))
}

/// Creates an agent whose model fails.
pub(crate) fn broken() -> Arc<dyn Agent> {
    let failure = ModelError::new("the secret of the model").with_code("RuntimeError");
    let of = model("m", vec![failure.into()]);
    Arc::new(agent("broken", "", of).build().expect("an agent"))
}

pub(crate) fn runner(agent: Arc<dyn Agent>, telemetry: Telemetry) -> Runner {
    let runner = Runner::builder()
        .app_name(APP)
        .agent(agent)
        .session_service(Arc::new(InMemorySessionService::new()))
        .auto_create_session(true)
        .telemetry(telemetry);
    runner.build().expect("a runner")
}

/// Runs the agent. Returns the ids of its events and its spans.
pub(crate) async fn play(agent: Arc<dyn Agent>, telemetry: Telemetry) -> (Vec<String>, Vec<Span>) {
    let (recorder, _guard) = SpanRecorder::install();
    let runner = runner(agent, telemetry);
    let request = RunRequest::new(MESSAGE);
    let run = runner.run_with(USER, Some(SESSION), request).await;
    let mut run = run.expect("a started run");
    let mut events = Vec::new();
    while let Some(Ok(event)) = futures_util::StreamExt::next(&mut run).await {
        events.push(event.id);
    }
    drop(run);
    (events, recorder.spans())
}
