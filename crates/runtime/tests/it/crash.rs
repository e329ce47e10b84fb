//! A process crashes after each event of a turn: the session stays readable, and the next turn
//! continues.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use retain_core::{Event, SessionService, SystemClock};
use retain_runtime::{
    Agent, FunctionTool, LlmAgent, LlmRequest, ParallelAgent, ScriptedModel, ScriptedReply,
    SequentialAgent, ToolContext, ToolError,
};
use retain_stores::SqliteSessionService;

use crate::support::{SESSION, USER, call, runner};

/// An agent that calls a tool and then answers, in every turn.
fn worker(name: &str) -> LlmAgent {
    let tool = FunctionTool::new("work", "Works.", |ctx: ToolContext, (): ()| async move {
        ctx.state().update("done", |done| {
            *done = (done.as_i64().unwrap_or(0) + 1).into()
        });
        Ok::<_, ToolError>(serde_json::json!({"ok": true}))
    });
    let model = ScriptedModel::new("m").otherwise(|request: &LlmRequest| {
        let last = request.contents.last();
        let worked = last.is_some_and(|last| last.function_responses().next().is_some());
        match worked {
            true => ScriptedReply::from("done"),
            false => call("work", "{}").into(),
        }
    });
    LlmAgent::builder(name)
        .model(model)
        .tool(tool)
        .build()
        .unwrap()
}

/// Two parallel agents and one after them: nine events per turn.
fn team() -> Arc<dyn Agent> {
    let both = ParallelAgent::builder("both")
        .sub_agent(worker("left"))
        .sub_agent(worker("right"));
    let all = SequentialAgent::builder("all")
        .sub_agent(both.build().unwrap())
        .sub_agent(worker("last"));
    Arc::new(all.build().unwrap())
}

async fn open(uri: &str) -> Arc<dyn SessionService> {
    let sessions = SqliteSessionService::connect(uri).await.unwrap();
    Arc::new(sessions.with_run_ttl(Duration::from_millis(100)))
}

/// Simulate a crash after `taken` events; return the run id and the events received before it.
fn die_after(taken: usize, uri: &str, is_resumable: bool) -> (String, Vec<Event>) {
    let dying = tokio::runtime::Runtime::new().unwrap();
    let told = dying.block_on(async {
        let sessions = open(uri).await;
        let runner = runner(&sessions, worker("unused")).agent(team());
        // The rest of the run in this process must not renew its lease.
        let runner = runner.idle_limit(Duration::ZERO).resumable(is_resumable);
        let runner = runner.clock(Arc::new(SystemClock)).build().unwrap();
        let mut run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let mut told = Vec::new();
        for _ in 0..taken {
            told.push(run.next().await.unwrap().unwrap());
        }
        let id = run.invocation_id().to_owned();
        // Skip all cleanup.
        std::mem::forget(run);
        (id, told)
    });
    dying.shutdown_background();
    told
}

/// Nine agent events and eight checkpoints.
#[test]
fn run_is_resumed_after_a_crash_at_any_event() {
    for taken in 0..=17 {
        let folder = retain_testkit::scratch::folder();
        let uri = format!("sqlite:///{}/s.db", folder.path().display());
        let (id, told) = die_after(taken, &uri, true);
        let next = tokio::runtime::Runtime::new().unwrap();
        next.block_on(async {
            let sessions = open(&uri).await;
            let runner = runner(&sessions, worker("unused")).agent(team());
            let runner = runner.clock(Arc::new(SystemClock)).resumable(true);
            let runner = runner.build().unwrap();
            let run = runner.resume(USER, SESSION, &id).await.unwrap();
            run.collect_events().await.unwrap();
            let session = crate::support::stored(&sessions).await;
            for event in &told {
                let mut events = session.events.iter();
                assert!(events.any(|known| known == event), "after {taken}");
            }
            let own = |author: &str| {
                let events = session.events.iter().filter(|event| event.author == author);
                events.filter(|event| event.content().is_some()).count()
            };
            let counts = ["left", "right", "last"].map(own);
            assert_eq!(counts, [3, 3, 3], "after {taken}: each has worked once");
            assert_eq!(session.state["done"].as_i64(), Some(3), "after {taken}");
            let last = session.events.last().unwrap();
            assert_eq!(last.author, "all", "after {taken}");
            assert_eq!(last.actions.end_of_agent, Some(true), "after {taken}");
        });
    }
}

#[test]
fn next_turn_works_after_a_crash_at_any_event() {
    for taken in 0..=9 {
        let folder = retain_testkit::scratch::folder();
        let uri = format!("sqlite:///{}/s.db", folder.path().display());
        let (_, told) = die_after(taken, &uri, false);
        let next = tokio::runtime::Runtime::new().unwrap();
        next.block_on(async {
            let sessions = open(&uri).await;
            let session = crate::support::stored(&sessions).await;
            for event in &told {
                assert!(
                    session.events.iter().any(|known| known == event),
                    "after {taken}"
                );
            }
            let counted = session
                .events
                .iter()
                .filter(|event| event.actions.state_delta.contains_key("done"));
            let counted = counted.count() as i64;
            assert_eq!(
                session.state["done"].as_i64().unwrap_or(0),
                counted,
                "after {taken}"
            );
            let runner = runner(&sessions, worker("unused")).agent(team());
            let runner = runner.clock(Arc::new(SystemClock)).build().unwrap();
            let run = runner.run(USER, Some(SESSION), "again").await.unwrap();
            let events = run.collect_events().await.unwrap();
            assert_eq!(events.len(), 9, "after {taken}: a whole turn");
        });
    }
}
