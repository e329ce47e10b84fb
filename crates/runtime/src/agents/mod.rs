//! Agents: what a runner runs.

mod builder;
mod callbacks;
mod instruction;
mod lifecycle;
mod llm_agent;
mod output;
mod planner;
mod router;
mod tree;
mod workflow;

use std::{fmt, sync::Arc};

use async_trait::async_trait;

pub use builder::LlmAgentBuilder;
pub use callbacks::{AgentCallbacks, BeforeModel, BeforeTool, FinishedCall, ToolCall};
pub(crate) use callbacks::{ModelCallbacks, ToolCallbacks, callback_failed};
pub(crate) use callbacks::{OnAgent, OnCall, OnRequest, OnResponse, OnResult};
pub use instruction::Instruction;
pub(crate) use lifecycle::{owed_after_agent, run_agent};
pub use llm_agent::{IncludeContents, LlmAgent};
pub(crate) use output::OutputKeeper;
pub use output::OutputSchema;
pub use planner::{BuiltInPlanner, Planner};
pub(crate) use router::{agent_to_run, branch_of};
pub(crate) use tree::AgentTree;
pub use workflow::{
    IntoAgent, LoopAgent, LoopAgentBuilder, ParallelAgent, ParallelAgentBuilder, SequentialAgent,
    SequentialAgentBuilder,
};

use crate::{context::InvocationContext, error::Result};

/// Something that answers a user. Most agents are [`LlmAgent`]s; one of your own is this trait.
///
/// ```
/// use async_trait::async_trait;
/// use retain_core::Event;
/// use retain_runtime::{Agent, InvocationContext, RunError};
///
/// /// Answers without asking any model.
/// #[derive(Debug)]
/// struct Greeter;
///
/// #[async_trait]
/// impl Agent for Greeter {
///     fn name(&self) -> &str {
///         "greeter"
///     }
///
///     async fn run(&self, ctx: &InvocationContext) -> Result<(), RunError> {
///         let text = format!("Hello, {}!", ctx.session_key().user);
///         ctx.emit(Event::model_text(self.name(), text)).await?;
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Agent: fmt::Debug + Send + Sync + 'static {
    /// The agent's name: a word that is not `user`, unique among the agents of a runner.
    fn name(&self) -> &str;

    /// What it is good for, in words for other agents.
    fn description(&self) -> &str {
        ""
    }

    /// What kind of agent it is, by ADK's name, for those who draw or list agents.
    fn kind(&self) -> &'static str {
        "BaseAgent"
    }

    /// The agents below it.
    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &[]
    }

    /// What is called before and after it.
    fn callbacks(&self) -> Option<&AgentCallbacks> {
        None
    }

    /// Does the agent's work, by emitting events. What is emitted is stored.
    async fn run(&self, ctx: &InvocationContext) -> Result<()>;

    /// The agent as one that asks a model, if it is one.
    #[doc(hidden)]
    fn as_llm_agent(&self) -> Option<&LlmAgent> {
        None
    }

    /// Whether it says itself when it is done, and says nothing but answers.
    #[doc(hidden)]
    fn notes_its_end(&self) -> bool {
        false
    }

    /// Looks at an event that a callback gave in place of the agent, before it is emitted.
    #[doc(hidden)]
    fn stamp_output(&self, _event: &mut retain_core::Event) -> Result<()> {
        Ok(())
    }
}
