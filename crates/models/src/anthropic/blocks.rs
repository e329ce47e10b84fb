//! Converts parts to content blocks. Unsupported parts are dropped with a warning: the history
//! contains them forever, so an error would make the session unusable.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use retain_core::{Bytes, Json, JsonMap, Part};
use retain_runtime::ModelError;

use super::{ids::CallIds, invalid_request, tool_result};
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

    /// Returns the ID of the call, if the block is one.
    pub(super) fn call_id(&self) -> Option<&str> {
        self.json["id"].as_str()
    }

    /// Returns the ID of the call that the block answers, if the block is a result.
    pub(super) fn answered_call(&self) -> Option<&str> {
        self.json["tool_use_id"].as_str()
    }

    pub(super) fn text(text: impl Into<String>) -> Block {
        Block::new(JsonMap::from([
            ("type", Json::from("text")),
            ("text", text.into().into()),
        ]))
    }
}

/// Whether a part has nothing but a blank text. The API rejects such a part.
pub(super) fn is_empty_text(part: &Part) -> bool {
    let is_empty = part.text.as_deref().is_some_and(|text| !is_not_blank(text));
    is_empty && part.thought_signature.is_none() && !has_data(part)
}

/// Whether a text is not blank. The API rejects blank texts.
pub(super) fn is_not_blank(text: &str) -> bool {
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

/// Returns the block for a part; `None` if there is nothing to send.
pub(super) fn block(
    part: &Part,
    is_user: bool,
    ids: &mut CallIds,
) -> Result<Option<Block>, ModelError> {
    if part.thought == Some(true) && !has_data(part) {
        return Ok(thought(part));
    }
    if let Some(text) = part.text.as_ref().filter(|text| is_not_blank(text)) {
        return Ok(Some(Block::text(text.as_str())));
    }
    if let Some(call) = &part.function_call {
        let Some(name) = &call.name else {
            return Err(invalid_request(
                "a function call in the history has no name",
            ));
        };
        let args = call.args.clone().unwrap_or_default();
        return Ok(Some(Block::new(JsonMap::from([
            ("type", Json::from("tool_use")),
            ("id", ids.id_of_call(call.id.as_deref(), name).into()),
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
    Ok(media(part, is_user))
}

/// Returns a thought as Claude sent it: with its signature, or encrypted.
fn thought(part: &Part) -> Option<Block> {
    let signature = part.thought_signature.as_deref();
    let Some(signature) = signature.and_then(signers::may_be_claudes) else {
        tracing::warn!("dropped a thought without Claude's signature");
        return None;
    };
    let block = match &part.text {
        // A thought that Claude does not show has an empty text and a signature.
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

/// Converts inline media or media at a URL.
fn media(part: &Part, is_user: bool) -> Option<Block> {
    let (mime_type, source) = if let Some(blob) = &part.inline_data {
        let data = blob.data.as_ref()?;
        (blob.mime_type.as_deref(), MediaSource::Bytes(data))
    } else if let Some(file) = &part.file_data {
        let uri = file.file_uri.as_deref()?;
        (file.mime_type.as_deref(), MediaSource::Url(uri))
    } else {
        if part.tool_call.is_some() || part.tool_response.is_some() {
            tracing::warn!("dropped a call that another provider executed");
        } else if part.thought_signature.is_some() {
            tracing::warn!("dropped a signature of another model");
        }
        return None;
    };
    let mime_type = plain_type(mime_type.unwrap_or_default());
    if !is_user {
        tracing::warn!(
            %mime_type,
            "dropped media in a model message, which Claude does not support"
        );
        return None;
    }
    match media_block(&mime_type, &source) {
        Some(block) => Some(Block::new(block)),
        None => {
            tracing::warn!(%mime_type, "dropped data of a type that Claude does not support");
            let text =
                format!("[Data of type {mime_type} was omitted: this model does not support it]");
            Some(Block::text(text))
        }
    }
}

/// The source of media.
pub(super) enum MediaSource<'a> {
    Bytes(&'a Bytes),
    Url(&'a str),
}

/// Returns a media type without its parameters.
pub(super) fn plain_type(mime_type: &str) -> String {
    let plain = mime_type.split(';').next().unwrap_or_default();
    plain.trim().to_ascii_lowercase()
}

/// Converts media to a block; `None` if it is not an image, a PDF or a plain text that Claude
/// supports.
pub(super) fn media_block(mime_type: &str, source: &MediaSource<'_>) -> Option<JsonMap> {
    let is_image = matches!(
        mime_type,
        "image/jpeg" | "image/png" | "image/gif" | "image/webp"
    );
    let kind = if is_image { "image" } else { "document" };
    let source = match source {
        MediaSource::Bytes(data) if is_image || mime_type == "application/pdf" => JsonMap::from([
            ("type", Json::from("base64")),
            ("media_type", mime_type.into()),
            ("data", STANDARD.encode(&data[..]).into()),
        ]),
        MediaSource::Bytes(data) if mime_type.starts_with("text/") => {
            let text = std::str::from_utf8(data).ok()?;
            is_not_blank(text).then_some(())?;
            JsonMap::from([
                ("type", "text"),
                ("media_type", "text/plain"),
                ("data", text),
            ])
        }
        MediaSource::Url(uri) if is_image || mime_type == "application/pdf" => {
            // Claude fetches only over HTTPS, so it cannot read `gs://` URIs.
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
