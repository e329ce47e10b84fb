//! The end of a run: it stores its last event and then releases the session.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use retain_core::{Content, Event, FunctionResponse, JsonMap, LlmResponse};
use retain_runtime::{
    Agent, FunctionTool, HookResult, InvocationContext, LlmAgent, Plugin, ReadMessage, RunConfig,
    RunError, RunRequest, Runner, ScriptedModel, ToolContext, ToolError,
};

use crate::support::{
    APP, LeaseClock, SESSION, USER, at_once, call, events_of, runner, services, stored, story,
};

fn answering_agent(text: &'static str) -> LlmAgent {
    let model = ScriptedModel::new("m").otherwise(move |_| text);
    LlmAgent::builder("a").model(model).build().unwrap()
}

/// Starts a run without waiting for the lease. Fails if the session is not free.
async fn assert_free(runner: &Runner, name: &str) {
    let next = runner.run_with(USER, Some(SESSION), at_once("next")).await;
    let next = next.unwrap_or_else(|error| panic!("{name}: {error}"));
    next.collect_events().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_after_the_final_answer_has_no_effect() {
    for (name, sessions) in services().await {
        let runner = runner(&sessions, answering_agent("Hello!"))
            .build()
            .unwrap();
        let mut run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        run.next().await.unwrap().unwrap();
        run.handle().cancel();
        assert!(run.next().await.is_none(), "{name}");
        let lines = story(events_of(&stored(&sessions).await));
        assert_eq!(lines, ["user: Hi", "a: Hello!"], "{name}");
        assert_free(&runner, name).await;
    }
}

/// An agent that wraps another one and emits one more event or fails.
#[derive(Debug)]
struct WrappingAgent {
    inner: LlmAgent,
    fails: bool,
}

#[async_trait::async_trait]
impl Agent for WrappingAgent {
    fn name(&self) -> &str {
        "a"
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
        self.inner.run(ctx).await?;
        if self.fails {
            return Err(RunError::Cancelled);
        }
        tokio::task::yield_now().await;
        ctx.emit(Event::model_text("a", "afterwards")).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn event_of_a_wrapping_agent_after_the_answer_stays_in_its_run() {
    for (name, sessions) in services().await {
        let inner = answering_agent("answer");
        let agent = WrappingAgent {
            inner,
            fails: false,
        };
        let runner = runner(&sessions, agent).build().unwrap();
        let runs = (0..8).map(|n| {
            let runner = runner.clone();
            tokio::spawn(async move {
                let run = runner
                    .run(USER, Some(SESSION), format!("q{n}"))
                    .await
                    .unwrap();
                run.collect_events().await.unwrap();
            })
        });
        for run in runs.collect::<Vec<_>>() {
            run.await.unwrap();
        }
        let session = stored(&sessions).await;
        for run in events_of(&session).chunks(3) {
            let lines = story(run);
            assert!(lines[0].starts_with("user: q"), "{name}: {lines:?}");
            assert_eq!(lines[1..], ["a: answer", "a: afterwards"], "{name}");
        }
        let inner = answering_agent("answer");
        let failing = WrappingAgent { inner, fails: true };
        let failing = crate::support::runner(&sessions, failing).build().unwrap();
        let run = failing.run(USER, Some(SESSION), "q").await.unwrap();
        run.collect_events().await.unwrap_err();
        assert_free(&runner, name).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn model_response_after_a_call_stays_in_its_run() {
    for (name, sessions) in services().await {
        let show = FunctionTool::new("show", "", |ctx: ToolContext, (): ()| async move {
            ctx.update_actions(|actions| actions.skip_summarization = Some(true));
            Ok::<_, ToolError>(serde_json::json!({"shown": true}))
        });
        let model = ScriptedModel::new("m").otherwise(|_| {
            let parts = vec![call("show", "{}").into()];
            let call = LlmResponse::from_content(Content::new("model", parts));
            vec![call, LlmResponse::from_content(Content::model("and this"))]
        });
        let agent = LlmAgent::builder("a")
            .model(model)
            .tool(show)
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let runs = (0..6).map(|n| {
            let runner = runner.clone();
            tokio::spawn(async move {
                let run = runner
                    .run(USER, Some(SESSION), format!("q{n}"))
                    .await
                    .unwrap();
                run.collect_events().await.unwrap().len()
            })
        });
        for run in runs.collect::<Vec<_>>() {
            assert_eq!(run.await.unwrap(), 3, "{name}");
        }
        for run in events_of(&stored(&sessions).await).chunks(4) {
            let lines = story(run);
            assert!(lines[0].starts_with("user: q"), "{name}: {lines:?}");
            assert_eq!(lines[3], "a: and this", "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_is_streamed_before_the_model_finishes() {
    let (_, sessions) = services().await.remove(0);
    #[derive(Debug)]
    struct LingeringModel;
    impl retain_runtime::Model for LingeringModel {
        fn name(&self) -> &str {
            "lingering"
        }

        fn generate(
            &self,
            _: Arc<retain_runtime::LlmRequest>,
            _: bool,
        ) -> retain_runtime::ModelStream {
            let parts = vec![call("nothing", "{}").into()];
            let call = LlmResponse::from_content(Content::new("model", parts));
            let calls = futures_util::stream::iter([Ok(call)]);
            Box::pin(calls.chain(futures_util::stream::pending()))
        }
    }
    let agent = LlmAgent::builder("a")
        .model(LingeringModel)
        .build()
        .unwrap();
    let runner = runner(&sessions, agent).build().unwrap();
    let mut run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
    let event = run.next().await.unwrap().unwrap();
    assert_eq!(event.function_calls().len(), 1);
}

/// A plugin that panics, fails, replaces events or starts a nested run, as configured.
#[derive(Debug, Default)]
struct FaultyPlugin {
    panics: bool,
    fails: bool,
    replaces: bool,
    runs_again: Option<Arc<std::sync::OnceLock<Runner>>>,
    seen: Arc<std::sync::Mutex<Vec<String>>>,
}

#[async_trait::async_trait]
impl Plugin for FaultyPlugin {
    fn name(&self) -> &str {
        "faulty"
    }

    async fn on_user_message(&self, ctx: &ReadMessage<'_>) -> HookResult<Content> {
        let temp = ctx.session.state.get("temp:secret").cloned();
        self.seen.lock().unwrap().push(format!("{temp:?}"));
        Ok(None)
    }

    async fn on_event(&self, _: &InvocationContext, _: &Event) -> HookResult<Event> {
        assert!(!self.panics, "a bug in the plugin");
        if self.fails {
            return Err("the event is rejected".into());
        }
        // The replacement has only content, so that the test sees which other fields are preserved.
        let other = LlmResponse::from_content(Content::model("replaced"));
        Ok(self.replaces.then(|| Event::new("", other)))
    }

    async fn after_run(&self, ctx: &InvocationContext) -> HookResult<()> {
        if let Some(runner) = self.runs_again.as_ref().and_then(|slot| slot.get()) {
            let again = RunRequest::new("again").with_run_options(ctx.run_options());
            let nested = runner.run_with(USER, Some(SESSION), again).await;
            self.seen
                .lock()
                .unwrap()
                .push(nested.unwrap_err().to_string());
        }
        Ok(None)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_plugin_is_reported_and_releases_the_session() {
    for (name, sessions) in services().await {
        for panics in [true, false] {
            let plugin = FaultyPlugin {
                panics,
                fails: !panics,
                ..FaultyPlugin::default()
            };
            let bad = runner(&sessions, answering_agent("Hello!"))
                .plugin(Arc::new(plugin))
                .build()
                .unwrap();
            let run = bad.run(USER, Some(SESSION), "Hi").await.unwrap();
            let error = run.collect_events().await.unwrap_err().to_string();
            assert!(
                error.starts_with("plugin faulty failed in on_event"),
                "{name}: {error}"
            );
            let lines = story(events_of(&stored(&sessions).await));
            assert_eq!(lines.last().unwrap(), "a: [RuntimeError]", "{name}");
            assert_free(
                &runner(&sessions, answering_agent("ok")).build().unwrap(),
                name,
            )
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_replaced_by_a_plugin_keeps_its_actions() {
    for (name, sessions) in services().await {
        let piece = LlmResponse {
            partial: Some(true),
            ..LlmResponse::from_content(Content::model("Hel"))
        };
        let reply = vec![piece, LlmResponse::from_content(Content::model("Hello!"))];
        let model = ScriptedModel::new("m").reply(reply);
        let agent = LlmAgent::builder("a")
            .model(model)
            .output_key("output")
            .build()
            .unwrap();
        let plugin = FaultyPlugin {
            replaces: true,
            ..FaultyPlugin::default()
        };
        let runner = runner(&sessions, agent)
            .plugin(Arc::new(plugin))
            .build()
            .unwrap();
        let request = RunRequest::new("Hi").with_config(RunConfig::streaming());
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        let events = run.collect_events().await.unwrap();
        assert_eq!(
            events.iter().map(Event::is_partial).collect::<Vec<_>>(),
            [true, false],
            "{name}"
        );
        let session = stored(&sessions).await;
        assert_eq!(
            story(events_of(&session)),
            ["user: Hi", "a: replaced"],
            "{name}"
        );
        assert_eq!(
            session.state["output"], "Hello!",
            "{name}: the state delta is preserved"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hook_cannot_start_a_nested_run_or_read_temp_state_of_another_run() {
    for (name, sessions) in services().await {
        let slot: Arc<std::sync::OnceLock<Runner>> = Arc::default();
        let plugin = FaultyPlugin {
            runs_again: Some(Arc::clone(&slot)),
            ..FaultyPlugin::default()
        };
        let seen = Arc::clone(&plugin.seen);
        let runner = runner(&sessions, answering_agent("Hello!"))
            .plugin(Arc::new(plugin))
            .build()
            .unwrap();
        slot.set(runner.clone()).unwrap();
        let request = RunRequest::new("Hi").with_state_delta([("temp:secret", "of run 1")].into());
        let run = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        run.collect_events().await.unwrap();
        let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        run.collect_events().await.unwrap();
        let seen = seen.lock().unwrap().clone();
        assert!(
            seen[1].contains("would wait for itself"),
            "{name}: {seen:?}"
        );
        assert_eq!(seen[2], "None", "{name}: `temp:` keys live for one run");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_is_the_last_text_before_events_without_content() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m").reply("Hello!").reply(LlmResponse {
            error_code: Some("SAFETY".into()),
            error_message: Some("blocked".into()),
            ..LlmResponse::default()
        });
        let agent = LlmAgent::builder("a")
            .model(model)
            .after_agent(|ctx| async move {
                ctx.state().set("greeted", true);
                Ok(None)
            });
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        assert_eq!(run.answer().await.unwrap(), "Hello!", "{name}");
        let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        run.handle().cancel();
        let cancelled = run.answer().await.unwrap_err();
        assert!(
            matches!(cancelled, RunError::Cancelled),
            "{name}: {cancelled}"
        );
    }
    let (_, sessions) = services().await.remove(0);
    let model = ScriptedModel::new("m").reply(LlmResponse {
        error_code: Some("SAFETY".into()),
        error_message: Some("blocked".into()),
        ..LlmResponse::default()
    });
    let agent = LlmAgent::builder("a").model(model).build().unwrap();
    let runner = runner(&sessions, agent).build().unwrap();
    let run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
    assert_eq!(
        run.answer().await.unwrap_err().to_string(),
        "model a failed: blocked"
    );
}

#[test]
fn blocking_run_stops_when_it_is_dropped() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (name, sessions) in runtime.block_on(services()) {
        let model = ScriptedModel::new("m").reply("first").reply("Here again.");
        let agent = LlmAgent::builder("a")
            .model(model)
            .before_model(|_, request| async move {
                if request.contents.len() == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(request.into())
            });
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        let mut run = runner.run_blocking(USER, Some(SESSION), "Hi").unwrap();
        assert!(run.invocation_id().starts_with("e-"), "{name}");
        assert_eq!(run.session_id(), SESSION, "{name}");
        let handle = run.handle();
        let caller = std::thread::spawn(move || run.next().is_some());
        handle.cancel();
        assert!(caller.join().unwrap(), "{name}: the aborted event");
        let run = runner.run_blocking(USER, Some(SESSION), "Again").unwrap();
        drop(run);
        let events: Vec<_> = runner
            .run_blocking(USER, Some(SESSION), "Still?")
            .unwrap()
            .collect();
        assert_eq!(events.len(), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_message_creates_no_session() {
    for (name, sessions) in services().await {
        let runner = runner(&sessions, answering_agent("Hello!"))
            .build()
            .unwrap();
        runner
            .run(USER, None, Content::default())
            .await
            .unwrap_err();
        let answer = FunctionResponse::new("c1", "f", JsonMap::default());
        let answer = Content::new("user", vec![answer.into()]);
        let refused = runner.run(USER, Some("new"), answer).await.unwrap_err();
        assert!(
            matches!(refused, RunError::InvalidMessage { .. }),
            "{name}: {refused}"
        );
        let listed = sessions.list_sessions(APP, Some(USER)).await.unwrap();
        assert!(listed.sessions.is_empty(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_is_not_renewed_after_the_idle_limit() {
    let clock = LeaseClock::default();
    let sessions = clock.in_memory();
    let hang = FunctionTool::new("hang", "", |_: ToolContext, (): ()| {
        std::future::pending::<Result<(), ToolError>>()
    });
    let model = ScriptedModel::new("m").otherwise(|_| call("hang", "{}"));
    let agent = LlmAgent::builder("a").model(model).tool(hang);
    let runner = runner(&sessions, agent.build().unwrap()).idle_limit(Duration::ZERO);
    let runner = runner.build().unwrap();
    // The caller of this run does not ask for the second event.
    let mut idle = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
    idle.next().await.unwrap().unwrap();
    // The caller of this run asks for every event, so its lease is renewed.
    let mut polled = runner.run(USER, Some("polled"), "Hi").await.unwrap();
    polled.next().await.unwrap().unwrap();
    tokio::select! {
        event = polled.next() => panic!("expected a tool that hangs, found {event:?}"),
        () = clock.outlive_ttl() => {}
    }
    let next = runner.run_with(USER, Some(SESSION), at_once("next"));
    drop(next.await.unwrap());
    drop(idle);
}

#[test]
fn lease_is_renewed_after_the_tokio_runtime_of_an_earlier_run_ends() {
    let clock = LeaseClock::default();
    let sessions = clock.in_memory();
    let agent = WrappingAgent {
        inner: answering_agent("answer"),
        fails: false,
    };
    let runner = runner(&sessions, agent).build().unwrap();
    let first = tokio::runtime::Runtime::new().unwrap();
    first.block_on(async {
        let run = runner.run(USER, Some("other"), "Hi").await.unwrap();
        run.collect_events().await.unwrap();
    });
    let second = tokio::runtime::Runtime::new().unwrap();
    let mut run = second
        .block_on(runner.run(USER, Some(SESSION), "Hi"))
        .unwrap();
    second.block_on(run.next()).unwrap().unwrap();
    drop(first);
    second.block_on(clock.outlive_ttl());
    let busy = second.block_on(runner.run_with(USER, Some(SESSION), at_once("me too")));
    assert!(busy.is_err(), "the session is still leased");
    second.block_on(run.collect_events()).unwrap();
}
