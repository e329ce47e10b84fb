//! Reads a streamed response: chunks as server-sent events, ended by `[DONE]`.

use retain_core::{Json, LlmResponse};
use retain_runtime::ModelError;

use super::{answer::Answer, failure};
use crate::{
    http::{AttemptError, SseEvent, cut_off, malformed},
    provider::StreamReader,
};

/// Reads one streamed response.
#[derive(Debug, Default)]
pub(super) struct ChunkReader {
    answer: Answer,
    is_done: bool,
}

impl StreamReader for ChunkReader {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<LlmResponse>, AttemptError> {
        let data = event.data.trim();
        if self.is_done || data.is_empty() {
            return Ok(Vec::new());
        }
        if data == "[DONE]" {
            self.is_done = true;
            return Ok(Vec::new());
        }
        let chunk = parse_chunk(data, event)?;
        if let Some(failure) = failure::reported_failure(&chunk) {
            return Err(failure.into());
        }
        Ok(self.answer.push(&chunk))
    }

    fn finish(&mut self) -> Result<Vec<LlmResponse>, AttemptError> {
        // Some servers omit `[DONE]`, others the finish reason. Either one alone means that the
        // answer is complete.
        if !self.is_done && !self.answer.is_finished() {
            return Err(cut_off("the stream ended before the answer was complete").into());
        }
        Ok(vec![self.answer.finish()])
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

fn parse_chunk(data: &str, event: &SseEvent) -> Result<Json, ModelError> {
    let chunk = Json::parse(data);
    // Some servers send errors as events of type `error`.
    if event.event.as_deref() == Some("error") {
        let error = chunk.unwrap_or_else(|_| data.into());
        let error = match error.get("error").is_some() {
            true => error,
            false => super::json::object([("error", error)]),
        };
        return Ok(error);
    }
    let chunk = chunk
        .map_err(|error| malformed(format!("a chunk of the stream is not valid JSON: {error}")))?;
    match chunk.as_object() {
        Some(_) => Ok(chunk),
        None => Err(malformed("a chunk of the stream is not a JSON object")),
    }
}
