//! Converts tools: function declarations, the tool choice, and the response schema.

use retain_core::{FunctionDeclaration, GenerateContentConfig, Json, JsonMap, ModelTool};
use retain_runtime::ModelError;

use super::{
    invalid_request,
    json::{either, list, object, text},
    schema,
    server::ServerKind,
};

/// OpenAI's maximum length of tool descriptions.
const DESCRIPTION_MAX: usize = 1024;
/// The name for a response schema without a title.
const SCHEMA_NAME: &str = "response";
/// OpenAI's maximum length of names.
const NAME_MAX: usize = 64;

/// Returns `tools` and `tool_choice`, if there are any.
pub(super) fn tools(
    kind: ServerKind,
    config: &GenerateContentConfig,
) -> Result<JsonMap, ModelError> {
    let mut fields = JsonMap::new();
    let mut declarations = Vec::new();
    for tool in config.tools.iter().flatten() {
        check_tool(kind, tool)?;
        declarations.extend(tool.function_declarations.iter().flatten());
    }
    let choice = ToolChoice::from_config(config);
    if let Some(allowed) = &choice.allowed {
        // Not all servers support a list of allowed names, so send only the allowed tools.
        declarations.retain(|it| it.name.as_ref().is_some_and(|name| allowed.contains(name)));
    }
    if declarations.is_empty() {
        return Ok(fields);
    }
    let tools: Result<Vec<Json>, ModelError> =
        declarations.into_iter().map(convert_function).collect();
    fields.insert("tools", tools?);
    if let Some(word) = choice.word {
        fields.insert("tool_choice", word);
    }
    Ok(fields)
}

/// Whether the model must call a function, and which.
#[derive(Default)]
struct ToolChoice {
    word: Option<&'static str>,
    /// The functions that the model may call; `None` allows all.
    allowed: Option<Vec<String>>,
}

impl ToolChoice {
    fn from_config(config: &GenerateContentConfig) -> ToolChoice {
        let settings = config.tool_config.as_ref();
        let calling =
            settings.and_then(|it| either(it, "functionCallingConfig", "function_calling_config"));
        let Some(calling) = calling else {
            return ToolChoice::default();
        };
        let names = either(calling, "allowedFunctionNames", "allowed_function_names");
        let names = names.and_then(Json::as_array).unwrap_or_default();
        let names: Vec<String> = names
            .iter()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        let allowed = (!names.is_empty()).then_some(names);
        match text(calling, "mode").map(str::to_uppercase).as_deref() {
            Some("ANY") => ToolChoice {
                word: Some("required"),
                allowed,
            },
            Some("VALIDATED") => ToolChoice {
                word: None,
                allowed,
            },
            Some("NONE") => ToolChoice {
                word: Some("none"),
                allowed: None,
            },
            _ => ToolChoice::default(),
        }
    }
}

/// Rejects tools that another provider executes. If they were dropped, the model might invent what
/// it should look up.
fn check_tool(kind: ServerKind, tool: &ModelTool) -> Result<(), ModelError> {
    match tool.provider_tool() {
        None => Ok(()),
        Some(name) => Err(invalid_request(format!(
            "{} does not support the tool {name}, which only Gemini executes; remove it from \
             the agent",
            kind.name()
        ))),
    }
}

fn convert_function(declaration: &FunctionDeclaration) -> Result<Json, ModelError> {
    let Some(name) = declaration.name.as_deref().filter(|name| !name.is_empty()) else {
        return Err(invalid_request("a declared function has no name"));
    };
    let mut function = JsonMap::from([("name", Json::from(name))]);
    let description = description(declaration);
    if !description.is_empty() {
        function.insert("description", description);
    }
    function.insert("parameters", parameters(declaration));
    let function = object([("type", "function".into()), ("function", function.into())]);
    Ok(function)
}

fn parameters(declaration: &FunctionDeclaration) -> Json {
    let given = declaration.parameters_json_schema.as_ref();
    let given = given.or(declaration.parameters.as_ref());
    let mut schema = given.map(schema::json_schema).unwrap_or_default();
    if schema.as_object().is_none() {
        schema = JsonMap::new().into();
    }
    if let Some(fields) = schema.as_object_mut() {
        if !fields.contains_key("type") {
            fields.insert("type", "object");
        }
        if !fields.contains_key("properties") {
            fields.insert("properties", JsonMap::new());
        }
    }
    schema
}

