//! Converts contents for each of the two services.
//!
//! Contents already have Gemini's format, so most are sent unchanged. Fields that only the other
//! service supports are rejected, as in Google's client library.

use std::borrow::Cow;

use retain_core::{Content, Part};
use retain_runtime::{ModelError, safe_part};

use super::backend::Backend;
use crate::signers;

/// Creates the error about a field that only the other service supports.
pub(super) fn only_elsewhere(field: &str, backend: &Backend) -> ModelError {
    let (takes, asked) = match backend.is_vertex() {
        true => ("the Gemini API", "Vertex AI"),
        false => ("Vertex AI", "the Gemini API"),
    };
    let message =
        format!("{field} is supported by {takes} only, but the model runs on {asked}; remove it");
    ModelError::new(message).with_code("InvalidRequest")
}

/// Returns the content as JSON text; `None` if no part is left.
pub(super) fn content_text(
    content: &Content,
    backend: &Backend,
) -> Result<Option<String>, ModelError> {
    for part in content.parts() {
        check(part, backend)?;
    }
    let sent = match content.parts().iter().any(|part| is_changed(part, backend)) {
        false => Cow::Borrowed(content),
        true => {
            let parts = content.parts().iter().filter(|part| !is_anothers(part));
            let parts = parts.map(|part| changed(part.clone(), backend));
            let parts: Vec<Part> = parts.collect();
            if parts.len() < content.parts().len() {
                tracing::warn!("left out a thought that another provider signed");
            }
            if parts.is_empty() {
                return Ok(None);
            }
            Cow::Owned(Content {
                parts: Some(parts),
                ..content.clone()
            })
        }
    };
    let text = sent.to_json().map_err(|error| {
        ModelError::new(format!("cannot encode a content: {error}")).with_code("InvalidRequest")
    })?;
    Ok(Some(text))
}

/// Whether another provider signed the thought. Gemini would reject the whole request with it.
fn is_anothers(part: &Part) -> bool {
    let signature = part.thought_signature.as_deref();
    part.thought == Some(true) && signature.is_some_and(signers::is_not_geminis)
}

fn check(part: &Part, backend: &Backend) -> Result<(), ModelError> {
    let call = part.function_call.as_ref();
    let answer = part.function_response.as_ref();
    let refused = match backend {
        Backend::Api => [
            (
                "partialArgs",
                call.is_some_and(|it| it.partial_args.is_some()),
            ),
            (
                "willContinue",
                call.is_some_and(|it| it.will_continue.is_some()),
            ),
            ("", false),
            ("", false),
        ],
        Backend::Vertex { .. } => [
            ("toolCall", part.tool_call.is_some()),
            ("toolResponse", part.tool_response.is_some()),
            ("partMetadata", part.part_metadata.is_some()),
            (
                "willContinue",
                answer.is_some_and(|it| it.will_continue.is_some()),
            ),
        ],
    };
    match refused.iter().find(|(_, is_there)| *is_there) {
        Some((field, _)) => Err(only_elsewhere(field, backend)),
        None => Ok(()),
    }
}

/// Whether the part must be changed. Only Vertex AI supports file names.
fn is_changed(part: &Part, backend: &Backend) -> bool {
    let file = part.file_data.as_ref();
    part.inline_data.is_some()
        || is_anothers(part)
        || (!backend.is_vertex() && file.is_some_and(|file| file.display_name.is_some()))
}

fn changed(mut part: Part, backend: &Backend) -> Part {
    if !backend.is_vertex() {
        if let Some(blob) = &mut part.inline_data {
            blob.display_name = None;
        }
        if let Some(file) = &mut part.file_data {
            file.display_name = None;
        }
    }
    let had_data = part.inline_data.is_some();
    let part = safe_part(part, "inline-file");
    if had_data && part.inline_data.is_none() {
        tracing::warn!(
            "Gemini does not support the media type of a part; sending its text or a placeholder \
             instead"
        );
    }
    part
}
