//! `SequentialAgent`: runs its sub-agents one after the other.

use std::sync::Arc;

use async_trait::async_trait;
use retain_core::JsonMap;

use super::{
    WorkflowFields, impl_workflow_agent, impl_workflow_builder,
    steps::{self, Step},
};
use crate::{
    agents::{Agent, AgentCallbacks},
    context::InvocationContext,
    error::{BuildError, Result},
};

/// Runs its sub-agents one after the other. A function call that waits for the user ends the run;
/// the answer resumes the sub-agent that made the call.
#[derive(Debug)]
pub struct SequentialAgent {
    fields: WorkflowFields,
}

/// Builds a [`SequentialAgent`].
#[must_use]
#[derive(Debug)]
pub struct SequentialAgentBuilder {
    fields: WorkflowFields,
}

impl_workflow_builder!(SequentialAgentBuilder);

impl SequentialAgent {
    /// Creates a builder for an agent with this name.
    pub fn builder(name: impl Into<String>) -> SequentialAgentBuilder {
        SequentialAgentBuilder {
            fields: WorkflowFields::new(name),
        }
    }
}

impl SequentialAgentBuilder {
    /// Builds the agent, or returns an error if its name is invalid.
    pub fn build(self) -> Result<SequentialAgent, BuildError> {
        Ok(SequentialAgent {
            fields: self.fields.validated()?,
        })
    }
}

#[async_trait]
impl Agent for SequentialAgent {
    fn kind(&self) -> &'static str {
        "SequentialAgent"
    }

    impl_workflow_agent!();

    async fn run(&self, ctx: &InvocationContext) -> Result<()> {
        let agents = &self.fields.sub_agents;
        if agents.is_empty() {
            return Ok(());
        }
        let resumed = steps::current_step(ctx, agents).and_then(|current| current.place);
        for (place, agent) in agents.iter().enumerate().skip(resumed.unwrap_or(0)) {
            let is_resumed = resumed == Some(place);
            let step = steps::run_step(ctx, agent, JsonMap::default(), is_resumed).await?;
            if step == Step::Paused {
                return Ok(());
            }
        }
        ctx.record_agent_end().await
    }
}
