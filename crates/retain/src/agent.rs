//! Agents: LLM agents, agents that run other agents, and agents from ADK's YAML files.

mod llm_agent;

pub use llm_agent::{LlmAgent, LlmAgentBuilder};
/// The agent inside an [`LlmAgent`], as [`Agent::as_llm_agent`] returns it.
pub use retain_runtime::LlmAgent as BaseLlmAgent;
pub use retain_runtime::{
    Agent, AgentCallbacks, AgentConfig, AgentsDir, BeforeModel, BeforeTool, BuildError,
    BuiltInPlanner, CallbackContext, ConfigError, ConfigRegistry, ContentsOptions,
    CustomAgentConfig, FinishedCall, IncludeContents, Instruction, InstructionProvider, IntoAgent,
    InvocationContext, LiveState, LoopAgent, LoopAgentBuilder, OutputSchema, ParallelAgent,
    ParallelAgentBuilder, Planner, ReadonlyContext, ReloadedAgent, SequentialAgent,
    SequentialAgentBuilder, Template, TemplateError, ToolCall, contents::assemble_contents,
};
