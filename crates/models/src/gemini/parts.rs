//! Converts contents for each of Google's two services.
//!
//! Contents already have Gemini's format, so most are sent unchanged. A field that only the other
//! service supports is rejected, as in Google's client library.

use std::borrow::Cow;

use retain_core::{Content, Part};
use retain_runtime::{ModelError, safe_part};

use super::backend::Backend;
use crate::signers;

/// Creates the error for a field that only the other service supports.
pub(super) fn unsupported_field(field: &str, backend: &Backend) -> ModelError {
    let (supporting, used) = match backend.is_vertex() {
        true => ("the Gemini API", "Vertex AI"),
        false => ("Vertex AI", "the Gemini API"),
    };
    let message = format!(
        "{field} is supported by {supporting} only, but the model runs on {used}; remove it"
    );
    ModelError::new(message).with_code("InvalidRequest")
}

/// Returns the content as JSON text; `None` if it has only thoughts of other providers, which are
/// dropped.
pub(super) fn content_text(
    content: &Content,
    backend: &Backend,
) -> Result<Option<String>, ModelError> {
    for part in content.parts() {
        check_part(part, backend)?;
    }
    let sent = match content
        .parts()
        .iter()
        .any(|part| needs_conversion(part, backend))
    {
        false => Cow::Borrowed(content),
        true => {
            let parts = content
                .parts()
                .iter()
                .filter(|part| !has_foreign_signature(part));
            let parts = parts.map(|part| convert_part(part.clone(), backend));
            let parts: Vec<Part> = parts.collect();
            if parts.len() < content.parts().len() {
                tracing::warn!("dropped a thought that another provider signed");
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

/// Whether the part is a thought that another provider signed. Gemini rejects a request that
/// contains one.
fn has_foreign_signature(part: &Part) -> bool {
    let signature = part.thought_signature.as_deref();
    part.thought == Some(true) && signature.is_some_and(signers::is_not_geminis)
}

/// Rejects a part with a field that only the other service supports.
fn check_part(part: &Part, backend: &Backend) -> Result<(), ModelError> {
    let call = part.function_call.as_ref();
    let answer = part.function_response.as_ref();
    let unsupported = match backend {
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
    match unsupported.iter().find(|(_, is_set)| *is_set) {
        Some((field, _)) => Err(unsupported_field(field, backend)),
        None => Ok(()),
    }
}

/// Whether the part cannot be sent unchanged: it has inline data, a foreign signature, or a file
/// name that the Gemini API does not support.
fn needs_conversion(part: &Part, backend: &Backend) -> bool {
    let file = part.file_data.as_ref();
    part.inline_data.is_some()
        || has_foreign_signature(part)
        || (!backend.is_vertex() && file.is_some_and(|file| file.display_name.is_some()))
}

fn convert_part(mut part: Part, backend: &Backend) -> Part {
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
