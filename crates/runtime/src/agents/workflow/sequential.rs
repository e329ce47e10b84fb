//! `SequentialAgent`: runs its agents one after the other.

use std::sync::Arc;

use async_trait::async_trait;
use retain_core::JsonMap;

use super::{
    Shell, shell_agent, shell_builder,
    steps::{self, Step},
};
use crate::{
    agents::{Agent, AgentCallbacks},
    context::InvocationContext,
    error::{BuildError, Result},
};

/// Runs its agents one after the other. A call that waits for the user ends the turn; answering it
/// goes on with the agent that asked.
#[derive(Debug)]
pub struct SequentialAgent {
    shell: Shell,
}

/// Describes a [`SequentialAgent`].
#[must_use]
#[derive(Debug)]
pub struct SequentialAgentBuilder {
    shell: Shell,
}

shell_builder!(SequentialAgentBuilder);

impl SequentialAgent {
    /// Describes an agent of that name.
    pub fn builder(name: impl Into<String>) -> SequentialAgentBuilder {
        SequentialAgentBuilder {
            shell: Shell::named(name),
        }
    }
}

impl SequentialAgentBuilder {
    /// The agent, if it can be as described.
    pub fn build(self) -> Result<SequentialAgent, BuildError> {
        Ok(SequentialAgent {
            shell: self.shell.checked()?,
        })
    }
}

#[async_trait]
impl Agent for SequentialAgent {
    fn kind(&self) -> &'static str {
        "SequentialAgent"
    }

    shell_agent!();

    async fn run(&self, ctx: &InvocationContext) -> Result<()> {
        let agents = &self.shell.sub_agents;
        if agents.is_empty() {
            return Ok(());
        }
        let resumed = steps::current(ctx, agents).and_then(|current| current.place);
        for (place, agent) in agents.iter().enumerate().skip(resumed.unwrap_or(0)) {
            let is_resumed = resumed == Some(place);
            let step = steps::run(ctx, agent, JsonMap::default(), is_resumed).await?;
            if step == Step::Paused {
                return Ok(());
            }
        }
        ctx.end_of_agent().await
    }
}
