//! A part as a content block. What Claude cannot take is left out, and a warning says so: a part
//! stays in the history, so a refusal would end the session for good.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use retain_core::{Bytes, Json, JsonMap, Part};
use retain_runtime::ModelError;

use super::{ids::CallIds, refused, tool_result};
use crate::signers;

/// A content block.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) json: Json,
}

impl Block {
    fn new(json: JsonMap) -> Block {
        Block { json: json.into() }
    }

    /// The id of the call that it is.
    pub(super) fn call(&self) -> Option<&str> {
        self.json["id"].as_str()
    }

    /// The id of the call that it is the result of.
    pub(super) fn result_of(&self) -> Option<&str> {
        self.json["tool_use_id"].as_str()
    }

    pub(super) fn text(text: impl Into<String>) -> Block {
        Block::new(JsonMap::from([
            ("type", Json::from("text")),
            ("text", text.into().into()),
        ]))
    }
}

/// Whether a part is nothing but a text without words, which the API refuses.
pub(super) fn is_empty_text(part: &Part) -> bool {
    let is_empty = part.text.as_deref().is_some_and(|text| !has_words(text));
    is_empty && part.thought_signature.is_none() && !has_data(part)
}

/// Whether there is anything in a text but white space: the API refuses a block without.
pub(super) fn has_words(text: &str) -> bool {
    !text.trim().is_empty()
}

fn has_data(part: &Part) -> bool {
    part.function_call.is_some()
        || part.function_response.is_some()
        || part.inline_data.is_some()
        || part.file_data.is_some()
        || part.executable_code.is_some()
        || part.code_execution_result.is_some()
        || part.tool_call.is_some()
        || part.tool_response.is_some()
}

/// The block for a part; `None` where there is nothing to send.
pub(super) fn block(
    part: &Part,
    is_user: bool,
    ids: &mut CallIds,
) -> Result<Option<Block>, ModelError> {
    if part.thought == Some(true) && !has_data(part) {
        return Ok(thought(part));
    }
    if let Some(text) = part.text.as_ref().filter(|text| has_words(text)) {
        return Ok(Some(Block::text(text.as_str())));
    }
    if let Some(call) = &part.function_call {
        let Some(name) = &call.name else {
            return Err(refused("a function call in the history has no name"));
        };
        let args = call.args.clone().unwrap_or_default();
        return Ok(Some(Block::new(JsonMap::from([
            ("type", Json::from("tool_use")),
            ("id", ids.of_call(call.id.as_deref(), name).into()),
            ("name", name.as_str().into()),
            ("input", args.into()),
        ]))));
    }
    if let Some(response) = &part.function_response {
        return Ok(Some(Block {
            json: tool_result::block(response, ids),
        }));
    }
    if let Some(code) = &part.executable_code {
        let code = code.code.as_deref().unwrap_or_default();
        return Ok(Some(Block::text(format!("Code:```python\n{code}\n```"))));
    }
    if let Some(result) = &part.code_execution_result {
        let output = result.output.as_deref().unwrap_or_default();
        let text = format!("Execution Result:```code_output\n{output}\n```");
        return Ok(Some(Block::text(text)));
    }
    Ok(data(part, is_user))
}

/// A thought goes back as it came: with its signature, or as the sealed text it was.
fn thought(part: &Part) -> Option<Block> {
    let signature = part.thought_signature.as_deref();
    let Some(signature) = signature.and_then(signers::may_be_claudes) else {
        tracing::warn!("a thought without Claude's signature is not sent back to Claude");
        return None;
    };
    let block = match &part.text {
        // Thoughts that are not shown are empty, and signed all the same.
        Some(text) => [
            ("type", "thinking"),
            ("thinking", text.as_str()),
            ("signature", signature),
        ]
        .into_iter()
        .collect(),
        None => JsonMap::from([("type", "redacted_thinking"), ("data", signature)]),
    };
    Some(Block::new(block))
}

/// Media, in the message or at an address.
fn data(part: &Part, is_user: bool) -> Option<Block> {
    let (mime_type, source) = if let Some(blob) = &part.inline_data {
        let data = blob.data.as_ref()?;
        (blob.mime_type.as_deref(), Source::Bytes(data))
    } else if let Some(file) = &part.file_data {
        let uri = file.file_uri.as_deref()?;
        (file.mime_type.as_deref(), Source::Address(uri))
    } else {
        if part.tool_call.is_some() || part.tool_response.is_some() {
            tracing::warn!("a call of another provider's own tool is not sent to Claude");
        } else if part.thought_signature.is_some() {
            tracing::warn!("a signature of another model is not sent to Claude");
        }
        return None;
    };
    let mime_type = plain_type(mime_type.unwrap_or_default());
    if !is_user {
        tracing::warn!(%mime_type, "Claude takes no media in the model's own turns; left out");
        return None;
    }
    match media_block(&mime_type, &source) {
        Some(block) => Some(Block::new(block)),
        None => {
            tracing::warn!(%mime_type, "Claude cannot take this kind of data; it is left out");
            let about =
                format!("[Data of type {mime_type} was left out: this model cannot take it]");
            Some(Block::text(about))
        }
    }
}

/// Where media is.
pub(super) enum Source<'a> {
    Bytes(&'a Bytes),
    Address(&'a str),
}

/// A media type without its parameters.
pub(super) fn plain_type(mime_type: &str) -> String {
    let plain = mime_type.split(';').next().unwrap_or_default();
    plain.trim().to_ascii_lowercase()
}

/// Pictures, PDF and plain text are taken.
pub(super) fn media_block(mime_type: &str, source: &Source<'_>) -> Option<JsonMap> {
    let is_image = matches!(
        mime_type,
        "image/jpeg" | "image/png" | "image/gif" | "image/webp"
    );
    let kind = if is_image { "image" } else { "document" };
    let source = match source {
        Source::Bytes(data) if is_image || mime_type == "application/pdf" => JsonMap::from([
            ("type", Json::from("base64")),
            ("media_type", mime_type.into()),
            ("data", STANDARD.encode(&data[..]).into()),
        ]),
        Source::Bytes(data) if mime_type.starts_with("text/") => {
            let text = std::str::from_utf8(data).ok()?;
            has_words(text).then_some(())?;
            JsonMap::from([
                ("type", "text"),
                ("media_type", "text/plain"),
                ("data", text),
            ])
        }
        Source::Address(uri) if is_image || mime_type == "application/pdf" => {
            // Google's storage is closed to others, and what is not encrypted is not fetched.
            uri.starts_with("https://").then_some(())?;
            JsonMap::from([("type", "url"), ("url", uri)])
        }
        _ => return None,
    };
    Some(JsonMap::from([
        ("type", Json::from(kind)),
        ("source", source.into()),
    ]))
}
