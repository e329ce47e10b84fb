//! Agent trees whose model answers wait until a test releases them.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex},
    thread,
};

use futures_util::{FutureExt as _, stream};
use retain_core::{Content, Event, LlmResponse};
use retain_runtime::{
    Agent, AgentTool, FunctionTool, InvocationContext, LlmAgent, LlmRequest, LoopAgent, Model,
    ModelStream, ParallelAgent, RunError, SequentialAgent, ToolContext, ToolOutput,
};
use tokio::sync::{oneshot, watch};

use crate::support::call;

/// Holds model answers back until the test releases them by name: `a1` is the first answer of `a`.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Answers waiting for their release. Always empty if `is_open`, because then no answer waits.
    waiting: Mutex<HashMap<String, oneshot::Sender<()>>>,
    changed: watch::Sender<()>,
    is_open: bool,
    /// The tick of a [`Ticker`] at which an answer is released, and the answer.
    release_at: Option<(usize, &'static str)>,
}

impl Gates {
    /// Gates that hold no answer back.
    pub(super) fn open() -> Arc<Gates> {
        Arc::new(Gates {
            is_open: true,
            ..Gates::default()
        })
    }

    /// Creates gates that release an answer when a [`Ticker`] reaches this tick.
    pub(super) fn releasing_at(tick: usize, name: &'static str) -> Arc<Gates> {
        Arc::new(Gates {
            release_at: Some((tick, name)),
            ..Gates::default()
        })
    }

    /// Releases the answer of this tick on another thread, so that it completes from outside.
    fn reach(&self, tick: usize) {
        let Some((_, name)) = self.release_at.filter(|(at, _)| *at == tick) else {
            return;
        };
        let release = self.waiting.lock().unwrap().remove(name).unwrap();
        let released = thread::spawn(move || release.send(()).unwrap());
        released.join().unwrap();
    }

    /// Waits until the test releases `name`.
    async fn pass(&self, name: String) {
        if self.is_open {
            return;
        }
        let (release, mut released) = oneshot::channel();
        let mut release = Some((name, release));
        poll_fn(|cx| {
            let polled = released.poll_unpin(cx);
            // Register only after the first poll, so that the scheduler sees the release as an
            // outside completion.
            if let Some((name, release)) = release.take() {
                self.waiting.lock().unwrap().insert(name, release);
                self.changed.send_replace(());
            }
            polled
        })
        .await
        .unwrap();
    }

    /// Waits until the answer `name` is at its gate, then releases it.
    pub(super) async fn release(&self, name: &str) {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(release) = self.waiting.lock().unwrap().remove(name) {
                return release.send(()).unwrap();
            }
            changed.changed().await.unwrap();
        }
    }
}

