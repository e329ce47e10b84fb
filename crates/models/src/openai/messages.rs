//! Converts contents in Gemini's format to messages in OpenAI's.

use std::collections::{HashMap, VecDeque};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use retain_core::{Blob, Bytes, Content, FunctionCall, FunctionResponse, Json, JsonMap, Part};
use retain_runtime::{LlmRequest, ModelError};

use super::{
    invalid_request,
    json::{list, object},
    media::{self, Piece},
    server::{ServerKind, ThoughtField},
    signature, tools,
};
use crate::{provider::contents_to_send, signers};

/// ADK's text for a missing tool result. Servers reject a call that has none.
const NO_RESULT: &str = "Error: Missing tool result (tool execution may have been interrupted \
                         before a response was recorded).";
/// ADK's text for an empty last user message.
const EMPTY_MESSAGE_PROMPT: &str = "Handle the requests as specified in the System Instruction.";

/// Returns all messages of a request.
pub(super) fn messages(kind: ServerKind, request: &LlmRequest) -> Result<Json, ModelError> {
    let mut messages = Messages {
        kind,
        out: Vec::new(),
        ids: CallIds::new(kind),
        pending: Vec::new(),
    };
    let instruction = request.config.system_instruction.clone();
    let instruction = instruction.filter(|text| !text.is_empty());
    // A server without a field for the response schema gets it in the system message.
    let schema = tools::schema_instruction(kind, &request.config);
    let instructions: Vec<String> = instruction.into_iter().chain(schema).collect();
    if !instructions.is_empty() {
        messages.push_content("system", instructions.join("\n\n").into());
    }
    let contents = contents_to_send(request);
    for content in &contents {
        messages.convert(content)?;
    }
    if contents.last().is_some_and(|last| is_empty_content(last)) {
        messages.push_content("user", EMPTY_MESSAGE_PROMPT.into());
    }
    messages.answer_pending_calls();
    Ok(list(messages.out))
}

/// Whether a content gives the model nothing to answer: no text, tool result or media.
fn is_empty_content(content: &Content) -> bool {
    let has_something = |part: &Part| {
        part.text.as_ref().is_some_and(|text| !text.is_empty())
            || part.function_response.is_some()
            || part.inline_data.is_some()
            || part.file_data.is_some()
    };
    !content.parts().iter().any(has_something)
}

struct Messages {
    kind: ServerKind,
    out: Vec<Json>,
    ids: CallIds,
    /// IDs of the calls that have no result so far.
    pending: Vec<String>,
}

impl Messages {
    fn convert(&mut self, content: &Content) -> Result<(), ModelError> {
        // Results come first, because no other message may stand between a call and its result.
        let mut rest = Vec::new();
        for part in content.parts() {
            match &part.function_response {
                Some(response) => {
                    self.push_result(response);
                    rest.extend(media_of(response));
                }
                None => rest.push(part.clone()),
            }
        }
        match content.role.as_deref() {
            Some("model" | "assistant") => self.push_assistant(&rest),
            _ => {
                self.push_user(&rest);
                Ok(())
            }
        }
    }

    fn push_content(&mut self, role: &str, content: Json) {
        self.push(object([("role", role.into()), ("content", content)]));
    }

    fn push(&mut self, message: Json) {
        self.answer_pending_calls();
        self.out.push(message);
    }

    /// Adds a placeholder result for each call that has no result yet.
    fn answer_pending_calls(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        tracing::warn!(
            calls = ?self.pending,
            "calls without a result are sent with a placeholder result"
        );
        for id in std::mem::take(&mut self.pending) {
            self.out.push(tool_message(&id, NO_RESULT));
        }
    }

    fn push_result(&mut self, response: &FunctionResponse) {
        let id = self.ids.id_of_response(response, &self.pending);
        self.pending.retain(|pending| *pending != id);
        let answer = response.response.clone().map_or(Json::Null, Json::from);
        self.out.push(tool_message(&id, &answer.to_string()));
    }

