//! Parses errors, whose format differs from server to server.

use retain_core::Json;

use super::json::text;
use crate::provider::{Failure, plain_failure};

/// Parses the body of an error response.
pub(crate) fn parse_failure(status: u16, body: &str) -> Failure {
    match Json::parse(body) {
        Ok(json) => parse_json_failure(Some(status), &json),
        Err(_) => plain_failure(status, body),
    }
}

/// Parses an error object from an error response, a stream, or a response with a successful status.
pub(super) fn parse_json_failure(status: Option<u16>, json: &Json) -> Failure {
    // vLLM sends the fields of the error at the top level, Ollama a string, web frameworks
    // `detail`.
    let error = match json.get("error") {
        Some(error) if !error.is_null() => error,
        _ => json,
    };
    let code = code(status, error);
    let message_text = error.as_str().or_else(|| text(error, "message"));
    let message_text = message_text.or_else(|| text(json, "message"));
    let mut message = match message_text {
        Some(text) => text.to_owned(),
        None => match json.get("detail") {
            Some(detail) => detail
                .as_str()
                .map_or_else(|| detail.to_string(), str::to_owned),
            None => format!("the server returned an error without a message: {json}"),
        },
    };
    // OpenRouter puts the upstream provider's message in a separate field.
    if let Some(raw) = text(&error["metadata"], "raw") {
        message.push_str(": ");
        message.push_str(raw);
    }
    let mut failure = Failure::new(code, message);
    failure.is_final = failure.code == "insufficient_quota";
    failure
}

/// Returns the error code. Prefers a word to a number, which only repeats the status.
fn code(status: Option<u16>, error: &Json) -> String {
    let code = error.get("code").filter(|code| !code.is_null());
    let code = code.map(|code| {
        code.as_str()
            .map_or_else(|| code.to_string(), str::to_owned)
    });
    let code = code.filter(|code| !code.is_empty());
    let is_number = |code: &String| code.parse::<i64>().is_ok();
    let (number, word) = match code {
        Some(code) if is_number(&code) => (Some(code), None),
        word => (None, word),
    };
    let status = status.map(|status| status.to_string());
    word.or_else(|| text(error, "type").map(str::to_owned))
        .or(number)
        .or(status)
        .unwrap_or_else(|| "error".to_owned())
}

/// Returns the error, if any, in a stream event or in a response with a successful status.
pub(crate) fn reported_failure(json: &Json) -> Option<Failure> {
    let is_nested = json.get("error").is_some_and(|error| !error.is_null());
    let is_flat = json["object"] == "error";
    (is_nested || is_flat).then(|| parse_json_failure(None, json))
}

/// Whether an error code in a response body or a stream means a transient error.
pub(crate) fn is_transient(code: &str) -> bool {
    let words = [
        "rate_limit_exceeded",
        "server_error",
        "api_error",
        "overloaded",
        "service_unavailable",
        "timeout",
        "InternalServerError",
    ];
    let statuses = ["408", "429", "500", "502", "503", "504"];
    words.contains(&code) || statuses.contains(&code)
}
