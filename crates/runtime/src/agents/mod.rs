//! Agents: the trait, the built-in agents, and the tree of agents that a runner runs.

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
pub(crate) use callbacks::{
    AfterModelCallback, AfterToolCallback, AgentCallback, BeforeModelCallback, BeforeToolCallback,
};
pub use callbacks::{AgentCallbacks, BeforeModel, BeforeTool, FinishedCall, ToolCall};
pub(crate) use callbacks::{ModelCallbacks, ToolCallbacks, callback_failed};
pub use instruction::{Instruction, InstructionProvider};
pub(crate) use lifecycle::{run_agent, run_pending_after_callbacks};
pub use llm_agent::{IncludeContents, LlmAgent};
pub(crate) use output::OutputRecorder;
pub use output::OutputSchema;
pub use planner::{BuiltInPlanner, Planner};
pub(crate) use router::{agent_to_run, latest_branch};
pub(crate) use tree::AgentTree;
pub use workflow::{
    IntoAgent, LoopAgent, LoopAgentBuilder, ParallelAgent, ParallelAgentBuilder, SequentialAgent,
    SequentialAgentBuilder,
};

use crate::{context::InvocationContext, error::Result};

/// An agent answers a user's message. Most agents are [`LlmAgent`]s; implement this trait to write
/// your own.
///
/// ```
/// use async_trait::async_trait;
/// use retain_core::Event;
/// use retain_runtime::{Agent, InvocationContext, RunError};
///
/// /// Answers without calling a model.
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
    /// Returns the agent's name: an identifier other than `user`, unique among the agents of a
    /// runner.
    fn name(&self) -> &str;

    /// Describes the agent's purpose to other agents.
    fn description(&self) -> &str {
        ""
    }

    /// Returns the name of the agent's ADK class, for tools that draw or list agents.
    fn kind(&self) -> &'static str {
        "BaseAgent"
    }

    /// Returns the agent's sub-agents.
    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &[]
    }

    /// Callbacks that run before and after the agent.
    fn callbacks(&self) -> Option<&AgentCallbacks> {
        None
    }

    /// Runs the agent. Every event that it emits is appended to the session, except partial ones.
    async fn run(&self, ctx: &InvocationContext) -> Result<()>;

    /// Returns the agent as an `LlmAgent`, if it is one.
    #[doc(hidden)]
    fn as_llm_agent(&self) -> Option<&LlmAgent> {
        None
    }

    /// Whether the agent records its end itself in a resumable run. If so, an agent that has given
    /// a final response does not run again when the run is resumed.
    #[doc(hidden)]
    fn records_its_end(&self) -> bool {
        false
    }

    /// Lets the agent change the event of a `before_agent` callback that answered in its place.
    #[doc(hidden)]
    fn stamp_output(&self, _event: &mut retain_core::Event) -> Result<()> {
        Ok(())
    }
}
