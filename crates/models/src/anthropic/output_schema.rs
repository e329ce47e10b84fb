//! Structured output as in ADK: the response schema becomes the input schema of a tool that Claude
//! must call, and the call's arguments are the answer. All models support this; only the newest
//! support a native schema (`output_config.format`).

use retain_core::python_text::python_json;
use retain_core::{FunctionCall, Json, JsonMap, Part};

use crate::openai::schema::{as_object, json_schema, value_in};

/// The tool whose input is the answer.
const ANSWER: &str = "retain_structured_output";
/// The tool for an answer that is not an object: the tool's input is an object with the answer as
/// its only property.
const VALUE: &str = "retain_structured_value";

const DESCRIPTION: &str = "Provide your final answer. Call this tool exactly once, with your whole \
                           answer in the structure its input describes.";

/// Whether the name belongs to a structured-output tool, so that no function may use it.
pub(super) fn is_reserved(name: &str) -> bool {
    name == ANSWER || name == VALUE
}

/// Whether the arguments of a call with this name are streamed as the text of the answer.
pub(super) fn streams_as_text(name: &str) -> bool {
    name == ANSWER
}

/// Returns the tool for a schema, and the tool choice that forces Claude to call it.
pub(super) fn as_tool(schema: &Json, thinks: bool) -> (Json, Json) {
    let (schema, is_wrapped) = as_object(json_schema(schema));
    let name = if is_wrapped { VALUE } else { ANSWER };
    let tool = JsonMap::from([
        ("name", Json::from(name)),
        ("description", DESCRIPTION.into()),
        ("input_schema", schema),
    ]);
    let mut choice = match thinks {
        // Claude rejects a forced call while thinking is enabled.
        true => JsonMap::from([("type", "auto")]),
        false => JsonMap::from([("type", "tool"), ("name", name)]),
    };
    choice.insert("disable_parallel_tool_use", true);
    (tool.into(), choice.into())
}

/// Replaces the tool's call with the call's arguments as text. Other texts are dropped, because
/// they would be read as part of the answer; thoughts are kept.
pub(super) fn replace_call_with_answer(parts: Vec<Part>) -> Vec<Part> {
    let answer = parts.iter().find_map(|part| {
        let call = part.function_call.as_ref()?;
        is_reserved(call.name.as_deref()?).then(|| answer_text(call))
    });
    let Some(answer) = answer else { return parts };
    let thoughts = parts.into_iter().filter(|part| part.thought == Some(true));
    thoughts.chain([Part::text(answer)]).collect()
}

fn answer_text(call: &FunctionCall) -> String {
    let args = call.args.clone().unwrap_or_default();
    match call.name.as_deref() {
        Some(VALUE) => {
            let args = args.into();
            python_json(value_in(&args).unwrap_or(&args))
        }
        _ => python_json(&args.into()),
    }
}
