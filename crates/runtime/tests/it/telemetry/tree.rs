//! The tree of spans, and the content in them.

use std::sync::Arc;

use futures_util::StreamExt as _;
use retain_core::Json;
use retain_runtime::{
    CompactionConfig, FunctionTool, LlmAgent, RunConfig, RunRequest, StreamingMode, Telemetry,
    ToolContext, ToolError,
};
use tokio::sync::Notify;

use crate::telemetry::{
    collect::{Span, SpanRecorder, SpanTree},
    runs::{APP, MESSAGE, SESSION, USER, broken, calls, desk, line, model, play, runner, text},
};

fn in_process() -> Telemetry {
    Telemetry::default().with_content_in_process(true)
}

/// Words that occur only in content.
const CONTENT: [&str; 6] = [
    MESSAGE,
    "Done.",
    "Helped.",
    "\"sum\"",
    "the secret",
    "\"a\":1",
];

#[tokio::test]
async fn spans_nest_as_runs_agents_and_calls() {
    let (_, spans) = play(desk(), Telemetry::default()).await;
    let expected = "\
invocation
  invoke_agent desk
    call_llm
      generate_content scripted
    execute_tool add
    execute_tool refuse
    execute_tool helper
      invocation
        invoke_agent helper
          call_llm
            generate_content gemini-x
    execute_tool (merged)
    call_llm
      generate_content scripted
    execute_tool transfer_to_agent
  invoke_agent other
    call_llm
      generate_content openai/gpt
    execute_tool nothing
    call_llm
      generate_content openai/gpt
";
    assert_eq!(SpanTree(&spans).to_string(), expected);
    assert!(spans.iter().all(|span| span.is_closed));
}

#[tokio::test]
async fn spans_have_no_content_unless_enabled() {
    for agent in [desk, line, broken] {
        for telemetry in [Telemetry::default(), in_process()] {
            let (_, spans) = play(agent(), telemetry).await;
            for span in &spans {
                let written = format!("{:?}", span.attributes);
                let content = CONTENT.iter().find(|text| written.contains(**text));
                assert_eq!(content, None, "{} has {written}", span.name);
                assert_eq!(
                    span.content.is_empty(),
                    telemetry == Telemetry::default() || !is_recorded(span)
                );
            }
        }
    }
    let telemetry = Telemetry::default().with_content_in_spans(true);
    let (_, spans) = play(desk(), telemetry).await;
    let written = format!("{spans:?}");
    assert!(written.contains(MESSAGE) && written.contains("Helped."));
}

/// Whether a span has values that only layers of this process receive.
fn is_recorded(span: &Span) -> bool {
    let name = span.name.as_str();
    name == "invocation" || name == "call_llm" || name.starts_with("execute_tool")
}

#[tokio::test]
async fn in_process_spans_have_content_and_session_key() {
    let (_, spans) = play(desk(), in_process()).await;
    let run = &spans[0].content;
    let known = [("app", APP), ("user", USER), ("session", SESSION)];
    for (key, value) in known {
        assert_eq!(run[key], Json::from(value));
    }
    assert_eq!(
        run["invocation"],
        spans[0].attributes["gcp.vertex.agent.invocation_id"]
    );
    let content_of = |name: &str, attribute: &str| {
        let span = spans.iter().find(|span| span.name == name).expect("a span");
        let text = span.content[attribute].as_str().expect("a text").to_owned();
        assert_eq!(span.attributes[attribute], Json::from("{}"));
        text
    };
    assert!(content_of("call_llm", "gcp.vertex.agent.llm_request").contains(MESSAGE));
    assert!(content_of("call_llm", "gcp.vertex.agent.llm_response").contains("function_call"));
    assert_eq!(
        content_of("execute_tool add", "gcp.vertex.agent.tool_call_args"),
        r#"{"a":1,"b":2}"#
    );
    assert_eq!(
        content_of("execute_tool add", "gcp.vertex.agent.tool_response"),
        r#"{"sum":3}"#
    );
    assert!(
        content_of("execute_tool (merged)", "gcp.vertex.agent.tool_response").contains("Helped.")
    );
}

#[tokio::test]
async fn span_of_a_streamed_call_has_the_values_of_the_last_chunk() {
    let piece = |words: &str| {
        let mut response =
            retain_core::LlmResponse::from_content(retain_core::Content::model(words));
        response.partial = Some(true);
        response
    };
    let mut whole =
        retain_core::LlmResponse::from_content(retain_core::Content::model("Good day!"));
    whole.finish_reason = Some("STOP".to_owned());
    whole
        .usage_metadata
        .get_or_insert_default()
        .candidates_token_count = Some(2);
    let replies = vec![vec![piece("Good "), piece("day!"), whole].into()];
    let agent = LlmAgent::builder("a").model(model("m", replies));
    let (recorder, _guard) = SpanRecorder::install();
    let runner = runner(Arc::new(agent.build().expect("an agent")), in_process());
    let config = RunConfig::default().with_streaming_mode(StreamingMode::Sse);
    let request = RunRequest::new(MESSAGE).with_config(config);
    let run = runner.run_with(USER, Some(SESSION), request).await;
    let events = run
        .expect("a started run")
        .collect_events()
        .await
        .expect("a successful run");
    let spans = recorder.spans();
    let call = spans
        .iter()
        .find(|span| span.name == "call_llm")
        .expect("a call");
    let response = call.content["gcp.vertex.agent.llm_response"].to_string();
    assert!(
        response.contains("Good day!") && !response.contains("partial"),
        "{response}"
    );
    for name in ["call_llm", "generate_content m"] {
        let span = spans.iter().find(|span| span.name == name).expect("a span");
        let known = |key: &str| span.attributes[key].clone();
        assert_eq!(known("gen_ai.response.finish_reasons"), Json::from("stop"));
        assert_eq!(known("gen_ai.usage.output_tokens"), Json::from(2));
        let last = events.last().expect("an event");
        assert_eq!(
            known("gcp.vertex.agent.event_id"),
            Json::from(last.id.as_str())
        );
    }
}

