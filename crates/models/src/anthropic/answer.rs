//! Parses complete responses. `stream` shares parts of this module.

use retain_core::{Bytes, Content, FunctionCall, Json, JsonMap, LlmResponse, Part, Shaped};
use retain_runtime::ModelError;

use super::{output_schema, usage::Usage};
use crate::http::malformed;

/// The error message for a refusal, which Claude may send without any text.
const REFUSED: &str = "Claude refused to answer (stop_reason: refusal)";

/// Parses a `message`.
pub(super) fn read_answer(message: &Json) -> Result<LlmResponse, ModelError> {
    let Some(blocks) = message["content"].as_array() else {
        return Err(malformed("the response has no content"));
    };
    let mut usage = Usage::default();
    usage.update(&message["usage"]);
    let stop_reason = message["stop_reason"].as_str();
    let last = blocks.len().saturating_sub(1);
    let mut answer = AnswerContent::default();
    for (index, block) in blocks.iter().enumerate() {
        if index == last && was_truncated(stop_reason) && block["type"] == "tool_use" {
            log_dropped_call();
            continue;
        }
        answer.add(block, block["input"].as_object().cloned());
    }
    Ok(answer.response(stop_reason, message["model"].as_str(), &usage))
}

/// Whether the token limit truncated the response. A call at its end may then be incomplete, even
/// if its arguments parse.
pub(super) fn was_truncated(stop_reason: Option<&str>) -> bool {
    stop_reason.is_some_and(|reason| finish_reason(reason) == "MAX_TOKENS")
}

pub(super) fn log_dropped_call() {
    tracing::warn!("dropped a call that the token limit truncated");
}

/// The content of a response, collected block by block.
#[derive(Debug, Default)]
pub(super) struct AnswerContent {
    parts: Vec<Part>,
    citations: Vec<Json>,
    /// Length of the text so far in bytes, for citation offsets.
    text_len: usize,
}

impl AnswerContent {
    /// Adds a complete block. `input` holds the arguments of a call.
    pub(super) fn add(&mut self, block: &Json, input: Option<JsonMap>) {
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        let part = match text("type") {
            "text" => {
                self.add_citations(text("text").len(), block["citations"].as_array());
                Part::text(text("text"))
            }
            "thinking" => Part {
                text: Some(text("thinking").to_owned()),
                thought: Some(true),
                thought_signature: signature(text("signature")),
                ..Part::default()
            },
            "redacted_thinking" => Part {
                thought: Some(true),
                thought_signature: signature(text("data")),
                ..Part::default()
            },
            "tool_use" => FunctionCall {
                id: block["id"].as_str().map(str::to_owned),
                name: Some(text("name").to_owned()),
                args: Some(input.unwrap_or_default()),
                ..FunctionCall::default()
            }
            .into(),
            kind => {
                tracing::warn!(kind, "dropped a block of an unknown type");
                return;
            }
        };
        self.parts.push(part);
    }

    /// Adds the citations of a text block. Each citation covers the whole block.
    fn add_citations(&mut self, len: usize, citations: Option<&[Json]>) {
        let (start, end) = (self.text_len, self.text_len + len);
        self.text_len = end;
        for citation in citations.unwrap_or_default() {
            let mut cited = JsonMap::from([("startIndex", start), ("endIndex", end)]);
            let mut first_of = |name: &str, keys: [&str; 2]| {
                let found = keys.iter().find_map(|key| citation[*key].as_str());
                cited.extend(found.map(|found| (name, found)));
            };
            first_of("title", ["document_title", "title"]);
            first_of("uri", ["url", "source"]);
            self.citations.push(cited.into());
        }
    }

    /// Builds the response.
    pub(super) fn response(
        self,
        stop_reason: Option<&str>,
        model: Option<&str>,
        usage: &Usage,
    ) -> LlmResponse {
        let parts = output_schema::replace_call_with_answer(self.parts);
        let citations = (!self.citations.is_empty())
            .then(|| Shaped::new(JsonMap::from([("citations", self.citations)])));
        let finish_reason = stop_reason.map(|reason| finish_reason(reason).to_owned());
        let is_refusal = finish_reason.as_deref() == Some("SAFETY");
        LlmResponse {
            model_version: model.map(str::to_owned),
            content: Some(Content::new("model", parts)),
            error_code: is_refusal.then(|| "SAFETY".to_owned()),
            error_message: is_refusal.then(|| REFUSED.to_owned()),
            finish_reason,
            usage_metadata: usage.metadata(),
            citation_metadata: citations,
            ..LlmResponse::default()
        }
    }
}

fn signature(text: &str) -> Option<Bytes> {
    (!text.is_empty()).then(|| Bytes::from(text.as_bytes().to_vec()))
}

fn finish_reason(stop_reason: &str) -> &'static str {
    match stop_reason {
        "end_turn" | "stop_sequence" | "tool_use" | "pause_turn" => "STOP",
        "max_tokens" | "model_context_window_exceeded" => "MAX_TOKENS",
        "refusal" => "SAFETY",
        _ => "FINISH_REASON_UNSPECIFIED",
    }
}