/// Returns the description. OpenAI has no field for a function's response schema, so ADK's sentence
/// with the schema is appended if the result is not too long.
fn description(declaration: &FunctionDeclaration) -> String {
    let plain = declaration.description.clone().unwrap_or_default();
    let given = declaration.response_json_schema.as_ref();
    let schema = match (given, &declaration.response) {
        (Some(schema), _) => schema.clone(),
        (None, Some(schema)) => schema::json_schema(schema),
        (None, None) => return plain,
    };
    let has_details = |fields: &JsonMap| fields.keys().any(|key| key != "type");
    if !schema.as_object().is_some_and(has_details) {
        return plain;
    }
    let what = match schema["type"].as_str().map(str::to_lowercase).as_deref() {
        Some("object") => "a JSON object",
        Some("array") => "a JSON array",
        Some("string") => "a string",
        Some("number") => "a number",
        Some("integer") => "an integer",
        Some("boolean") => "a boolean",
        Some("null") => "a null value",
        _ => "a value",
    };
    let schema = sorted(&schema);
    let returns = format!("Returns {what} conforming to this schema: {schema}");
    let whole = match plain.is_empty() {
        true => returns,
        false => format!("{plain}\n{returns}"),
    };
    match whole.chars().count() > DESCRIPTION_MAX {
        true => plain,
        false => whole,
    }
}

/// Sorts the keys of all objects, as in ADK.
fn sorted(value: &Json) -> Json {
    if let Some(items) = value.as_array() {
        return list(items.iter().map(sorted));
    }
    let Some(map) = value.as_object() else {
        return value.clone();
    };
    let mut pairs: Vec<(&str, &Json)> = map.iter().collect();
    pairs.sort_by_key(|(key, _)| *key);
    let pairs = pairs.into_iter().map(|(key, value)| (key, sorted(value)));
    pairs.collect::<JsonMap>().into()
}

/// The schema for an answer.
struct AnswerSchema {
    name: String,
    /// An object schema.
    schema: Json,
    /// Whether the answer is not an object and is wrapped in a property.
    is_wrapped: bool,
}

impl AnswerSchema {
    fn from_config(config: &GenerateContentConfig) -> Option<AnswerSchema> {
        let given = schema_of(config).filter(|given| !is_own_format(given))?;
        let schema = schema::json_schema(given);
        let name = schema_name(&schema);
        let (schema, is_wrapped) = schema::as_object(schema);
        Some(AnswerSchema {
            name,
            schema,
            is_wrapped,
        })
    }
}

fn schema_of(config: &GenerateContentConfig) -> Option<&Json> {
    let given = config.response_json_schema.as_ref();
    let given = given.or(config.response_schema.as_ref());
    given.filter(|schema| !schema.is_null())
}

/// Whether the value is a `response_format` of OpenAI's API and not a schema.
fn is_own_format(given: &Json) -> bool {
    matches!(given["type"].as_str(), Some("json_object" | "json_schema"))
}

/// Whether the answer is wrapped in an object, from which it must be extracted.
pub(super) fn is_wrapped(config: &GenerateContentConfig) -> bool {
    AnswerSchema::from_config(config).is_some_and(|answer| answer.is_wrapped)
}

/// Returns `response_format`, if the answer must be JSON.
pub(super) fn response_format(kind: ServerKind, config: &GenerateContentConfig) -> Option<Json> {
    let any_json = object([("type", "json_object".into())]);
    let Some(given) = schema_of(config) else {
        let mime = config.response_mime_type.as_deref();
        return (mime == Some("application/json")).then_some(any_json);
    };
    if is_own_format(given) {
        return Some(given.clone());
    }
    let answer = AnswerSchema::from_config(config)?;
    if !kind.supports_schemas() {
        return Some(any_json);
    }
    let strict = schema::strict(&answer.schema);
    let is_strict = schema::is_strict(&strict);
    if !is_strict {
        tracing::warn!(
            schema = answer.name,
            "the response schema does not fit strict mode, so the model may deviate from it"
        );
    }
    let format = object([
        ("name", answer.name.into()),
        ("strict", is_strict.into()),
        ("schema", if is_strict { strict } else { answer.schema }),
    ]);
    Some(object([
        ("type", "json_schema".into()),
        ("json_schema", format),
    ]))
}

/// Returns an instruction with the response schema, for a server without a field for it.
pub(super) fn schema_instruction(
    kind: ServerKind,
    config: &GenerateContentConfig,
) -> Option<String> {
    let answer = AnswerSchema::from_config(config).filter(|_| !kind.supports_schemas())?;
    let schema = answer.schema;
    Some(format!(
        "Answer with nothing but a JSON object that follows this JSON Schema:\n{schema}"
    ))
}

/// Returns the title, reduced to the characters that OpenAI allows in names.
fn schema_name(schema: &Json) -> String {
    let title = text(schema, "title").unwrap_or(SCHEMA_NAME);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let letters = title.chars().map(|c| if is_allowed(c) { c } else { '_' });
    letters.take(NAME_MAX).collect()
}
