//! Converts function responses to `tool_result` blocks: text as in ADK, plus media.

use retain_core::python_text::{python_json_ascii, python_str};
use retain_core::{Bytes, FunctionResponse, Json, JsonMap};

use super::{
    blocks::{MediaSource, is_not_blank, media_block, plain_type},
    ids::CallIds,
};

pub(super) fn block(response: &FunctionResponse, ids: &mut CallIds) -> Json {
    let text = text(response.response.as_ref());
    let media = media(response);
    let content: Json = match media.is_empty() {
        true => text.into(),
        false => {
            let lead = is_not_blank(&text).then(|| {
                let lead = [("type", Json::from("text")), ("text", text.into())];
                Json::from(JsonMap::from(lead))
            });
            lead.into_iter().chain(media).collect::<Vec<_>>().into()
        }
    };
    let function = response.name.as_deref().unwrap_or_default();
    let id = ids.id_of_result(response.id.as_deref(), function);
    JsonMap::from([
        ("type", Json::from("tool_result")),
        ("tool_use_id", id.into()),
        ("content", content),
        ("is_error", false.into()),
    ])
    .into()
}

/// Creates a placeholder result for a call without one, such as after an interrupted run. Claude
/// rejects a history with unanswered calls.
pub(super) fn placeholder(id: &str) -> Json {
    JsonMap::from([
        ("type", Json::from("tool_result")),
        ("tool_use_id", id.into()),
        ("content", PLACEHOLDER.into()),
        ("is_error", true.into()),
    ])
    .into()
}

const PLACEHOLDER: &str =
    "There is no result: the run may have been interrupted before the function finished.";

/// Returns the text of `content` or `result` if the response has one of them, else the whole
/// response as JSON.
fn text(response: Option<&JsonMap>) -> String {
    let Some(response) = response.filter(|response| !response.is_empty()) else {
        return String::new();
    };
    match &response["content"] {
        Json::Array(items) if !items.is_empty() => {
            let lines: Vec<String> = items.iter().map(format_item).collect();
            return lines.join("\n");
        }
        Json::String(text) if !text.is_empty() => return text.to_string(),
        _ => {}
    }
    match &response["result"] {
        Json::Null => {}
        result if response.len() == 1 => {
            return match result {
                Json::Object(_) | Json::Array(_) => python_json_ascii(result),
                plain => python_str(plain),
            };
        }
        _ => {}
    }
    python_json_ascii(&response.clone().into())
}

/// Formats one item of an MCP result.
fn format_item(item: &Json) -> String {
    match (item["type"].as_str(), &item["text"]) {
        (Some("text"), Json::String(text)) => text.to_string(),
        _ => python_str(item),
    }
}

fn media(response: &FunctionResponse) -> Vec<Json> {
    let parts = response.parts.as_ref().and_then(|parts| parts.as_array());
    let blocks = parts.unwrap_or_default().iter().filter_map(|part| {
        let blob = &part["inlineData"];
        let data = Bytes::from_base64(blob["data"].as_str()?)?;
        let mime_type = plain_type(blob["mimeType"].as_str()?);
        let block = media_block(&mime_type, &MediaSource::Bytes(&data));
        if block.is_none() {
            tracing::warn!(
                %mime_type,
                "dropped data of a type that Claude does not support in a tool result"
            );
        }
        block.map(Json::from)
    });
    blocks.collect()
}
