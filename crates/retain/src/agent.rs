//! Agents: LLM agents, agents that run other agents, and agents from ADK's YAML files.

mod llm_agent;

pub use llm_agent::{LlmAgent, LlmAgentBuilder};
pub use retain_runtime::{
    Agent, AgentCallbacks, AgentConfig, AgentsDir, BeforeModel, BeforeTool, BuildError,
    BuiltInPlanner, CallbackContext, ConfigError, ConfigRegistry, ContentsOptions,
    CustomAgentConfig, FinishedCall, IncludeContents, Instruction, IntoAgent, InvocationContext,
    LiveState, LoopAgent, LoopAgentBuilder, OutputSchema, ParallelAgent, ParallelAgentBuilder,
    Planner, ReadonlyContext, ReloadedAgent, SequentialAgent, SequentialAgentBuilder, Template,
    TemplateError, ToolCall, contents::assemble_contents,
};
