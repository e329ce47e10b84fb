//! `SequentialAgent`: runs its agents one after the other.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Shell, shell_agent, shell_builder};
use crate::{
    agents::{Agent, AgentCallbacks},
    context::{EventWatch, InvocationContext},
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
    shell_agent!();

    async fn run(&self, ctx: &InvocationContext) -> Result<()> {
        for agent in &self.shell.sub_agents {
            let watch = EventWatch::default();
            ctx.watched(&watch).run_agent(agent).await?;
            if watch.is_waiting() {
                return Ok(());
            }
        }
        Ok(())
    }
}
