//! Builds the body of a request, except the fields that depend on the hosting service.

use retain_core::{GenerateContentConfig, Json, JsonMap};
use retain_runtime::{LlmRequest, ModelError};

use super::{blocks::is_not_blank, invalid_request, messages, output_schema, tools};
use crate::http::http_option;

/// Claude's minimum thinking budget in tokens.
const MIN_BUDGET: i64 = 1024;

/// Default limit of output tokens. The API requires a limit.
const MAX_TOKENS: i64 = 8192;

pub(super) fn body(request: &LlmRequest) -> Result<JsonMap, ModelError> {
    let config = &request.config;
    if config.candidate_count.is_some_and(|count| count > 1) {
        return Err(invalid_request(
            "candidate_count must be 1, because Claude returns one answer",
        ));
    }
    let thinking = thinking(config)?;
    let effort = config.extra.get("effort").and_then(Json::as_str);
    let mut body = JsonMap::new();
    let budget = thinking
        .as_ref()
        .and_then(|it| it["budget_tokens"].as_i64());
    // Thinking counts as output, so add the budget to leave room for the answer.
    let default_max = MAX_TOKENS.saturating_add(budget.unwrap_or(0));
    body.insert(
        "max_tokens",
        config.max_output_tokens.unwrap_or(default_max),
    );
    let system = config.system_instruction.as_ref();
    if let Some(system) = system.filter(|system| is_not_blank(system)) {
        body.insert("system", system.as_str());
    }
    body.insert("messages", messages::messages(&request.contents)?);
    let thinks = thinking
        .as_ref()
        .is_some_and(|thinking| thinking["type"] != "disabled");
    add_tools(&mut body, config, thinks)?;
    body.extend(thinking.map(|thinking| ("thinking", thinking)));
    if let Some(effort) = effort {
        body.insert("output_config", JsonMap::from([("effort", effort)]));
    }
    add_sampling(&mut body, config, thinks || effort.is_some());
    if let Some(stops) = config.stop_sequences.as_ref().filter(|s| !s.is_empty()) {
        let stops: Vec<Json> = stops.iter().map(|stop| stop.as_str().into()).collect();
        body.insert("stop_sequences", stops);
    }
    warn_about_ignored_settings(config);
    // Add the fields of `extra_body` unchanged.
    let more = http_option(config, "extraBody", "extra_body");
    if let Some(more) = more.as_ref().and_then(Json::as_object) {
        body.extend(more.clone());
    }
    Ok(body)
}

/// Converts the thinking config: a budget of 0 disables thinking, a negative one makes it adaptive.
fn thinking(config: &GenerateContentConfig) -> Result<Option<Json>, ModelError> {
    let Some(thinking) = config.thinking_config.as_ref().filter(|c| !c.is_null()) else {
        return Ok(None);
    };
    let field = |camel: &str, snake: &str| match &thinking[camel] {
        Json::Null => thinking[snake].clone(),
        value => value.clone(),
    };
    if !field("thinkingLevel", "thinking_level").is_null() {
        tracing::warn!("ignored thinking_level, which Claude does not support; set effort instead");
    }
    let Some(budget) = field("thinkingBudget", "thinking_budget").as_i64() else {
        return Err(invalid_request(
            "thinking_config for Claude needs a thinking_budget: 0 turns thinking off, -1 lets \
             Claude choose, otherwise at least 1024 tokens",
        ));
    };
    let thinking = match budget {
        1..MIN_BUDGET => {
            return Err(invalid_request(format!(
                "thinking_budget {budget} is too small: Claude needs at least {MIN_BUDGET} tokens"
            )));
        }
        0 => JsonMap::from([("type", "disabled")]),
        // Without `display` the thoughts are billed but not returned.
        ..0 => JsonMap::from([("type", "adaptive"), ("display", "summarized")]),
        _ => JsonMap::from([
            ("type", Json::from("enabled")),
            ("budget_tokens", budget.into()),
        ]),
    };
    Ok(Some(thinking.into()))
}

fn add_tools(
    body: &mut JsonMap,
    config: &GenerateContentConfig,
    thinks: bool,
) -> Result<(), ModelError> {
    let declared = tools::declare_functions(config)?;
    let schema = config
        .response_schema
        .as_ref()
        .or(config.response_json_schema.as_ref())
        .filter(|schema| !schema.is_null());
    if !declared.is_empty() {
        if schema.is_some() {
            tracing::warn!(
                "omitted the output schema, because Claude does not combine it with tools"
            );
        }
        let (tools, choice) = tools::choose_tools(declared, config, thinks);
        body.insert("tools", tools);
        body.insert("tool_choice", choice);
    } else if let Some(schema) = schema {
        let (tool, choice) = output_schema::as_tool(schema, thinks);
        body.insert("tools", vec![tool]);
        body.insert("tool_choice", choice);
    } else if config.response_mime_type.as_deref() == Some("application/json") {
        tracing::warn!(
            "Claude has no JSON mode without a schema; set a schema, or request JSON in the \
             instruction"
        );
    }
    Ok(())
}

/// Adds the sampling parameters. If `thinks` is set, they are ignored, because models reject them.
fn add_sampling(body: &mut JsonMap, config: &GenerateContentConfig, thinks: bool) {
    let top_k = config.top_k.map(|top_k| Json::from(top_k as i64));
    let sampling = [
        ("temperature", config.temperature.map(Json::from)),
        ("top_p", config.top_p.map(Json::from)),
        ("top_k", top_k),
    ];
    for (name, value) in sampling {
        match value {
            Some(_) if thinks => {
                tracing::warn!("ignored {name}, which Claude does not support while thinking");
            }
            Some(value) => {
                body.insert(name, value);
            }
            None => {}
        }
    }
}

/// Warns about settings that Claude does not support.
fn warn_about_ignored_settings(config: &GenerateContentConfig) {
    let settings = [
        ("seed", config.seed.is_some()),
        ("presence_penalty", config.presence_penalty.is_some()),
        ("frequency_penalty", config.frequency_penalty.is_some()),
        ("logprobs", config.logprobs.is_some()),
        ("response_logprobs", config.response_logprobs == Some(true)),
        ("safety_settings", config.safety_settings.is_some()),
        ("cached_content", config.cached_content.is_some()),
        ("speech_config", config.speech_config.is_some()),
        ("image_config", config.image_config.is_some()),
        ("media_resolution", config.media_resolution.is_some()),
        (
            "response_modalities",
            config
                .response_modalities
                .as_ref()
                .is_some_and(|wanted| wanted.iter().any(|one| !one.eq_ignore_ascii_case("text"))),
        ),
    ];
    for (name, _) in settings.into_iter().filter(|(_, is_set)| *is_set) {
        tracing::warn!("ignored {name}, which Claude does not support");
    }
}