/// A model whose answer is its name and the number of the call. The test releases each answer.
#[derive(Debug)]
struct GatedModel {
    name: String,
    calls: Mutex<usize>,
    gates: Arc<Gates>,
    /// The tools that every other answer calls, starting with the first answer.
    tools: Vec<String>,
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
        let calls = self.tools.iter();
        let calls = calls.map(|tool| call(tool, r#"{"request": "?"}"#).into());
        let content = match self.tools.is_empty() || number % 2 == 0 {
            true => Content::model(answer.clone()),
            false => Content::new("model", calls.collect()),
        };
        let gates = Arc::clone(&self.gates);
        Box::pin(stream::once(async move {
            gates.pass(answer).await;
            Ok(LlmResponse::from_content(content))
        }))
    }
}

fn gated_model(gates: &Arc<Gates>, name: &str, tools: &[&str]) -> GatedModel {
    GatedModel {
        name: name.to_owned(),
        calls: Mutex::default(),
        gates: Arc::clone(gates),
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
    }
}

/// An agent that never waits for anything outside the run. Each of its runs is a tick, which emits a
/// partial event or nothing. The last tick escalates.
#[derive(Debug)]
struct Ticker {
    gates: Arc<Gates>,
    ticks: Mutex<usize>,
    is_silent: bool,
    /// The number of ticks; `None` to stop when the agent `m` has answered.
    last_tick: Option<usize>,
}

#[async_trait::async_trait]
impl Agent for Ticker {
    fn name(&self) -> &str {
        "ticker"
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
        let tick = {
            let mut ticks = self.ticks.lock().unwrap();
            *ticks += 1;
            *ticks - 1
        };
        self.gates.reach(tick);
        let is_last = match self.last_tick {
            Some(last) => tick == last,
            None => ctx.events().iter().any(|event| event.author == "m"),
        };
        if !is_last && self.is_silent {
            return Ok(());
        }
        let text = Content::model(format!("{tick} ticks"));
        let mut event = Event {
            response: LlmResponse::from_content(text),
            ..ctx.new_event()
        };
        match is_last {
            true => event.actions.escalate = Some(true),
            false => event.response.partial = Some(true),
        }
        ctx.emit(event).await?;
        Ok(())
    }
}

/// Returns the agent `m`, which answers `m1`, beside a loop of ticks.
fn ticks_beside_model(
    gates: &Arc<Gates>,
    is_silent: bool,
    last_tick: Option<usize>,
) -> Arc<dyn Agent> {
    let ticker = Ticker {
        gates: Arc::clone(gates),
        ticks: Mutex::default(),
        is_silent,
        last_tick,
    };
    let ticks = LoopAgent::builder("loop_ticker").sub_agent(ticker).build();
    let agents: Vec<Arc<dyn Agent>> = vec![Arc::new(leaf(gates, "m")), Arc::new(ticks.unwrap())];
    parallel("all", agents)
}

fn leaf(gates: &Arc<Gates>, name: &str) -> LlmAgent {
    let agent = LlmAgent::builder(name).model(gated_model(gates, name, &[]));
    agent.build().unwrap()
}

/// Returns an agent that calls a tool, which returns immediately, and then answers.
fn leaf_with_tool(gates: &Arc<Gates>, name: &str) -> LlmAgent {
    let tool = FunctionTool::untyped("look", "Looks.", None, |_, _| async {
        Ok(ToolOutput::from(retain_core::Json::from("seen")))
    });
    let agent = LlmAgent::builder(name).model(gated_model(gates, name, &["look"]));
    agent.tool(tool).build().unwrap()
}

/// Returns an agent that calls the tools `x` and `y` in one message, and then answers. The tools
/// wait at the gates.
fn leaf_with_two_tools(gates: &Arc<Gates>, name: &str) -> LlmAgent {
    let agent = LlmAgent::builder(name).model(gated_model(gates, name, &["x", "y"]));
    let agent = ["x", "y"].into_iter().fold(agent, |agent, name| {
        let gates = Arc::clone(gates);
        agent.tool(FunctionTool::untyped(name, "", None, move |_, _| {
            let gates = Arc::clone(&gates);
            async move {
                gates.pass(name.to_owned()).await;
                Ok(ToolOutput::from("seen"))
            }
        }))
    });
    agent.build().unwrap()
}

/// Returns an agent that searches memory before it starts and with a tool, and then answers.
fn leaf_with_memory(gates: &Arc<Gates>, name: &str) -> LlmAgent {
    let tool = FunctionTool::untyped("recall", "", None, |ctx: ToolContext, _| async move {
        let recalled = ctx.search_memory("?").await?;
        Ok(ToolOutput::from(format!(
            "{} memories",
            recalled.memories.len()
        )))
    });
    let agent = LlmAgent::builder(name).model(gated_model(gates, name, &["recall"]));
    let agent = agent.before_agent(|ctx| async move {
        ctx.search_memory("?").await?;
        Ok(None)
    });
    agent.tool(tool).build().unwrap()
}

/// Returns an agent that calls the agent `in_NAME` as a tool and then answers.
fn leaf_with_agent_tool(gates: &Arc<Gates>, name: &str) -> LlmAgent {
    let inner = leaf(gates, &format!("in_{name}"));
    let agent = LlmAgent::builder(name).model(gated_model(gates, name, &[inner.name()]));
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

fn repeat(name: &str, count: u32, agents: Vec<Arc<dyn Agent>>) -> Arc<dyn Agent> {
    let mut builder = LoopAgent::builder(name).max_iterations(count);
    for agent in agents {
        builder = builder.sub_agent(agent);
    }
    Arc::new(builder.build().unwrap())
}

/// Builds an agent tree whose models wait at the gates.
pub(super) type Tree = fn(&Arc<Gates>) -> Arc<dyn Agent>;

pub(super) fn loops_in_parallel(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let a = repeat("loop_a", 3, vec![Arc::new(leaf(gates, "a"))]);
    let b = repeat("loop_b", 3, vec![Arc::new(leaf(gates, "b"))]);
    parallel("all", vec![a, b, Arc::new(leaf(gates, "c"))])
}

pub(super) fn parallel_in_loop(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let both = vec![leaf(gates, "a"), leaf(gates, "b")];
    let both = both.into_iter().map(|it| Arc::new(it) as Arc<dyn Agent>);
    repeat("again", 3, vec![parallel("both", both.collect())])
}

pub(super) fn sequences_in_parallel(gates: &Arc<Gates>) -> Arc<dyn Agent> {
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

/// Returns parallel agents at two depths, one nested so deeply that it gets its own stack.
pub(super) fn parallel_in_parallel(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let inner: Vec<Arc<dyn Agent>> = vec![Arc::new(leaf(gates, "a")), Arc::new(leaf(gates, "b"))];
    let mut inner = parallel("inner", inner);
    for level in 0..5 {
        inner = sequence(&format!("level_{level}"), vec![inner]);
    }
    let last: Vec<Arc<dyn Agent>> = vec![inner, Arc::new(leaf(gates, "c"))];
    let all = parallel("outer", last);
    repeat("twice", 2, vec![all])
}

pub(super) fn agent_tools_in_parallel(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let agents: Vec<Arc<dyn Agent>> = vec![
        Arc::new(leaf_with_agent_tool(gates, "a")),
        Arc::new(leaf_with_agent_tool(gates, "b")),
        repeat("loop_c", 3, vec![Arc::new(leaf(gates, "c"))]),
    ];
    parallel("all", agents)
}

pub(super) fn memory_searches_in_parallel(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let agents: Vec<Arc<dyn Agent>> = vec![
        Arc::new(leaf_with_memory(gates, "a")),
        Arc::new(leaf_with_memory(gates, "b")),
        repeat("loop_c", 3, vec![Arc::new(leaf(gates, "c"))]),
    ];
    parallel("all", agents)
}

pub(super) fn two_tools_in_parallel(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    let agents: Vec<Arc<dyn Agent>> = vec![
        Arc::new(leaf_with_two_tools(gates, "a")),
        repeat("loop_c", 3, vec![Arc::new(leaf(gates, "c"))]),
    ];
    parallel("all", agents)
}

pub(super) fn loop_beside_model(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    ticks_beside_model(gates, false, Some(150))
}

pub(super) fn silent_loop_beside_model(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    ticks_beside_model(gates, true, Some(150))
}

pub(super) fn endless_loop_beside_model(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    ticks_beside_model(gates, false, None)
}

pub(super) fn endless_silent_loop_beside_model(gates: &Arc<Gates>) -> Arc<dyn Agent> {
    ticks_beside_model(gates, true, None)
}

/// A root agent that runs a shared agent, because the helper `runner` takes an agent by value.
#[derive(Debug)]
pub(super) struct Root(pub(super) Arc<dyn Agent>);

#[async_trait::async_trait]
impl Agent for Root {
    fn name(&self) -> &str {
        "root"
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        std::slice::from_ref(&self.0)
    }

    async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
        ctx.run_agent(&self.0).await
    }
}