    fn push_user(&mut self, parts: &[Part]) {
        let shown = parts.iter().filter(|part| part.thought != Some(true));
        let mut pieces = Vec::new();
        for part in shown {
            if part.function_call.is_some() {
                warn_unsupported("a function call in a user message", "is dropped");
            }
            pieces.extend(self.piece(part));
        }
        if pieces.is_empty() {
            return;
        }
        let content = match join_texts(&pieces) {
            Some(text) => text.into(),
            None => list(pieces.into_iter().map(|piece| match piece {
                Piece::Text(text) => object([("type", "text".into()), ("text", text.into())]),
                Piece::Media(media) => media,
            })),
        };
        self.push_content("user", content);
    }

    fn push_assistant(&mut self, parts: &[Part]) -> Result<(), ModelError> {
        let (mut texts, mut calls, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let mut thoughts = Vec::new();
        for part in parts {
            if let Some(call) = &part.function_call {
                let id = self.ids.id_of_call(call);
                calls.push(self.convert_call(call, &id, part.thought_signature.as_ref())?);
                ids.push(id);
            } else if part.thought == Some(true) {
                let signature = part.thought_signature.as_deref();
                match signature.is_some_and(signers::is_not_openais) {
                    true => tracing::warn!("dropped a thought that another provider signed"),
                    false => thoughts.push(part),
                }
            } else if part.inline_data.is_some() || part.file_data.is_some() {
                warn_unsupported("data in a model message", "is dropped");
            } else if let Some(Piece::Text(text)) = self.piece(part) {
                texts.push(text);
            }
        }
        let thoughts = self.thought_fields(&thoughts);
        if texts.is_empty() && calls.is_empty() && thoughts.is_empty() {
            return Ok(());
        }
        let text = (!texts.is_empty()).then(|| texts.join("\n"));
        let mut message = JsonMap::from([
            ("role", Json::from("assistant")),
            ("content", Json::from(text)),
        ]);
        if !calls.is_empty() {
            message.insert("tool_calls", calls);
        }
        message.extend(thoughts);
        self.push(message.into());
        self.pending = ids;
        Ok(())
    }

    fn convert_call(
        &self,
        call: &FunctionCall,
        id: &str,
        signature: Option<&Bytes>,
    ) -> Result<Json, ModelError> {
        let Some(name) = call.name.as_deref().filter(|name| !name.is_empty()) else {
            return Err(invalid_request(
                "a function call in the history has no name",
            ));
        };
        let arguments = call.args.clone().unwrap_or_default();
        let function = object([
            ("name", name.into()),
            ("arguments", Json::from(arguments).to_string().into()),
        ]);
        let mut out = JsonMap::from([
            ("id", Json::from(id)),
            ("type", "function".into()),
            ("function", function),
        ]);
        // Gemini signs its calls even when reached through an OpenAI-compatible server.
        if let Some(signature) = signature.filter(|_| self.kind.accepts_unknown_fields()) {
            let signature = Json::from(STANDARD.encode(&**signature));
            let signature = object([("thought_signature", signature)]);
            out.insert("provider_specific_fields", signature.clone());
            out.insert("extra_content", object([("google", signature)]));
        }
        Ok(out.into())
    }

    /// Returns the earlier thoughts, in the fields in which the server expects them.
    fn thought_fields(&self, thoughts: &[&Part]) -> JsonMap {
        let mut fields = JsonMap::new();
        let text: String = thoughts
            .iter()
            .filter_map(|part| part.text.as_deref())
            .collect();
        let field = match self.kind.thought_field() {
            ThoughtField::None => return fields,
            ThoughtField::ReasoningContent => "reasoning_content",
            ThoughtField::Reasoning => "reasoning",
        };
        if !text.is_empty() {
            fields.insert(field, text);
        }
        if self.kind == ServerKind::OpenRouter {
            let signed = thoughts
                .iter()
                .filter_map(|part| part.thought_signature.as_ref());
            let details: Vec<Json> = signed.flat_map(|it| signature::details(it)).collect();
            if !details.is_empty() {
                fields.insert("reasoning_details", details);
            }
        }
        fields
    }

    /// Converts a part to a piece of content; `None` if it has nothing that can be sent.
    fn piece(&self, part: &Part) -> Option<Piece> {
        if let Some(text) = part.text.as_ref().filter(|text| !text.is_empty()) {
            return Some(Piece::Text(text.clone()));
        }
        if let Some(blob) = &part.inline_data {
            return media::from_blob(self.kind, blob);
        }
        if let Some(file) = &part.file_data {
            return media::from_uri(self.kind, file);
        }
        if let Some(code) = &part.executable_code {
            warn_unsupported("executable code", "is sent as text");
            let language = code.language.as_deref().unwrap_or_default().to_lowercase();
            let code = code.code.as_deref().unwrap_or_default();
            return Some(Piece::Text(format!("```{language}\n{code}\n```")));
        }
        if let Some(result) = &part.code_execution_result {
            warn_unsupported("a code execution result", "is sent as text");
            let outcome = result.outcome.as_deref().unwrap_or_default();
            let output = result.output.as_deref().unwrap_or_default();
            return Some(Piece::Text(format!("```\n{outcome}\n{output}\n```")));
        }
        if part.tool_call.is_some() || part.tool_response.is_some() {
            warn_unsupported("a call that another provider executed", "is dropped");
        }
        None
    }
}

fn tool_message(id: &str, content: &str) -> Json {
    object([
        ("role", "tool".into()),
        ("tool_call_id", id.into()),
        ("content", content.into()),
    ])
}

/// Joins the texts, if all pieces are text.
fn join_texts(pieces: &[Piece]) -> Option<String> {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => Some(text.as_str()),
        Piece::Media(_) => None,
    });
    let texts: Option<Vec<&str>> = texts.collect();
    texts.map(|texts| texts.join("\n"))
}

