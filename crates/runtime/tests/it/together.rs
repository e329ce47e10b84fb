//! Concurrent runs of one session: each stores all its events, and runs do not interleave.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use futures_util::future::join_all;
use retain_core::{RunOptions, SessionError};
use retain_runtime::{
    FunctionTool, LlmAgent, LlmRequest, RunConfig, RunError, RunRequest, Runner, ScriptedModel,
    ToolContext, ToolError,
};

use crate::support::{APP, LeaseClock, SESSION, USER, call, events_of, services, stored};

/// Creates an agent that increments a counter with a tool and then answers. The tool yields 0 to 2
/// times.
fn counter(jitter: Arc<AtomicU32>) -> LlmAgent {
    let count = FunctionTool::new("count", "Counts.", move |ctx: ToolContext, (): ()| {
        let pause = jitter.fetch_add(1, Ordering::Relaxed) % 3;
        async move {
            for _ in 0..pause {
                tokio::task::yield_now().await;
            }
            ctx.state().update("turns", |turns| {
                *turns = (turns.as_i64().unwrap_or(0) + 1).into();
            });
            Ok::<_, ToolError>(serde_json::json!({"ok": true}))
        }
    });
    let model = ScriptedModel::new("m").otherwise(|request: &LlmRequest| {
        let last = request.contents.last();
        let counted = last.is_some_and(|last| last.function_responses().next().is_some());
        match counted {
            true => retain_runtime::ScriptedReply::from("counted"),
            false => call("count", "{}").into(),
        }
    });
    LlmAgent::builder("counter")
        .model(model)
        .tool(count)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_runs_do_not_interleave() {
    for (name, sessions) in services().await {
        let runner = Runner::builder()
            .app_name(APP)
            .agent(counter(Arc::default()))
            .session_service(Arc::clone(&sessions))
            .auto_create_session(true)
            .build()
            .unwrap();
        let runs = (0..64).map(|number| {
            let runner = runner.clone();
            tokio::spawn(async move {
                let message = format!("run {number}");
                let run = runner.run(USER, Some(SESSION), message).await.unwrap();
                run.collect_events().await.unwrap().len()
            })
        });
        for run in runs.collect::<Vec<_>>() {
            assert_eq!(run.await.unwrap(), 3, "{name}");
        }
        let session = stored(&sessions).await;
        let events = events_of(&session);
        assert_eq!(events.len(), 64 * 4, "{name}: no event is lost");
        let mut seen = Vec::new();
        for run in events.chunks(4) {
            let id = &run[0].invocation_id;
            assert!(
                run.iter().all(|event| event.invocation_id == *id),
                "{name}: runs interleave"
            );
            let authors: Vec<_> = run.iter().map(|event| event.author.as_str()).collect();
            assert_eq!(authors, ["user", "counter", "counter", "counter"], "{name}");
            assert!(run[3].is_final_response(), "{name}");
            assert!(!seen.contains(id), "{name}");
            seen.push(id.clone());
        }
        assert_eq!(
            session.state["turns"], 64,
            "{name}: each run sees the state of the run before"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_with_a_zero_wait_is_rejected_while_the_session_is_busy() {
    for (name, sessions) in services().await {
        let agent = counter(Arc::default());
        let runner = crate::support::runner(&sessions, agent).build().unwrap();
        let first = runner.run(USER, Some(SESSION), "first").await.unwrap();
        let config = RunConfig::default()
            .with_run_options(RunOptions::default().with_wait(std::time::Duration::ZERO));
        let request = RunRequest::new("second").with_config(config);
        let refused = runner
            .run_with(USER, Some(SESSION), request.clone())
            .await
            .unwrap_err();
        let busy = matches!(refused, RunError::Session(SessionError::RunBusy { .. }));
        assert!(busy, "{name}: {refused}");
        first.collect_events().await.unwrap();
        let second = runner.run_with(USER, Some(SESSION), request).await.unwrap();
        second.collect_events().await.unwrap();
        assert_eq!(stored(&sessions).await.events.len(), 8, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_queued_request_stores_nothing() {
    let clock = LeaseClock::default();
    for (name, sessions) in clock.services().await {
        let agent = counter(Arc::default());
        let runner = crate::support::runner(&sessions, agent).build().unwrap();
        let first = runner.run(USER, Some(SESSION), "first").await.unwrap();
        // The first of them waits for the store's lease; the others queue behind it.
        let cancelled = (0..3).map(|number| {
            let message = format!("cancelled {number}");
            runner.run(USER, Some(SESSION), message)
        });
        clock.poll_until_refused(join_all(cancelled)).await;
        first.collect_events().await.unwrap();
        let last = runner.run(USER, Some(SESSION), "last").await.unwrap();
        last.collect_events().await.unwrap();
        let session = stored(&sessions).await;
        let messages = session.events.iter().filter(|event| event.author == "user");
        let texts: Vec<String> = messages
            .filter_map(|event| event.content().map(retain_core::Content::text_concat))
            .collect();
        assert_eq!(texts, ["first", "last"], "{name}");
        assert_eq!(session.events.len(), 8, "{name}: both runs are complete");
        while runner.unfinished() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_run_on_the_same_session_fails_without_deadlock() {
    for (name, sessions) in services().await {
        let slot: Arc<std::sync::OnceLock<Runner>> = Arc::default();
        let inner = Arc::clone(&slot);
        let tool = FunctionTool::new("again", "Runs again.", move |ctx: ToolContext, (): ()| {
            let runner = inner.get().cloned();
            async move {
                let runner = runner.ok_or_else(|| ToolError::new("no runner"))?;
                let request = RunRequest::new("nested").with_run_options(ctx.run_options());
                let nested = runner.run_with(USER, Some(SESSION), request).await;
                let nested = nested.map(|_| ()).map_err(|error| error.to_string());
                Ok::<_, ToolError>(serde_json::json!({"error": nested.unwrap_err()}))
            }
        });
        let model = ScriptedModel::new("m")
            .reply(call("again", "{}"))
            .reply("done");
        let agent = LlmAgent::builder("a")
            .model(model)
            .tool(tool)
            .build()
            .unwrap();
        let runner = crate::support::runner(&sessions, agent).build().unwrap();
        slot.set(runner.clone()).unwrap();
        let run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let events = run.collect_events().await.unwrap();
        let lines = crate::support::story(events.iter().map(|event| Arc::new(event.clone())));
        assert!(
            lines[1].contains("would wait for itself"),
            "{name}: {lines:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_sees_events_appended_by_other_writers() {
    for (name, sessions) in services().await {
        let model = Arc::new(ScriptedModel::new("m").otherwise(|_| "ok"));
        let agent = LlmAgent::builder("a")
            .model(Arc::clone(&model))
            .instruction("{note?}");
        let runner = crate::support::runner(&sessions, agent.build().unwrap())
            .build()
            .unwrap();
        runner
            .run(USER, Some(SESSION), "one")
            .await
            .unwrap()
            .answer()
            .await
            .unwrap();
        let mut other = stored(&sessions).await;
        let mut event = retain_core::Event::user_text("from elsewhere");
        event.actions.state_delta.insert("note", "new");
        sessions.append_event(&mut other, event).await.unwrap();
        runner
            .run(USER, Some(SESSION), "two")
            .await
            .unwrap()
            .answer()
            .await
            .unwrap();
        let request = model.requests().pop().unwrap();
        let texts: Vec<_> = request
            .contents
            .iter()
            .map(|content| content.text_concat())
            .collect();
        assert_eq!(texts, ["one", "ok", "from elsewhere", "two"], "{name}");
        let instruction = request.config.system_instruction.clone().unwrap();
        assert!(instruction.starts_with("new"), "{name}: {instruction}");
        assert_eq!(stored(&sessions).await.events.len(), 5, "{name}");
        // A session that is deleted and recreated is a new session.
        sessions.delete_session(APP, USER, SESSION).await.unwrap();
        runner
            .run(USER, Some(SESSION), "three")
            .await
            .unwrap()
            .answer()
            .await
            .unwrap();
        assert_eq!(model.requests().pop().unwrap().contents.len(), 1, "{name}");
    }
}
