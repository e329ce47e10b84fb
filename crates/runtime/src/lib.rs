//! Runs agents: from the user's message to the stored events. Independent of any database.
//!
//! [`Runner`] stores a message and runs an agent on its session. [`LlmAgent`] builds a request from
//! the session, calls a [`Model`], runs the [`Tool`]s that the model calls, and calls the model
//! again. The caller gets a complete event only after it is stored.

// A run's future is moved and polled on stacks of 1 or 2 MB.
#![warn(clippy::large_futures)]

mod agents;
mod artifact_parts;
pub mod compaction;
mod config;
pub mod contents;
mod context;
mod error;
mod flow;
mod interrupts;
mod look_alikes;
mod maintenance;
mod models;
mod plugins;
mod runner;
mod scheduler;
mod schema;
mod shared_content;
pub mod telemetry;
pub mod template;
mod tools;

pub use agents::{
    Agent, AgentCallbacks, BeforeModel, BeforeTool, BuiltInPlanner, FinishedCall, IncludeContents,
    Instruction, InstructionProvider, IntoAgent, LlmAgent, LlmAgentBuilder, LoopAgent,
    LoopAgentBuilder, OutputSchema, ParallelAgent, ParallelAgentBuilder, Planner, SequentialAgent,
    SequentialAgentBuilder, ToolCall,
};
pub use artifact_parts::safe_part;
pub use compaction::{
    CompactionConfig, CompactionError, EventSummarizer, LlmEventSummarizer, Summary,
};
#[doc(hidden)]
pub use config::yaml_to_json;
pub use config::{
    AgentConfig, AgentsDir, ConfigError, ConfigRegistry, CustomAgentConfig, ReloadedAgent,
};
pub use contents::ContentsOptions;
pub use context::{CallbackContext, InvocationContext, LiveState, ReadonlyContext, ToolContext};
pub use error::{BuildError, ModelError, Result, RunError, ToolError, error_kind};
pub use maintenance::{
    FindRunner, Maintenance, MaintenanceReport, MaintenanceStatus, MaintenanceTask,
};
pub use models::{
    IntoModel, LlmRequest, Model, ModelCapabilities, ModelRegistry, ModelSpec, ModelStream,
    OfflineModel, ScriptedModel, ScriptedReply, StreamAggregator,
};
pub use plugins::{HookResult, Plugin, ReadMessage, SaveFilesAsArtifactsPlugin};
pub use runner::{
    BlockingRun, RunConfig, RunHandle, RunRequest, RunStream, Runner, RunnerBuilder, StreamingMode,
};
pub use shared_content::SharedContent;
pub use telemetry::Telemetry;
pub use template::{Template, TemplateError};
pub use tools::{
    AgentTool, Example, ExampleProvider, ExampleTool, Examples, FunctionTool, LoadArtifactsTool,
    ModelSideTool, PreloadMemoryTool, Tool, ToolMap, ToolOutput, ToolSource, Toolset,
    code_execution, exit_loop_tool, get_user_choice_tool, google_search, load_artifacts_tool,
    load_memory_tool, preload_memory_tool, request_input_tool, url_context,
};
