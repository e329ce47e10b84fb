//! Callbacks and plugins: when each hook runs, and what its answer does.

use std::sync::{Arc, Mutex};

use retain_core::{Content, Event, Json, JsonMap, LlmResponse};
use retain_memory::InMemoryMemoryService;
use retain_runtime::{
    BeforeTool, CallbackContext, FunctionTool, HookResult, InvocationContext, LlmAgent, LlmRequest,
    ModelError, Plugin, ReadMessage, RunError, ScriptedModel, Tool, ToolContext, ToolError,
};

use crate::support::{SESSION, USER, call, events_of, runner, services, stored, story};

/// The hooks that ran, in order, as `plugin.hook` or `agent.hook`.
type HookLog = Arc<Mutex<Vec<String>>>;

/// A plugin that records each hook. It answers at the hook `answers_at`, or fails there if the name
/// ends with `!`.
#[derive(Debug)]
struct Observer {
    name: &'static str,
    hooks: HookLog,
    answers_at: &'static str,
}

impl Observer {
    fn new(name: &'static str, hooks: &HookLog, answers_at: &'static str) -> Observer {
        Observer {
            name,
            hooks: Arc::clone(hooks),
            answers_at,
        }
    }

    fn note<T>(&self, hook: &str, answer: T) -> HookResult<T> {
        self.hooks
            .lock()
            .unwrap()
            .push(format!("{}.{hook}", self.name));
        if self.answers_at == format!("{hook}!") {
            return Err("broken".into());
        }
        Ok((self.answers_at == hook).then_some(answer))
    }
}

fn answer(text: &str) -> Content {
    Content::model(text)
}

#[async_trait::async_trait]
impl Plugin for Observer {
    fn name(&self) -> &str {
        self.name
    }

    async fn on_user_message(&self, _: &ReadMessage<'_>) -> HookResult<Content> {
        self.note("on_user_message", Content::user("replaced message"))
    }

    async fn before_run(&self, _: &InvocationContext) -> HookResult<Content> {
        self.note("before_run", answer("no run"))
    }

    async fn on_event(&self, _: &InvocationContext, event: &Event) -> HookResult<Event> {
        let mut replaced = event.clone();
        replaced.id = "mine".into();
        replaced.response.custom_metadata = Some([("seen", true)].into());
        self.note("on_event", replaced)
    }

    async fn after_run(&self, _: &InvocationContext) -> HookResult<()> {
        self.note("after_run", ())
    }

    async fn before_agent(&self, _: &CallbackContext) -> HookResult<Content> {
        self.note("before_agent", answer("no agent"))
    }

    async fn after_agent(&self, _: &CallbackContext) -> HookResult<Content> {
        self.note("after_agent", answer("after agent"))
    }

    async fn before_model(
        &self,
        _: &CallbackContext,
        _: &mut LlmRequest,
    ) -> HookResult<LlmResponse> {
        self.note(
            "before_model",
            LlmResponse::from_content(answer("no model")),
        )
    }

    async fn after_model(&self, _: &CallbackContext, _: &LlmResponse) -> HookResult<LlmResponse> {
        self.note(
            "after_model",
            LlmResponse::from_content(answer("other answer")),
        )
    }

    async fn on_model_error(
        &self,
        _: &CallbackContext,
        _: &LlmRequest,
        _: &ModelError,
    ) -> HookResult<LlmResponse> {
        self.note(
            "on_model_error",
            LlmResponse::from_content(answer("model repaired")),
        )
    }

    async fn before_tool(
        &self,
        _: &ToolContext,
        _: &dyn Tool,
        _: &mut JsonMap,
    ) -> HookResult<Json> {
        self.note("before_tool", JsonMap::from([("tool", "skipped")]).into())
    }

    async fn after_tool(
        &self,
        _: &ToolContext,
        _: &dyn Tool,
        _: &JsonMap,
        _: &Json,
    ) -> HookResult<Json> {
        self.note("after_tool", JsonMap::from([("tool", "changed")]).into())
    }

    async fn on_tool_error(
        &self,
        _: &ToolContext,
        _: &dyn Tool,
        _: &JsonMap,
        _: &ToolError,
    ) -> HookResult<Json> {
        self.note(
            "on_tool_error",
            JsonMap::from([("tool", "repaired")]).into(),
        )
    }

    async fn on_run_error(
        &self,
        _: &InvocationContext,
        _: &RunError,
    ) -> Result<(), retain_core::BoxError> {
        self.note("on_run_error", ()).map(|_| ())
    }

    async fn on_agent_error(
        &self,
        _: &CallbackContext,
        _: &RunError,
    ) -> Result<(), retain_core::BoxError> {
        self.note("on_agent_error", ()).map(|_| ())
    }
}

