//! Normalizes model requests for comparison.

use retain_core::{Content, GenerateContentConfig, Json, JsonMap};

use retain_runtime::LlmRequest;

fn error_text(error: impl ToString) -> String {
    error.to_string()
}

/// Converts a request to the format of the recordings.
pub(super) fn request_json(request: &LlmRequest) -> Result<Json, String> {
    let contents = request.contents.iter().map(|content| content_json(content));
    let contents = contents.collect::<Result<Vec<Json>, String>>()?;
    let config = request.config.to_snake_json().map_err(error_text)?;
    let mut map = JsonMap::from([("model", request.model.as_str())]);
    map.insert("contents", contents);
    map.insert("config", Json::parse(&config).map_err(error_text)?);
    if let Some(id) = &request.previous_interaction_id {
        map.insert("previous_interaction_id", id.as_str());
    }
    Ok(map.into())
}

fn content_json(content: &Content) -> Result<Json, String> {
    Json::parse(&content.to_snake_json().map_err(error_text)?).map_err(error_text)
}

/// Converts a recorded request to the spelling of `request_json`.
pub(super) fn recorded_request(recorded: &Json) -> Result<Json, String> {
    let contents = recorded["contents"].as_array().unwrap_or_default().iter();
    let contents = contents.map(|content| {
        let content = Content::from_json(&content.to_string()).map_err(error_text)?;
        content_json(&content)
    });
    let contents = contents.collect::<Result<Vec<Json>, String>>()?;
    let config = match &recorded["config"] {
        Json::Null => GenerateContentConfig::default(),
        config => GenerateContentConfig::from_json(&config.to_string()).map_err(error_text)?,
    };
    let config = config.to_snake_json().map_err(error_text)?;
    let mut map = recorded.as_object().cloned().unwrap_or_default();
    map.insert("contents", contents);
    map.insert("config", Json::parse(&config).map_err(error_text)?);
    Ok(map.into())
}

/// Removes the fields of a request that are not compared.
pub(super) fn comparable_request(mut request: Json) -> Json {
    let Some(map) = request.as_object_mut() else {
        return request;
    };
    map.remove("live_connect_config");
    let Some(config) = map.get_mut("config").and_then(Json::as_object_mut) else {
        return request;
    };
    config.remove("http_options");
    config.remove("labels");
    let tools = config.get_mut("tools").and_then(Json::as_array_mut);
    let tools = tools.into_iter().flatten().filter_map(Json::as_object_mut);
    for tool in tools {
        let declared = tool.get_mut("function_declarations");
        let declared = declared.and_then(Json::as_array_mut).into_iter().flatten();
        for declaration in declared.filter_map(Json::as_object_mut) {
            normalize_declaration(declaration);
        }
    }
    request
}

/// Normalizes the schema of a tool declaration, because its details differ between libraries. The
/// description of the tool, which also covers the parameters, is still compared.
fn normalize_declaration(declaration: &mut JsonMap) {
    declaration.remove("response");
    declaration.remove("response_json_schema");
    if let Some(schema) = declaration.remove("parameters") {
        declaration.insert("parameters_json_schema", schema);
    }
    if let Some(schema) = declaration.get_mut("parameters_json_schema") {
        *schema = comparable_schema(schema);
    }
}

fn comparable_schema(schema: &Json) -> Json {
    let map = match schema {
        Json::Object(map) => map,
        Json::Array(items) => {
            let items = items.iter().map(comparable_schema);
            return items.collect::<Vec<_>>().into();
        }
        plain => return plain.clone(),
    };
    let mut comparable = JsonMap::default();
    for (key, value) in map.iter() {
        match (key, value) {
            ("title" | "default" | "description", _) => {}
            // The keys are parameter names, which may be any word.
            ("properties", Json::Object(properties)) => {
                let properties = properties.iter();
                let properties = properties.map(|(name, schema)| (name, comparable_schema(schema)));
                comparable.insert(key, properties.collect::<JsonMap>());
            }
            _ => {
                comparable.insert(key, comparable_schema(value));
            }
        }
    }
    comparable.into()
}
