//! ADK's built-in tools: exiting a loop and asking the user.

use retain_core::{Json, JsonMap};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{FunctionTool, ToolOutput};

/// Lets the model end the loop that its agent runs in.
pub fn exit_loop_tool() -> FunctionTool {
    FunctionTool::untyped(
        "exit_loop",
        "Exits the loop.\n\nCall this function only when you are instructed to do so.",
        None,
        |ctx, _args| async move {
            ctx.update_actions(|actions| {
                actions.escalate = Some(true);
                actions.skip_summarization = Some(true);
            });
            Ok(ToolOutput::none())
        },
    )
}

/// Offers the user some options and waits for a choice.
pub fn get_user_choice_tool() -> FunctionTool {
    let parameters = serde_json::json!({
        "type": "object",
        "properties": {"options": {"type": "array", "items": {"type": "string"}}},
        "required": ["options"],
    });
    let tool = FunctionTool::untyped(
        "get_user_choice",
        "Provides the options to the user and asks them to choose one.",
        Some(parameters.into()),
        |ctx, _args: JsonMap| async move {
            ctx.update_actions(|actions| actions.skip_summarization = Some(true));
            Ok(ToolOutput::none())
        },
    );
    tool.long_running()
}

const REQUEST_INPUT: &str = "Ask the user a question and wait for their response.

Use this when you need clarification or additional information before
proceeding.

Args:
  message: The question or prompt to display to the user.
  response_schema: JSON Schema describing the expected response format. Use
    {\"type\": \"string\"} for free-text, {\"type\": \"boolean\"} for
    yes/no, or a structured object schema for complex input.

Returns:
  None. Long-running tools return None to signal that the execution should
  pause and wait for user input.";

// Do not write a doc comment: the model would receive it as a description.
#[derive(Debug, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only its schema is used: the user answers")]
struct Question {
    message: String,
    response_schema: Option<JsonObject>,
}

type JsonObject = serde_json::Map<String, serde_json::Value>;

/// Asks the user a question and waits for the answer.
pub fn request_input_tool() -> FunctionTool {
    let tool = FunctionTool::new(
        "adk_request_input",
        REQUEST_INPUT,
        |_ctx, _question: Question| async move { Ok(Json::Null) },
    );
    tool.long_running()
}
