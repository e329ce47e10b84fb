//! `LoopAgent`: runs its sub-agents repeatedly.

use std::sync::Arc;

use async_trait::async_trait;
use retain_core::{Json, JsonMap};

use super::{
    WorkflowFields, impl_workflow_agent, impl_workflow_builder,
    steps::{self, Step},
};
use crate::{
    agents::{Agent, AgentCallbacks},
    context::{EventWatch, InvocationContext},
    error::{BuildError, Result},
};

/// The state key that records the number of finished iterations.
const ROUNDS: &str = "times_looped";

/// Runs its sub-agents repeatedly until one of them escalates or the iteration limit is reached.
#[derive(Debug)]
pub struct LoopAgent {
    fields: WorkflowFields,
    max_iterations: Option<u32>,
}

/// Builds a [`LoopAgent`].
#[must_use]
#[derive(Debug)]
pub struct LoopAgentBuilder {
    fields: WorkflowFields,
    max_iterations: Option<u32>,
}

impl_workflow_builder!(LoopAgentBuilder);

impl LoopAgent {
    /// Creates a builder for an agent with this name.
    pub fn builder(name: impl Into<String>) -> LoopAgentBuilder {
        LoopAgentBuilder {
            fields: WorkflowFields::new(name),
            max_iterations: None,
        }
    }
}

impl LoopAgentBuilder {
    /// Limits the number of iterations. Without a limit the loop ends only when an agent escalates.
    pub fn max_iterations(mut self, rounds: u32) -> Self {
        self.max_iterations = Some(rounds);
        self
    }

    /// Builds the agent, or returns an error if its name is invalid.
    pub fn build(self) -> Result<LoopAgent, BuildError> {
        Ok(LoopAgent {
            fields: self.fields.validated()?,
            max_iterations: self.max_iterations,
        })
    }
}

#[async_trait]
impl Agent for LoopAgent {
    fn kind(&self) -> &'static str {
        "LoopAgent"
    }

    impl_workflow_agent!();

    async fn run(&self, ctx: &InvocationContext) -> Result<()> {
        let agents = &self.fields.sub_agents;
        if agents.is_empty() {
            return Ok(());
        }
        let current = steps::current_step(ctx, agents);
        let mut rounds = current.as_ref().map_or(0, |it| finished_rounds(&it.state));
        let mut resumed = current.and_then(|current| current.place);
        while self.max_iterations.is_none_or(|most| rounds < most) {
            let watch = EventWatch::default();
            let watched = ctx.with_watch(&watch);
            for agent in &agents[resumed.unwrap_or(0)..] {
                let is_resumed = resumed.take().is_some();
                let more = JsonMap::from([(ROUNDS, rounds)]);
                match steps::run_step(&watched, agent, more, is_resumed).await? {
                    Step::Done => {}
                    Step::Paused => return Ok(()),
                    Step::Escalated => return ctx.record_agent_end().await,
                }
            }
            rounds += 1;
            if !watch.has_events() {
                // Sub-agents that emit nothing must not starve other tasks.
                ctx.shared.scheduler.yield_now().await;
            }
        }
        ctx.record_agent_end().await
    }
}

/// Returns the number of iterations that had finished when the run was interrupted.
fn finished_rounds(state: &JsonMap) -> u32 {
    let rounds = state.get(ROUNDS).and_then(Json::as_u64);
    rounds
        .and_then(|rounds| rounds.try_into().ok())
        .unwrap_or(0)
}
