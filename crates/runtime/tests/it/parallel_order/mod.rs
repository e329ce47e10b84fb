//! Parallel agents: completions of models and tools in the same order give the same log.

mod stores;
mod trees;

use std::sync::Arc;

use retain_runtime::RunRequest;

use self::{
    stores::{TestStore, open_stores},
    trees::{
        Gates, Root, Tree, agent_tools_in_parallel, endless_loop_beside_model,
        endless_silent_loop_beside_model, loop_beside_model, loops_in_parallel,
        memory_searches_in_parallel, parallel_in_loop, parallel_in_parallel, sequences_in_parallel,
        silent_loop_beside_model, two_tools_in_parallel,
    },
};
use super::support::{APP, USER, events_of, runner, story};

/// Number of runs of each case on each store. On PostgreSQL they take about two seconds.
const REPEATS: usize = 200;

/// Number of runs of each endless case on each store. A run takes 1,000 steps.
const ENDLESS_REPEATS: usize = 40;

/// Runs the tree in a new session and releases answers in the order of `script`. Returns the stored
/// events as text.
async fn run_once(
    store: &TestStore,
    session: &str,
    tree: Tree,
    gates: Arc<Gates>,
    script: &str,
) -> String {
    let runner = runner(&store.sessions, Root(tree(&gates)));
    let runner = runner.memory_service(Arc::clone(&store.memory));
    let runner = runner.build().unwrap();
    let request = RunRequest::new("Go");
    let run = runner.run_with(USER, Some(session), request).await.unwrap();
    let run = tokio::spawn(run.collect_events());
    for name in script.split_whitespace() {
        gates.release(name).await;
    }
    run.await.unwrap().unwrap();
    let read = store
        .sessions
        .get_session(APP, USER, session, Default::default());
    let session = read.await.unwrap().unwrap();
    let story = story(events_of(&session));
    let answers = story.iter().skip(1);
    let answers: Vec<&str> = answers
        .map(|line| line.split_once(": ").unwrap().1)
        .collect();
    answers.join(" ")
}

/// Asserts that the tree's log is the same in each run, on every store. Without a script, no answer
/// waits.
async fn assert_log(tree: Tree, script: Option<&'static str>, expected: &str) {
    let gates = || match script {
        Some(_) => Arc::default(),
        None => Gates::open(),
    };
    let gates = |_| (gates(), script.unwrap_or_default());
    assert_logs(tree, REPEATS, gates, expected).await;
}

/// Asserts that the log of a tree with one gated answer, `m1`, is the same whenever the answer
/// comes: at one of several ticks, or at a time that depends on the threads.
async fn assert_log_whenever_answered(tree: Tree, repeats: usize, expected: &str) {
    let gates = |repeat| match [Some(0), Some(50), Some(140), None][repeat % 4] {
        Some(tick) => (Gates::releasing_at(tick, "m1"), ""),
        None => (Arc::default(), "m1"),
    };
    assert_logs(tree, repeats, gates, expected).await;
}

