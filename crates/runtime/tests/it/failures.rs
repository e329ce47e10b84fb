//! A failure is reported to the caller and stored, and the session stays usable.

use std::sync::Arc;

use futures_util::StreamExt as _;
use retain_core::{Event, JsonMap, LlmResponse};
use retain_runtime::{
    Agent, FunctionTool, InvocationContext, LlmAgent, ModelError, RunConfig, RunError, RunRequest,
    Runner, ScriptedModel, ToolContext, ToolError,
};

use crate::support::{SESSION, USER, call, events_of, runner, services, stored, story};

/// Runs until the run fails. Returns the events before the failure, and the error.
async fn run_to_failure(runner: &Runner, message: &str) -> (Vec<Arc<Event>>, RunError) {
    let mut run = runner.run(USER, Some(SESSION), message).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        match event {
            Ok(event) => events.push(Arc::new(event)),
            Err(error) => {
                assert!(run.next().await.is_none(), "a failure is the last thing");
                return (events, error);
            }
        }
    }
    panic!("the run did not fail: {:?}", story(events));
}

fn failing_tool() -> FunctionTool {
    FunctionTool::new("fail", "Fails.", |_ctx: ToolContext, (): ()| async move {
        Err::<(), _>(ToolError::new("the printer is on fire").with_code("PRINTER"))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_failure_fails_the_run_and_is_stored() {
    for (name, sessions) in services().await {
        let error = ModelError::new("quota used up").with_code("RESOURCE_EXHAUSTED");
        let model = ScriptedModel::new("m").reply(error).reply("Better now.");
        let agent = LlmAgent::builder("a").model(model).build().unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let (events, error) = run_to_failure(&runner, "Hi").await;
        assert!(matches!(error, RunError::Model { .. }), "{name}: {error}");
        assert_eq!(error.to_string(), "model m failed: quota used up", "{name}");
        assert_eq!(story(&events), ["a: [RESOURCE_EXHAUSTED]"], "{name}");
        let next = runner.run(USER, Some(SESSION), "And now?").await.unwrap();
        assert_eq!(next.answer().await.unwrap(), "Better now.", "{name}");
        let lines = story(events_of(&stored(&sessions).await));
        assert_eq!(lines[1], "a: [RESOURCE_EXHAUSTED]", "{name}");
        assert_eq!(lines.len(), 4, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_tool_keeps_the_results_of_other_calls() {
    for (name, sessions) in services().await {
        let note = FunctionTool::new("note", "Notes.", |ctx: ToolContext, (): ()| async move {
            ctx.state().set("noted", true);
            Ok::<_, ToolError>(serde_json::json!({"ok": true}))
        });
        let late = FunctionTool::new(
            "fail_late",
            "Fails later.",
            |_: ToolContext, (): ()| async {
                tokio::task::yield_now().await;
                Err::<(), _>(ToolError::new("the printer is on fire").with_code("PRINTER"))
            },
        );
        let calls = vec![call("note", "{}"), call("fail_late", "{}")];
        let model = ScriptedModel::new("m").reply(calls);
        let agent = LlmAgent::builder("a")
            .model(model)
            .tool(note)
            .tool(late)
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let (events, error) = run_to_failure(&runner, "Hi").await;
        assert!(matches!(error, RunError::Tool { .. }), "{name}: {error}");
        let expected = [
            "a: note({}) + fail_late({})",
            r#"a: note -> {"ok":true}"#,
            "a: [PRINTER]",
        ];
        assert_eq!(story(&events), expected, "{name}");
        assert_eq!(stored(&sessions).await.state["noted"], true, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panicking_tool_fails_only_its_run() {
    for (name, sessions) in services().await {
        let tool = FunctionTool::new("boom", "Panics.", |_: ToolContext, (): ()| async {
            if true {
                panic!("no such luck");
            }
            Ok::<_, ToolError>(())
        });
        let model = ScriptedModel::new("m")
            .reply(call("boom", "{}"))
            .reply("Still here.");
        let agent = LlmAgent::builder("a")
            .model(model)
            .tool(tool)
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let (_, error) = run_to_failure(&runner, "Hi").await;
        assert_eq!(
            error.to_string(),
            "tool boom failed: panicked: no such luck",
            "{name}"
        );
        let next = runner.run(USER, Some(SESSION), "Alive?").await.unwrap();
        assert_eq!(next.answer().await.unwrap(), "Still here.", "{name}");
    }
}

/// An agent that fails as configured.
#[derive(Debug)]
struct FailingAgent(bool);

#[async_trait::async_trait]
impl Agent for FailingAgent {
    fn name(&self) -> &str {
        "broken"
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
        ctx.emit(Event::model_text("broken", "So far, so good."))
            .await?;
        assert!(!self.0, "it was bound to happen");
        Err(RunError::Agent {
            agent: "broken".into(),
            source: "out of ideas".into(),
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_or_panicking_agent_releases_the_session() {
    for (name, sessions) in services().await {
        for panics in [false, true] {
            let runner = runner(&sessions, FailingAgent(panics)).build().unwrap();
            let (events, error) = run_to_failure(&runner, "Hi").await;
            let why = if panics {
                "it was bound to happen"
            } else {
                "out of ideas"
            };
            assert!(error.to_string().contains(why), "{name}: {error}");
            let expected = ["broken: So far, so good.", "broken: [AgentError]"];
            assert_eq!(story(&events), expected, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_call_loop_ends_at_the_limit() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m").otherwise(|_| call("nothing", "{}"));
        let tool = FunctionTool::untyped("nothing", "", None, |_, _| async {
            Ok(JsonMap::default().into())
        });
        let agent = LlmAgent::builder("a")
            .model(model)
            .tool(tool)
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let config = RunConfig::default().with_max_llm_calls(Some(3));
        let request = RunRequest::new("Hi").with_config(config);
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        let error = run.collect_events().await.unwrap_err();
        assert!(
            matches!(error, RunError::LlmCallsLimitExceeded { limit: 3 }),
            "{name}: {error}"
        );
        let lines = story(events_of(&stored(&sessions).await));
        assert_eq!(lines.len(), 1 + 3 * 2 + 1, "{name}: {lines:?}");
        assert_eq!(lines[7], "a: [LlmCallsLimitExceededError]", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_tool_is_reported_to_the_model() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m")
            .reply(call("fly", "{}"))
            .reply("I cannot fly.");
        let agent = LlmAgent::builder("a")
            .model(model)
            .tool(failing_tool())
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "Fly!").await.unwrap();
        let events: Vec<_> = run.collect_events().await.unwrap();
        let lines = story(events.into_iter().map(Arc::new));
        assert!(
            lines[1].contains("The tools you can call are: fail."),
            "{name}: {lines:?}"
        );
        assert_eq!(lines[2], "a: I cannot fly.", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn template_with_a_missing_state_key_names_the_key() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m").reply("never");
        let agent = LlmAgent::builder("a")
            .model(model)
            .instruction("Hello {nobody}!");
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        let (events, error) = run_to_failure(&runner, "Hi").await;
        assert!(error.to_string().contains("nobody"), "{name}: {error}");
        assert_eq!(story(&events), ["a: [KeyError]"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn response_with_an_error_code_does_not_fail_the_run() {
    for (name, sessions) in services().await {
        let response = LlmResponse {
            error_code: Some("SAFETY".into()),
            error_message: Some("blocked".into()),
            ..LlmResponse::default()
        };
        let model = ScriptedModel::new("m").reply(response);
        let agent = LlmAgent::builder("a").model(model).build().unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        let events = run.collect_events().await.unwrap();
        assert_eq!(
            story(events.into_iter().map(Arc::new)),
            ["a: [SAFETY]"],
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_arguments_are_reported_to_the_model() {
    #[derive(schemars::JsonSchema, serde::Deserialize)]
    struct Number {
        #[allow(dead_code)]
        n: i64,
    }
    for (name, sessions) in services().await {
        let tool = FunctionTool::new("square", "", |_: ToolContext, n: Number| async move {
            Ok::<_, ToolError>(n.n * n.n)
        });
        let model = ScriptedModel::new("m")
            .reply(call("square", r#"{"n": "three"}"#))
            .reply(call("square", r#"{"n": 3}"#))
            .reply("Nine.");
        let agent = LlmAgent::builder("a")
            .model(model)
            .tool(tool)
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let run = runner
            .run(USER, Some(SESSION), "Three squared?")
            .await
            .unwrap();
        let events = run.collect_events().await.unwrap();
        let lines = story(events.into_iter().map(Arc::new));
        assert!(
            lines[1].contains("argument validation errors"),
            "{name}: {lines:?}"
        );
        assert_eq!(lines[3], r#"a: square -> {"result":9}"#, "{name}");
    }
}
