//! A process crashes after each event of a run. The session stays readable, and the next run
//! continues.

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use retain_core::{Event, SessionService};
use retain_runtime::{
    Agent, FunctionTool, LlmAgent, LlmRequest, ParallelAgent, ScriptedModel, ScriptedReply,
    SequentialAgent, ToolContext, ToolError,
};
use retain_stores::SqliteOptions;

use crate::support::{LeaseClock, SESSION, USER, call, runner, stored};

/// Creates an agent that calls a tool and then answers, in every run.
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

/// Returns two parallel agents and one after them: nine events per run.
fn team() -> Arc<dyn Agent> {
    let both = ParallelAgent::builder("both")
        .sub_agent(worker("left"))
        .sub_agent(worker("right"));
    let all = SequentialAgent::builder("all")
        .sub_agent(both.build().unwrap())
        .sub_agent(worker("last"));
    Arc::new(all.build().unwrap())
}

async fn open(folder: &Path, clock: &LeaseClock) -> Arc<dyn SessionService> {
    let options = SqliteOptions::file(folder.join("s.db"));
    clock.sqlite(options).await
}

/// Simulates a crash after `taken` events. Returns the run id and the events received before it.
fn crash_after(
    taken: usize,
    folder: &Path,
    clock: &LeaseClock,
    is_resumable: bool,
) -> (String, Vec<Event>) {
    let crashing = tokio::runtime::Runtime::new().unwrap();
    let received = crashing.block_on(async {
        let sessions = open(folder, clock).await;
        let runner = runner(&sessions, worker("unused")).agent(team());
        // The rest of the run stays in this process and must not renew its lease.
        let runner = runner.idle_limit(Duration::ZERO).resumable(is_resumable);
        let runner = runner.build().unwrap();
        let mut run = runner.run(USER, Some(SESSION), "go").await.unwrap();
        let mut received = Vec::new();
        for _ in 0..taken {
            received.push(run.next().await.unwrap().unwrap());
        }
        let id = run.invocation_id().to_owned();
        // A crash runs no cleanup code.
        std::mem::forget(run);
        (id, received)
    });
    crashing.shutdown_background();
    // Let the crashed run's lease expire.
    clock.pass_ttl();
    received
}

// A run has nine agent events and eight checkpoints.
#[test]
fn run_is_resumed_after_a_crash_at_any_event() {
    for taken in 0..=17 {
        let (folder, clock) = (retain_testkit::scratch::folder(), LeaseClock::default());
        let (id, received) = crash_after(taken, folder.path(), &clock, true);
        let next = tokio::runtime::Runtime::new().unwrap();
        next.block_on(async {
            let sessions = open(folder.path(), &clock).await;
            let runner = runner(&sessions, worker("unused")).agent(team());
            let runner = runner.resumable(true).build().unwrap();
            let run = runner.resume(USER, SESSION, &id).await.unwrap();
            run.collect_events().await.unwrap();
            let session = stored(&sessions).await;
            for event in &received {
                let mut events = session.events.iter();
                assert!(events.any(|stored| stored == event), "after {taken}");
            }
            let own = |author: &str| {
                let events = session.events.iter().filter(|event| event.author == author);
                events.filter(|event| event.content().is_some()).count()
            };
            let counts = ["left", "right", "last"].map(own);
            assert_eq!(counts, [3, 3, 3], "after {taken}: each agent works once");
            assert_eq!(session.state["done"].as_i64(), Some(3), "after {taken}");
            let last = session.events.last().unwrap();
            assert_eq!(last.author, "all", "after {taken}");
            assert_eq!(last.actions.end_of_agent, Some(true), "after {taken}");
        });
    }
}

#[test]
fn next_run_works_after_a_crash_at_any_event() {
    for taken in 0..=9 {
        let (folder, clock) = (retain_testkit::scratch::folder(), LeaseClock::default());
        let (_, received) = crash_after(taken, folder.path(), &clock, false);
        let next = tokio::runtime::Runtime::new().unwrap();
        next.block_on(async {
            let sessions = open(folder.path(), &clock).await;
            let session = stored(&sessions).await;
            for event in &received {
                let mut events = session.events.iter();
                assert!(events.any(|stored| stored == event), "after {taken}");
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
            let runner = runner.build().unwrap();
            let run = runner.run(USER, Some(SESSION), "again").await.unwrap();
            let events = run.collect_events().await.unwrap();
            assert_eq!(events.len(), 9, "after {taken}: a whole run");
        });
    }
}
