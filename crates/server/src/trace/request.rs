//! A model's request and answer as the texts that ADK's web UI shows.

use retain_core::{Json, JsonMap, LlmResponse};
use retain_runtime::LlmRequest;

use crate::adk::redacted;

/// The request, in the form in which ADK puts it into a span.
pub(super) fn request_text(request: &LlmRequest) -> String {
    let contents = request.contents.iter().map(|content| {
        let text = content.to_snake_json().ok();
        text.and_then(|text| Json::parse(&text).ok())
            .unwrap_or_default()
    });
    let contents: Vec<Json> = contents.collect();
    let config = request.config.to_snake_json().ok();
    let config = config.and_then(|config| Json::parse(&config).ok());
    let mut json = JsonMap::from([("model", request.model.as_str())]);
    json.insert("config", config.unwrap_or_default());
    json.insert("contents", contents);
    redacted(Json::from(json).to_string())
}

/// The answer, likewise.
pub(super) fn response_text(response: &LlmResponse) -> String {
    let text = response.to_snake_json();
    redacted(text.unwrap_or_else(|_| "{}".to_owned()))
}

/// What a tool was given, or gave.
pub(super) fn value_text(value: &Json) -> String {
    redacted(value.to_string())
}
