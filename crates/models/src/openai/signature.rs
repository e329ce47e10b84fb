//! Stores the data that a server requires back with a thought, as the signature of the thought.
//!
//! OpenRouter sends `reasoning_details`: blocks with the signatures of the upstream models. The
//! chunks of each block are merged, and the blocks are stored as JSON in the thought part's
//! signature.

use retain_core::{Bytes, Json, JsonMap};

use super::json::list;

/// Fields whose text each chunk extends. For any other field, the last value counts.
const GROWING: [&str; 3] = ["text", "summary", "data"];

/// The blocks so far.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetails(Vec<JsonMap>);

impl ReasoningDetails {
    /// Merges a chunk: the value of `reasoning_details`.
    pub(super) fn push(&mut self, chunks: &Json) {
        let chunks = chunks.as_array().unwrap_or_default();
        for chunk in chunks.iter().filter_map(Json::as_object) {
            let is_same = |block: &JsonMap| {
                let same = |field| block.get(field) == chunk.get(field);
                chunk.contains_key("index") && same("index") && same("type")
            };
            match self.0.last_mut().filter(|block| is_same(block)) {
                Some(block) => merge(block, chunk),
                None => self.0.push(chunk.clone()),
            }
        }
    }

    /// Returns the signature that stores the blocks, if they contain more than text.
    pub(super) fn signature(&self) -> Option<Bytes> {
        let is_signed = |block: &JsonMap| {
            let given = |field| {
                block
                    .get(field)
                    .is_some_and(|value: &Json| !value.is_null())
            };
            given("signature") || given("data")
        };
        if !self.0.iter().any(is_signed) {
            return None;
        }
        let blocks = list(self.0.iter().cloned().map(Json::from));
        Some(Bytes::from(blocks.to_string().into_bytes()))
    }
}

fn merge(block: &mut JsonMap, chunk: &JsonMap) {
    for (field, value) in chunk {
        let old = block.get(field).and_then(Json::as_str).unwrap_or_default();
        match value.as_str().filter(|_| GROWING.contains(&field)) {
            Some(more) => drop(block.insert(field, format!("{old}{more}"))),
            None if value.is_null() => {}
            None => drop(block.insert(field, value.clone())),
        }
    }
}

/// Returns the blocks that a signature stores; none if another provider made the signature.
pub(crate) fn details(signature: &[u8]) -> Vec<Json> {
    let text = std::str::from_utf8(signature).ok();
    let blocks = text.and_then(|text| Json::parse(text).ok());
    let is_block = |block: &Json| {
        let kind = block.get("type").and_then(Json::as_str);
        kind.is_some_and(|kind| kind.starts_with("reasoning."))
    };
    match blocks.as_ref().and_then(Json::as_array) {
        Some(blocks) if blocks.iter().all(is_block) => blocks.to_vec(),
        _ => Vec::new(),
    }
}

/// Returns Gemini's thought signature of a call. Servers put it in different fields.
pub(super) fn call_signature(call: &Json) -> Option<Bytes> {
    let google = &call["extra_content"]["google"];
    let fields = [
        google,
        &call["provider_specific_fields"],
        &call["function"]["provider_specific_fields"],
    ];
    let found = fields
        .iter()
        .find_map(|field| super::json::text(field, "thought_signature"));
    found.and_then(Bytes::from_base64)
}
