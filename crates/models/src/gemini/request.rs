//! Builds the body of a request.

use retain_core::{Bytes, FunctionDeclaration, GenerateContentConfig, Json, JsonMap, ModelTool};
use retain_runtime::{LlmRequest, ModelError};

use super::{
    backend::Backend,
    parts::{content_text, unsupported_field},
    respell::{camel, camel_map},
    schema,
};
use crate::{http::http_option, provider::contents_to_send};

/// Returns the body for a request as JSON text.
pub(super) fn body(request: &LlmRequest, backend: &Backend) -> Result<String, ModelError> {
    let contents: Result<Vec<String>, ModelError> = contents_to_send(request)
        .iter()
        .filter_map(|content| content_text(content, backend).transpose())
        .collect();
    let mut rest = settings(&request.config, backend)?;
    if let Some(extra) = http_option(&request.config, "extraBody", "extra_body").as_ref() {
        merge(&mut rest, extra);
    }
    let rest = Json::from(rest).to_json().map_err(|error| {
        ModelError::new(format!("cannot encode the settings: {error}")).with_code("InvalidRequest")
    })?;
    let contents = contents?.join(",");
    // Insert the contents as the JSON text that they already are: with images, they are too large
    // to parse and serialize again.
    Ok(match rest.strip_prefix("{}") {
        Some(_) => format!(r#"{{"contents":[{contents}]}}"#),
        None => format!(r#"{{"contents":[{contents}],{}"#, &rest[1..]),
    })
}

fn merge(into: &mut JsonMap, from: &Json) {
    for (key, value) in from.as_object().into_iter().flatten() {
        match into.get_mut(key).and_then(Json::as_object_mut) {
            Some(map) if value.as_object().is_some() => merge(map, value),
            _ => drop(into.insert(key, value.clone())),
        }
    }
}

/// Returns all fields except the contents.
fn settings(config: &GenerateContentConfig, backend: &Backend) -> Result<JsonMap, ModelError> {
    check_config(config, backend)?;
    let mut out = JsonMap::new();
    let uses_computer = |tool: &ModelTool| tool.computer_use.is_some();
    let has_computer_use = config.tools.iter().flatten().any(uses_computer);
    if let Some(text) = config
        .system_instruction
        .as_ref()
        .filter(|_| !has_computer_use)
    {
        let part: Json = JsonMap::from([("text", text.as_str())]).into();
        let parts = Json::from(vec![part]);
        out.insert(
            "systemInstruction",
            JsonMap::from([("parts", parts), ("role", "user".into())]),
        );
    }
    if let Some(settings) = &config.safety_settings {
        out.insert(
            "safetySettings",
            settings.iter().map(camel).collect::<Vec<_>>(),
        );
    }
    if let Some(tools) = config.tools.as_ref().filter(|tools| !tools.is_empty()) {
        out.insert("tools", convert_tools(tools, backend)?);
    }
    if let Some(config) = &config.tool_config {
        out.insert("toolConfig", tool_config(config, backend)?);
    }
    // The Gemini API rejects labels, and the runtime adds one to every request.
    if let Some(labels) = config.labels.as_ref().filter(|_| backend.is_vertex()) {
        out.insert("labels", labels.clone());
    }
    if let Some(name) = &config.cached_content {
        out.insert("cachedContent", backend.cache_name(name));
    }
    put(
        &mut out,
        "modelArmorConfig",
        config.model_armor_config.as_ref().map(camel),
    );
    put(&mut out, "serviceTier", config.service_tier.clone());
    put(
        &mut out,
        "continuationToken",
        config.continuation_token.as_ref().map(Bytes::to_base64),
    );
    let output = config.generation_output_config.as_ref().map(camel);
    put(&mut out, "outputConfig", output);
    put(&mut out, "store", config.store);
    let generation = generation_config(config, backend)?;
    if !generation.is_empty() {
        out.insert("generationConfig", generation);
    }
    Ok(out)
}

/// Rejects settings that only the other service supports.
fn check_config(config: &GenerateContentConfig, backend: &Backend) -> Result<(), ModelError> {
    let unsupported = match backend {
        Backend::Api => [
            ("routingConfig", config.routing_config.is_some()),
            (
                "modelSelectionConfig",
                config.model_selection_config.is_some(),
            ),
            ("audioTimestamp", config.audio_timestamp.is_some()),
            ("modelArmorConfig", config.model_armor_config.is_some()),
            (
                "generationOutputConfig",
                config.generation_output_config.is_some(),
            ),
        ]
        .to_vec(),
        Backend::Vertex { .. } => [
            (
                "enableEnhancedCivicAnswers",
                config.enable_enhanced_civic_answers.is_some(),
            ),
            ("store", config.store.is_some()),
        ]
        .to_vec(),
    };
    if let Some((field, _)) = unsupported.iter().find(|(_, is_set)| *is_set) {
        return Err(unsupported_field(field, backend));
    }
    let methods = config.safety_settings.iter().flatten();
    let has_method = |setting: &Json| setting.get("method").is_some_and(|it| !it.is_null());
    match !backend.is_vertex() && methods.clone().any(has_method) {
        true => Err(unsupported_field("a safety setting's method", backend)),
        false => Ok(()),
    }
}

/// Returns the generation config.
fn generation_config(
    config: &GenerateContentConfig,
    backend: &Backend,
) -> Result<JsonMap, ModelError> {
    let mut out = JsonMap::new();
    put(&mut out, "temperature", config.temperature);
    put(&mut out, "topP", config.top_p);
    put(&mut out, "topK", config.top_k);
    put(&mut out, "candidateCount", config.candidate_count);
    put(&mut out, "maxOutputTokens", config.max_output_tokens);
    put(
        &mut out,
        "stopSequences",
        config.stop_sequences.as_deref().map(texts),
    );
    put(&mut out, "responseLogprobs", config.response_logprobs);
    put(&mut out, "logprobs", config.logprobs);
    put(&mut out, "presencePenalty", config.presence_penalty);
    put(&mut out, "frequencyPenalty", config.frequency_penalty);
    put(&mut out, "seed", config.seed);
    put(
        &mut out,
        "responseMimeType",
        config.response_mime_type.clone(),
    );
    if let Some(answer) = &config.response_schema {
        out.insert(
            "responseSchema",
            schema::convert_response_schema(answer, backend.is_vertex())?,
        );
    }
    put(
        &mut out,
        "responseJsonSchema",
        config.response_json_schema.clone(),
    );
    put(
        &mut out,
        "routingConfig",
        config.routing_config.as_ref().map(camel),
    );
    let selection = config.model_selection_config.as_ref().map(camel);
    put(&mut out, "modelConfig", selection);
    put(
        &mut out,
        "responseModalities",
        config.response_modalities.as_deref().map(texts),
    );
    put(&mut out, "mediaResolution", config.media_resolution.clone());
    put(
        &mut out,
        "speechConfig",
        config.speech_config.as_ref().map(convert_speech_config),
    );
    put(&mut out, "audioTimestamp", config.audio_timestamp);
    put(
        &mut out,
        "thinkingConfig",
        config.thinking_config.as_ref().map(camel),
    );
    if let Some(image) = &config.image_config {
        out.insert("imageConfig", image_config(image, backend)?);
    }
    put(
        &mut out,
        "enableEnhancedCivicAnswers",
        config.enable_enhanced_civic_answers,
    );
    let transcription = config.audio_transcription_config.as_ref().map(camel);
    put(&mut out, "audioTranscriptionConfig", transcription);
    Ok(out)
}

fn put(out: &mut JsonMap, name: &str, value: Option<impl Into<Json>>) {
    if let Some(value) = value {
        out.insert(name, value);
    }
}

fn texts(texts: &[String]) -> Vec<Json> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

/// Converts a speech config, which may be only the name of a voice.
fn convert_speech_config(config: &Json) -> Json {
    let Some(name) = config.as_str() else {
        return camel(config);
    };
    let voice = JsonMap::from([("voiceName", name)]);
    let voice = JsonMap::from([("prebuiltVoiceConfig", voice)]);
    JsonMap::from([("voiceConfig", voice)]).into()
}

fn image_config(config: &Json, backend: &Backend) -> Result<Json, ModelError> {
    let mut config = camel(config);
    let Some(map) = config.as_object_mut() else {
        return Ok(config);
    };
    if !backend.is_vertex() {
        let known = ["aspectRatio", "imageSize"];
        if let Some(field) = map.keys().find(|key| !known.contains(key)) {
            return Err(unsupported_field(field, backend));
        }
        return Ok(config);
    }
    let mut output = JsonMap::new();
    put(&mut output, "mimeType", map.remove("outputMimeType"));
    put(
        &mut output,
        "compressionQuality",
        map.remove("outputCompressionQuality"),
    );
    if !output.is_empty() && !map.contains_key("imageOutputOptions") {
        map.insert("imageOutputOptions", output);
    }
    Ok(config)
}

fn tool_config(config: &Json, backend: &Backend) -> Result<Json, ModelError> {
    let config = camel(config);
    let calling = config.get("functionCallingConfig");
    let unsupported = match backend {
        Backend::Api => calling
            .and_then(|calling| calling.get("streamFunctionCallArguments"))
            .map(|_| "streamFunctionCallArguments"),
        Backend::Vertex { .. } => config
            .get("includeServerSideToolInvocations")
            .map(|_| "includeServerSideToolInvocations"),
    };
    match unsupported {
        Some(field) => Err(unsupported_field(field, backend)),
        None => Ok(config),
    }
}

/// Converts the tools. Merges all function declarations into one tool and puts it last.
fn convert_tools(tools: &[ModelTool], backend: &Backend) -> Result<Vec<Json>, ModelError> {
    let mut out = Vec::new();
    let mut functions = Vec::new();
    for tool in tools {
        let declared = tool.function_declarations.as_deref().unwrap_or_default();
        functions.extend(declared.iter().map(declaration));
        let rest = tool_without_functions(tool, backend)?;
        if declared.is_empty() || !rest.is_empty() {
            out.push(rest.into());
        }
    }
    if !functions.is_empty() {
        out.push(JsonMap::from([("functionDeclarations", functions)]).into());
    }
    Ok(out)
}

fn tool_without_functions(tool: &ModelTool, backend: &Backend) -> Result<JsonMap, ModelError> {
    let mut out = JsonMap::new();
    let values = [
        ("retrieval", &tool.retrieval),
        ("computerUse", &tool.computer_use),
        ("fileSearch", &tool.file_search),
        ("googleSearchRetrieval", &tool.google_search_retrieval),
        ("parallelAiSearch", &tool.parallel_ai_search),
        ("mcpServers", &tool.mcp_servers),
        ("exaAiSearch", &tool.exa_ai_search),
    ];
    for (name, value) in values {
        put(&mut out, name, value.as_ref().map(camel));
    }
    let maps = [
        ("googleSearch", &tool.google_search),
        ("googleMaps", &tool.google_maps),
        ("codeExecution", &tool.code_execution),
        ("enterpriseWebSearch", &tool.enterprise_web_search),
        ("urlContext", &tool.url_context),
    ];
    for (name, map) in maps {
        put(&mut out, name, map.as_ref().map(camel_map));
    }
    for (name, value) in tool.extra.iter().filter(|(_, value)| !value.is_null()) {
        out.insert(super::respell::camel_key(name), camel(value));
    }
    let unsupported: &[&str] = match backend {
        Backend::Api => &[
            "retrieval",
            "enterpriseWebSearch",
            "parallelAiSearch",
            "exaAiSearch",
        ],
        Backend::Vertex { .. } => &["fileSearch"],
    };
    let unsupported_inside: &[(&str, &str)] = match backend {
        Backend::Api => &[
            ("googleSearch", "blockingConfidence"),
            ("googleSearch", "excludeDomains"),
            ("googleMaps", "groundingTypes"),
        ],
        Backend::Vertex { .. } => &[("mcpServers", "streamableHttpTransport")],
    };
    let is_set = |(outer, inner): &&(&str, &str)| match &out[*outer] {
        Json::Array(items) => items.iter().any(|item| item.get(inner).is_some()),
        object => object.get(inner).is_some(),
    };
    let field = unsupported.iter().find(|field| out.contains_key(field));
    let field = field.or_else(|| {
        unsupported_inside
            .iter()
            .find(is_set)
            .map(|(_, inner)| inner)
    });
    match field {
        Some(field) => Err(unsupported_field(field, backend)),
        None => Ok(out),
    }
}

fn declaration(function: &FunctionDeclaration) -> Json {
    let mut out = JsonMap::new();
    put(&mut out, "description", function.description.clone());
    put(&mut out, "name", function.name.clone());
    put(
        &mut out,
        "parameters",
        function
            .parameters
            .as_ref()
            .map(schema::convert_function_schema),
    );
    put(
        &mut out,
        "parametersJsonSchema",
        function.parameters_json_schema.clone(),
    );
    put(
        &mut out,
        "response",
        function
            .response
            .as_ref()
            .map(schema::convert_function_schema),
    );
    put(
        &mut out,
        "responseJsonSchema",
        function.response_json_schema.clone(),
    );
    put(&mut out, "behavior", function.behavior.clone());
    for (name, value) in function.extra.iter() {
        out.insert(name, value.clone());
    }
    out.into()
}
