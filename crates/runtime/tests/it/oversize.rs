//! Data that is too large for the session fails its own call: the model gets an error, the rest is
//! stored, and the run continues.

use std::sync::Arc;

use retain_core::{Content, Event, Json, JsonMap, LimitKind, Limits, SessionError, SessionService};
use retain_runtime::{
    AgentTool, FunctionTool, HookResult, InvocationContext, LlmAgent, ParallelAgent, Plugin,
    RunError, Runner, ScriptedModel, ToolContext, ToolError,
};
use retain_stores::{InMemorySessionService, SqliteSessionService};
use tokio::sync::Notify;

use crate::support::{SESSION, USER, call, events_of, runner, services, stored, story};

const MIB: usize = 1024 * 1024;
/// The event size limit in the tests that set limits.
const EVENT_BYTES: usize = 8 * 1024;

/// Creates a session service of each kind, with small limits.
async fn small_services() -> Vec<(&'static str, Arc<dyn SessionService>)> {
    let limits = Limits::default()
        .with_event_bytes(EVENT_BYTES)
        .with_state_bytes(EVENT_BYTES);
    let memory = InMemorySessionService::new().with_limits(limits.clone());
    let sqlite = SqliteSessionService::connect("sqlite::memory:").await;
    vec![
        ("in memory", Arc::new(memory)),
        ("sqlite", Arc::new(sqlite.unwrap().with_limits(limits))),
    ]
}

/// Creates a tool that returns a text of `bytes` bytes.
fn returning_tool(name: &'static str, bytes: usize) -> FunctionTool {
    FunctionTool::untyped(name, "", None, move |_, _| async move {
        Ok(Json::from("x".repeat(bytes)).into())
    })
}

/// Creates a tool that writes a text of `bytes` bytes to the state.
fn writing_tool(name: &'static str, key: &'static str, bytes: usize) -> FunctionTool {
    FunctionTool::untyped(name, "", None, move |ctx: ToolContext, _| async move {
        ctx.state().set(key, "x".repeat(bytes));
        Ok(JsonMap::from([("ok", true)]).into())
    })
}

/// Creates a tool that returns the value of a state key.
fn reading_tool(key: &'static str) -> FunctionTool {
    FunctionTool::untyped("look", "", None, move |ctx: ToolContext, _| async move {
        Ok(ctx.state().get(key).into())
    })
}

/// Creates an agent that makes these calls and then answers `Done.` The calls in an inner list are
/// concurrent.
fn calling_agent(steps: &[&[&str]], tools: Vec<FunctionTool>) -> LlmAgent {
    let mut model = ScriptedModel::new("m");
    for names in steps {
        let calls: Vec<_> = names.iter().map(|name| call(name, "{}")).collect();
        model = model.reply(calls);
    }
    let mut agent = LlmAgent::builder("a").model(model.otherwise(|_| "Done."));
    for tool in tools {
        agent = agent.tool(tool);
    }
    agent.build().unwrap()
}

/// Runs and returns the short form of the events. Fails if the run fails.
async fn run_lines(name: &str, runner: &Runner) -> Vec<String> {
    let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
    let events = run.collect_events().await;
    let events = events.unwrap_or_else(|error| panic!("{name}: {error}"));
    story(events.into_iter().map(Arc::new))
}

