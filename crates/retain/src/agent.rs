//! Agents: those that ask a model, those that run other agents, and agents from ADK's YAML files.

pub use retain_runtime::{
    Agent, AgentCallbacks, AgentConfig, AgentsDir, BeforeModel, BeforeTool, BuildError,
    BuiltInPlanner, CallbackContext, ConfigError, ConfigRegistry, ContentsOptions,
    CustomAgentConfig, FinishedCall, IncludeContents, Instruction, IntoAgent, InvocationContext,
    LiveState, LlmAgent, LlmAgentBuilder, LoopAgent, LoopAgentBuilder, OutputSchema, ParallelAgent,
    ParallelAgentBuilder, Planner, ReadonlyContext, Reloaded, SequentialAgent,
    SequentialAgentBuilder, Template, TemplateError, ToolCall, contents::assemble_contents,
};
