//! An answer that came whole, and what a streamed one shares with it.

use retain_core::{Bytes, Content, FunctionCall, Json, JsonMap, LlmResponse, Part, Shaped};
use retain_runtime::ModelError;

use super::{output_schema, usage::Usage};
use crate::http::malformed;

/// Reads a `message`.
pub(super) fn whole(message: &Json) -> Result<LlmResponse, ModelError> {
    let Some(blocks) = message["content"].as_array() else {
        return Err(malformed("the answer has no content"));
    };
    let mut usage = Usage::default();
    usage.take_up(&message["usage"]);
    let mut said = Said::default();
    for block in blocks {
        said.add(block, block["input"].as_object().cloned());
    }
    Ok(said.response(
        message["stop_reason"].as_str(),
        message["model"].as_str(),
        &usage,
    ))
}

/// What an answer has said.
#[derive(Debug, Default)]
pub(super) struct Said {
    parts: Vec<Part>,
    citations: Vec<Json>,
    /// Bytes of text so far, which is where citations count from.
    text_len: usize,
}

impl Said {
    /// Adds a block that is whole. `input` is that of a call.
    pub(super) fn add(&mut self, block: &Json, input: Option<JsonMap>) {
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        let part = match text("type") {
            "text" => {
                self.cite(text("text").len(), block["citations"].as_array());
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
                tracing::warn!(kind, "a block of this kind is not known and is left out");
                return;
            }
        };
        self.parts.push(part);
    }

    /// What a text rests on is said of the text as a whole.
    fn cite(&mut self, len: usize, citations: Option<&[Json]>) {
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

    /// The answer.
    pub(super) fn response(
        self,
        stop_reason: Option<&str>,
        model: Option<&str>,
        usage: &Usage,
    ) -> LlmResponse {
        let parts = output_schema::unwrap(self.parts);
        let citations = (!self.citations.is_empty())
            .then(|| Shaped::new(JsonMap::from([("citations", self.citations)])));
        LlmResponse {
            model_version: model.map(str::to_owned),
            content: Some(Content::new("model", parts)),
            finish_reason: stop_reason.map(|reason| finish_reason(reason).to_owned()),
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
        "max_tokens" => "MAX_TOKENS",
        "refusal" => "SAFETY",
        _ => "FINISH_REASON_UNSPECIFIED",
    }
}
