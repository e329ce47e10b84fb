//! Reads a streamed response as ADK does.

use std::sync::Arc;

use retain_core::{Json, LlmResponse, RandomIds, UsageMetadata};
use retain_runtime::StreamAggregator;

use super::answer::{convert_response, parse_json};
use crate::{
    http::{AttemptError, SseEvent, cut_off},
    provider::StreamReader,
};

/// Reads the events of one response.
pub(super) struct GeminiReader {
    aggregator: Option<StreamAggregator>,
    /// The latest token counts. They may arrive with an ignored candidate.
    usage: Option<UsageMetadata>,
    /// The finish message of the last event, kept here because a converted chunk with content lacks
    /// it.
    finish_message: Option<String>,
    /// Whether the arguments of the last function call are incomplete.
    is_in_call: bool,
    /// Whether the answer has begun but has no finish reason yet.
    is_open: bool,
    warned: bool,
}

impl GeminiReader {
    pub(super) fn new() -> GeminiReader {
        GeminiReader {
            aggregator: Some(StreamAggregator::new(Arc::new(RandomIds))),
            usage: None,
            finish_message: None,
            is_in_call: false,
            is_open: false,
            warned: false,
        }
    }

    /// Merges one response of the stream. Returns the chunk to forward, if any.
    pub(super) fn push_response(
        &mut self,
        mut response: Json,
    ) -> Result<Option<LlmResponse>, AttemptError> {
        if !self.keep_first_candidate(&mut response) {
            let rest = without_candidates(response);
            let usage = convert_response(&rest)?.usage_metadata;
            self.usage = usage.or(self.usage.take());
            return Ok(None);
        }
        let candidate = &response["candidates"][0];
        if !candidate.is_null() {
            self.is_open = candidate["finishReason"].is_null();
        }
        let message = candidate["finishMessage"].as_str();
        self.finish_message = message.map(str::to_owned);
        let chunk = convert_response(&response)?;
        if chunk.usage_metadata.is_some() {
            self.usage.clone_from(&chunk.usage_metadata);
        }
        let content = chunk.content.as_ref();
        if let Some(call) = content.and_then(|content| content.function_calls().last()) {
            self.is_in_call = call.will_continue == Some(true);
        }
        Ok(self
            .aggregator
            .as_mut()
            .map(|aggregator| aggregator.push(chunk)))
    }

    /// Removes all but the first candidate. Returns `false` if the response had only other
    /// candidates.
    fn keep_first_candidate(&mut self, response: &mut Json) -> bool {
        let Some(candidates) = response["candidates"].as_array() else {
            return true;
        };
        let index = |candidate: &Json| candidate["index"].as_i64().unwrap_or(0);
        let first = candidates.iter().filter(|it| index(it) == 0);
        let first: Vec<Json> = first.cloned().collect();
        if (candidates.len() > 1 || first.len() < candidates.len()) && !self.warned {
            self.warned = true;
            tracing::warn!("Gemini streams several candidates; using the first");
        }
        let is_left = !first.is_empty() || candidates.is_empty();
        if let Some(response) = response.as_object_mut() {
            response.insert("candidates", first);
        }
        is_left
    }
}

impl StreamReader for GeminiReader {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<LlmResponse>, AttemptError> {
        // Google does not send this event, but some proxies end streams with it.
        if event.data.trim() == "[DONE]" {
            self.is_open = false;
            return Ok(Vec::new());
        }
        if event.data.trim().is_empty() {
            return Ok(Vec::new());
        }
        let chunk = self.push_response(parse_json(&event.data)?)?;
        Ok(chunk.into_iter().collect())
    }

    fn finish(&mut self) -> Result<Vec<LlmResponse>, AttemptError> {
        if self.is_in_call {
            return Err(
                cut_off("Gemini's stream ended within the arguments of a function call").into(),
            );
        }
        if self.is_open {
            return Err(cut_off("Gemini's stream ended before the answer was complete").into());
        }
        let whole = self.aggregator.take().and_then(StreamAggregator::finish);
        let Some(mut whole) = whole else {
            return Err(cut_off("Gemini's stream ended without a response").into());
        };
        if self.usage.is_some() {
            whole.usage_metadata = self.usage.take();
        }
        if whole.error_code.is_some() && whole.finish_reason.is_some() {
            whole.error_message = self.finish_message.take();
        }
        Ok(vec![whole])
    }
}

/// Removes the candidates, so that only data about the response as a whole remains, such as token
/// counts.
fn without_candidates(mut response: Json) -> Json {
    if let Some(response) = response.as_object_mut() {
        response.remove("candidates");
    }
    response
}
