//! Reads `generate_content_config` and contents in configurations key by key, so that an error
//! names the line of its key.

use retain_core::{Content, GenerateContentConfig, Json, JsonError, JsonMap, Part, adk::table};

use super::{
    error::ConfigError,
    setting_keys,
    value::{ConfigValue, unknown_key},
};

type Result<T> = std::result::Result<T, ConfigError>;

/// Settings for which an agent has its own configuration key.
const AGENT_KEYS: [(&str, &str); 3] = [
    ("tools", "tools"),
    ("system_instruction", "instruction"),
    ("response_schema", "output_schema"),
];

/// Reads `generate_content_config`.
pub(super) fn settings(place: &ConfigValue<'_>) -> Result<GenerateContentConfig> {
    const WHAT: &str = "generate_content_config";
    let mut all = JsonMap::new();
    for (key, value) in place.pairs(WHAT)? {
        if value.is_null() {
            continue;
        }
        let Some(field) = table::GENERATE_CONTENT_CONFIG.field(key) else {
            return Err(value.error(unknown_key(key, WHAT, &settings_keys())));
        };
        if let Some((_, instead)) = AGENT_KEYS.iter().find(|(name, _)| field.snake == *name) {
            // As in ADK, an empty value is ignored.
            if value.is_empty() {
                continue;
            }
            let problem = format!("use the agent's own key `{instead}` instead");
            return Err(value.error(problem));
        }
        setting_keys::check(field.snake, &field.value, &value)?;
        let (json, read) = read_setting(key, &value)?;
        check_transport(&read, &value)?;
        all.insert(key, json);
    }
    let all = Json::from(all).to_string();
    GenerateContentConfig::from_json(&all).map_err(|error| place.error(describe_error(&error)))
}

/// Returns the keys that the error about an unknown key may suggest.
fn settings_keys() -> Vec<&'static str> {
    let names = table::GENERATE_CONTENT_CONFIG.snake_names();
    let names = names.filter(|name| !AGENT_KEYS.iter().any(|(key, _)| key == name));
    names.collect()
}

/// Reads one setting. A number may be given as a string, because YAML 1.1 reads numbers such as
/// `1e-3` as strings.
fn read_setting(key: &str, place: &ConfigValue<'_>) -> Result<(Json, GenerateContentConfig)> {
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
    settings.ok_or_else(|| place.error(describe_inner_error(&error)))
}

/// Rejects a base URL: as in ADK, only the model may set it.
fn check_transport(settings: &GenerateContentConfig, place: &ConfigValue<'_>) -> Result<()> {
    let options = settings.http_options.as_ref();
    let url = options.and_then(|it| it.get("base_url").or_else(|| it.get("baseUrl")));
    match url {
        Some(url) if !url.is_null() => {
            Err(place.error("base_url must be set on the model, not on the agent"))
        }
        _ => Ok(()),
    }
}

/// Reads a content: a string, parts, or a content with its role.
pub(super) fn content_or_text(place: &ConfigValue<'_>) -> Result<Content> {
    if let Some(text) = place.as_text() {
        return Ok(Content::user(text));
    }
    if let Ok(items) = place.list() {
        let parts: Result<Vec<Part>> = items.iter().map(part_or_text).collect();
        return Ok(content_of_parts(parts?));
    }
    let keys = place.pairs("a content or a part")?;
    match keys.iter().any(|(key, _)| *key == "parts") {
        true => content(place),
        false => Ok(content_of_parts(vec![part_or_text(place)?])),
    }
}

fn content_of_parts(parts: Vec<Part>) -> Content {
    let mut content = Content::user("");
    content.parts = Some(parts);
    content
}

/// Reads a content with role and parts.
pub(super) fn content(place: &ConfigValue<'_>) -> Result<Content> {
    let fields = place.fields("a content", &table::CONTENT)?;
    for place in fields.list("parts")? {
        part(&place)?;
    }
    let content = Content::from_json(&place.json().to_string());
    content.map_err(|error| place.error(describe_error(&error)))
}

fn part_or_text(place: &ConfigValue<'_>) -> Result<Part> {
    match place.as_text() {
        Some(text) => Ok(Part::text(text)),
        None => part(place),
    }
}

fn part(place: &ConfigValue<'_>) -> Result<Part> {
    let keys = place.pairs("a part")?;
    let part = Part::from_json(&place.json().to_string());
    let part = part.map_err(|error| place.error(describe_error(&error)))?;
    match keys.iter().find(|(key, _)| part.extra.get(key).is_some()) {
        Some((_, unknown)) => Err(unknown.error("is not a key of a part")),
        None => Ok(part),
    }
}

/// Formats a JSON error without its byte offset, which refers to a text that the user never sees.
fn describe_error(error: &JsonError) -> String {
    match error.path() {
        "" => error.message().to_owned(),
        path => format!("{path}: {}", error.message()),
    }
}

/// Like `describe_error`, for an object whose only key is already part of the location.
fn describe_inner_error(error: &JsonError) -> String {
    match error.path().split_once('.') {
        Some((_, path)) => format!("{path}: {}", error.message()),
        None => error.message().to_owned(),
    }
}
