//! Parallel agents: the same order of model and tool completions gives the same log.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex},
};

use futures_util::{FutureExt as _, stream};
use retain_core::{Content, LlmResponse, SessionService};
use retain_runtime::{
    Agent, AgentTool, FunctionTool, LlmAgent, LlmRequest, LoopAgent, Model, ModelStream,
    ParallelAgent, RunConfig, RunRequest, SequentialAgent, ToolOutput,
};
use tokio::sync::{oneshot, watch};

use super::support::{APP, USER, call, events_of, runner, services, story};

/// How often each case runs on each store.
const REPEATS: usize = 200;

/// Holds model answers back until the test releases them, by name: `a1` is the first answer of `a`.
#[derive(Debug, Default)]
struct Gates {
    /// Answers that wait for their release. Empty if `is_open`, because then no answer waits.
    waiting: Mutex<HashMap<String, oneshot::Sender<()>>>,
    changed: watch::Sender<()>,
    is_open: bool,
}

impl Gates {
    fn open() -> Arc<Gates> {
        Arc::new(Gates {
            is_open: true,
            ..Gates::default()
        })
    }

    /// Returns when the test releases `name`.
    async fn pass(&self, name: String) {
        if self.is_open {
            return;
        }
        let (release, mut released) = oneshot::channel();
        let mut release = Some((name, release));
        poll_fn(|cx| {
            let polled = released.poll_unpin(cx);
            // Registered only after the first poll, so that the release always is an outside
            // completion.
            if let Some((name, release)) = release.take() {
                self.waiting.lock().unwrap().insert(name, release);
                self.changed.send_replace(());
            }
            polled
        })
        .await
        .unwrap();
    }

    /// Waits until the answer `name` waits at its gate, then releases it.
    async fn release(&self, name: &str) {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(release) = self.waiting.lock().unwrap().remove(name) {
                return release.send(()).unwrap();
            }
            changed.changed().await.unwrap();
        }
    }
}

/// A model that answers with its name and the number of the call when the test releases the answer.
#[derive(Debug)]
struct GatedModel {
    name: String,
    calls: Mutex<usize>,
    gates: Arc<Gates>,
    /// The tool that the model calls before it answers.
    tool: Option<String>,
}

