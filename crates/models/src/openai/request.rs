//! Builds the body of a call in OpenAI's format.

use retain_core::{GenerateContentConfig, Json, JsonMap};
use retain_runtime::{LlmRequest, ModelError};

use super::{
    invalid_request,
    json::{either, object},
    messages,
    server::ServerKind,
    tools,
};
use crate::http::http_option;

/// Returns the body as JSON text.
pub(super) fn body(
    kind: ServerKind,
    model: &str,
    request: &LlmRequest,
    stream: bool,
) -> Result<String, ModelError> {
    let config = &request.config;
    check_config(kind, config)?;
    warn_about_ignored_settings(kind, config);
    let mut body = JsonMap::from([
        ("model", Json::from(model)),
        ("messages", messages::messages(kind, request)?),
    ]);
    body.extend(tools::tools(kind, config)?);
    if let Some(format) = tools::response_format(kind, config) {
        body.insert("response_format", format);
    }
    body.extend(settings(kind, model, config));
    if stream {
        body.insert("stream", true);
        if kind.must_request_usage() {
            body.insert("stream_options", object([("include_usage", true.into())]));
        }
    }
    // Add the fields of `extra_body` unchanged.
    let more = http_option(config, "extraBody", "extra_body");
    if let Some(more) = more.as_ref().and_then(Json::as_object) {
        body.extend(more.clone());
    }
    let body = Json::from(body).to_json();
    body.map_err(|error| invalid_request(format!("cannot encode the request: {error}")))
}

fn settings(kind: ServerKind, model: &str, config: &GenerateContentConfig) -> JsonMap {
    let effort = reasoning_effort(kind, model, config);
    let mut fields = JsonMap::new();
    let mut set = |name: &str, value: Option<Json>| {
        if let Some(value) = value {
            fields.insert(name, value);
        }
    };
    for (name, value) in sampling(kind, config) {
        match rejects_sampling(kind, model, effort.as_deref()) {
            false => set(name, Some(value)),
            true => tracing::warn!(
                model,
                "omitted {name}, which the model does not support while thinking"
            ),
        }
    }
    if kind.accepts_unknown_fields() {
        set("top_k", config.top_k.map(integer_if_whole));
    }
    set(
        kind.max_tokens_field(),
        config.max_output_tokens.map(Json::from),
    );
    let stops = config.stop_sequences.as_ref();
    let stops = stops.filter(|stops| !stops.is_empty());
    set("stop", stops.map(|stops| texts(stops)));
    set(kind.seed_field(), config.seed.map(Json::from));
    if kind.is_openai() {
        set("store", config.store.map(Json::from));
    }
    set("reasoning_effort", effort.map(Json::from));
    fields
}

/// Returns the sampling parameters that are set.
fn sampling(kind: ServerKind, config: &GenerateContentConfig) -> Vec<(&'static str, Json)> {
    let logprobs = (config.response_logprobs == Some(true) && kind.supports_logprobs())
        .then_some((true, config.logprobs));
    let settings = [
        ("temperature", config.temperature.map(Json::from)),
        ("top_p", config.top_p.map(Json::from)),
        ("presence_penalty", config.presence_penalty.map(Json::from)),
        (
            "frequency_penalty",
            config.frequency_penalty.map(Json::from),
        ),
        ("logprobs", logprobs.map(|(enabled, _)| enabled.into())),
        (
            "top_logprobs",
            logprobs.and_then(|(_, count)| count).map(Json::from),
        ),
    ];
    let set = settings
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    set.collect()
}

/// Whether the model rejects sampling parameters. OpenAI's thinking models do, unless thinking is
/// disabled, which `gpt-5.1` and later allow.
fn rejects_sampling(kind: ServerKind, model: &str, effort: Option<&str>) -> bool {
    let is_o_series = model
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_gpt_5 = model.strip_prefix("gpt-").is_some_and(|version| {
        let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
        digits
            .parse::<u32>()
            .is_ok_and(|number| (5..35).contains(&number))
    });
    let thinks = is_o_series || (is_gpt_5 && !model.contains("-chat"));
    kind.is_openai() && thinks && effort != Some("none")
}

fn texts(texts: &[String]) -> Json {
    super::json::list(texts.iter().map(|text| text.as_str().into()))
}

/// Converts `topK`, a float in Gemini's format, to an integer if possible.
fn integer_if_whole(value: f64) -> Json {
    match value.fract() == 0.0 && value.abs() < 1e9 {
        true => Json::from(value as i64),
        false => Json::from(value),
    }
}

