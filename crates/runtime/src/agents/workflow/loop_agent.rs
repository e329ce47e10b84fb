//! `LoopAgent`: runs its agents again and again.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Shell, shell_agent, shell_builder};
use crate::{
    agents::{Agent, AgentCallbacks},
    context::{EventWatch, InvocationContext},
    error::{BuildError, Result},
};

/// Runs its agents again and again, until one of them escalates or the rounds are used up.
#[derive(Debug)]
pub struct LoopAgent {
    shell: Shell,
    max_iterations: Option<u32>,
}

/// Describes a [`LoopAgent`].
#[must_use]
#[derive(Debug)]
pub struct LoopAgentBuilder {
    shell: Shell,
    max_iterations: Option<u32>,
}

shell_builder!(LoopAgentBuilder);

impl LoopAgent {
    /// Describes an agent of that name.
    pub fn builder(name: impl Into<String>) -> LoopAgentBuilder {
        LoopAgentBuilder {
            shell: Shell::named(name),
            max_iterations: None,
        }
    }
}

impl LoopAgentBuilder {
    /// At most so many rounds. Without it the loop ends only when an agent escalates.
    pub fn max_iterations(mut self, rounds: u32) -> Self {
        self.max_iterations = Some(rounds);
        self
    }

    /// The agent, if it can be as described.
    pub fn build(self) -> Result<LoopAgent, BuildError> {
        Ok(LoopAgent {
            shell: self.shell.checked()?,
            max_iterations: self.max_iterations,
        })
    }
}

#[async_trait]
impl Agent for LoopAgent {
    shell_agent!();

    async fn run(&self, ctx: &InvocationContext) -> Result<()> {
        if self.shell.sub_agents.is_empty() {
            return Ok(());
        }
        let mut rounds = 0;
        while self.max_iterations.is_none_or(|most| rounds < most) {
            for agent in &self.shell.sub_agents {
                let watch = EventWatch::default();
                ctx.watched(&watch).run_agent(agent).await?;
                if watch.is_waiting() || watch.has_escalated() {
                    return Ok(());
                }
            }
            rounds += 1;
            // Agents that emit nothing must not hold the thread.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}
