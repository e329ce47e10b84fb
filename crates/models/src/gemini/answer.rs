//! Parses Gemini's responses as ADK does.

use std::time::Duration;

use retain_core::{Content, Json, JsonMap, LlmResponse};
use retain_runtime::ModelError;

use crate::{
    http::{AttemptError, delay_from_secs, malformed},
    provider::{Failure, plain_failure},
};

/// Parses a text as JSON.
pub(super) fn parse_json(text: &str) -> Result<Json, ModelError> {
    Json::parse(text).map_err(|error| {
        malformed(format!("cannot parse Gemini's response: {error}")).with_source(error)
    })
}

/// Converts a response to `LlmResponse`, or to the error that it reports.
pub(super) fn convert_response(response: &Json) -> Result<LlmResponse, AttemptError> {
    if let Some(failure) = failure_in(response, None) {
        return Err(failure.into());
    }
    if response.as_object().is_none() {
        return Err(malformed("Gemini's response is not a JSON object").into());
    }
    let mut fields = JsonMap::new();
    copy(&mut fields, "usageMetadata", response, "usageMetadata");
    copy(&mut fields, "modelVersion", response, "modelVersion");
    let candidates = response["candidates"].as_array().unwrap_or_default();
    let feedback = &response["promptFeedback"];
    if candidates.len() > 1 {
        tracing::warn!("Gemini returned several candidates; using the first");
    }
    if let Some(candidate) = candidates.first() {
        copy_candidate(&mut fields, candidate);
    } else if feedback.as_object().is_some() {
        copy(&mut fields, "errorCode", feedback, "blockReason");
        copy(&mut fields, "errorMessage", feedback, "blockReasonMessage");
    } else {
        tracing::warn!(
            "Gemini returned neither a candidate nor prompt feedback; treating this as an empty answer"
        );
        let empty = Content::new("model", Vec::new());
        return Ok(LlmResponse {
            content: Some(empty),
            ..to_response(fields)?
        });
    }
    Ok(to_response(fields)?)
}

fn copy_candidate(fields: &mut JsonMap, candidate: &Json) {
    let parts = candidate["content"]["parts"].as_array().unwrap_or_default();
    let has_answer = !parts.is_empty() || candidate["finishReason"] == "STOP";
    match has_answer {
        true => {
            copy(fields, "content", candidate, "content");
            copy(fields, "groundingMetadata", candidate, "groundingMetadata");
        }
        false => {
            copy(fields, "errorCode", candidate, "finishReason");
            copy(fields, "errorMessage", candidate, "finishMessage");
        }
    }
    for name in ["finishReason", "avgLogprobs", "logprobsResult"] {
        copy(fields, name, candidate, name);
    }
    let citations = &candidate["citationMetadata"];
    if let Some(sources) = citations.get("citationSources") {
        // The Gemini API names this field `citationSources`; Vertex AI and ADK name it `citations`.
        fields.insert(
            "citationMetadata",
            JsonMap::from([("citations", sources.clone())]),
        );
    } else {
        copy(fields, "citationMetadata", candidate, "citationMetadata");
    }
}

fn copy(into: &mut JsonMap, name: &str, from: &Json, source_name: &str) {
    if let Some(value) = from.get(source_name).filter(|value| !value.is_null()) {
        into.insert(name, value.clone());
    }
}

/// Converts the fields to `LlmResponse`. Drops invalid fields with a warning; only invalid content
/// is an error.
fn to_response(mut fields: JsonMap) -> Result<LlmResponse, ModelError> {
    loop {
        let text = Json::from(fields.clone()).to_json();
        let error = match text.and_then(|text| LlmResponse::from_json(&text)) {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let path = error.path();
        let field = path.split(['.', '[']).next().unwrap_or_default();
        if field == "content" || fields.remove(field).is_none() {
            let message = format!("cannot parse Gemini's response: {error}");
            return Err(malformed(message).with_source(error));
        }
        tracing::warn!(field, %error, "dropped an invalid field of Gemini's response");
    }
}

/// Whether an error with this code is transient.
pub(crate) fn is_transient(code: &str) -> bool {
    matches!(
        code,
        "UNAVAILABLE" | "INTERNAL" | "RESOURCE_EXHAUSTED" | "DEADLINE_EXCEEDED" | "ABORTED"
    )
}

/// Parses an error response.
pub(crate) fn failure(status: u16, body: &str) -> Failure {
    let json = Json::parse(body).ok();
    json.and_then(|json| failure_in(&json, Some(status)))
        .unwrap_or_else(|| plain_failure(status, body))
}

/// Returns the error in a body or an event, which is `{"error": {…}}` or a list with one such
/// object.
pub(crate) fn failure_in(json: &Json, status: Option<u16>) -> Option<Failure> {
    let json = match json.as_array() {
        Some([one]) => one,
        Some(_) => return None,
        None => json,
    };
    let error = json.get("error").filter(|error| !error.is_null())?;
    let number = error["code"].as_i64().map(|code| code.to_string());
    let code = error["status"].as_str().map(str::to_owned);
    let code = code.or(number).or(status.map(|status| status.to_string()));
    let message = error["message"].as_str().or(error.as_str());
    let details = error["details"].as_array().unwrap_or_default();
    Some(Failure {
        retry_after: details.iter().find_map(retry_delay),
        is_final: details.iter().any(is_daily_quota_exhausted),
        ..Failure::new(
            code.unwrap_or_else(|| "UNKNOWN".to_owned()),
            message.unwrap_or("Gemini returned an error without a message"),
        )
    })
}

/// Parses `{"@type": "…/google.rpc.RetryInfo", "retryDelay": "34.07s"}`.
fn retry_delay(detail: &Json) -> Option<Duration> {
    let seconds = detail["retryDelay"].as_str()?.strip_suffix('s')?;
    delay_from_secs(seconds.parse().ok()?)
}

/// Whether a daily quota is exhausted, so that a retry after a short delay must fail too:
/// `{"@type": "…/google.rpc.QuotaFailure", "violations": [{"quotaId": "…PerDay…"}]}`.
fn is_daily_quota_exhausted(detail: &Json) -> bool {
    let violations = detail["violations"].as_array().unwrap_or_default();
    let id = |violation: &Json| violation["quotaId"].as_str().unwrap_or_default().to_owned();
    violations.iter().any(|it| id(it).contains("PerDay"))
}