/// Asserts that each run of the tree has the expected log, on every store. `gates` returns the gates
/// and the script of a run.
async fn assert_logs(
    tree: Tree,
    repeats: usize,
    gates: impl Fn(usize) -> (Arc<Gates>, &'static str),
    expected: &str,
) {
    for store in open_stores().await {
        for repeat in 0..repeats {
            let session = format!("s{repeat}");
            let (gates, script) = gates(repeat);
            let log = run_once(&store, &session, tree, gates, script).await;
            assert_eq!(log, expected, "{}, run {repeat}", store.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_in_parallel_alternate_when_models_answer_immediately() {
    assert_log(loops_in_parallel, None, "a1 b1 c1 a2 b2 a3 b3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_in_parallel_store_events_in_completion_order() {
    let script = "c1 b1 a1 b2 b3 a2 a3";
    assert_log(loops_in_parallel, Some(script), script).await;
    let script = "a1 a2 a3 b1 c1 b2 b3";
    assert_log(loops_in_parallel, Some(script), script).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_in_loop_keeps_the_listed_order_when_models_answer_immediately() {
    assert_log(parallel_in_loop, None, "a1 b1 a2 b2 a3 b3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_in_loop_stores_events_in_completion_order() {
    let script = "b1 a1 a2 b2 b3 a3";
    assert_log(parallel_in_loop, Some(script), script).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequences_in_parallel_alternate_when_models_answer_immediately() {
    let expected = r#"a1 look({"request":"?"}) e1 b1 look -> {"result":"seen"} c2 d1"#;
    assert_log(sequences_in_parallel, None, expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequences_in_parallel_store_events_in_completion_order() {
    let script = "c1 e1 a1 c2 b1 d1";
    let expected = r#"look({"request":"?"}) look -> {"result":"seen"} e1 a1 c2 b1 d1"#;
    assert_log(sequences_in_parallel, Some(script), expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_in_parallel_keeps_the_listed_order_when_models_answer_immediately() {
    assert_log(parallel_in_parallel, None, "a1 b1 c1 a2 b2 c2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_in_parallel_stores_events_in_completion_order() {
    let script = "a1 c1 b1 b2 c2 a2";
    assert_log(parallel_in_parallel, Some(script), script).await;
    let script = "a1 b1 c1 c2 a2 b2";
    assert_log(parallel_in_parallel, Some(script), script).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_tools_in_parallel_alternate_when_models_answer_immediately() {
    let expected = concat!(
        r#"in_a({"request":"?"}) in_b({"request":"?"}) c1 "#,
        r#"in_a -> {"result":"in_a1"} in_b -> {"result":"in_b1"} c2 a2 b2 c3"#
    );
    assert_log(agent_tools_in_parallel, None, expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_tools_in_parallel_store_events_in_completion_order() {
    let script = "b1 a1 in_a1 c1 in_b1 a2 c2 b2 c3";
    let expected = concat!(
        r#"in_b({"request":"?"}) in_a({"request":"?"}) in_a -> {"result":"in_a1"} c1 "#,
        r#"in_b -> {"result":"in_b1"} a2 c2 b2 c3"#
    );
    assert_log(agent_tools_in_parallel, Some(script), expected).await;
    let script = "a1 c1 in_a1 c2 a2 b1 in_b1 b2 c3";
    let expected = concat!(
        r#"in_a({"request":"?"}) c1 in_a -> {"result":"in_a1"} c2 a2 "#,
        r#"in_b({"request":"?"}) in_b -> {"result":"in_b1"} b2 c3"#
    );
    assert_log(agent_tools_in_parallel, Some(script), expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_tool_calls_count_as_separate_completions() {
    let script = "c1 a1 c2 x c3 y a2";
    let expected = concat!(
        r#"c1 x({"request":"?"}) + y({"request":"?"}) c2 c3 "#,
        r#"x -> {"result":"seen"} + y -> {"result":"seen"} a2"#
    );
    assert_log(two_tools_in_parallel, Some(script), expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_searches_in_parallel_alternate_when_models_answer_immediately() {
    let expected = concat!(
        r#"recall({"request":"?"}) recall({"request":"?"}) c1 "#,
        r#"recall -> {"result":"0 memories"} recall -> {"result":"0 memories"} c2 a2 b2 c3"#
    );
    assert_log(memory_searches_in_parallel, None, expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_searches_in_parallel_store_events_in_completion_order() {
    let script = "b1 c1 a1 c2 a2 c3 b2";
    let expected = concat!(
        r#"recall({"request":"?"}) recall -> {"result":"0 memories"} c1 "#,
        r#"recall({"request":"?"}) recall -> {"result":"0 memories"} c2 a2 c3 b2"#
    );
    assert_log(memory_searches_in_parallel, Some(script), expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_answer_enters_after_a_loop_that_never_waits() {
    assert_log_whenever_answered(loop_beside_model, REPEATS, "150 ticks m1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_answer_enters_after_a_loop_without_events() {
    assert_log_whenever_answered(silent_loop_beside_model, REPEATS, "150 ticks m1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_loop_meets_the_model_answer_at_the_same_iteration() {
    let expected = "m1 1002 ticks";
    assert_log_whenever_answered(endless_loop_beside_model, ENDLESS_REPEATS, expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_loop_without_events_meets_the_model_answer_at_the_same_iteration() {
    let tree = endless_silent_loop_beside_model;
    assert_log_whenever_answered(tree, ENDLESS_REPEATS, "m1 1001 ticks").await;
}