/// Creates an agent that calls a tool, with callbacks that record when they run.
fn observed_agent(hooks: &HookLog, tool_fails: bool) -> LlmAgent {
    let note = |what: &'static str| {
        let hooks = Arc::clone(hooks);
        move || hooks.lock().unwrap().push(format!("agent.{what}"))
    };
    let (before_agent, after_agent) = (note("before_agent"), note("after_agent"));
    let (before_model, after_model) = (note("before_model"), note("after_model"));
    let (before_tool, after_tool) = (note("before_tool"), note("after_tool"));
    let on_tool_error = note("on_tool_error");
    let tool = FunctionTool::untyped("work", "", None, move |_, _| async move {
        match tool_fails {
            true => Err(ToolError::new("no")),
            false => Ok(Json::from(JsonMap::from([("done", true)])).into()),
        }
    });
    LlmAgent::builder("a")
        .model(
            ScriptedModel::new("m")
                .reply(call("work", "{}"))
                .reply("Done."),
        )
        .tool(tool)
        .before_agent(move |_| {
            before_agent();
            async { Ok(None) }
        })
        .after_agent(move |_| {
            after_agent();
            async { Ok(None) }
        })
        .before_model(move |_, request| {
            before_model();
            async { Ok(request.into()) }
        })
        .after_model(move |_, _| {
            after_model();
            async { Ok(None) }
        })
        .before_tool(move |_, call| {
            before_tool();
            async { Ok(BeforeTool::Call(call.args)) }
        })
        .after_tool(move |_, _| {
            after_tool();
            async { Ok(None) }
        })
        .on_tool_error(move |_, _, _| {
            on_tool_error();
            async { Ok(None) }
        })
        .build()
        .unwrap()
}

