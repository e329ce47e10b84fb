//! `generate_content_config`, and the contents that stand in configurations, key by key: so that
//! an error has the line of its key.

use retain_core::{Content, GenerateContentConfig, JsonError, JsonMap, Part};

use super::{
    error::ConfigError,
    place::{Place, unknown_key},
};

type Result<T> = std::result::Result<T, ConfigError>;

/// Keys that are suggested for one that is not known. A test sees that the settings have them all.
const KEYS: [&str; 26] = [
    "http_options",
    "temperature",
    "top_p",
    "top_k",
    "candidate_count",
    "max_output_tokens",
    "stop_sequences",
    "response_logprobs",
    "logprobs",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "response_mime_type",
    "response_json_schema",
    "routing_config",
    "model_selection_config",
    "safety_settings",
    "tool_config",
    "labels",
    "cached_content",
    "response_modalities",
    "media_resolution",
    "speech_config",
    "audio_timestamp",
    "automatic_function_calling",
    "thinking_config",
];

/// Settings that an agent has a key of its own for, in both spellings.
const ELSEWHERE: [(&str, &str, &str); 3] = [
    ("tools", "tools", "tools"),
    ("system_instruction", "systemInstruction", "instruction"),
    ("response_schema", "responseSchema", "output_schema"),
];

/// Reads `generate_content_config`.
pub(super) fn settings(place: &Place<'_>) -> Result<GenerateContentConfig> {
    const WHAT: &str = "generate_content_config";
    let mut all = JsonMap::new();
    for (key, value) in place.pairs(WHAT)? {
        let elsewhere = ELSEWHERE.iter();
        let mut elsewhere = elsewhere.filter(|(snake, camel, _)| key == *snake || key == *camel);
        if let Some((.., instead)) = elsewhere.next() {
            return Err(value.error(format!("use the agent's own key `{instead}` instead")));
        }
        if value.is_null() {
            continue;
        }
        let alone = JsonMap::from([(key, value.json())]);
        let read = GenerateContentConfig::from_json(&retain_core::Json::from(alone).to_string());
        let read = read.map_err(|error| value.error(problem_inside(&error)))?;
        if !read.extra.is_empty() {
            return Err(value.error(unknown_key(key, WHAT, &KEYS)));
        }
        check_transport(&read, &value)?;
        all.insert(key, value.json());
    }
    let all = retain_core::Json::from(all).to_string();
    GenerateContentConfig::from_json(&all).map_err(|error| place.error(problem(&error)))
}

/// Where a model is reached is not for the agent to say, as in ADK.
fn check_transport(settings: &GenerateContentConfig, place: &Place<'_>) -> Result<()> {
    let options = settings.http_options.as_ref();
    let url = options.and_then(|it| it.get("base_url").or_else(|| it.get("baseUrl")));
    match url {
        Some(url) if !url.is_null() => Err(place.error("base_url belongs to the model")),
        _ => Ok(()),
    }
}

/// A content: a text, parts, or a content with its role.
pub(super) fn content_or_text(place: &Place<'_>) -> Result<Content> {
    if let Some(text) = place.as_text() {
        return Ok(Content::user(text));
    }
    if let Ok(items) = place.list() {
        let parts: Result<Vec<Part>> = items.iter().map(part_or_text).collect();
        return Ok(with_parts(parts?));
    }
    let keys = place.pairs("a content or a part")?;
    match keys.iter().any(|(key, _)| *key == "parts") {
        true => content(place),
        false => Ok(with_parts(vec![part_or_text(place)?])),
    }
}

fn with_parts(parts: Vec<Part>) -> Content {
    let mut content = Content::user("");
    content.parts = Some(parts.into());
    content
}

/// A content with role and parts.
pub(super) fn content(place: &Place<'_>) -> Result<Content> {
    place.fields("a content", &["role", "parts"])?;
    let content = Content::from_json(&place.json().to_string());
    content.map_err(|error| place.error(problem(&error)))
}

fn part_or_text(place: &Place<'_>) -> Result<Part> {
    if let Some(text) = place.as_text() {
        return Ok(Part::text(text));
    }
    let keys = place.pairs("a part")?;
    let part = Part::from_json(&place.json().to_string());
    let part = part.map_err(|error| place.error(problem(&error)))?;
    match keys.iter().find(|(key, _)| part.extra.get(key).is_some()) {
        Some((_, unknown)) => Err(unknown.error("is not a key of a part")),
        None => Ok(part),
    }
}

/// What a JSON reader says, without the byte of a text that nobody has seen.
fn problem(error: &JsonError) -> String {
    match error.path() {
        "" => error.message().to_owned(),
        path => format!("{path}: {}", error.message()),
    }
}

/// The same for an object of one key, which the place names already.
fn problem_inside(error: &JsonError) -> String {
    match error.path().split_once('.') {
        Some((_, path)) => format!("{path}: {}", error.message()),
        None => error.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_settings_are_settings() {
        for key in KEYS {
            let read = GenerateContentConfig::from_json(&format!("{{\"{key}\":null}}"));
            assert!(read.unwrap().extra.is_empty(), "{key}");
        }
    }
}
