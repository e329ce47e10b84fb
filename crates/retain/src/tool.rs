//! Tools: functions that a model may call, toolsets, and built-in tools.

pub use retain_core::ToolConfirmation;
pub use retain_runtime::{
    AgentTool, Example, ExampleProvider, ExampleTool, Examples, FunctionTool, LoadArtifactsTool,
    ModelSideTool, PreloadMemoryTool, Tool, ToolContext, ToolError, ToolMap, ToolOutput,
    ToolSource, Toolset, code_execution, exit_loop_tool, get_user_choice_tool, google_search,
    load_artifacts_tool, load_memory_tool, preload_memory_tool, request_input_tool, url_context,
};

/// Tools of MCP servers.
#[cfg(feature = "mcp")]
pub use retain_mcp as mcp;
