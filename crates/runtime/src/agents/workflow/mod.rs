//! Workflow agents, which run their sub-agents in sequence, in a loop, or in parallel.

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

/// An agent or an `Arc` of one.
pub trait IntoAgent {
    /// Converts the value to a shared agent.
    fn into_agent(self) -> Arc<dyn Agent>;
}

impl<A: Agent> IntoAgent for A {
    fn into_agent(self) -> Arc<dyn Agent> {
        Arc::new(self)
    }
}

impl<A: Agent> IntoAgent for Arc<A> {
    fn into_agent(self) -> Arc<dyn Agent> {
        self
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

/// Implements the builder methods that all workflow agents share.
macro_rules! impl_workflow_builder {
    ($builder:ident) => {
        impl $builder {
            /// Sets a description of the agent's purpose for other agents.
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.fields.description = description.into();
                self
            }

            /// Adds a sub-agent.
            pub fn sub_agent(mut self, agent: impl $crate::agents::IntoAgent) -> Self {
                self.fields.sub_agents.push(agent.into_agent());
                self
            }

            /// Sets the callbacks that run before and after the agent.
            pub fn callbacks(mut self, callbacks: $crate::agents::AgentCallbacks) -> Self {
                self.fields.callbacks = callbacks;
                self
            }
        }
    };
}
use impl_workflow_builder;

/// Implements the methods of the `Agent` trait that all workflow agents share.
macro_rules! impl_workflow_agent {
    () => {
        fn name(&self) -> &str {
            &self.fields.name
        }

        fn description(&self) -> &str {
            &self.fields.description
        }

        fn sub_agents(&self) -> &[Arc<dyn Agent>] {
            &self.fields.sub_agents
        }

        fn callbacks(&self) -> Option<&AgentCallbacks> {
            self.fields.callbacks()
        }

        fn records_its_end(&self) -> bool {
            true
        }
    };
}
use impl_workflow_agent;
