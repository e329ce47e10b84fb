//! Agents that run others: one after the other, again and again, or side by side.

mod loop_agent;
mod parallel;
mod sequential;
mod steps;

use std::sync::Arc;

pub use loop_agent::{LoopAgent, LoopAgentBuilder};
pub use parallel::{ParallelAgent, ParallelAgentBuilder};
pub use sequential::{SequentialAgent, SequentialAgentBuilder};

use super::{Agent, AgentCallbacks, builder::check_name};
use crate::error::BuildError;

/// Something that can be an agent below another one.
pub trait IntoAgent {
    /// The agent, to be shared.
    fn into_agent(self) -> Arc<dyn Agent>;
}

impl<A: Agent> IntoAgent for A {
    fn into_agent(self) -> Arc<dyn Agent> {
        Arc::new(self)
    }
}

impl IntoAgent for Arc<dyn Agent> {
    fn into_agent(self) -> Arc<dyn Agent> {
        self
    }
}

/// What all these agents have.
#[derive(Debug, Default)]
struct Shell {
    name: String,
    description: String,
    sub_agents: Vec<Arc<dyn Agent>>,
    callbacks: AgentCallbacks,
}

impl Shell {
    fn named(name: impl Into<String>) -> Shell {
        Shell {
            name: name.into(),
            ..Shell::default()
        }
    }

    fn checked(self) -> Result<Shell, BuildError> {
        check_name(&self.name)?;
        Ok(self)
    }

    fn callbacks(&self) -> Option<&AgentCallbacks> {
        let any = !self.callbacks.before.is_empty() || !self.callbacks.after.is_empty();
        any.then_some(&self.callbacks)
    }
}

/// The builder methods that all these agents have.
macro_rules! shell_builder {
    ($builder:ident) => {
        impl $builder {
            /// What it is good for, in words for other agents.
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.shell.description = description.into();
                self
            }

            /// Adds an agent below it.
            pub fn sub_agent(mut self, agent: impl $crate::agents::IntoAgent) -> Self {
                self.shell.sub_agents.push(agent.into_agent());
                self
            }

            /// What is called before and after it.
            pub fn callbacks(mut self, callbacks: $crate::agents::AgentCallbacks) -> Self {
                self.shell.callbacks = callbacks;
                self
            }
        }
    };
}
use shell_builder;

/// The methods of the trait that all these agents have.
macro_rules! shell_agent {
    () => {
        fn name(&self) -> &str {
            &self.shell.name
        }

        fn description(&self) -> &str {
            &self.shell.description
        }

        fn sub_agents(&self) -> &[Arc<dyn Agent>] {
            &self.shell.sub_agents
        }

        fn callbacks(&self) -> Option<&AgentCallbacks> {
            self.shell.callbacks()
        }

        fn notes_its_end(&self) -> bool {
            true
        }
    };
}
use shell_agent;