fn failure(error: RunError) -> (LimitKind, u64) {
    match error {
        RunError::Session(SessionError::TooLarge { what, limit, .. }) => (what, limit),
        other => panic!("expected TooLarge, got {other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn result_of_50_mib_is_replaced_by_an_error_and_the_turn_continues() {
    for (name, sessions) in services().await {
        let tools = vec![
            returning_tool("dump", 50 * MIB),
            writing_tool("note", "noted", 3),
        ];
        let runner = runner(&sessions, calling_agent(&[&["dump", "note"]], tools));
        let runner = runner.build().unwrap();
        let lines = run_lines(name, &runner).await;
        assert_eq!(lines.len(), 3, "{name}");
        let answer = &lines[1];
        let why = [
            "`dump()` was called, but its result is too large to store: it has 524288",
            "exceeds the limit of 16777216 (see Limits::event_bytes)",
            r#"note -> {"ok":true}"#,
        ];
        for part in why {
            assert!(answer.contains(part), "{name}: {answer}");
        }
        assert_eq!(lines[2], "a: Done.", "{name}");
        let session = stored(&sessions).await;
        assert_eq!(story(events_of(&session))[1..], lines, "{name}");
        assert_eq!(session.state["noted"], "xxx", "{name}");
        let next = runner.run(USER, Some(SESSION), "And now?").await.unwrap();
        assert_eq!(next.answer().await.unwrap(), "Done.", "{name}");
    }
}

#[tokio::test]
async fn largest_results_are_dropped_when_the_event_is_too_large() {
    for (name, sessions) in small_services().await {
        let sizes = [("one", 3000), ("two", 3500), ("three", 2900), ("four", 40)];
        let tools = sizes
            .map(|(name, bytes)| returning_tool(name, bytes))
            .to_vec();
        let agent = calling_agent(&[&["one", "two", "three", "four"]], tools);
        let runner = runner(&sessions, agent).build().unwrap();
        let lines = run_lines(name, &runner).await;
        let answers: Vec<&str> = lines[1].split(" + ").collect();
        let is_stored = answers.iter().map(|answer| !answer.contains("too large"));
        let is_stored: Vec<bool> = is_stored.collect();
        assert_eq!(is_stored, [true, false, true, true], "{name}: {answers:?}");
        assert_eq!(lines[2], "a: Done.", "{name}");
    }
}

/// Creates a tool that waits for `turn`, appends to a list in the state, and then notifies `next`.
fn appending_tool(
    name: &'static str,
    value: i64,
    turn: Arc<Notify>,
    next: Arc<Notify>,
) -> FunctionTool {
    FunctionTool::untyped(name, "", None, move |ctx: ToolContext, _| {
        let (turn, next) = (Arc::clone(&turn), Arc::clone(&next));
        async move {
            turn.notified().await;
            let list = ctx.state().get("list");
            let mut list = list.map_or(vec![], |list| list.as_array().unwrap_or_default().to_vec());
            list.push(Json::from(value));
            ctx.state().set("list", list);
            next.notify_one();
            Ok(JsonMap::from([("ok", true)]).into())
        }
    })
}

#[tokio::test]
async fn dropping_an_oversized_result_keeps_the_merged_state_of_other_calls() {
    for (name, sessions) in small_services().await {
        let turns: [Arc<Notify>; 3] = Default::default();
        turns[0].notify_one();
        let [first, second, none] = turns;
        // The first call finishes second and extends the list that the other call wrote.
        let tools = vec![
            appending_tool("slow", 1, Arc::clone(&second), none),
            appending_tool("quick", 2, first, second),
            returning_tool("dump", 20_000),
        ];
        let agent = calling_agent(&[&["slow", "quick", "dump"]], tools);
        let runner = runner(&sessions, agent).build().unwrap();
        let lines = run_lines(name, &runner).await;
        assert!(lines[1].contains("`dump()` was called, but"), "{name}");
        let list = stored(&sessions).await.state["list"].to_string();
        assert_eq!(list, "[2,1]", "{name}");
    }
}

#[tokio::test]
async fn oversized_state_write_is_neither_stored_nor_visible_later() {
    for (name, sessions) in small_services().await {
        let tools = vec![
            writing_tool("hoard", "big", 2 * EVENT_BYTES),
            writing_tool("note", "noted", 3),
            reading_tool("big"),
        ];
        let agent = calling_agent(&[&["hoard", "note"], &["look"]], tools);
        let runner = runner(&sessions, agent).build().unwrap();
        let lines = run_lines(name, &runner).await;
        let why = "its state changes are too large to store";
        assert!(lines[1].contains(why), "{name}: {}", lines[1]);
        assert!(
            lines[1].ends_with(r#"note -> {"ok":true}"#),
            "{name}: {lines:?}"
        );
        // The write is neither visible later in the run nor stored.
        assert_eq!(lines[3], r#"a: look -> {"result":null}"#, "{name}");
        let session = stored(&sessions).await;
        assert_eq!(session.state.get("big"), None, "{name}");
        assert_eq!(session.state["noted"], "xxx", "{name}");
    }
}

#[tokio::test]
async fn state_over_its_limit_fails_the_call_but_not_the_run() {
    for (name, sessions) in small_services().await {
        for key in ["user:log", "app:log", "log"] {
            let half = EVENT_BYTES / 2;
            let other = key.replace("log", "more").leak();
            let tools = vec![
                writing_tool("first", key, half),
                writing_tool("second", other, half),
                reading_tool(other),
            ];
            let agent = calling_agent(&[&["first"], &["second"], &["look"]], tools);
            let runner = runner(&sessions, agent).build().unwrap();
            let lines = run_lines(name, &runner).await;
            assert_eq!(lines[1], r#"a: first -> {"ok":true}"#, "{name}, {key}");
            assert!(
                lines[3].contains("Limits::state_bytes"),
                "{name}: {}",
                lines[3]
            );
            assert_eq!(lines[5], r#"a: look -> {"result":null}"#, "{name}, {key}");
            let session = stored(&sessions).await;
            assert!(session.state.contains_key(key), "{name}");
            assert!(!session.state.contains_key(other), "{name}");
        }
    }
}

#[tokio::test]
async fn temp_state_has_no_size_limit() {
    for (name, sessions) in small_services().await {
        let tools = vec![
            writing_tool("hoard", "temp:big", 2 * EVENT_BYTES),
            returning_tool("dump", 2 * EVENT_BYTES),
            FunctionTool::untyped("look", "", None, |ctx: ToolContext, _| async move {
                Ok(ctx.state().get("temp:big").is_some().into())
            }),
        ];
        let agent = calling_agent(&[&["hoard", "dump"], &["look"]], tools);
        let runner = runner(&sessions, agent).build().unwrap();
        let lines = run_lines(name, &runner).await;
        assert!(
            lines[1].starts_with(r#"a: hoard -> {"ok":true} + "#),
            "{name}: {}",
            lines[1]
        );
        assert_eq!(lines[3], r#"a: look -> {"result":true}"#, "{name}");
    }
}

#[tokio::test]
async fn oversized_callback_result_is_treated_as_a_tool_result() {
    for (name, sessions) in small_services().await {
        let agent = LlmAgent::builder("a")
            .model(
                ScriptedModel::new("m")
                    .reply(call("dump", "{}"))
                    .reply("Done."),
            )
            .tool(returning_tool("dump", 3))
            .after_tool(|_, _| async { Ok(Some("x".repeat(2 * EVENT_BYTES).into())) });
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        let lines = run_lines(name, &runner).await;
        assert!(lines[1].contains("too large"), "{name}: {}", lines[1]);
        assert_eq!(lines[2], "a: Done.", "{name}");
    }
}

#[tokio::test]
async fn oversized_agent_tool_answer_is_reported_to_its_caller() {
    for (name, sessions) in small_services().await {
        // The text fits into an event by itself, but not together with another answer.
        let words = "x".repeat(EVENT_BYTES - 900);
        let inner = LlmAgent::builder("inner").model(ScriptedModel::new("m").reply(words));
        let outer = LlmAgent::builder("outer")
            .model(
                ScriptedModel::new("m")
                    .reply(vec![
                        call("inner", r#"{"request": "?"}"#),
                        call("dump", "{}"),
                    ])
                    .reply("Done."),
            )
            .tool(AgentTool::new(inner.build().unwrap()).with_skip_summarization(true))
            .tool(returning_tool("dump", 1000));
        let runner = runner(&sessions, outer.build().unwrap()).build().unwrap();
        let lines = run_lines(name, &runner).await;
        assert!(
            lines[1].contains("`inner()` was called, but"),
            "{name}: {}",
            lines[1]
        );
        // The model sees this error, although the tool's results skip summarization.
        assert_eq!(lines[2], "outer: Done.", "{name}");
    }
}

#[tokio::test]
async fn oversized_result_inside_an_agent_tool_is_dropped_there() {
    for (name, sessions) in small_services().await {
        let model = ScriptedModel::new("m").reply(call("dump", "{}"));
        let model = model.otherwise(|request| match format!("{request:?}").len() {
            ..EVENT_BYTES => "Too much.",
            _ => "I was shown all of it.",
        });
        let inner = LlmAgent::builder("inner")
            .model(model)
            .tool(returning_tool("dump", 2 * EVENT_BYTES));
        let model = ScriptedModel::new("m").reply(call("inner", r#"{"request": "?"}"#));
        let outer = LlmAgent::builder("outer")
            .model(model.reply("Done."))
            .tool(AgentTool::new(inner.build().unwrap()));
        let runner = runner(&sessions, outer.build().unwrap()).build().unwrap();
        let lines = run_lines(name, &runner).await;
        assert_eq!(
            lines[1], r#"outer: inner -> {"result":"Too much."}"#,
            "{name}"
        );
    }
}

#[tokio::test]
async fn oversized_parallel_branch_does_not_affect_the_others() {
    for (name, sessions) in small_services().await {
        let mut agents = ParallelAgent::builder("all");
        for (agent, bytes) in [("one", 10), ("two", 2 * EVENT_BYTES), ("three", 10)] {
            let model = ScriptedModel::new("m").reply(call("dump", "{}"));
            let agent = LlmAgent::builder(agent)
                .model(model.reply("Done."))
                .tool(returning_tool("dump", bytes));
            agents = agents.sub_agent(agent.build().unwrap());
        }
        let runner = runner(&sessions, agents.build().unwrap()).build().unwrap();
        let lines = run_lines(name, &runner).await;
        for agent in ["one", "two", "three"] {
            let line = format!("{agent}: Done.");
            assert!(lines.contains(&line), "{name}: {lines:?}");
        }
        let refused = lines.iter().filter(|line| line.contains("too large"));
        assert_eq!(refused.count(), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_model_or_agent_event_fails_the_run_with_the_limit() {
    for (name, sessions) in services().await {
        let words = || "x".repeat(50 * MIB);
        let model = ScriptedModel::new("m").reply(words()).reply("Shorter.");
        let agent = LlmAgent::builder("a").model(model).build().unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        let error = run.collect_events().await.unwrap_err();
        assert_eq!(
            failure(error),
            (LimitKind::Event, 16 * MIB as u64),
            "{name}"
        );
        let next = runner.run(USER, Some(SESSION), "Again?").await.unwrap();
        assert_eq!(next.answer().await.unwrap(), "Shorter.", "{name}");
        let session = stored(&sessions).await;
        assert_eq!(story(events_of(&session))[1], "a: [SessionError]", "{name}");
        let message = session
            .events
            .get(1)
            .and_then(|it| it.response.error_message.clone());
        let message = message.unwrap();
        let end = "exceeds the limit of 16777216 (see Limits)";
        assert!(message.ends_with(end), "{name}: {message}");
    }
    for (name, sessions) in small_services().await {
        let agent = LlmAgent::builder("a")
            .model(ScriptedModel::new("m").reply("Hello."))
            .before_agent(|_| async { Ok(Some(Content::model("x".repeat(2 * EVENT_BYTES)))) });
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        let error = run.collect_events().await.unwrap_err();
        assert_eq!(failure(error).0, LimitKind::Event, "{name}");
    }
}

/// A plugin that adds so much metadata to each tool answer that the event becomes too large.
#[derive(Debug)]
struct MetadataPlugin;

#[async_trait::async_trait]
impl Plugin for MetadataPlugin {
    fn name(&self) -> &str {
        "talkative"
    }

    async fn on_event(&self, _: &InvocationContext, event: &Event) -> HookResult<Event> {
        if event.function_responses().is_empty() {
            return Ok(None);
        }
        let mut event = event.clone();
        let note = JsonMap::from([("note", "x".repeat(2 * EVENT_BYTES))]);
        event.response.custom_metadata = Some(note);
        Ok(Some(event))
    }
}

#[tokio::test]
async fn event_that_stays_oversized_fails_the_run_and_releases_the_session() {
    for (name, sessions) in small_services().await {
        let tools = || {
            vec![
                returning_tool("dump", 2000),
                writing_tool("note", "noted", 3),
            ]
        };
        let agent = calling_agent(&[&["dump", "note"]], tools());
        let bad = runner(&sessions, agent)
            .plugin(Arc::new(MetadataPlugin))
            .build()
            .unwrap();
        let run = bad.run(USER, Some(SESSION), "Hi").await.unwrap();
        let error = run.collect_events().await.unwrap_err();
        assert_eq!(failure(error).0, LimitKind::Event, "{name}");
        let good = runner(&sessions, calling_agent(&[], tools()))
            .build()
            .unwrap();
        let run = good.run(USER, Some(SESSION), "Hi").await.unwrap();
        assert_eq!(run.answer().await.unwrap(), "Done.", "{name}");
        assert_eq!(stored(&sessions).await.state.get("noted"), None, "{name}");
    }
}

#[tokio::test]
async fn failing_call_next_to_an_oversized_one_keeps_the_other_results() {
    for (name, sessions) in small_services().await {
        let late = FunctionTool::untyped("fail", "", None, |_, _| async {
            tokio::task::yield_now().await;
            Err(ToolError::new("the printer is on fire"))
        });
        let tools = vec![
            returning_tool("dump", 2 * EVENT_BYTES),
            writing_tool("note", "noted", 3),
            late,
        ];
        let runner = runner(
            &sessions,
            calling_agent(&[&["dump", "note", "fail"]], tools),
        );
        let runner = runner.build().unwrap();
        let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        let error = run.collect_events().await.unwrap_err();
        assert!(matches!(error, RunError::Tool { .. }), "{name}: {error}");
        assert_eq!(stored(&sessions).await.state["noted"], "xxx", "{name}");
    }
}
