//! `set_model_response`: returns the final answer through a tool call, for models that do not
//! support an output schema together with tools.

use async_trait::async_trait;
use retain_core::{FunctionDeclaration, Json, JsonMap};

use super::{Tool, ToolOutput};
use crate::{agents::OutputSchema, context::ToolContext, error::ToolError};

/// The tool's name.
pub(crate) const SET_MODEL_RESPONSE: &str = "set_model_response";

const DESCRIPTION: &str = "Set your final response using the required output schema.

Use this tool to provide your final structured answer instead
of outputting text directly.";

/// Validates the final answer against its schema's Rust type, if it has one, and stores the answer
/// in the event's actions.
#[derive(Debug)]
pub(crate) struct SetModelResponseTool {
    schema: OutputSchema,
}

impl SetModelResponseTool {
    pub(crate) fn new(schema: OutputSchema) -> SetModelResponseTool {
        SetModelResponseTool { schema }
    }

    /// Returns the schema of the arguments. A typed answer is the arguments themselves; an untyped
    /// one is the argument `response`.
    fn parameters(&self) -> Json {
        if self.schema.is_typed() {
            return self.schema.schema().clone();
        }
        let value = serde_json::json!({
            "type": "object",
            "properties": {"response": {"type": "object"}},
            "required": ["response"],
        });
        value.into()
    }
}

#[async_trait]
impl Tool for SetModelResponseTool {
    fn kind(&self) -> &'static str {
        "SetModelResponseTool"
    }

    fn name(&self) -> &str {
        SET_MODEL_RESPONSE
    }

    fn description(&self) -> &str {
        DESCRIPTION
    }

    fn declaration(&self) -> Option<FunctionDeclaration> {
        Some(FunctionDeclaration {
            name: Some(SET_MODEL_RESPONSE.to_owned()),
            description: Some(DESCRIPTION.to_owned()),
            parameters_json_schema: Some(self.parameters()),
            ..FunctionDeclaration::default()
        })
    }

    async fn run(&self, ctx: ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let given = match self.schema.is_typed() {
            true => Json::from(args),
            false => args.get("response").cloned().unwrap_or_default(),
        };
        let answer = match self.schema.validate(&given) {
            Ok(answer) => answer,
            Err(error) => {
                let message = format!(
                    "Validation Error found:\n{error}\nRecall the set_model_response function \
                     correctly, fix the errors, and call it again with all required fields using \
                     the correct types."
                );
                return Ok(Json::from(JsonMap::from([("error", message)])).into());
            }
        };
        ctx.update_actions(|actions| actions.set_model_response = Some(answer.clone()));
        Ok(answer.into())
    }
}
