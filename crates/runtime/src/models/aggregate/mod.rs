//! Aggregates the chunks of a streamed response into the complete response.
//!
//! Every chunk is forwarded immediately, marked as partial; the complete response follows at the
//! end. Adjacent texts are merged into one part, thoughts separately from answer text, and function
//! calls with streamed arguments are assembled.

mod path;

use std::sync::Arc;

use retain_core::{
    Bytes, Content, FunctionCall, Ids, Json, JsonMap, LlmResponse, Part, UsageMetadata,
};

/// Aggregates the chunks of one response.
///
/// ```
/// use std::sync::Arc;
/// use retain_core::{Content, LlmResponse, RandomIds};
/// use retain_runtime::StreamAggregator;
/// let mut pieces = StreamAggregator::new(Arc::new(RandomIds));
/// for text in ["Hel", "lo!"] {
///     let piece = pieces.push(LlmResponse::from_content(Content::model(text)));
///     assert_eq!(piece.partial, Some(true));
/// }
/// let whole = pieces.finish().unwrap();
/// assert_eq!(whole.content.unwrap().text_concat(), "Hello!");
/// ```
#[derive(Debug)]
pub struct StreamAggregator {
    ids: Arc<dyn Ids>,
    /// The last chunk without its content; `None` before the first chunk.
    last: Option<LlmResponse>,
    finish_reason: Option<String>,
    usage: Option<UsageMetadata>,
    grounding: Option<LlmResponse>,
    citation: Option<LlmResponse>,
    /// The finished parts. `None` reserves the position of a call that is still streaming.
    parts: Vec<Option<Part>>,
    text: Option<OpenText>,
    call: Option<OpenCall>,
}

/// A text that may continue in the next chunk.
#[derive(Debug)]
struct OpenText {
    text: String,
    thought: Option<bool>,
    signature: Option<Bytes>,
}

/// A function call that may continue in the next chunk.
#[derive(Debug)]
struct OpenCall {
    place: usize,
    id: String,
    name: Option<String>,
    args: Json,
    /// String arguments that are still streaming, by path.
    texts: Vec<(String, String)>,
    signature: Option<Bytes>,
}

impl StreamAggregator {
    /// Creates an aggregator. `ids` generates IDs for calls without one.
    pub fn new(ids: Arc<dyn Ids>) -> StreamAggregator {
        StreamAggregator {
            ids,
            last: None,
            finish_reason: None,
            usage: None,
            grounding: None,
            citation: None,
            parts: Vec::new(),
            text: None,
            call: None,
        }
    }

    /// Adds a chunk and returns it, marked as partial, for the caller to forward.
    pub fn push(&mut self, mut piece: LlmResponse) -> LlmResponse {
        let content = piece.content.as_mut();
        let parts = content.and_then(|content| content.parts.as_mut());
        for part in parts.into_iter().flatten() {
            self.push_part(part);
        }
        if piece.usage_metadata.is_some() {
            self.usage.clone_from(&piece.usage_metadata);
        }
        if piece.finish_reason.is_some() {
            self.finish_reason.clone_from(&piece.finish_reason);
        }
        let about = LlmResponse {
            content: None,
            ..piece.clone()
        };
        if piece.grounding_metadata.is_some() {
            self.grounding = Some(about.clone());
        }
        if piece.citation_metadata.is_some() {
            self.citation = Some(about.clone());
        }
        self.last = Some(about);
        piece.partial = Some(true);
        piece
    }

    /// Returns the complete response; `None` if there was no chunk.
    pub fn finish(mut self) -> Option<LlmResponse> {
        let last = self.last.take()?;
        self.close_text();
        self.close_call();
        let parts = without_repeats(self.parts.into_iter().flatten());
        let content = (!parts.is_empty()).then(|| Content::new("model", parts));
        let (error_code, error_message) = match self.finish_reason.as_deref() {
            Some(reason) if reason != "STOP" => {
                let message = last.error_message.filter(|_| last.finish_reason.is_some());
                (Some(reason.to_owned()), message)
            }
            // An error without a finish reason means that the prompt was blocked.
            _ if last.finish_reason.is_none() => (last.error_code, last.error_message),
            _ => (None, None),
        };
        Some(LlmResponse {
            content,
            grounding_metadata: self.grounding.and_then(|about| about.grounding_metadata),
            citation_metadata: self.citation.and_then(|about| about.citation_metadata),
            error_code,
            error_message,
            usage_metadata: self.usage,
            finish_reason: self.finish_reason,
            partial: Some(false),
            model_version: last.model_version,
            ..LlmResponse::default()
        })
    }

    fn push_part(&mut self, part: &mut Part) {
        if let Some(text) = part.text.as_ref().filter(|text| !text.is_empty()) {
            self.push_text(text.clone(), part.thought, part.thought_signature.clone());
        } else if part.function_call.is_some() {
            self.push_call(part);
        } else {
            self.close_text();
            self.parts.push(Some(part.clone()));
        }
    }

    fn push_text(&mut self, text: String, thought: Option<bool>, signature: Option<Bytes>) {
        if self
            .text
            .as_ref()
            .is_some_and(|open| open.thought != thought)
        {
            self.close_text();
        }
        let open = self.text.get_or_insert_with(|| OpenText {
            text: String::new(),
            thought,
            signature: None,
        });
        open.text.push_str(&text);
        // The signature may arrive with any chunk; keep the first one.
        if open.signature.is_none() {
            open.signature = signature.filter(|signature| !signature.is_empty());
        }
    }