impl Model for GatedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(&self, _: Arc<LlmRequest>, _: bool) -> ModelStream {
        let number = {
            let mut calls = self.calls.lock().unwrap();
            *calls += 1;
            *calls
        };
        let answer = format!("{}{number}", self.name);
        let content = match &self.tool {
            Some(tool) if number % 2 == 1 => {
                Content::new("model", vec![call(tool, r#"{"request": "?"}"#).into()])
            }
            _ => Content::model(answer.clone()),
        };
        let gates = Arc::clone(&self.gates);
        Box::pin(stream::once(async move {
            gates.pass(answer).await;
            Ok(LlmResponse::of(content))
        }))
    }
}

fn gated(gates: &Arc<Gates>, name: &str, tool: Option<&str>) -> GatedModel {
    GatedModel {
        name: name.to_owned(),
        calls: Mutex::default(),
        gates: Arc::clone(gates),
        tool: tool.map(str::to_owned),
    }
}

fn leaf(gates: &Arc<Gates>, name: &str) -> LlmAgent {
    let agent = LlmAgent::builder(name).model(gated(gates, name, None));
    agent.build().unwrap()
}

/// An agent that calls a tool, which returns at once, and then answers.
fn leaf_with_tool(gates: &Arc<Gates>, name: &str) -> LlmAgent {
    let tool = FunctionTool::untyped("look", "Looks.", None, |_, _| async {
        Ok(ToolOutput::from(retain_core::Json::from("seen")))
    });
    let agent = LlmAgent::builder(name).model(gated(gates, name, Some("look")));
    agent.tool(tool).build().unwrap()
}

/// An agent that calls another agent as a tool and then answers. The inner model answers at once.
fn leaf_with_agent_tool(gates: &Arc<Gates>, name: &str) -> LlmAgent {
    let inner = leaf(&Gates::open(), "inner");
    let agent = LlmAgent::builder(name).model(gated(gates, name, Some("inner")));
    agent.tool(AgentTool::new(inner)).build().unwrap()
}

fn parallel(name: &str, agents: Vec<Arc<dyn Agent>>) -> Arc<dyn Agent> {
    let mut builder = ParallelAgent::builder(name);
    for agent in agents {
        builder = builder.sub_agent(agent);
    }
    Arc::new(builder.build().unwrap())
}

fn sequence(name: &str, agents: Vec<Arc<dyn Agent>>) -> Arc<dyn Agent> {
    let mut builder = SequentialAgent::builder(name);
    for agent in agents {
        builder = builder.sub_agent(agent);
    }
    Arc::new(builder.build().unwrap())
}

fn rounds(name: &str, count: u32, agents: Vec<Arc<dyn Agent>>) -> Arc<dyn Agent> {
    let mut builder = LoopAgent::builder(name).max_iterations(count);
    for agent in agents {
        builder = builder.sub_agent(agent);
    }
    Arc::new(builder.build().unwrap())
}

/// Builds an agent tree whose models wait at the gates.
type Tree = fn(&Arc<Gates>) -> Arc<dyn Agent>;

fn loops_in_parallel(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let a = rounds("loop_a", 3, vec![Arc::new(leaf(gates, "a"))]);
    let b = rounds("loop_b", 3, vec![Arc::new(leaf(gates, "b"))]);
    parallel("all", vec![a, b, Arc::new(leaf(gates, "c"))])
}

fn parallel_in_loop(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let both = vec![leaf(gates, "a"), leaf(gates, "b")];
    let both = both.into_iter().map(|it| Arc::new(it) as Arc<dyn Agent>);
    rounds("again", 3, vec![parallel("both", both.collect())])
}

fn sequences_in_parallel(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let first: Vec<Arc<dyn Agent>> = vec![Arc::new(leaf(gates, "a")), Arc::new(leaf(gates, "b"))];
    let second: Vec<Arc<dyn Agent>> = vec![
        Arc::new(leaf_with_tool(gates, "c")),
        Arc::new(leaf(gates, "d")),
    ];
    let agents = vec![
        sequence("first", first),
        sequence("second", second),
        Arc::new(leaf(gates, "e")) as Arc<dyn Agent>,
    ];
    parallel("all", agents)
}

/// Parallel agents at two depths, one of them nested so deeply that it gets its own stack.
fn parallel_in_parallel(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let inner: Vec<Arc<dyn Agent>> = vec![Arc::new(leaf(gates, "a")), Arc::new(leaf(gates, "b"))];
    let mut inner = parallel("inner", inner);
    for level in 0..5 {
        inner = sequence(&format!("level_{level}"), vec![inner]);
    }
    let last: Vec<Arc<dyn Agent>> = vec![inner, Arc::new(leaf(gates, "c"))];
    let all = parallel("outer", last);
    rounds("twice", 2, vec![all])
}

fn agent_tools_in_parallel(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let agents: Vec<Arc<dyn Agent>> = vec![
        Arc::new(leaf_with_agent_tool(gates, "a")),
        Arc::new(leaf_with_agent_tool(gates, "b")),
        rounds("loop_c", 3, vec![Arc::new(leaf(gates, "c"))]),
    ];
    parallel("all", agents)
}

/// Runs the tree once, releasing answers in the order of `script`; returns the stored events as
/// text.
async fn run_once(
    sessions: &Arc<dyn SessionService>,
    session: &str,
    tree: Tree,
    script: Option<&str>,
    config: &RunConfig,
) -> Vec<String> {
    let gates = match script {
        Some(_) => Arc::default(),
        None => Gates::open(),
    };
    let runner = runner(sessions, Root(tree(&gates))).build().unwrap();
    let request = RunRequest::new("Go").with_config(config.clone());
    let run = runner.run_with(USER, Some(session), request).await.unwrap();
    let run = tokio::spawn(run.collect_events());
    for name in script.unwrap_or_default().split_whitespace() {
        gates.release(name).await;
    }
    run.await.unwrap().unwrap();
    let read = sessions.get_session(APP, USER, session, Default::default());
    let session = read.await.unwrap().unwrap();
    story(events_of(&session))
        .into_iter()
        .skip(1)
        .map(|line| line.split_once(": ").unwrap().1.to_owned())
        .collect()
}

/// Lets a shared agent be a root.
#[derive(Debug)]
struct Root(Arc<dyn Agent>);

#[async_trait::async_trait]
impl Agent for Root {
    fn name(&self) -> &str {
        "root"
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        std::slice::from_ref(&self.0)
    }

    async fn run(
        &self,
        ctx: &retain_runtime::InvocationContext,
    ) -> Result<(), retain_runtime::RunError> {
        ctx.run_agent(&self.0).await
    }
}

/// Runs the tree many times on every store and expects the same log each time.
async fn assert_log(tree: Tree, script: Option<&str>, expected: &str) {
    for (store, sessions) in services().await {
        for repeat in 0..REPEATS {
            let session = format!("s{repeat}");
            let config = RunConfig::default();
            let log = run_once(&sessions, &session, tree, script, &config).await;
            assert_eq!(log.join(" "), expected, "{store}, run {repeat}");
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
        r#"inner({"request":"?"}) inner({"request":"?"}) c1 "#,
        r#"inner -> {"result":"inner1"} inner -> {"result":"inner1"} c2 a2 b2 c3"#
    );
    assert_log(agent_tools_in_parallel, None, expected).await;
}
