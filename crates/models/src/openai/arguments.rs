//! Parses a call's arguments: a JSON object as text, and its common malformations.

use retain_core::{Json, JsonMap};

/// Parses the arguments leniently; `None` if they are not an object.
///
/// Also accepts an empty text, an object encoded twice, and an object in a Markdown fence.
pub(super) fn parse(text: &str) -> Option<JsonMap> {
    let text = text.trim();
    if text.is_empty() {
        return Some(JsonMap::new());
    }
    let value = Json::parse(text).or_else(|error| match unfenced(text) {
        Some(inside) => Json::parse(inside),
        None => Err(error),
    });
    match value.ok()? {
        Json::Object(map) => Some((*map).clone()),
        Json::Null => Some(JsonMap::new()),
        Json::String(inner) => Json::parse(&inner).ok()?.as_object().cloned(),
        _ => None,
    }
}

/// Returns the text inside a Markdown fence.
fn unfenced(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("```")?.strip_suffix("```")?.trim();
    let inside = match inside.get(..4) {
        Some(word) if word.eq_ignore_ascii_case("json") => &inside[4..],
        _ => inside,
    };
    Some(inside.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_from_json_and_its_common_variants() {
        for text in [
            r#"{"a": 1}"#,
            r#" {"a":1}  "#,
            "```json\n{\"a\": 1}\n```",
            "```{\"a\": 1}```",
            r#""{\"a\": 1}""#,
        ] {
            let map = parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(map, JsonMap::from([("a", 1)]), "{text}");
        }
        for text in ["", "  ", "null", "{}"] {
            assert_eq!(parse(text), Some(JsonMap::new()), "{text:?}");
        }
        for text in ["{", r#"{"a": "#, "[1]", "1", r#""a""#, "```", "``````x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
