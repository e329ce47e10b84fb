//! Data that a server requires back with a thought, stored unchanged as the thought's signature.
//!
//! OpenRouter sends `reasoning_details`, blocks with the signatures of the upstream models. They
//! arrive in chunks, are merged, and stored as JSON in the signature of the thought part.

use retain_core::{Bytes, Json, JsonMap};

use super::json::list;

/// Fields that grow with each chunk; all others are replaced.
const GROWING: [&str; 3] = ["text", "summary", "data"];

/// Blocks that are being merged.
#[derive(Debug, Default)]
pub(super) struct ReasoningDetails(Vec<JsonMap>);

impl ReasoningDetails {
    /// Merges a chunk: the value of `reasoning_details`.
    pub(super) fn push(&mut self, pieces: &Json) {
        let pieces = pieces.as_array().unwrap_or_default();
        for piece in pieces.iter().filter_map(Json::as_object) {
            let is_same = |block: &JsonMap| {
                let same = |field| block.get(field) == piece.get(field);
                piece.contains_key("index") && same("index") && same("type")
            };
            match self.0.last_mut().filter(|block| is_same(block)) {
                Some(block) => grow(block, piece),
                None => self.0.push(piece.clone()),
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

fn grow(block: &mut JsonMap, piece: &JsonMap) {
    for (field, value) in piece {
        let old = block.get(field).and_then(Json::as_str).unwrap_or_default();
        match value.as_str().filter(|_| GROWING.contains(&field)) {
            Some(more) => drop(block.insert(field, format!("{old}{more}"))),
            None if value.is_null() => {}
            None => drop(block.insert(field, value.clone())),
        }
    }
}

/// Returns the blocks in a signature; none if it is another provider's.
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

/// Returns the signature of a call, from any field in which servers put Gemini's.
pub(super) fn of_call(call: &Json) -> Option<Bytes> {
    let google = &call["extra_content"]["google"];
    let places = [
        google,
        &call["provider_specific_fields"],
        &call["function"]["provider_specific_fields"],
    ];
    let found = places
        .iter()
        .find_map(|place| super::json::text(place, "thought_signature"));
    found.and_then(Bytes::from_base64)
}