/// Returns the media of a tool result as parts, which follow in the next message.
fn media_of(response: &FunctionResponse) -> Vec<Part> {
    let parts = response.parts.as_ref().and_then(|parts| parts.as_array());
    let part_of = |media: &Json| {
        let blob = media.get("inlineData")?;
        let data = Bytes::from_base64(blob.get("data")?.as_str()?)?;
        let text = |field: &str| blob.get(field)?.as_str().map(str::to_owned);
        let blob = Blob {
            data: Some(data),
            mime_type: Some(text("mimeType")?),
            display_name: text("displayName"),
            ..Blob::default()
        };
        Some(Part {
            inline_data: Some(blob),
            ..Part::default()
        })
    };
    parts
        .unwrap_or_default()
        .iter()
        .filter_map(part_of)
        .collect()
}

fn warn_unsupported(what: &str, how: &str) {
    tracing::warn!("{what} {how}, because chat completions do not support it");
}

/// Assigns call IDs that the server accepts. A call and its result get the same ID.
struct CallIds {
    kind: ServerKind,
    /// Number of generated IDs.
    generated: usize,
    /// Replacements for IDs that the server rejects.
    replacements: HashMap<String, String>,
    /// Calls that had no ID and have no result yet: function name and generated ID.
    without_id: VecDeque<(String, String)>,
}

impl CallIds {
    fn new(kind: ServerKind) -> CallIds {
        CallIds {
            kind,
            generated: 0,
            replacements: HashMap::new(),
            without_id: VecDeque::new(),
        }
    }

    fn generate(&mut self) -> String {
        self.generated += 1;
        self.kind.call_id(self.generated)
    }

    fn id_of_call(&mut self, call: &FunctionCall) -> String {
        if let Some(id) = call.id.as_ref().filter(|id| !id.is_empty()) {
            return self.accepted_id(id);
        }
        let id = self.generate();
        let name = call.name.clone().unwrap_or_default();
        self.without_id.push_back((name, id.clone()));
        id
    }

    /// Returns the ID of the call that a result answers. A result without an ID answers a pending
    /// call, if possible one of the same function.
    fn id_of_response(&mut self, response: &FunctionResponse, pending: &[String]) -> String {
        if let Some(id) = response.id.as_ref().filter(|id| !id.is_empty()) {
            return self.accepted_id(id);
        }
        let name = response.name.as_deref().unwrap_or_default();
        let same = self.without_id.iter().position(|(known, _)| known == name);
        let found = self.without_id.remove(same.unwrap_or(0));
        let found = found.map(|(_, id)| id).or_else(|| pending.first().cloned());
        found.unwrap_or_else(|| self.generate())
    }

    /// Returns the ID itself, or its replacement if the server rejects it.
    fn accepted_id(&mut self, id: &str) -> String {
        if self.kind.accepts_call_id(id) {
            return id.to_owned();
        }
        if let Some(known) = self.replacements.get(id) {
            return known.clone();
        }
        let generated = self.generate();
        self.replacements.insert(id.to_owned(), generated.clone());
        generated
    }
}
