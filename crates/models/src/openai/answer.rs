//! Builds an answer from a complete response or from stream chunks.
//!
//! A complete response is handled as one chunk, so that both give the same answer.

use retain_core::{Bytes, Content, FunctionCall, Json, LlmResponse, Part, Shaped, UsageMetadata};

use super::{
    arguments,
    json::{list, object, text},
    signature::{self, ReasoningDetails},
};

/// The separator after which LiteLLM appends a call's signature to the call ID.
const SIGNATURE_IN_ID: &str = "__thought__";

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    model: Option<String>,
    thoughts: String,
    details: ReasoningDetails,
    text: String,
    refusal: String,
    calls: Vec<Call>,
    finish_reason: Option<String>,
    usage: Option<UsageMetadata>,
    logprobs: Vec<Json>,
    citations: Vec<Json>,
}

/// A call that may continue in the next chunk.
#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
    signature: Option<Bytes>,
}

impl Answer {
    /// Merges a complete response or one chunk. Returns the new texts and thoughts as chunks to
    /// forward.
    pub(super) fn push(&mut self, chunk: &Json) -> Vec<LlmResponse> {
        if let Some(model) = text(chunk, "model") {
            self.model = Some(model.to_owned());
        }
        let choice = first_choice(chunk);
        let usage = chunk
            .get("usage")
            .filter(|usage| usage.as_object().is_some());
        let usage = usage.or_else(|| choice?.get("usage"));
        if let Some(usage) = usage.filter(|usage| usage.as_object().is_some()) {
            self.usage = Some(convert_usage(usage));
        }
        let Some(choice) = choice else {
            return Vec::new();
        };
        if let Some(reason) = text(choice, "finish_reason") {
            self.finish_reason = Some(reason.to_owned());
        }
        let logprobs = choice["logprobs"]["content"].as_array();
        self.logprobs
            .extend_from_slice(logprobs.unwrap_or_default());
        let message = choice.get("delta").or_else(|| choice.get("message"));
        let parts = message.map(|message| self.merge_message(message));
        let parts = parts.unwrap_or_default().into_iter();
        parts.map(|part| self.chunk(part)).collect()
    }

    /// Whether the finish reason was received.
    pub(super) fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn chunk(&self, part: Part) -> LlmResponse {
        LlmResponse {
            content: Some(Content::new("model", vec![part])),
            partial: Some(true),
            model_version: self.model.clone(),
            ..LlmResponse::default()
        }
    }

    fn merge_message(&mut self, message: &Json) -> Vec<Part> {
        let (mut thought, mut content) = (String::new(), String::new());
        let fields = ["reasoning_content", "reasoning"];
        let reasoning = fields.iter().map(|field| text_in(&message[*field]));
        thought.push_str(
            &reasoning
                .into_iter()
                .find(|it| !it.is_empty())
                .unwrap_or_default(),
        );
        match message["content"].as_array() {
            // Some servers send thoughts as blocks of the content.
            Some(blocks) => blocks
                .iter()
                .for_each(|block| match block["type"].as_str() {
                    Some("thinking" | "reasoning") => thought.push_str(&text_in(block)),
                    _ => content.push_str(&text_in(block)),
                }),
            None => content.push_str(message["content"].as_str().unwrap_or_default()),
        }
        self.refusal
            .push_str(text(message, "refusal").unwrap_or_default());
        self.details.push(&message["reasoning_details"]);
        let calls = message["tool_calls"].as_array().unwrap_or_default();
        calls.iter().for_each(|call| self.merge_call(call));
        if let Some(call) = message.get("function_call").filter(|it| !it.is_null()) {
            self.merge_call(&object([("index", 0.into()), ("function", call.clone())]));
        }
        let annotations = message["annotations"].as_array().unwrap_or_default();
        self.citations
            .extend(annotations.iter().filter_map(convert_citation));
        self.thoughts.push_str(&thought);
        self.text.push_str(&content);
        let thought = (!thought.is_empty()).then(|| thought_part(thought, None));
        let content = (!content.is_empty()).then(|| Part::text(content));
        thought.into_iter().chain(content).collect()
    }

