//! Tools that the model provider runs: Retain declares them and never calls them.

use async_trait::async_trait;
use retain_core::{JsonMap, ModelTool};

use super::Tool;
use crate::{context::ToolContext, error::ToolError, models::LlmRequest};

/// A tool that the model provider runs.
#[derive(Debug, Clone)]
pub struct ModelSideTool {
    name: &'static str,
    /// The tool's name, as the error for an unsupported model shows it.
    title: &'static str,
    kind: &'static str,
    tool: ModelTool,
}

/// Lets the model search with Google.
pub fn google_search() -> ModelSideTool {
    let tool = ModelTool {
        google_search: Some(JsonMap::default()),
        ..ModelTool::default()
    };
    ModelSideTool {
        name: "google_search",
        title: "Google search tool",
        kind: "GoogleSearchTool",
        tool,
    }
}

/// Lets the model read the web pages whose URLs are in the conversation.
pub fn url_context() -> ModelSideTool {
    let tool = ModelTool {
        url_context: Some(JsonMap::default()),
        ..ModelTool::default()
    };
    ModelSideTool {
        name: "url_context",
        title: "Url context tool",
        kind: "UrlContextTool",
        tool,
    }
}

/// Lets the model write and run code.
pub fn code_execution() -> ModelSideTool {
    let tool = ModelTool {
        code_execution: Some(JsonMap::default()),
        ..ModelTool::default()
    };
    ModelSideTool {
        name: "code_execution",
        title: "Gemini code execution tool",
        kind: "BuiltInCodeExecutor",
        tool,
    }
}

#[async_trait]
impl Tool for ModelSideTool {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        self.name
    }

    async fn process_request(
        &self,
        _ctx: &ToolContext,
        request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        if !is_gemini(&request.model) {
            let message = format!(
                "{} is not supported for model {}",
                self.title, request.model
            );
            return Err(ToolError::new(message).with_code("ValueError"));
        }
        request.append_model_tool(self.tool.clone());
        Ok(())
    }
}

/// Whether the last segment of the model's name is the name of a Gemini model. The provider does
/// not matter.
fn is_gemini(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.starts_with("gemini-")
}
