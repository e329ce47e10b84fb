//! Formats content as ADK records it in spans, without bytes or secrets.

use retain_core::{Content, Event, Json, JsonMap, LlmResponse, Part, redacted};
use tracing::Span;

use super::{CONTENT, Telemetry};
use crate::models::LlmRequest;

/// The value for content that is not recorded. ADK's web UI expects JSON there.
const OMITTED: &str = "{}";

/// Records a content attribute where the settings allow it: in the span, or in an event for layers
/// of this process. Calls `text` only if the result is used.
pub(super) fn record_content(
    span: &Span,
    telemetry: Telemetry,
    attribute: &'static str,
    text: impl Fn() -> String,
) {
    if span.is_disabled() {
        return;
    }
    if telemetry.content_in_spans {
        span.record(attribute, text().as_str());
        return;
    }
    span.record(attribute, OMITTED);
    if telemetry.content_in_process {
        tracing::trace!(target: CONTENT, parent: span, attribute, value = text().as_str());
    }
}

/// Whether the content is recorded anywhere.
pub(super) fn is_recorded(span: &Span, telemetry: Telemetry) -> bool {
    !span.is_disabled() && (telemetry.content_in_spans || telemetry.content_in_process)
}

/// Formats the request, without bytes and without the HTTP options, which may contain API keys.
pub(super) fn request_text(request: &LlmRequest) -> String {
    let contents = request.contents.iter().map(|content| {
        let parts = content.parts().iter();
        let parts = parts.filter(|part| part.inline_data.is_none());
        to_wire_json(&with_parts(content, parts.map(without_signature)))
    });
    let contents: Vec<Json> = contents.collect();
    let mut config = request.config.clone();
    config.response_schema = None;
    config.http_options = None;
    let config = config.to_snake_json().ok();
    let config = config.and_then(|config| Json::parse(&config).ok());
    let mut json = JsonMap::from([("model", request.model.as_str())]);
    json.insert("config", config.unwrap_or_default());
    json.insert("contents", contents);
    redacted(Json::from(json).to_string())
}

/// Formats the answer, with the number of bytes instead of the bytes.
pub(super) fn response_text(response: &LlmResponse) -> String {
    let mut response = response.clone();
    if let Some(content) = &mut response.content {
        let parts = content.parts().iter().map(|part| match &part.inline_data {
            None => without_signature(part),
            Some(blob) => {
                let mime = blob.mime_type.as_deref().unwrap_or("unknown");
                let bytes = blob.data.as_ref().map_or(0, |data| data.len());
                Part::text(format!("<inline_data: {mime}, {bytes} bytes>"))
            }
        });
        *content = with_parts(content, parts.collect::<Vec<_>>().into_iter());
    }
    let text = response.to_snake_json();
    redacted(text.unwrap_or_else(|_| OMITTED.to_owned()))
}

/// Formats the arguments of a tool call.
pub(super) fn arguments_text(args: &JsonMap) -> String {
    redacted(Json::from(args.clone()).to_string())
}

/// Formats a tool's answer.
pub(super) fn answer_text(event: &Event) -> String {
    let answers = event.function_responses();
    let answer = answers.first().and_then(|answer| answer.response.clone());
    let answer = answer.unwrap_or_else(|| JsonMap::from([("result", "<not specified>")]));
    redacted(Json::from(answer).to_string())
}

/// Formats the answers of several tools.
pub(super) fn answers_text(event: &Event) -> String {
    let answers = event.function_responses();
    let texts = answers.iter().filter_map(|answer| {
        let text = answer.to_snake_json().ok()?;
        Json::parse(&text).ok()
    });
    let texts: Vec<Json> = texts.collect();
    redacted(Json::from(texts).to_string())
}

fn with_parts(content: &Content, parts: impl Iterator<Item = Part>) -> Content {
    Content {
        parts: Some(parts.collect()),
        ..content.clone()
    }
}

/// Removes the signature, which only the provider can read.
fn without_signature(part: &Part) -> Part {
    let mut part = part.clone();
    part.thought_signature = None;
    part
}

fn to_wire_json(content: &Content) -> Json {
    let text = content.to_snake_json().ok();
    let json = text.and_then(|text| Json::parse(&text).ok());
    json.unwrap_or_default()
}