    fn merge_call(&mut self, piece: &Json) {
        let function = piece.get("function").unwrap_or(piece);
        let position = match self.find_call(piece, function) {
            Some(position) => position,
            None => {
                self.calls.push(Call {
                    index: piece["index"].as_u64(),
                    ..Call::default()
                });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[position];
        if call.id.is_none() {
            call.id = text(piece, "id").map(str::to_owned);
        }
        // Some servers repeat the name in every chunk.
        if let Some(name) = text(function, "name").filter(|name| *name != call.name) {
            call.name.push_str(name);
        }
        match &function["arguments"] {
            Json::String(more) => call.arguments.push_str(more),
            Json::Null => {}
            whole => call.arguments = whole.to_string(),
        }
        call.signature = signature::call_signature(piece).or(call.signature.take());
    }

    /// Returns the position of the call that a chunk continues; `None` if it starts a new call.
    fn find_call(&self, piece: &Json, function: &Json) -> Option<usize> {
        let (index, id) = (piece["index"].as_u64(), text(piece, "id"));
        let has_name = text(function, "name").is_some();
        let Some(index) = index else {
            let same = |call: &Call| id.is_some() && call.id.as_deref() == id;
            let known = self.calls.iter().position(same);
            let last = self.calls.len().checked_sub(1).filter(|_| !has_name);
            return known.or(last);
        };
        // Use the latest call with this index, because some servers give every call the index 0.
        let position = self
            .calls
            .iter()
            .rposition(|call| call.index == Some(index))?;
        let call = &self.calls[position];
        // A closure, because parsing all arguments for every chunk would be slow.
        let is_another = || match (id, call.id.as_deref()) {
            (Some(id), Some(known)) => id != known,
            _ => !call.arguments.is_empty() && arguments::parse(&call.arguments).is_some(),
        };
        let is_new = has_name && !call.name.is_empty() && is_another();
        (!is_new).then_some(position)
    }

    /// Returns the complete answer.
    pub(super) fn finish(&mut self) -> LlmResponse {
        let whole = std::mem::take(self);
        let mut finish = Finish::from_reason(whole.finish_reason.as_deref());
        let mut parts = Vec::new();
        let signature = whole.details.signature();
        if !whole.thoughts.is_empty() || signature.is_some() {
            parts.push(thought_part(whole.thoughts, signature));
        }
        if !whole.text.is_empty() {
            parts.push(Part::text(whole.text));
        }
        match call_parts(whole.calls, finish.reason == "MAX_TOKENS") {
            Ok(calls) => parts.extend(calls),
            Err(names) => finish.report_malformed_calls(&names),
        }
        if !whole.refusal.is_empty() {
            finish = Finish::new("SAFETY", Some(whole.refusal));
        }
        let citations = (!whole.citations.is_empty()).then(|| list(whole.citations));
        LlmResponse {
            content: Some(Content::new("model", parts)),
            partial: Some(false),
            model_version: whole.model,
            finish_reason: Some(finish.reason.to_owned()),
            error_code: finish.error.is_some().then(|| finish.reason.to_owned()),
            error_message: finish.error,
            usage_metadata: whole.usage,
            avg_logprobs: average_logprob(&whole.logprobs),
            logprobs_result: convert_logprobs(&whole.logprobs).map(Shaped::new),
            citation_metadata: citations.map(|it| Shaped::new(object([("citations", it)]))),
            ..LlmResponse::default()
        }
    }
}

/// Returns the first choice; others are ignored.
fn first_choice(chunk: &Json) -> Option<&Json> {
    let choices = chunk["choices"].as_array().unwrap_or_default();
    choices
        .iter()
        .find(|choice| choice["index"].as_u64().unwrap_or(0) == 0)
}

/// Extracts all text from a value, in any format that servers use.
fn text_in(value: &Json) -> String {
    if let Some(text) = value.as_str() {
        return text.to_owned();
    }
    if let Some(items) = value.as_array() {
        return items.iter().map(text_in).collect();
    }
    let fields = [
        "text",
        "thinking",
        "content",
        "reasoning",
        "reasoning_content",
    ];
    let found = fields.iter().find_map(|field| value.get(field));
    found.map(text_in).unwrap_or_default()
}

fn thought_part(text: String, signature: Option<Bytes>) -> Part {
    Part {
        thought: Some(true),
        thought_signature: signature,
        ..Part::text(text)
    }
}

/// Converts the calls to parts, or returns the names of those with invalid arguments. One invalid
/// call discards all calls, because executing only some may be wrong. In a truncated answer, the
/// last call is invalid if it has no arguments, because they may be missing.
fn call_parts(calls: Vec<Call>, was_truncated: bool) -> Result<Vec<Part>, Vec<String>> {
    let (mut parts, mut malformed) = (Vec::new(), Vec::new());
    let last = calls.len().saturating_sub(1);
    for (position, call) in calls.into_iter().enumerate() {
        let has_none = call.arguments.trim().is_empty();
        let is_empty = call.name.is_empty() && has_none;
        match arguments::parse(&call.arguments) {
            _ if is_empty => {}
            Some(_) if was_truncated && has_none && position == last => malformed.push(call.name),
            Some(args) if !call.name.is_empty() => parts.push(call.part(args)),
            _ if call.name.is_empty() => malformed.push("<unnamed>".to_owned()),
            _ => malformed.push(call.name),
        }
    }
    match malformed.is_empty() {
        true => Ok(parts),
        false => Err(malformed),
    }
}

impl Call {
    fn part(self, args: retain_core::JsonMap) -> Part {
        let mut signature = self.signature;
        let id = self.id.map(|id| match id.split_once(SIGNATURE_IN_ID) {
            Some((plain, hidden)) => match Bytes::from_base64(hidden) {
                Some(hidden) => {
                    signature.get_or_insert(hidden);
                    plain.to_owned()
                }
                None => id,
            },
            None => id,
        });
        let call = FunctionCall {
            id,
            name: Some(self.name),
            args: Some(args),
            ..FunctionCall::default()
        };
        Part {
            thought_signature: signature,
            ..Part::from(call)
        }
    }
}

/// The finish reason in Gemini's format. An answer that is not complete also has an error message.
struct Finish {
    reason: &'static str,
    error: Option<String>,
}

impl Finish {
    fn new(reason: &'static str, error: Option<String>) -> Finish {
        Finish { reason, error }
    }

    fn from_reason(reason: Option<&str>) -> Finish {
        let reason = match reason.map(str::to_lowercase).as_deref() {
            None | Some("stop" | "tool_calls" | "function_call") => {
                return Finish::new("STOP", None);
            }
            Some("length") => "MAX_TOKENS",
            Some("content_filter") => "SAFETY",
            Some(_) => "OTHER",
        };
        let error = match reason {
            "MAX_TOKENS" => "Maximum tokens reached".to_owned(),
            reason => format!("Finished with {reason}"),
        };
        Finish::new(reason, Some(error))
    }

    /// Sets the finish reason for invalid calls. If the answer was truncated or blocked, keeps that
    /// reason, which explains them, and only adds them to the error message.
    fn report_malformed_calls(&mut self, names: &[String]) {
        let names = names.join(", ");
        tracing::warn!(
            functions = names,
            "dropped all calls, because some have invalid arguments"
        );
        let message = format!("The arguments of these calls are not a JSON object: {names}");
        match (self.reason, &mut self.error) {
            ("MAX_TOKENS" | "SAFETY", Some(error)) => {
                error.push_str(". ");
                error.push_str(&message);
            }
            _ => *self = Finish::new("MALFORMED_FUNCTION_CALL", Some(message)),
        }
    }
}

fn convert_usage(usage: &Json) -> UsageMetadata {
    let count = |value: &Json| value.as_i64();
    let cached = [
        &usage["prompt_tokens_details"]["cached_tokens"],
        &usage["cached_prompt_tokens"],
        &usage["cached_tokens"],
        &usage["prompt_cache_hit_tokens"],
        &usage["cache_read_input_tokens"],
    ];
    let prompt = count(&usage["prompt_tokens"]).unwrap_or(0);
    let answer = count(&usage["completion_tokens"]).unwrap_or(0);
    let total = count(&usage["total_tokens"]);
    let thoughts = count(&usage["completion_tokens_details"]["reasoning_tokens"]);
    let thoughts = thoughts.filter(|count| *count > 0);
    let sum = prompt.saturating_add(answer);
    // Most servers include thoughts in the answer tokens; Gemini's format counts them separately. A
    // total above the sum means that they were already separate.
    let inside = match total.is_none_or(|total| total == sum) {
        true => thoughts.unwrap_or(0).min(answer.max(0)),
        false => 0,
    };
    UsageMetadata {
        prompt_token_count: Some(prompt),
        candidates_token_count: Some(answer.saturating_sub(inside)),
        total_token_count: Some(total.unwrap_or(sum)),
        cached_content_token_count: Some(cached.into_iter().find_map(count).unwrap_or(0)),
        thoughts_token_count: thoughts,
        ..UsageMetadata::default()
    }
}

/// Converts a citation to Gemini's format.
fn convert_citation(annotation: &Json) -> Option<Json> {
    let cited = annotation.get("url_citation")?;
    let fields = [
        ("startIndex", "start_index"),
        ("endIndex", "end_index"),
        ("uri", "url"),
        ("title", "title"),
    ];
    let given = fields.iter().filter_map(|(ours, theirs)| {
        let value = cited.get(theirs).filter(|value| !value.is_null())?;
        Some((*ours, value.clone()))
    });
    Some(given.collect::<retain_core::JsonMap>().into())
}

fn average_logprob(tokens: &[Json]) -> Option<f64> {
    let values: Vec<f64> = tokens
        .iter()
        .filter_map(|it| it["logprob"].as_f64())
        .collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Converts log probabilities to Gemini's format.
fn convert_logprobs(tokens: &[Json]) -> Option<Json> {
    if tokens.is_empty() {
        return None;
    }
    let candidate = |token: &Json| {
        object([
            ("token", token["token"].clone()),
            ("logProbability", token["logprob"].clone()),
        ])
    };
    let chosen = list(tokens.iter().map(candidate));
    let top = list(tokens.iter().map(|token| {
        let others = token["top_logprobs"].as_array().unwrap_or_default();
        object([("candidates", list(others.iter().map(candidate)))])
    }));
    Some(object([
        ("chosenCandidates", chosen),
        ("topCandidates", top),
    ]))
}