#[tokio::test]
async fn dropped_run_closes_its_spans() {
    let started = Arc::new(Notify::new());
    let starts = Arc::clone(&started);
    let hang = FunctionTool::new("hang", "Hangs.", move |_: ToolContext, _: NoArgs| {
        starts.notify_one();
        std::future::pending::<Result<(), ToolError>>()
    });
    let agent = LlmAgent::builder("a")
        .model(model("m", vec![calls(&[("c1", "hang", "{}")])]))
        .tool(hang);
    let (recorder, _guard) = SpanRecorder::install();
    let runner = runner(
        Arc::new(agent.build().expect("an agent")),
        Telemetry::default(),
    );
    let mut run = runner
        .run(USER, Some(SESSION), MESSAGE)
        .await
        .expect("a started run");
    run.next().await.expect("the call").expect("a stored event");
    tokio::select! {
        biased;
        event = run.next() => panic!("expected a tool that hangs, found {event:?}"),
        () = started.notified() => {}
    }
    assert!(
        recorder
            .spans()
            .iter()
            .all(|span| !span.is_closed || is_model(span))
    );
    drop(run);
    while runner.running() > 0 {
        tokio::task::yield_now().await;
    }
    runner.close().await.expect("a closed runner");
    tokio::task::yield_now().await;
    let open: Vec<Span> = recorder
        .spans()
        .into_iter()
        .filter(|span| !span.is_closed)
        .collect();
    assert!(open.is_empty(), "{open:?}");
    let failed = recorder
        .spans()
        .into_iter()
        .find(|span| span.attributes.contains_key("error.type"));
    assert!(
        failed.is_none(),
        "an abandoned run is not a failure: {failed:?}"
    );
}

#[tokio::test]
async fn model_span_closes_before_tools_run() {
    let (recorder, _guard) = SpanRecorder::install();
    let seen = recorder.clone();
    let look = FunctionTool::new("look", "Looks.", move |_: ToolContext, _: NoArgs| {
        let spans = seen.spans();
        let open = spans.iter().filter(|span| !span.is_closed);
        let open: Vec<String> = open.map(|span| span.name.clone()).collect();
        async move { Ok::<_, ToolError>(open.join(", ")) }
    });
    let mut response = retain_core::LlmResponse::from_content(retain_core::Content::new(
        "model",
        vec![
            retain_core::FunctionCall {
                name: Some("look".to_owned()),
                ..retain_core::FunctionCall::default()
            }
            .into(),
        ],
    ));
    response.finish_reason = Some("STOP".to_owned());
    let agent = LlmAgent::builder("a")
        .model(model("m", vec![response.into(), text("Done.")]))
        .tool(look);
    let runner = runner(
        Arc::new(agent.build().expect("an agent")),
        Telemetry::default(),
    );
    let run = runner.run(USER, Some(SESSION), MESSAGE).await;
    let events = run
        .expect("a started run")
        .collect_events()
        .await
        .expect("a successful run");
    let answers = events[1].function_responses();
    let open = answers[0].response.as_ref().expect("an answer")["result"].clone();
    let expected = "invocation, invoke_agent a, call_llm, execute_tool look";
    assert_eq!(open, Json::from(expected));
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArgs {}

fn is_model(span: &Span) -> bool {
    span.name == "call_llm" || span.name.starts_with("generate_content")
}

#[tokio::test]
async fn compaction_span_belongs_to_its_run() {
    let (recorder, _guard) = SpanRecorder::install();
    let answers = vec![text("One."), text("A summary."), text("Two.")];
    let agent = LlmAgent::builder("a").model(model("m", answers));
    let runner = retain_runtime::Runner::builder()
        .app_name(APP)
        .agent(agent.build().expect("an agent"))
        .session_service(Arc::new(retain_stores::InMemorySessionService::new()))
        .auto_create_session(true)
        .compaction(CompactionConfig::new().with_sliding_window(1, 0))
        .build()
        .expect("a runner");
    let long = "word ".repeat(500);
    let run = runner
        .run(USER, Some(SESSION), long)
        .await
        .expect("a started run");
    run.collect_events().await.expect("a successful run");
    assert!(runner.flush_compaction().await.is_empty());
    tokio::task::yield_now().await;
    let spans = recorder.spans();
    let summary = spans
        .iter()
        .find(|span| span.name == "compact_events sliding_window");
    let summary = summary.expect("a summary");
    assert_eq!(summary.parent, Some(spans[0].id));
    let known = |key: &str| summary.attributes[&format!("gen_ai.compaction.{key}")].clone();
    assert_eq!(known("event_count"), Json::from(2));
    assert_eq!(known("compaction_interval"), Json::from(1));
    assert_eq!(known("summarizer_type"), Json::from("LlmEventSummarizer"));
    assert!(summary.is_closed && known("result_event_id").as_str().is_some());
}
