//! `LlmRequest`: a model request, which the flow's processors build.

use std::{fmt, sync::Arc};

use retain_core::{Content, GenerateContentConfig, Json, ModelTool, Part};

use crate::{
    contents::insertion_point_before_user_turn,
    shared_content::SharedContent,
    tools::{Tool, ToolMap},
};

/// A request to a model.
#[derive(Clone, Default)]
pub struct LlmRequest {
    /// The model's name.
    pub model: String,
    /// The conversation, oldest first.
    pub contents: Vec<SharedContent>,
    /// Instruction, settings and declared tools.
    pub config: GenerateContentConfig,
    /// The tools that handle function calls in the response.
    pub tools: ToolMap,
    /// The interaction that this request continues, for providers that store the history.
    pub previous_interaction_id: Option<String>,
    /// Instructions that tools added while the request was built.
    pub(crate) dynamic_instructions: Vec<String>,
    /// Whether the contents of the static instruction have been inserted.
    static_prefix: StaticPrefix,
}

/// Whether the contents of the static instruction have been inserted. They stay at the front, so
/// that providers can cache them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum StaticPrefix {
    #[default]
    None,
    /// The request has such contents but has not inserted them yet.
    Pending,
    /// The number of leading contents that belong to the static instruction.
    Placed(usize),
}

impl fmt::Debug for LlmRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmRequest")
            .field("model", &self.model)
            .field("contents", &self.contents)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl LlmRequest {
    /// Adds a paragraph to the system instruction.
    pub fn append_instruction(&mut self, text: &str) {
        match &mut self.config.system_instruction {
            Some(instruction) if !instruction.is_empty() => {
                instruction.push_str("\n\n");
                instruction.push_str(text);
            }
            instruction => *instruction = Some(text.to_owned()),
        }
    }

    /// Adds a tool's instruction for this request.
    pub fn append_dynamic_instruction(&mut self, text: impl Into<String>) {
        self.dynamic_instructions.push(text.into());
    }

    /// Adds a static instruction. Its texts go into the system instruction, with references to its
    /// data, which follows as user contents.
    pub fn append_static_instruction(&mut self, content: &Content) {
        let mut texts = Vec::new();
        let mut data = Vec::new();
        for part in content.parts() {
            if let Some(text) = part.text.as_ref().filter(|text| !text.is_empty()) {
                texts.push(text.clone());
            } else if let Some((text, content)) = reference_to_data(part, data.len()) {
                texts.push(text);
                data.push(SharedContent::from(content));
            }
        }
        if !texts.is_empty() {
            self.append_instruction(&texts.join("\n\n"));
        }
        if !data.is_empty() {
            self.contents.extend(data);
            self.static_prefix = StaticPrefix::Pending;
        }
    }

    /// Declares a tool and registers it for calls, if it has a declaration.
    pub fn append_tool(&mut self, tool: &Arc<dyn Tool>) {
        let Some(mut declaration) = tool.declaration() else {
            return;
        };
        let name = tool.name();
        declaration.name.get_or_insert_with(|| name.to_owned());
        if self.tools.insert(Arc::clone(tool)).is_some() {
            tracing::warn!(
                tool = name,
                "two tools have this name; calls reach the later one"
            );
        }
        let tools = self.config.tools.get_or_insert_default();
        let with_functions = tools.iter_mut().find_map(|tool| {
            tool.function_declarations
                .as_mut()
                .filter(|d| !d.is_empty())
        });
        match with_functions {
            Some(declarations) => declarations.push(declaration),
            None => tools.push(ModelTool {
                function_declarations: Some(vec![declaration]),
                ..ModelTool::default()
            }),
        }
    }

    /// Adds a tool that the model provider runs.
    pub fn append_model_tool(&mut self, tool: ModelTool) {
        self.config.tools.get_or_insert_default().push(tool);
    }

    /// Requests an answer that follows `schema`.
    pub fn set_output_schema(&mut self, schema: Json) {
        self.config.response_schema = Some(schema);
        self.config.response_mime_type = Some("application/json".to_owned());
    }

    /// Inserts contents for this request only: before the user's current turn and after the static
    /// instruction's contents.
    pub fn insert_before_user_turn(&mut self, contents: Vec<SharedContent>) {
        if contents.is_empty() {
            return;
        }
        let at = match self.static_prefix {
            StaticPrefix::Pending => {
                self.static_prefix = StaticPrefix::Placed(contents.len());
                0
            }
            StaticPrefix::Placed(end) => insertion_point_before_user_turn(&self.contents).max(end),
            StaticPrefix::None => insertion_point_before_user_turn(&self.contents),
        };
        self.contents.splice(at..at, contents);
    }
}

/// Returns the text by which a static instruction refers to data, and the content with the data.
fn reference_to_data(part: &Part, number: usize) -> Option<(String, Content)> {
    let (kind, id, about, data) = if let Some(blob) = &part.inline_data {
        let about = [
            blob.display_name.as_ref().map(|name| format!("'{name}'")),
            blob.mime_type.as_ref().map(|mime| format!("type: {mime}")),
            None,
        ];
        let data = Part {
            inline_data: Some(blob.clone()),
            ..Part::default()
        };
        (
            "inline binary data",
            format!("inline_data_{number}"),
            about,
            data,
        )
    } else {
        let file = part.file_data.as_ref()?;
        let about = [
            file.display_name.as_ref().map(|name| format!("'{name}'")),
            file.file_uri.as_ref().map(|uri| format!("URI: {uri}")),
            file.mime_type.as_ref().map(|mime| format!("type: {mime}")),
        ];
        let data = Part {
            file_data: Some(file.clone()),
            ..Part::default()
        };
        ("file data", format!("file_data_{number}"), about, data)
    };
    let about: Vec<String> = about.into_iter().flatten().collect();
    let about = match about.is_empty() {
        true => String::new(),
        false => format!(" ({})", about.join(", ")),
    };
    let short = kind.replace("binary ", "");
    let lead = Part::text(format!("Referenced {short}: {id}"));
    let text = format!("[Reference to {kind}: {id}{about}]");
    Some((text, Content::new("user", vec![lead, data])))
}
