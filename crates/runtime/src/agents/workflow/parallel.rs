//! `ParallelAgent`: runs its agents side by side, each on a branch of its own.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::{Shell, shell_agent, shell_builder};
use crate::{
    agents::{Agent, AgentCallbacks},
    context::{EventWatch, InvocationContext},
    error::{BuildError, Result},
};

/// Runs its agents side by side. Each sees what led to it and its own events, not those of the
/// others; state is shared by all. An agent directly below it that escalates ends the others.
#[derive(Debug)]
pub struct ParallelAgent {
    shell: Shell,
}

/// Describes a [`ParallelAgent`].
#[must_use]
#[derive(Debug)]
pub struct ParallelAgentBuilder {
    shell: Shell,
}

shell_builder!(ParallelAgentBuilder);

impl ParallelAgent {
    /// Describes an agent of that name.
    pub fn builder(name: impl Into<String>) -> ParallelAgentBuilder {
        ParallelAgentBuilder {
            shell: Shell::named(name),
        }
    }
}

impl ParallelAgentBuilder {
    /// The agent, if it can be as described.
    pub fn build(self) -> Result<ParallelAgent, BuildError> {
        Ok(ParallelAgent {
            shell: self.shell.checked()?,
        })
    }
}

#[async_trait]
impl Agent for ParallelAgent {
    shell_agent!();

    async fn run(&self, ctx: &InvocationContext) -> Result<()> {
        let names = self
            .shell
            .sub_agents
            .iter()
            .map(|agent| agent.name().to_owned());
        let watch = EventWatch::of_authors(names.collect());
        let watched = ctx.watched(&watch);
        let runs = self.shell.sub_agents.iter().map(|agent| {
            let ctx = watched.on_branch(&format!("{}.{}", self.shell.name, agent.name()));
            async move { ctx.run_agent(agent).await }
        });
        let mut runs: FuturesUnordered<_> = runs.collect();
        loop {
            tokio::select! {
                biased;
                // What the others are doing is dropped.
                () = watch.escalated() => return Ok(()),
                ran = runs.next() => match ran {
                    Some(ran) => ran?,
                    None => return Ok(()),
                },
            }
        }
    }
}
