//! `load_memory`: lets the model search the user's memory beyond this session.
//!
//! Results are returned as data, each entry with its author and time. Very long texts are cut,
//! because one entry must not make all later requests too long for the model.

use async_trait::async_trait;
use retain_core::{
    FunctionDeclaration, Json, JsonMap, MemoryEntry, SearchMemoryResponse, prompt_text::LOAD_MEMORY,
};

use super::{Tool, ToolOutput, function::missing_parameters, preload_memory::size_limit_per_entry};
use crate::{context::ToolContext, error::ToolError, models::LlmRequest};

const DESCRIPTION: &str = "Loads the memory for the current user.

Args:
  query: The query to load the memory for.

Returns:
  A list of memory results.";

const HINT: &str = "
You have memory. You can use it to answer questions. If any questions need
you to look up the memory, you should call load_memory function with a query.
";

/// Maximum total number of characters in the results: about 20,000 tokens.
const MAX_CHARS: usize = 80_000;

/// Returns the tool that lets the model search memory. Its results have at most about 20,000 tokens
/// of text; beyond that, it cuts long entries.
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
        if let Some(error) = missing_parameters(self.name(), Some(&parameters()), &args) {
            return Ok(error.into());
        }
        let query = args["query"].as_str().unwrap_or_default();
        let found = ctx.search_memory(query).await?;
        let memories = memories_json(&found)?;
        let response = JsonMap::from([("memories", Json::from(memories))]);
        // As in ADK, the whole response is the value of `result`.
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
    let sizes = found.memories.iter().map(text_length).collect();
    let room = size_limit_per_entry(sizes, MAX_CHARS);
    let memories = found.memories.iter().map(|memory| {
        let text = match text_length(memory) > room {
            true => truncate(memory.clone(), room).to_snake_json()?,
            false => memory.to_snake_json()?,
        };
        Json::parse(&text)
    });
    let memories: Result<Vec<Json>, _> = memories.collect();
    memories.map_err(|error| ToolError::from(Box::new(error) as retain_core::BoxError))
}

fn text_length(memory: &MemoryEntry) -> usize {
    let texts = memory.content.parts().iter();
    let texts = texts.filter_map(|part| part.text.as_deref());
    texts.map(|text| text.chars().count()).sum()
}

/// Cuts an entry's texts to `room` characters. Author, time and other parts are kept.
fn truncate(mut memory: MemoryEntry, mut room: usize) -> MemoryEntry {
    let parts = memory.content.parts.iter_mut().flatten();
    for text in parts.filter_map(|part| part.text.as_mut()) {
        let size = text.chars().count();
        if size > room {
            let start = text.chars().take(room.saturating_sub(2));
            *text = start.chain(" …".chars()).collect();
        }
        room = room.saturating_sub(size);
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;
    use retain_core::Content;

    #[test]
    fn huge_memories_are_truncated_so_that_others_fit() {
        let memory = |text: String| MemoryEntry {
            content: Content::user(text),
            author: Some("user".to_owned()),
            ..MemoryEntry::default()
        };
        let found = |texts: Vec<String>| {
            let response = SearchMemoryResponse {
                memories: texts.into_iter().map(memory).collect(),
                ..SearchMemoryResponse::default()
            };
            let memories = memories_json(&response).unwrap();
            assert!(memories.iter().all(|it| it["author"] == "user"));
            let texts = memories.iter().map(|it| &it["content"]["parts"][0]["text"]);
            let texts = texts.map(|text| text.as_str().unwrap().to_owned());
            texts.collect::<Vec<String>>()
        };
        let (huge, short) = ("ß".repeat(1_000_000), "I like tea.".to_owned());
        let texts = found(vec![huge.clone(), short.clone(), huge]);
        assert_eq!(texts[1], short);
        for cut in [&texts[0], &texts[2]] {
            let size = cut.chars().count();
            assert!(
                cut.ends_with("ß …") && (39_000..40_000).contains(&size),
                "{size}"
            );
        }
        let fitting = vec!["x".repeat(30_000), "y".repeat(50_000)];
        assert_eq!(found(fitting.clone()), fitting);
    }
}
