//! Workflow agents: they run their sub-agents in sequence, in a loop, or in parallel.

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

/// A type that can be added as a sub-agent.
pub trait IntoAgent {
    /// Converts the value to a shared agent.
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

/// Fields that all workflow agents share.
#[derive(Debug, Default)]
struct WorkflowFields {
    name: String,
    description: String,
    sub_agents: Vec<Arc<dyn Agent>>,
    callbacks: AgentCallbacks,
}

impl WorkflowFields {
    fn new(name: impl Into<String>) -> WorkflowFields {
        WorkflowFields {
            name: name.into(),
            ..WorkflowFields::default()
        }
    }

    fn validated(self) -> Result<WorkflowFields, BuildError> {
        check_name(&self.name)?;
        Ok(self)
    }

    fn callbacks(&self) -> Option<&AgentCallbacks> {
        let any = !self.callbacks.before.is_empty() || !self.callbacks.after.is_empty();
        any.then_some(&self.callbacks)
    }
}

/// Builder methods that all workflow agents share.
macro_rules! shell_builder {
    ($builder:ident) => {
        impl $builder {
            /// Describes the agent's purpose to other agents.
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.shell.description = description.into();
                self
            }

            /// Adds a sub-agent.
            pub fn sub_agent(mut self, agent: impl $crate::agents::IntoAgent) -> Self {
                self.shell.sub_agents.push(agent.into_agent());
                self
            }

            /// Sets the callbacks that run before and after the agent.
            pub fn callbacks(mut self, callbacks: $crate::agents::AgentCallbacks) -> Self {
                self.shell.callbacks = callbacks;
                self
            }
        }
    };
}
use shell_builder;

/// Methods of the `Agent` trait that all workflow agents share.
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

        fn records_its_end(&self) -> bool {
            true
        }
    };
}
use shell_agent;