    /// Adds a function call or a chunk of one. Each chunk gets the ID of its call.
    fn push_call(&mut self, part: &mut Part) {
        let signature = part.thought_signature.clone();
        let Some(call) = part.function_call.as_mut() else {
            return;
        };
        let has_args = call.args.as_ref().is_some_and(|args| !args.is_empty());
        let pieces = call.partial_args.as_ref().and_then(|args| args.as_array());
        let is_piece = pieces.is_some_and(|pieces| !pieces.is_empty())
            || call.will_continue.is_some()
            || (self.call.is_some() && !has_args);
        if !is_piece {
            self.close_text();
            self.close_call();
            if call.name.as_ref().is_some_and(|name| !name.is_empty()) {
                self.assign_id(call);
                self.parts.push(Some(part.clone()));
            }
            return;
        }
        self.open_call(call);
        if let Some(open) = &mut self.call {
            open.merge_call(call, signature);
        }
        // Providers omit `false`, so a chunk without `will_continue` is the last.
        if call.will_continue != Some(true) {
            self.close_text();
            self.close_call();
        }
    }

    /// Opens the call in this chunk unless it is already open. Closes a call with another name
    /// first.
    fn open_call(&mut self, call: &mut FunctionCall) {
        let open_name = self.call.as_ref().and_then(|open| open.name.as_deref());
        let name = call.name.as_deref().filter(|name| !name.is_empty());
        if let (Some(open), Some(name)) = (open_name, name)
            && open != name
        {
            self.close_text();
            self.close_call();
        }
        if self.call.is_some() {
            return;
        }
        self.close_text();
        self.assign_id(call);
        self.call = Some(OpenCall {
            place: self.parts.len(),
            id: call.id.clone().unwrap_or_default(),
            name: None,
            args: Json::from(JsonMap::default()),
            texts: Vec::new(),
            signature: None,
        });
        self.parts.push(None);
    }

    /// Generates an ID for a call without one.
    fn assign_id(&self, call: &mut FunctionCall) {
        if call.id.as_ref().is_none_or(String::is_empty) {
            call.id = Some(format!("adk-{}", self.ids.new_id()));
        }
    }

    fn close_text(&mut self) {
        if let Some(open) = self.text.take() {
            self.parts.push(Some(Part {
                text: Some(open.text),
                thought: open.thought.filter(|thought| *thought),
                thought_signature: open.signature,
                ..Part::default()
            }));
        }
    }

    fn close_call(&mut self) {
        let Some(mut open) = self.call.take() else {
            return;
        };
        // Drop a call that never received a name.
        let Some(name) = open.name.take() else {
            return;
        };
        for (path, text) in std::mem::take(&mut open.texts) {
            path::set(&mut open.args, &path::parse(&path), text.into());
        }
        let call = FunctionCall {
            id: Some(open.id),
            name: Some(name),
            args: open.args.as_object().cloned(),
            ..FunctionCall::default()
        };
        let part = Part {
            function_call: Some(call),
            thought_signature: open.signature,
            ..Part::default()
        };
        match self.parts.get_mut(open.place) {
            Some(place @ None) => *place = Some(part),
            _ => self.parts.push(Some(part)),
        }
    }
}

impl OpenCall {
    fn merge_call(&mut self, call: &mut FunctionCall, signature: Option<Bytes>) {
        if let Some(name) = call.name.as_ref().filter(|name| !name.is_empty()) {
            self.name = Some(name.clone());
        }
        if call.id.as_ref().is_none_or(String::is_empty) {
            call.id = Some(self.id.clone());
        }
        if self.signature.is_none() {
            self.signature = signature.filter(|signature| !signature.is_empty());
        }
        let pieces = call.partial_args.as_ref().and_then(|args| args.as_array());
        for piece in pieces.unwrap_or_default() {
            let path = piece.get("jsonPath").and_then(Json::as_str);
            if let Some(path) = path.filter(|path| !path.is_empty()) {
                self.merge_argument(path, piece);
            }
        }
    }

    fn merge_argument(&mut self, path: &str, piece: &Json) {
        let given = |field: &str| piece.get(field).filter(|value| !value.is_null());
        if let Some(text) = given("stringValue").and_then(Json::as_str) {
            self.push_text(path, text);
            return;
        }
        let value = match (given("numberValue"), given("boolValue"), given("nullValue")) {
            (Some(number), _, _) => number.clone(),
            (None, Some(truth), _) => truth.clone(),
            (None, None, Some(_)) => Json::Null,
            // An empty container cannot be represented here, so omit it.
            (None, None, None) => return,
        };
        self.texts.retain(|(open, _)| open != path);
        path::set(&mut self.args, &path::parse(path), value);
    }

    fn push_text(&mut self, path: &str, text: &str) {
        if let Some((_, open)) = self.texts.iter_mut().find(|(open, _)| open == path) {
            open.push_str(text);
            return;
        }
        let steps = path::parse(path);
        let before = path::get(&self.args, &steps).and_then(Json::as_str);
        let whole = before.unwrap_or_default().to_owned() + text;
        // Reserve the argument's position among the others.
        path::set(&mut self.args, &steps, "".into());
        self.texts.push((path.to_owned(), whole));
    }
}

/// Removes function calls that repeat an ID assigned by the model.
fn without_repeats(parts: impl Iterator<Item = Part>) -> Vec<Part> {
    let mut seen = Vec::new();
    let mut unique = Vec::new();
    for part in parts {
        let id = part
            .function_call
            .as_ref()
            .and_then(|call| call.id.as_deref());
        if let Some(id) = id.filter(|id| !id.is_empty() && !id.starts_with("adk-")) {
            if seen.contains(&id.to_owned()) {
                continue;
            }
            seen.push(id.to_owned());
        }
        unique.push(part);
    }
    unique
}
