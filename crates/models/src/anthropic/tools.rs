//! Converts declared functions and the tool choice.

use retain_core::{FunctionDeclaration, GenerateContentConfig, Json, JsonMap};
use retain_runtime::ModelError;

use super::{invalid_request, output_schema};
use crate::openai::schema::json_schema;

/// Converts the declared functions to Claude's `tools`.
pub(super) fn declare_functions(config: &GenerateContentConfig) -> Result<Vec<Json>, ModelError> {
    let mut declared = Vec::new();
    for tool in config.tools.iter().flatten() {
        if tool.provider_tool().is_some() {
            tracing::warn!("dropped a built-in tool of Gemini, which Claude does not support");
        }
        for function in tool.function_declarations.iter().flatten() {
            declared.push(convert_function(function)?);
        }
    }
    Ok(declared)
}

fn convert_function(function: &FunctionDeclaration) -> Result<Json, ModelError> {
    let name = function.name.as_deref().unwrap_or_default();
    if name.is_empty() || output_schema::is_reserved(name) {
        return Err(invalid_request(format!(
            "the function name {name:?} is empty or reserved; rename the function"
        )));
    }
    let schema = function
        .parameters_json_schema
        .as_ref()
        .or(function.parameters.as_ref())
        .filter(|schema| schema.as_object().is_some());
    let schema = input_schema(name, schema.map(json_schema));
    Ok(JsonMap::from([
        ("name", Json::from(name)),
        (
            "description",
            function.description.as_deref().unwrap_or_default().into(),
        ),
        ("input_schema", schema),
    ])
    .into())
}

/// Converts the schema of a function's arguments. Claude requires an object schema, without
/// alternatives at the top level.
fn input_schema(function: &str, schema: Option<Json>) -> Json {
    let map = schema.as_ref().and_then(Json::as_object).cloned();
    let mut map = map.unwrap_or_default();
    let may_be_object = match map.get("type") {
        None => true,
        Some(Json::Array(names)) => names.iter().any(|name| *name == "object"),
        Some(name) => *name == "object",
    };
    if !may_be_object {
        tracing::warn!(
            function,
            "declared a function without arguments, because its schema is not an object"
        );
        map = JsonMap::new();
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        if map.remove(choice).is_some() {
            tracing::warn!(
                function,
                "dropped {choice} at the top level of a function's arguments, which Claude \
                 does not support"
            );
        }
    }
    map.insert("type", "object");
    if !map.contains_key("properties") {
        map.insert("properties", JsonMap::new());
    }
    map.into()
}

/// Returns the tools that Claude may call, and the tool choice.
pub(super) fn choose_tools(
    mut tools: Vec<Json>,
    config: &GenerateContentConfig,
    thinks: bool,
) -> (Vec<Json>, Json) {
    let calling = config.tool_config.as_ref().map(calling_config);
    let calling = calling.unwrap_or_default();
    let mode = calling["mode"].as_str().unwrap_or_default();
    if mode.eq_ignore_ascii_case("NONE") {
        return (tools, JsonMap::from([("type", "none")]).into());
    }
    if !mode.eq_ignore_ascii_case("ANY") && !mode.eq_ignore_ascii_case("VALIDATED") {
        return (tools, JsonMap::from([("type", "auto")]).into());
    }
    let allowed = match &calling["allowedFunctionNames"] {
        Json::Null => calling["allowed_function_names"].clone(),
        names => names.clone(),
    };
    let allowed = allowed.as_array().unwrap_or_default();
    if !allowed.is_empty() {
        tools.retain(|tool| allowed.contains(&tool["name"]));
    }
    let choice = match allowed {
        _ if mode.eq_ignore_ascii_case("VALIDATED") => JsonMap::from([("type", "auto")]),
        _ if thinks => {
            tracing::warn!(
                "the tool choice is not forced, because Claude does not support that while thinking"
            );
            JsonMap::from([("type", "auto")])
        }
        [one] => JsonMap::from([("type", Json::from("tool")), ("name", one.clone())]),
        _ => JsonMap::from([("type", "any")]),
    };
    (tools, choice.into())
}

fn calling_config(config: &Json) -> Json {
    match &config["functionCallingConfig"] {
        Json::Null => config["function_calling_config"].clone(),
        calling => calling.clone(),
    }
}
