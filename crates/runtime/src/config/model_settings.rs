//! `generate_content_config`, and the contents that stand in configurations, key by key: so that
//! an error has the line of its key.

use retain_core::{Content, GenerateContentConfig, Json, JsonError, JsonMap, Part};

use super::{
    error::ConfigError,
    place::{Place, unknown_key},
    setting_shapes,
};

type Result<T> = std::result::Result<T, ConfigError>;

/// Keys that are suggested for one that is not known. A test sees that the settings have them all.
const KEYS: [&str; 36] = [
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
    "should_return_http_response",
    "image_config",
    "enable_enhanced_civic_answers",
    "model_armor_config",
    "service_tier",
    "audio_transcription_config",
    "continuation_token",
    "automatic_continuation",
    "generation_output_config",
    "store",
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
        match elsewhere.next() {
            // As in ADK, what is empty says nothing.
            _ if value.is_null() => continue,
            Some(_) if value.is_empty() => continue,
            Some((.., instead)) => {
                let problem = format!("use the agent's own key `{instead}` instead");
                return Err(value.error(problem));
            }
            None => {}
        }
        setting_shapes::check(key, &value)?;
        let (json, read) = setting(key, &value)?;
        if !read.extra.is_empty() {
            return Err(value.error(unknown_key(key, WHAT, &KEYS)));
        }
        check_transport(&read, &value)?;
        all.insert(key, json);
    }
    let all = Json::from(all).to_string();
    GenerateContentConfig::from_json(&all).map_err(|error| place.error(problem(&error)))
}

/// One setting, alone. A number may be written as a text, which some numbers are in YAML: `1e-3`.
fn setting(key: &str, place: &Place<'_>) -> Result<(Json, GenerateContentConfig)> {
    let read = |json: &Json| {
        let alone = Json::from(JsonMap::from([(key, json.clone())]));
        GenerateContentConfig::from_json(&alone.to_string())
    };
    let json = place.json();
    let error = match read(&json) {
        Ok(settings) => return Ok((json, settings)),
        Err(error) => error,
    };
    let text = place.as_text().map(str::trim).unwrap_or_default();
    let number = match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(number), _) => Some(Json::from(number)),
        (_, Ok(number)) if number.is_finite() => Some(Json::from(number)),
        _ => None,
    };
    let settings = number.and_then(|number| Some((number.clone(), read(&number).ok()?)));
    settings.ok_or_else(|| place.error(problem_inside(&error)))
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
    content.parts = Some(parts);
    content
}

/// A content with role and parts.
pub(super) fn content(place: &Place<'_>) -> Result<Content> {
    let fields = place.fields("a content", &["role", "parts"])?;
    for place in fields.list("parts")? {
        part(&place)?;
    }
    let content = Content::from_json(&place.json().to_string());
    content.map_err(|error| place.error(problem(&error)))
}

fn part_or_text(place: &Place<'_>) -> Result<Part> {
    match place.as_text() {
        Some(text) => Ok(Part::text(text)),
        None => part(place),
    }
}

fn part(place: &Place<'_>) -> Result<Part> {
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
