//! `load_memory`: lets the model search what is known of the user beyond this session.

use async_trait::async_trait;
use retain_core::{FunctionDeclaration, Json, JsonMap, SearchMemoryResponse};

use super::{Tool, ToolOutput, function::missing_parameters};
use crate::{context::ToolContext, error::ToolError, models::LlmRequest};

/// The tool's name.
pub(crate) const LOAD_MEMORY: &str = "load_memory";

const DESCRIPTION: &str = "Loads the memory for the current user.

Args:
  query: The query to load the memory for.

Returns:
  A list of memory results.";

const HINT: &str = "
You have memory. You can use it to answer questions. If any questions need
you to look up the memory, you should call load_memory function with a query.
";

/// The tool that lets the model search memory.
pub fn load_memory_tool() -> impl Tool {
    LoadMemory
}

#[derive(Debug, Clone, Copy)]
struct LoadMemory;

#[async_trait]
impl Tool for LoadMemory {
    fn kind(&self) -> &'static str {
        "LoadMemoryTool"
    }

    fn name(&self) -> &str {
        LOAD_MEMORY
    }

    fn description(&self) -> &str {
        DESCRIPTION
    }

    fn declaration(&self) -> Option<FunctionDeclaration> {
        Some(FunctionDeclaration {
            name: Some(self.name().to_owned()),
            description: Some(DESCRIPTION.to_owned()),
            parameters_json_schema: Some(parameters()),
            ..FunctionDeclaration::default()
        })
    }

    async fn process_request(
        &self,
        _ctx: &ToolContext,
        request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        request.append_instruction(HINT);
        Ok(())
    }

    async fn run(&self, ctx: ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        if let Some(told) = missing_parameters(self.name(), Some(&parameters()), &args) {
            return Ok(told.into());
        }
        let query = args["query"].as_str().unwrap_or_default();
        let found = ctx.search_memory(query).await?;
        let memories = memories_json(&found)?;
        let response = JsonMap::from([("memories", Json::from(memories))]);
        // As in ADK, the response stands as the one result.
        Ok(Json::from(JsonMap::from([("result", Json::from(response))])).into())
    }
}

fn parameters() -> Json {
    Json::from(serde_json::json!({
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    }))
}

fn memories_json(found: &SearchMemoryResponse) -> Result<Vec<Json>, ToolError> {
    let memories = found.memories.iter().map(|memory| {
        let text = memory.to_snake_json()?;
        Json::parse(&text)
    });
    let memories: Result<Vec<Json>, _> = memories.collect();
    memories.map_err(|error| ToolError::from(Box::new(error) as retain_core::BoxError))
}
