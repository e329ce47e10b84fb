//! `ParallelAgent`: runs its sub-agents in parallel, each on its own branch.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use retain_core::JsonMap;

use super::{WorkflowFields, impl_workflow_agent, impl_workflow_builder};
use crate::{
    agents::{Agent, AgentCallbacks},
    context::{EventWatch, InvocationContext},
    error::{BuildError, Result},
};

/// Runs its sub-agents in parallel. Each sees the history before the start and its own events, but
/// not its siblings' events; all of them share the state. A direct sub-agent that escalates cancels
/// the others.
#[derive(Debug)]
pub struct ParallelAgent {
    fields: WorkflowFields,
}

/// Builds a [`ParallelAgent`].
#[must_use]
#[derive(Debug)]
pub struct ParallelAgentBuilder {
    fields: WorkflowFields,
}

impl_workflow_builder!(ParallelAgentBuilder);

impl ParallelAgent {
    /// Creates a builder for an agent with this name.
    pub fn builder(name: impl Into<String>) -> ParallelAgentBuilder {
        ParallelAgentBuilder {
            fields: WorkflowFields::new(name),
        }
    }
}

impl ParallelAgentBuilder {
    /// Builds the agent, or returns an error if its name is invalid.
    pub fn build(self) -> Result<ParallelAgent, BuildError> {
        Ok(ParallelAgent {
            fields: self.fields.validated()?,
        })
    }
}

#[async_trait]
impl Agent for ParallelAgent {
    fn kind(&self) -> &'static str {
        "ParallelAgent"
    }

    impl_workflow_agent!();

    async fn run(&self, ctx: &InvocationContext) -> Result<()> {
        let agents = &self.fields.sub_agents;
        if agents.is_empty() {
            return Ok(());
        }
        let watch = EventWatch::for_authors(agents.iter().map(|it| it.name().to_owned()).collect());
        let resumed = ctx
            .checkpoint()
            .filter(|checkpoint| checkpoint.state.is_some());
        let had_escalated = resumed.as_ref().is_some_and(|it| it.is_escalated_directly);
        if resumed.is_none() {
            for agent in agents {
                ctx.shared.checkpoints.reset(&ctx.shared.tree, agent.name());
            }
            ctx.save_agent_state(JsonMap::default()).await?;
        }
        if !had_escalated {
            self.run_all(ctx, &watch).await?;
        }
        let is_done = |agent: &Arc<dyn Agent>| ctx.shared.checkpoints.is_ended(agent.name());
        let has_escalated = had_escalated || watch.has_escalated();
        if !watch.is_waiting() && (has_escalated || agents.iter().all(is_done)) {
            ctx.record_agent_end().await?;
        }
        Ok(())
    }
}

impl ParallelAgent {
    /// Runs the sub-agents that have not ended yet.
    async fn run_all(&self, ctx: &InvocationContext, watch: &EventWatch) -> Result<()> {
        let watched = ctx.with_watch(watch);
        let checkpoints = &ctx.shared.checkpoints;
        let agents = self.fields.sub_agents.iter();
        let agents = agents.filter(|agent| !checkpoints.is_ended(agent.name()));
        let runs = agents.map(|agent| {
            let ctx = watched.on_branch(&format!("{}.{}", self.fields.name, agent.name()));
            async move { ctx.run_agent(agent).await }
        });
        let mut runs: FuturesUnordered<_> = runs.collect();
        loop {
            tokio::select! {
                biased;
                // Returning drops the futures of the other sub-agents, which cancels them.
                () = watch.wait_for_escalation() => return Ok(()),
                result = runs.next() => match result {
                    Some(result) => result?,
                    None => return Ok(()),
                },
            }
        }
    }
}
