//! `ExampleTool`: adds few-shot examples to the system instruction.

use std::{fmt, fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    Content, FunctionCall, FunctionResponse, Json, JsonMap, Part,
    python_text::{python_repr, python_str},
};

use super::Tool;
use crate::{context::ToolContext, error::ToolError, models::LlmRequest};

/// A sample user message and the expected response.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The user's message.
    pub input: Content,
    /// The messages and calls that follow it.
    pub output: Vec<Content>,
}

/// Selects examples that match the user's message.
pub trait ExampleProvider: fmt::Debug + Send + Sync + 'static {
    /// Returns the examples for `query`.
    fn examples(&self, query: &str) -> Vec<Example>;
}

/// The source of examples.
#[derive(Debug, Clone)]
pub enum Examples {
    /// A fixed list of examples.
    Fixed(Vec<Example>),
    /// Examples that match the user's message.
    Provider(Arc<dyn ExampleProvider>),
}

impl From<Vec<Example>> for Examples {
    fn from(examples: Vec<Example>) -> Examples {
        Examples::Fixed(examples)
    }
}

impl From<Arc<dyn ExampleProvider>> for Examples {
    fn from(provider: Arc<dyn ExampleProvider>) -> Examples {
        Examples::Provider(provider)
    }
}

/// Adds examples to each request. The model never calls this tool.
#[derive(Debug, Clone)]
pub struct ExampleTool {
    examples: Examples,
}

impl ExampleTool {
    /// Creates a tool that adds these examples.
    pub fn new(examples: impl Into<Examples>) -> ExampleTool {
        ExampleTool {
            examples: examples.into(),
        }
    }
}

#[async_trait]
impl Tool for ExampleTool {
    fn kind(&self) -> &'static str {
        "ExampleTool"
    }

    fn name(&self) -> &str {
        "example_tool"
    }

    fn description(&self) -> &str {
        "example tool"
    }

    async fn process_request(
        &self,
        ctx: &ToolContext,
        request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        let message = ctx.user_content();
        if message.parts().is_empty() {
            return Ok(());
        }
        let parts = message
            .parts()
            .iter()
            .filter(|part| part.thought != Some(true));
        let texts = parts.filter_map(|part| part.text.as_deref());
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        let query = texts.join(" ");
        let text = match &self.examples {
            Examples::Fixed(examples) => block(examples, &request.model),
            Examples::Provider(_) if query.is_empty() => return Ok(()),
            Examples::Provider(provider) => block(&provider.examples(&query), &request.model),
        };
        request.append_instruction(&text);
        Ok(())
    }
}

/// Formats the examples in ADK's words.
fn block(examples: &[Example], model: &str) -> String {
    let mut text = String::from(
        "<EXAMPLES>\nBegin few-shot\nThe following are examples of user queries and model \
         responses using the available tools.\n\n",
    );
    let is_gemini = model.is_empty() || model.contains("gemini-");
    for (number, example) in (1..).zip(examples) {
        let _ = write!(text, "EXAMPLE {number}:\nBegin example\n[user]\n");
        push_input(&mut text, &example.input);
        push_output(&mut text, &example.output, is_gemini);
        text.push_str("End example\n\n");
    }
    text.push_str("End few-shot\n<EXAMPLES>");
    text
}

fn push_input(text: &mut String, input: &Content) {
    if input.parts().is_empty() {
        return;
    }
    let texts = input.parts().iter().filter_map(|part| part.text.as_deref());
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    text.push_str(&texts.join("\n"));
    text.push('\n');
}

fn push_output(text: &mut String, output: &[Content], is_gemini: bool) {
    let mut speaker = "";
    for content in output {
        let speaks = match content.role.as_deref() {
            Some("model") => "[model]\n",
            _ => "[user]\n",
        };
        if speaks != speaker {
            text.push_str(speaks);
        }
        speaker = speaks;
        for part in content.parts() {
            push_part(text, part, is_gemini);
        }
    }
}

fn push_part(text: &mut String, part: &Part, is_gemini: bool) {
    let fence = |other: &'static str| if is_gemini { "```\n" } else { other };
    if let Some(call) = &part.function_call {
        text.push_str(fence("```tool_code\n"));
        text.push_str(&call_text(call));
        text.push_str("\n```\n");
    } else if let Some(response) = &part.function_response {
        text.push_str(fence("```tool_outputs\n"));
        text.push_str(&python_repr(&response_fields(response)));
        text.push_str("\n```\n");
    } else if let Some(line) = part.text.as_ref().filter(|line| !line.is_empty()) {
        text.push_str(line);
        text.push('\n');
    }
}

/// Formats the call as Python code.
fn call_text(call: &FunctionCall) -> String {
    let args = call.args.iter().flat_map(JsonMap::iter);
    let args = args.map(|(key, value)| match value {
        Json::String(text) => format!("{key}='{text}'"),
        value => format!("{key}={}", python_str(value)),
    });
    let args: Vec<String> = args.collect();
    let name = call.name.as_deref().unwrap_or("None");
    format!("{name}({})", args.join(", "))
}

/// Returns all fields of a response, including absent ones, because ADK prints them all.
fn response_fields(response: &FunctionResponse) -> Json {
    let text = |value: &Option<String>| Json::from(value.clone());
    let answer = response.response.clone();
    Json::from(JsonMap::from([
        ("will_continue", Json::from(response.will_continue)),
        ("scheduling", text(&response.scheduling)),
        ("parts", Json::Null),
        ("id", text(&response.id)),
        ("name", text(&response.name)),
        ("response", Json::from(answer)),
    ]))
}
