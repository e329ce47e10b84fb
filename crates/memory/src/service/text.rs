//! The text of a memory, for search and embedding.

use retain_core::{Content, Json, JsonMap};

/// Returns the texts of the content, one per line, without thoughts; empty if there are none.
pub(crate) fn spoken_text(content: &Content) -> String {
    let parts = content.parts().iter();
    let spoken = parts.filter(|part| part.thought != Some(true));
    let texts = spoken.filter_map(|part| part.text.as_deref());
    let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
    texts.join("\n")
}

/// Returns all strings in a tool's response, one per line, in order, without keys and numbers.
pub(crate) fn texts_in(response: &JsonMap) -> String {
    let mut texts = Vec::new();
    response
        .values()
        .for_each(|value| collect(value, &mut texts));
    texts.join("\n")
}

fn collect<'a>(value: &'a Json, texts: &mut Vec<&'a str>) {
    if let Some(text) = value.as_str() {
        if !text.trim().is_empty() {
            texts.push(text);
        }
    } else if let Some(map) = value.as_object() {
        map.values().for_each(|value| collect(value, texts));
    } else if let Some(list) = value.as_array() {
        list.iter().for_each(|value| collect(value, texts));
    }
}
