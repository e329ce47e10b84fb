//! Interrupted runs: cancelled by handle, by dropping the stream, or by a crash.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use retain_core::{Append, Event, FunctionCall, LlmResponse, SessionKey};
use retain_runtime::{FunctionTool, LlmAgent, ScriptedModel, ToolContext, ToolError};
use tokio::sync::Notify;

use crate::support::{
    LeaseClock, SESSION, USER, at_once, call, events_of, runner, services, stored, story,
};

/// Records that it was dropped.
struct DropRecorder(Arc<AtomicBool>);

impl Drop for DropRecorder {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What the tests observe about a hanging tool.
#[derive(Default)]
struct HangObservations {
    started: Notify,
    dropped: Arc<AtomicBool>,
    after_agent: AtomicBool,
}

/// Creates a tool that hangs forever.
fn hanging_tool(seen: &Arc<HangObservations>) -> FunctionTool {
    let seen = Arc::clone(seen);
    FunctionTool::new("hang", "Hangs.", move |_ctx: ToolContext, (): ()| {
        let guard = DropRecorder(Arc::clone(&seen.dropped));
        let seen = Arc::clone(&seen);
        async move {
            let _guard = guard;
            seen.started.notify_one();
            std::future::pending::<()>().await;
            Ok::<_, ToolError>(())
        }
    })
}

fn hanging_agent(seen: &Arc<HangObservations>) -> LlmAgent {
    let after = Arc::clone(seen);
    let model = ScriptedModel::new("m")
        .reply(call("hang", "{}"))
        .reply("Here again.");
    LlmAgent::builder("a")
        .model(model)
        .tool(hanging_tool(seen))
        .after_agent(move |_ctx| {
            after.after_agent.store(true, Ordering::SeqCst);
            async { Ok(None) }
        })
        .build()
        .unwrap()
}

/// The log of a run that was cancelled during a call of a hanging tool.
const SEALED: [&str; 3] = [
    "user: go",
    "a: hang({})",
    r#"a: hang -> {"error":"Invocation was aborted by client."} + [INVOCATION_ABORTED]"#,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_run_ends_with_an_aborted_event() {
    for (name, sessions) in services().await {
        let seen = Arc::<HangObservations>::default();
        let agent = hanging_agent(&seen);
        let runner = runner(&sessions, agent).build().unwrap();
        let mut run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let handle = run.handle();
        let mut streamed = vec![Arc::new(run.next().await.unwrap().unwrap())];
        let started = Arc::clone(&seen);
        tokio::spawn(async move {
            started.started.notified().await;
            handle.cancel();
        });
        while let Some(event) = run.next().await {
            streamed.push(Arc::new(event.unwrap()));
        }
        assert_eq!(story(streamed), SEALED[1..], "{name}");
        assert_eq!(story(events_of(&stored(&sessions).await)), SEALED, "{name}");
        assert!(
            seen.dropped.load(Ordering::SeqCst),
            "{name}: the tool is dropped"
        );
        assert!(
            seen.after_agent.load(Ordering::SeqCst),
            "{name}: the after-agent callback runs"
        );
        let next = runner.run(USER, Some(SESSION), "and now?").await.unwrap();
        assert_eq!(next.answer().await.unwrap(), "Here again.", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_stream_ends_its_run_and_releases_the_session() {
    for (name, sessions) in services().await {
        let seen = Arc::<HangObservations>::default();
        let agent = hanging_agent(&seen);
        let runner = runner(&sessions, agent).build().unwrap();
        let mut run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        run.next().await.unwrap().unwrap();
        tokio::select! {
            biased;
            event = run.next() => panic!("expected a tool that hangs, found {event:?}"),
            () = seen.started.notified() => {}
        }
        drop(run);
        let next = runner.run(USER, Some(SESSION), "and now?").await.unwrap();
        assert_eq!(next.answer().await.unwrap(), "Here again.", "{name}");
        let log = story(events_of(&stored(&sessions).await));
        assert_eq!(log[..3], SEALED, "{name}");
        assert_eq!(log[3..], ["user: and now?", "a: Here again."], "{name}");
        assert!(seen.dropped.load(Ordering::SeqCst), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_dropped_after_the_answer_keeps_the_whole_run() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m").otherwise(|_| "Hello!");
        // The `after_agent` callback keeps the run open after its answer.
        let agent = LlmAgent::builder("a")
            .model(model)
            .after_agent(|_| async { Ok(None) });
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        for _ in 0..2 {
            let mut run = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
            run.next().await.unwrap().unwrap();
            drop(run);
        }
        let last = runner.run(USER, Some(SESSION), "Hi").await.unwrap();
        last.answer().await.unwrap();
        let log = story(events_of(&stored(&sessions).await));
        assert_eq!(log, ["user: Hi", "a: Hello!"].repeat(3), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_cancelled_before_the_first_event_ends_with_an_aborted_event() {
    for (name, sessions) in services().await {
        let model = ScriptedModel::new("m").reply("first").reply("second");
        let agent = LlmAgent::builder("a")
            .model(model)
            .before_model(|_ctx, request| async move {
                if request.contents.len() == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(request.into())
            });
        let runner = runner(&sessions, agent.build().unwrap()).build().unwrap();
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        run.handle().cancel();
        let events = run.collect_events().await.unwrap();
        let events: Vec<_> = events.into_iter().map(Arc::new).collect();
        assert_eq!(story(events), ["a: [INVOCATION_ABORTED]"], "{name}");
        let next = runner.run(USER, Some(SESSION), "again").await.unwrap();
        assert_eq!(next.answer().await.unwrap(), "first", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_dropped_while_queued_does_not_block_the_next_run() {
    let clock = LeaseClock::default();
    for (name, sessions) in clock.services().await {
        let seen = Arc::<HangObservations>::default();
        let agent = hanging_agent(&seen);
        let runner = runner(&sessions, agent).build().unwrap();
        let mut first = runner.run(USER, Some(SESSION), "go").await.unwrap();
        first.next().await.unwrap().unwrap();
        let queued = runner.run(USER, Some(SESSION), "me too");
        clock.poll_until_refused(queued).await;
        first.handle().cancel();
        first.collect_events().await.unwrap();
        let next = runner.run(USER, Some(SESSION), "and now?").await.unwrap();
        assert_eq!(next.answer().await.unwrap(), "Here again.", "{name}");
        let log = story(events_of(&stored(&sessions).await));
        assert_eq!(log[3..], ["user: and now?", "a: Here again."], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_after_a_killed_process_waits_for_the_lease_and_continues() {
    let clock = LeaseClock::default();
    for (name, sessions) in clock.services().await {
        // A killed process leaves a message, a pending call, and a lease that is never
        // released.
        sessions
            .create_session("app", USER, None, Some(SESSION))
            .await
            .unwrap();
        let key = SessionKey::new("app", USER, SESSION);
        let log = Arc::clone(&sessions).log().unwrap();
        let mut message = Event::user_text("book it");
        message.invocation_id = "e-killed".into();
        let append = Append::from(message).beginning_run(Default::default());
        let token = log.append(&key, append).await.unwrap().run.unwrap();
        let book = FunctionCall {
            id: Some("adk-1".into()),
            ..call("book", "{}")
        };
        let content = retain_core::Content::new("model", vec![book.into()]);
        let mut call = Event::new("a", LlmResponse::from_content(content));
        call.invocation_id = "e-killed".into();
        let append = Append::from(call).within_run(token);
        log.append(&key, append).await.unwrap();
        let model = Arc::new(ScriptedModel::new("m").reply("Was it booked? I do not know."));
        let agent = LlmAgent::builder("a")
            .model(Arc::clone(&model))
            .build()
            .unwrap();
        let runner = runner(&sessions, agent).build().unwrap();
        let mut next = pin!(runner.run(USER, Some(SESSION), "and?"));
        clock.poll_until_refused(next.as_mut()).await;
        clock.pass_ttl();
        let next = next.await.unwrap();
        assert_eq!(
            next.answer().await.unwrap(),
            "Was it booked? I do not know.",
            "{name}"
        );
        let request = &model.requests()[0];
        let texts: Vec<_> = request
            .contents
            .iter()
            .map(|content| content.text_concat())
            .collect();
        assert_eq!(
            texts,
            ["book it", "and?"],
            "{name}: the pending call is not sent"
        );
        assert_eq!(
            stored(&sessions).await.events.len(),
            4,
            "{name}: nothing is deleted"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_is_renewed_while_the_caller_does_not_poll() {
    let clock = LeaseClock::default();
    let sessions = clock.in_memory();
    let model = ScriptedModel::new("m")
        .reply(call("nothing", "{}"))
        .reply("done");
    let tool = FunctionTool::new("nothing", "", |_: ToolContext, (): ()| async {
        Ok::<_, ToolError>(serde_json::json!({}))
    });
    let agent = LlmAgent::builder("a")
        .model(model)
        .tool(tool)
        .build()
        .unwrap();
    let runner = runner(&sessions, agent).build().unwrap();
    let mut run = runner.run(USER, Some(SESSION), "go").await.unwrap();
    run.next().await.unwrap().unwrap();
    clock.outlive_ttl().await;
    let other = runner.run_with(USER, Some(SESSION), at_once("me too"));
    assert!(other.await.is_err(), "the session is still leased");
    run.collect_events().await.unwrap();
    let other = runner.run_with(USER, Some(SESSION), at_once("me too"));
    drop(other.await.unwrap());
}

/// A plugin that hangs at each event and after the agent and the run.
#[derive(Debug)]
struct HangingPlugin;

#[async_trait::async_trait]
impl retain_runtime::Plugin for HangingPlugin {
    fn name(&self) -> &str {
        "hanging"
    }

    async fn on_event(
        &self,
        _: &retain_runtime::InvocationContext,
        _: &Event,
    ) -> retain_runtime::HookResult<Event> {
        std::future::pending().await
    }

    async fn after_agent(
        &self,
        _: &retain_runtime::CallbackContext,
    ) -> retain_runtime::HookResult<retain_core::Content> {
        std::future::pending().await
    }

    async fn after_run(
        &self,
        _: &retain_runtime::InvocationContext,
    ) -> retain_runtime::HookResult<()> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_releases_the_session_while_a_plugin_hangs() {
    let sessions: Arc<dyn retain_core::SessionService> =
        Arc::new(retain_stores::InMemorySessionService::new());
    let model = || ScriptedModel::new("m").otherwise(|_| "Hello!");
    let agent = LlmAgent::builder("a").model(model()).build().unwrap();
    let stuck = runner(&sessions, agent)
        .plugin(Arc::new(HangingPlugin))
        .build()
        .unwrap();
    let run = stuck.run(USER, Some(SESSION), "Hi").await.unwrap();
    let handle = run.handle();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.cancel();
    });
    let events = run.collect_events().await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(
        events[0].response.error_code.as_deref(),
        Some("INVOCATION_ABORTED")
    );
    let agent = LlmAgent::builder("a").model(model()).build().unwrap();
    let free = runner(&sessions, agent).build().unwrap();
    let next = free.run(USER, Some(SESSION), "And now?").await.unwrap();
    assert_eq!(next.answer().await.unwrap(), "Hello!");
}
