//! `McpTool`: an agent's tool that calls a tool of an MCP server.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{FunctionDeclaration, Json, JsonMap, Shaped};
use retain_runtime::{LlmRequest, Tool, ToolContext, ToolError, ToolOutput};

use crate::{
    client::ServerTool,
    connection::Connection,
    failure::{Failure, FailureKind},
    fence,
    result::{stored_result, stored_tool},
    toolset::prefixed_name,
};

/// Decides whether the user must approve a call with these arguments.
pub(crate) type ConfirmationCheck = Arc<dyn Fn(&JsonMap) -> bool + Send + Sync>;

/// A tool of a server.
pub(crate) struct McpTool {
    /// The prefixed name, which the model uses and the server does not know.
    name: String,
    tool: ServerTool,
    connection: Arc<Connection>,
    confirmation: Option<ConfirmationCheck>,
}

impl McpTool {
    pub(crate) fn new(
        prefix: Option<&str>,
        tool: ServerTool,
        connection: Arc<Connection>,
        confirmation: Option<ConfirmationCheck>,
    ) -> McpTool {
        McpTool {
            name: prefixed_name(prefix, &tool.name),
            tool,
            connection,
            confirmation,
        }
    }

    /// Returns the declaration for the model, with the server's texts enclosed in markers.
    fn fenced_declaration(&self) -> FunctionDeclaration {
        let output = self.tool.output_schema.as_ref();
        FunctionDeclaration {
            name: Some(self.name.clone()),
            description: Some(fence::fence_text(&self.tool.description)),
            parameters_json_schema: Some(fence::fence_schema(&self.tool.input_schema)),
            response_json_schema: output.map(fence::fence_schema),
            ..FunctionDeclaration::default()
        }
    }

    /// Returns the URI of the page that displays the tool's result (an "MCP App"), if any.
    fn page_uri(&self) -> Option<&str> {
        let meta = self.tool.wire.get("_meta")?;
        let nested = meta.get("ui").and_then(|ui| ui.get("resourceUri"));
        [nested, meta.get("ui/resourceUri")]
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .find(|uri| uri.starts_with("ui://"))
    }

    /// Adds to the event an action that makes the user interface show the page.
    fn show_page(&self, ctx: &ToolContext, uri: &str, args: JsonMap) {
        let widget = JsonMap::from([
            ("id", Json::from(ctx.function_call_id().unwrap_or_default())),
            ("provider", "mcp".into()),
            (
                "payload",
                JsonMap::from([
                    ("resource_uri", Json::from(uri)),
                    ("tool", stored_tool(&self.tool.wire).into()),
                    ("tool_args", args.into()),
                ])
                .into(),
            ),
        ]);
        ctx.update_actions(|actions| {
            let shown = actions.render_ui_widgets.as_deref();
            let shown = shown.and_then(Json::as_array).unwrap_or_default();
            let mut all = shown.to_vec();
            all.push(widget.into());
            actions.render_ui_widgets = Some(Shaped::new(all));
        });
    }
}

#[async_trait]
impl Tool for McpTool {
    fn kind(&self) -> &'static str {
        "McpTool"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.tool.description
    }

    fn declaration(&self) -> Option<FunctionDeclaration> {
        Some(FunctionDeclaration {
            name: Some(self.name.clone()),
            description: Some(self.tool.description.clone()),
            parameters_json_schema: Some(self.tool.input_schema.clone()),
            response_json_schema: self.tool.output_schema.clone(),
            ..FunctionDeclaration::default()
        })
    }

    async fn process_request(
        &self,
        _ctx: &ToolContext,
        request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        // Search from the end for the declaration that was just added.
        let tools = request.config.tools.iter_mut().flatten().rev();
        let mut declared =
            tools.flat_map(|tool| tool.function_declarations.iter_mut().flatten().rev());
        if let Some(own) = declared.find(|it| it.name.as_deref() == Some(&self.name)) {
            *own = self.fenced_declaration();
        }
        let instruction = request.config.system_instruction.as_deref();
        if !instruction.is_some_and(|text| text.contains(fence::PREAMBLE)) {
            request.append_instruction(fence::PREAMBLE);
        }
        Ok(())
    }

    async fn requires_confirmation(&self, _ctx: &ToolContext, args: &JsonMap) -> bool {
        self.confirmation.as_ref().is_some_and(|when| when(args))
    }

    async fn run(&self, ctx: ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        match self.connection.call(&self.tool.name, &args).await {
            Ok(wire) => {
                if let Some(uri) = self.page_uri() {
                    self.show_page(&ctx, uri, args);
                }
                Ok(Json::from(stored_result(&wire)).into())
            }
            Err(failure) => {
                let (tool, kind) = (&self.name, failure.kind);
                tracing::warn!(tool, ?kind, "a call to an MCP tool failed");
                tracing::debug!(tool, error = %failure, "a call to an MCP tool failed");
                Ok(error_response(&failure).into())
            }
        }
    }
}

/// Returns the response to the model for a failed call. As in ADK, the run continues.
fn error_response(failure: &Failure) -> Json {
    let lead = match failure.kind {
        FailureKind::ProtocolError | FailureKind::NoValidAnswer => "MCP tool execution failed",
        _ => "Unexpected error during MCP tool execution",
    };
    JsonMap::from([("error", format!("{lead}: {failure}"))]).into()
}

impl fmt::Debug for McpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTool")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