/// Converts the thinking config to OpenAI's reasoning effort. Token budgets are mapped as in ADK.
fn reasoning_effort(
    kind: ServerKind,
    model: &str,
    config: &GenerateContentConfig,
) -> Option<String> {
    let thinking = config.thinking_config.as_ref()?;
    let level = either(thinking, "thinkingLevel", "thinking_level").and_then(Json::as_str);
    let budget = either(thinking, "thinkingBudget", "thinking_budget").and_then(Json::as_i64);
    let effort = match (level, budget) {
        (Some(level), _) if level != "THINKING_LEVEL_UNSPECIFIED" => level.to_lowercase(),
        (_, Some(0)) => "none".to_owned(),
        (_, Some(1..=1024)) => "low".to_owned(),
        (_, Some(1025..=2048)) => "medium".to_owned(),
        (_, Some(2049..)) => "high".to_owned(),
        _ => return None,
    };
    let supports_minimal = match kind.is_openai() {
        // `gpt-5` introduced `minimal`, and `gpt-5.1` removed it.
        true => !can_disable_thinking(model),
        false => kind.supports_minimal_effort(),
    };
    let effort = match effort.as_str() {
        "minimal" if !supports_minimal => "low".to_owned(),
        _ => effort,
    };
    if kind.is_openai() && !supports_thinking(model) {
        if effort != "none" {
            tracing::warn!(
                model,
                "omitted the thinking config, because the model does not think"
            );
        }
        return None;
    }
    if kind.is_openai() && effort == "none" && !can_disable_thinking(model) {
        tracing::warn!(
            model,
            "omitted the thinking config, because the model always thinks"
        );
        return None;
    }
    Some(effort)
}

/// Whether the model allows disabling its thinking. OpenAI's models up to `gpt-5` do not; those
/// from `gpt-5.1` on do.
fn can_disable_thinking(model: &str) -> bool {
    let version = model.strip_prefix("gpt-").unwrap_or_default();
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    let is_later = digits.parse::<u32>().is_ok_and(|number| number > 5);
    is_later || version.starts_with("5.")
}

/// Whether the model accepts a reasoning effort. OpenAI's older models reject it.
fn supports_thinking(model: &str) -> bool {
    let older = ["gpt-3", "gpt-4", "chatgpt-4o", "gpt-35"];
    !older.iter().any(|name| model.starts_with(name))
}

/// Rejects settings that would change the meaning of the answer if they were ignored.
fn check_config(kind: ServerKind, config: &GenerateContentConfig) -> Result<(), ModelError> {
    if config.candidate_count.is_some_and(|count| count > 1) {
        return Err(invalid_request(
            "candidateCount must be 1, because an event has one answer",
        ));
    }
    if config.cached_content.is_some() {
        let name = kind.name();
        return Err(invalid_request(format!(
            "cachedContent is not supported by {name}, because it names a Gemini cache; remove it"
        )));
    }
    let mut modalities = config.response_modalities.iter().flatten();
    let other = modalities.find(|it| !it.eq_ignore_ascii_case("text"));
    match other {
        Some(other) => Err(invalid_request(format!(
            "responseModalities {other:?} is not supported by chat completions; expected \"TEXT\""
        ))),
        None => Ok(()),
    }
}

fn warn_about_ignored_settings(kind: ServerKind, config: &GenerateContentConfig) {
    let left_out = [
        (
            "topK",
            config.top_k.is_some() && !kind.accepts_unknown_fields(),
        ),
        (
            "responseLogprobs",
            config.response_logprobs == Some(true) && !kind.supports_logprobs(),
        ),
        ("safetySettings", config.safety_settings.is_some()),
        ("speechConfig", config.speech_config.is_some()),
        ("imageConfig", config.image_config.is_some()),
        ("mediaResolution", config.media_resolution.is_some()),
        ("audioTimestamp", config.audio_timestamp.is_some()),
        // `labels` is not listed: every request has labels, and dropping them has no effect.
        ("routingConfig", config.routing_config.is_some()),
        (
            "modelSelectionConfig",
            config.model_selection_config.is_some(),
        ),
        ("modelArmorConfig", config.model_armor_config.is_some()),
        ("serviceTier", config.service_tier.is_some()),
        ("store", config.store.is_some() && !kind.is_openai()),
    ];
    let names: Vec<&str> = left_out
        .iter()
        .filter_map(|(name, is_set)| is_set.then_some(*name))
        .collect();
    if !names.is_empty() {
        let server = kind.name();
        tracing::warn!(
            server, settings = ?names,
            "omitted settings that chat completions do not support"
        );
    }
}

/// Whether the config excludes thoughts from answers.
pub(super) fn hides_thoughts(config: &GenerateContentConfig) -> bool {
    let thinking = config.thinking_config.as_ref();
    let included = thinking.and_then(|it| either(it, "includeThoughts", "include_thoughts"));
    included.and_then(Json::as_bool) == Some(false)
}

/// Returns the model's name on the wire: the configured one, or one that a callback set.
pub(super) fn wire_model<'a>(name: &str, model: &'a str, request: &'a LlmRequest) -> &'a str {
    let requested = request.model.as_str();
    if requested.is_empty() || requested == name {
        return model;
    }
    let prefix = name.strip_suffix(model).unwrap_or_default();
    requested.strip_prefix(prefix).unwrap_or(requested)
}