/// Runs with two plugins. Returns the recorded calls, the events and the error.
async fn run_observed(
    answers_at: &'static str,
    tool_fails: bool,
) -> (Vec<String>, Vec<String>, Option<String>) {
    let (_, sessions) = services().await.remove(0);
    let hooks = HookLog::default();
    let runner = runner(&sessions, observed_agent(&hooks, tool_fails))
        .plugin(Arc::new(Observer::new("p1", &hooks, answers_at)))
        .plugin(Arc::new(Observer::new("p2", &hooks, "")));
    let runner = runner.build().unwrap();
    let failed = match runner.run(USER, Some(SESSION), "Hi").await {
        Ok(run) => run.collect_events().await.err(),
        Err(error) => Some(error),
    };
    let story = match sessions
        .get_session("app", USER, SESSION, Default::default())
        .await
    {
        Ok(Some(session)) => story(events_of(&session)),
        _ => Vec::new(),
    };
    let hooks = hooks.lock().unwrap().clone();
    (hooks, story, failed.map(|error| error.to_string()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_run_in_adks_order_with_plugins_first() {
    let (hooks, story, failed) = run_observed("", false).await;
    assert_eq!(failed, None);
    let p = |hook: &str| vec![format!("p1.{hook}"), format!("p2.{hook}")];
    let pa = |hook: &str| [p(hook), vec![format!("agent.{hook}")]].concat();
    let expected = [
        p("on_user_message"),
        p("before_run"),
        pa("before_agent"),
        pa("before_model"),
        pa("after_model"),
        p("on_event"),
        pa("before_tool"),
        pa("after_tool"),
        p("on_event"),
        pa("before_model"),
        pa("after_model"),
        p("on_event"),
        pa("after_agent"),
        p("after_run"),
    ];
    assert_eq!(hooks, expected.concat());
    assert_eq!(story.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_hook_that_answers_skips_the_remaining_hooks() {
    let cases = [
        ("before_run", vec!["user: Hi", "model: no run"]),
        ("before_agent", vec!["user: Hi", "a: no agent"]),
        ("before_model", vec!["user: Hi", "a: no model"]),
        ("after_model", vec!["user: Hi", "a: other answer"]),
        (
            "before_tool",
            vec![
                "user: Hi",
                "a: work({})",
                r#"a: work -> {"tool":"skipped"}"#,
                "a: Done.",
            ],
        ),
        (
            "after_tool",
            vec![
                "user: Hi",
                "a: work({})",
                r#"a: work -> {"tool":"changed"}"#,
                "a: Done.",
            ],
        ),
        (
            "after_agent",
            vec![
                "user: Hi",
                "a: work({})",
                r#"a: work -> {"done":true}"#,
                "a: Done.",
                "a: after agent",
            ],
        ),
    ];
    for (hook, expected) in cases {
        let (hooks, story, failed) = run_observed(hook, false).await;
        assert_eq!(failed, None, "{hook}");
        let expected: Vec<_> = expected.iter().map(|line| line.to_string()).collect();
        assert_eq!(story, expected, "{hook}");
        assert!(hooks.contains(&format!("p1.{hook}")), "{hook}");
        assert!(!hooks.contains(&format!("p2.{hook}")), "{hook}: {hooks:?}");
        assert!(
            !hooks.contains(&format!("agent.{hook}")),
            "{hook}: {hooks:?}"
        );
    }
    let (_, story, _) = run_observed("on_user_message", false).await;
    assert_eq!(story[0], "user: replaced message");
    let (_, story, failed) = run_observed("on_tool_error", true).await;
    assert_eq!(failed, None);
    assert_eq!(story[2], r#"a: work -> {"tool":"repaired"}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_plugin_fails_the_run_and_is_named() {
    for hook in [
        "on_user_message!",
        "before_run!",
        "before_model!",
        "on_event!",
        "after_run!",
    ] {
        let (hooks, _, failed) = run_observed(hook, false).await;
        let hook = hook.trim_end_matches('!');
        let failed = failed.unwrap_or_default();
        assert_eq!(failed, format!("plugin p1 failed in {hook}: broken"));
        let is_notified = hooks.contains(&"p2.on_run_error".to_owned());
        assert_eq!(is_notified, hook != "on_user_message", "{hook}: {hooks:?}");
    }
    let (hooks, _, failed) = run_observed("", true).await;
    assert_eq!(failed.as_deref(), Some("tool work failed: no"));
    assert!(hooks.contains(&"p2.on_agent_error".to_owned()), "{hooks:?}");
    assert!(
        hooks.contains(&"agent.on_tool_error".to_owned()),
        "{hooks:?}"
    );
    assert!(!hooks.contains(&"p1.after_run".to_owned()), "{hooks:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugin_changes_an_event_but_not_its_id() {
    let (_, sessions) = services().await.remove(0);
    let hooks = HookLog::default();
    let runner = runner(&sessions, observed_agent(&hooks, false));
    let runner = runner
        .plugin(Arc::new(Observer::new("p1", &hooks, "on_event")))
        .build()
        .unwrap();
    let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
    let streamed = run.collect_events().await.unwrap();
    for event in &streamed {
        assert_ne!(event.id, "mine");
        assert_eq!(
            event.response.custom_metadata,
            Some([("seen", true)].into())
        );
    }
    let session = stored(&sessions).await;
    assert!(
        session.events.iter().skip(1).eq(streamed.iter()),
        "the streamed events are the stored ones"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callback_state_writes_are_stored_with_their_event() {
    for (name, sessions) in services().await {
        let agent = LlmAgent::builder("a")
            .model(ScriptedModel::new("m").reply("Hello!"))
            .before_agent(|ctx| async move {
                ctx.state().set("before", 1);
                Ok(None)
            })
            .before_model(|ctx, request| async move {
                ctx.state().set("model", 2);
                Ok(request.into())
            })
            .after_agent(|ctx| async move {
                ctx.state().set("user:after", 3);
                Ok(None)
            })
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        runner
            .run(USER, Some(SESSION), "Hi")
            .await
            .unwrap()
            .answer()
            .await
            .unwrap();
        let session = stored(&sessions).await;
        let deltas = session.events.iter().map(|event| {
            let keys: Vec<_> = event.actions.state_delta.keys().collect();
            keys.join(",")
        });
        assert_eq!(
            deltas.collect::<Vec<_>>(),
            ["", "before", "model", "user:after"],
            "{name}"
        );
        assert_eq!(session.state["user:after"], 3, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callback_ingests_into_memory_or_gets_a_clear_error() {
    let (_, sessions) = services().await.remove(0);
    let with = |memory: bool| {
        let agent = LlmAgent::builder("a")
            .model(ScriptedModel::new("m").otherwise(|_| "Noted."))
            .after_agent(|ctx| async move {
                ctx.add_session_to_memory().await?;
                Ok(None)
            });
        let runner = runner(&sessions, agent.build().unwrap());
        match memory {
            true => runner.memory_service(Arc::new(InMemoryMemoryService::new())),
            false => runner,
        }
    };
    let runner = with(true).build().unwrap();
    let run = runner
        .run(USER, Some(SESSION), "I like tea.")
        .await
        .unwrap();
    run.answer().await.unwrap();
    let memory = runner.memory_service().unwrap();
    let found = memory.search_memory("app", USER, "tea").await.unwrap();
    assert_eq!(found.memories[0].content.text_concat(), "I like tea.");
    let runner = with(false).build().unwrap();
    let run = runner
        .run(USER, Some(SESSION), "I like tea.")
        .await
        .unwrap();
    let error = run.collect_events().await.unwrap_err().to_string();
    assert!(error.contains("no memory service"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_model_error_answer_is_passed_to_after_model() {
    for (name, sessions) in services().await {
        let agent = LlmAgent::builder("a")
            .model(ScriptedModel::new("m").reply(ModelError::new("down")))
            .on_model_error(|_ctx, request, error| async move {
                let text = format!("{} is {error}", request.model);
                Ok(Some(LlmResponse::from_content(answer(&text))))
            })
            .after_model(|_ctx, response| async move {
                let text = response.content.map(|content| content.text_concat());
                let text = format!("{}!", text.unwrap_or_default());
                Ok(Some(LlmResponse::from_content(answer(&text))))
            })
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        assert_eq!(run.answer().await.unwrap(), "m is down!", "{name}");
    }
}
