//! Reads a streamed response. It consists of numbered blocks, each with a start, deltas and a stop.

use std::collections::BTreeMap;

use retain_core::{Content, FunctionCall, Json, JsonMap, LlmResponse, Part};
use retain_runtime::ModelError;

use super::{
    answer::{self, AnswerContent},
    failure_of, output_schema,
    usage::Usage,
};
use crate::{
    http::{AttemptError, SseEvent, cut_off, malformed},
    provider::StreamReader,
};

/// Reads a streamed response.
#[derive(Debug, Default)]
pub(super) struct Reader {
    blocks: BTreeMap<u64, OpenBlock>,
    usage: Usage,
    model: Option<String>,
    stop_reason: Option<String>,
    is_done: bool,
}

/// A block that is not complete yet.
#[derive(Debug)]
struct OpenBlock {
    /// The block in its start event.
    block: JsonMap,
    /// The text or thought so far.
    text: String,
    signature: String,
    /// The arguments of a call as JSON text.
    input: String,
    /// The citations of the text.
    citations: Vec<Json>,
}

impl StreamReader for Reader {
    fn push(&mut self, event: &SseEvent) -> Result<Vec<LlmResponse>, AttemptError> {
        // Some gateways keep the connection alive with empty events.
        if event.data.trim().is_empty() {
            return Ok(Vec::new());
        }
        let data = Json::parse(&event.data).map_err(|error| {
            malformed(format!("an event of the stream is not valid JSON: {error}"))
        })?;
        let kind = data["type"].as_str().or(event.event.as_deref());
        let chunk = match kind.unwrap_or_default() {
            "message_start" => {
                let message = &data["message"];
                self.usage.update(&message["usage"]);
                self.model = message["model"].as_str().map(str::to_owned);
                None
            }
            "content_block_start" => self.start_block(&data),
            "content_block_delta" => self.add_delta(&data),
            "message_delta" => {
                self.usage.update(&data["usage"]);
                if let Some(reason) = data["delta"]["stop_reason"].as_str() {
                    self.stop_reason = Some(reason.to_owned());
                }
                None
            }
            "message_stop" => {
                self.is_done = true;
                None
            }
            "error" => return Err(failure_of(&data["error"], "error").into()),
            // `ping`, `content_block_stop`, and events of later API versions.
            _ => None,
        };
        Ok(chunk.into_iter().collect())
    }

    fn finish(&mut self) -> Result<Vec<LlmResponse>, AttemptError> {
        if !self.is_done {
            return Err(cut_off("the stream ended before the answer was complete").into());
        }
        let was_truncated = answer::was_truncated(self.stop_reason.as_deref());
        let last = self.blocks.keys().next_back().copied();
        let mut content = AnswerContent::default();
        for (index, open) in std::mem::take(&mut self.blocks) {
            // The last call may be incomplete even if its arguments parse.
            if was_truncated && open.is_incomplete_call(Some(index) == last) {
                answer::log_dropped_call();
                continue;
            }
            let input = open.arguments()?;
            content.add(&open.into_block(), input);
        }
        let whole = content.response(
            self.stop_reason.as_deref(),
            self.model.as_deref(),
            &self.usage,
        );
        Ok(vec![LlmResponse {
            partial: Some(false),
            ..whole
        }])
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl Reader {
    fn start_block(&mut self, data: &Json) -> Option<LlmResponse> {
        let block = data["content_block"].as_object()?.clone();
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let chunk = match text("type").as_str() {
            "text" => text_part(text("text"), None),
            "thinking" => text_part(text("thinking"), Some(true)),
            "tool_use" if !output_schema::is_reserved(&text("name")) => Some(
                FunctionCall {
                    id: block["id"].as_str().map(str::to_owned),
                    name: Some(text("name")),
                    will_continue: Some(true),
                    ..FunctionCall::default()
                }
                .into(),
            ),
            _ => None,
        };
        self.blocks.insert(index(data), OpenBlock::new(block));
        chunk.map(|part| self.chunk(part))
    }

    fn add_delta(&mut self, data: &Json) -> Option<LlmResponse> {
        let delta = &data["delta"];
        let text = |key: &str| delta[key].as_str().unwrap_or_default();
        let open = self.blocks.entry(index(data));
        let open = open.or_insert_with(|| {
            OpenBlock::new(JsonMap::from([("type", block_type_of(text("type")))]))
        });
        let part = match text("type") {
            "text_delta" => {
                open.text.push_str(text("text"));
                text_part(text("text").to_owned(), None)
            }
            "thinking_delta" => {
                open.text.push_str(text("thinking"));
                text_part(text("thinking").to_owned(), Some(true))
            }
            "signature_delta" => {
                open.signature.push_str(text("signature"));
                None
            }
            "input_json_delta" => {
                open.input.push_str(text("partial_json"));
                let name = open.block["name"].as_str().unwrap_or_default();
                match output_schema::streams_as_text(name) {
                    true => text_part(text("partial_json").to_owned(), None),
                    false => None,
                }
            }
            "citations_delta" => {
                open.citations.push(delta["citation"].clone());
                None
            }
            _ => None,
        };
        part.map(|part| self.chunk(part))
    }

    fn chunk(&self, part: Part) -> LlmResponse {
        LlmResponse {
            model_version: self.model.clone(),
            partial: Some(true),
            ..LlmResponse::from_content(Content::new("model", vec![part]))
        }
    }
}

impl OpenBlock {
    fn new(block: JsonMap) -> OpenBlock {
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        OpenBlock {
            text: text("text") + &text("thinking"),
            signature: text("signature"),
            input: String::new(),
            citations: block["citations"].as_array().unwrap_or_default().to_vec(),
            block,
        }
    }

    /// Returns the block in the form that a complete response has.
    fn into_block(mut self) -> Json {
        let key = match self.block["type"].as_str() {
            Some("text") => "text",
            Some("thinking") => "thinking",
            _ => return self.block.into(),
        };
        self.block.insert(key, self.text);
        self.block.insert("signature", self.signature);
        self.block.insert("citations", self.citations);
        self.block.into()
    }

    /// Whether this block of a truncated response is an incomplete call: a call that has invalid
    /// arguments or is the last block.
    fn is_incomplete_call(&self, is_last: bool) -> bool {
        self.arguments().is_err() || (is_last && self.block["type"] == "tool_use")
    }

    /// Returns the arguments of a call: the streamed ones, or else those of the start event.
    fn arguments(&self) -> Result<Option<JsonMap>, ModelError> {
        if self.input.trim().is_empty() {
            return Ok(self.block["input"].as_object().cloned());
        }
        let args = Json::parse(&self.input);
        match args.as_ref().map(Json::as_object) {
            Ok(Some(args)) => Ok(Some(args.clone())),
            _ => {
                let name = self.block["name"].as_str().unwrap_or_default();
                Err(malformed(format!(
                    "the arguments of the call of {name:?} are not a JSON object"
                )))
            }
        }
    }
}

fn index(data: &Json) -> u64 {
    data["index"].as_u64().unwrap_or(0)
}

/// Returns a part with this text; `None` if the text is empty.
fn text_part(text: String, thought: Option<bool>) -> Option<Part> {
    (!text.is_empty()).then(|| Part {
        thought,
        ..Part::text(text)
    })
}

/// Derives the type of a block without a start event from its first delta.
fn block_type_of(delta: &str) -> &'static str {
    match delta {
        "thinking_delta" | "signature_delta" => "thinking",
        "input_json_delta" => "tool_use",
        _ => "text",
    }
}
