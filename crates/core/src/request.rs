//! The settings and tools of a model request.
//!
//! The names are those of Google's `GenerateContentConfig`. Settings that the runtime does not read
//! stay JSON.

use crate::{
    json::{Json, JsonMap},
    wire::{Bytes, wire_object, wire_text},
};

wire_object! {
    /// Generation settings of a model request.
    ///
    /// ```
    /// use retain_core::GenerateContentConfig;
    /// let config = GenerateContentConfig {
    ///     temperature: Some(0.2),
    ///     max_output_tokens: Some(256),
    ///     ..GenerateContentConfig::default()
    /// };
    /// assert_eq!(config.to_snake_json().unwrap(), r#"{"temperature":0.2,"max_output_tokens":256}"#);
    /// ```
    pub struct GenerateContentConfig: GENERATE_CONTENT_CONFIG {
        /// HTTP options of the client.
        http_options: Option<Json>,
        /// Whether the raw HTTP response is returned.
        should_return_http_response: Option<bool>,
        /// The system instruction.
        system_instruction: Option<String>,
        /// The sampling temperature.
        temperature: Option<f64>,
        /// Nucleus sampling: the cumulative probability of the candidate tokens.
        top_p: Option<f64>,
        /// The number of candidate tokens.
        top_k: Option<f64>,
        /// The number of responses.
        candidate_count: Option<i64>,
        /// The maximum number of output tokens.
        max_output_tokens: Option<i64>,
        /// Strings at which generation stops.
        stop_sequences: Option<Vec<String>>,
        /// Whether log probabilities are returned.
        response_logprobs: Option<bool>,
        /// The number of alternatives whose log probabilities are returned.
        logprobs: Option<i64>,
        /// A penalty for tokens that occurred before.
        presence_penalty: Option<f64>,
        /// A penalty that grows with how often a token has occurred.
        frequency_penalty: Option<f64>,
        /// The random seed.
        seed: Option<i64>,
        /// The media type of the response.
        response_mime_type: Option<String>,
        /// The schema of the response.
        response_schema: Option<Json>,
        /// The schema of the response, as JSON Schema.
        response_json_schema: Option<Json>,
        /// Routing between models.
        routing_config: Option<Json>,
        /// Selection of a model.
        model_selection_config: Option<Json>,
        /// Thresholds of the safety filters.
        safety_settings: Option<Vec<Json>>,
        /// The tools that the model may use.
        tools: Option<Vec<ModelTool>>,
        /// How the model uses the tools.
        tool_config: Option<Json>,
        /// Labels for billing.
        labels: Option<JsonMap>,
        /// The name of cached content.
        cached_content: Option<String>,
        /// The modalities of the response.
        response_modalities: Option<Vec<String>>,
        /// The resolution at which the model processes media.
        media_resolution: Option<String>,
        /// Voice and language of spoken output.
        speech_config: Option<Json>,
        /// Whether audio timestamps are included.
        audio_timestamp: Option<bool>,
        /// Settings of the client library's automatic function calling.
        automatic_function_calling: Option<Json>,
        /// The thinking budget.
        thinking_config: Option<Json>,
        /// Image generation settings.
        image_config: Option<Json>,
        /// Whether enhanced civic answers are enabled.
        enable_enhanced_civic_answers: Option<bool>,
        /// Model Armor templates that screen prompts and responses.
        model_armor_config: Option<Json>,
        /// The service tier of the request.
        service_tier: Option<String>,
        /// Audio transcription settings.
        audio_transcription_config: Option<Json>,
        /// The token that continues an earlier response.
        continuation_token: Option<Bytes>,
        /// Whether the client library continues responses automatically.
        automatic_continuation: Option<bool>,
        /// The destination of the output.
        generation_output_config: Option<Json>,
        /// Whether the provider stores the response.
        store: Option<bool>,
    }
}

wire_object! {
    /// A group of tools: functions that Retain calls, or a tool that the provider runs.
    pub struct ModelTool: TOOL {
        /// Retrieval from a corpus.
        retrieval: Option<Json>,
        /// Computer use: the model sees a screen and acts on it.
        computer_use: Option<Json>,
        /// Search in uploaded files.
        file_search: Option<Json>,
        /// Google Search.
        google_search: Option<JsonMap>,
        /// Google Maps.
        google_maps: Option<JsonMap>,
        /// Code execution.
        code_execution: Option<JsonMap>,
        /// Google Search for enterprises.
        enterprise_web_search: Option<JsonMap>,
        /// Functions that the model may call.
        function_declarations: Option<Vec<FunctionDeclaration>>,
        /// Google Search for older models.
        google_search_retrieval: Option<Json>,
        /// Web search by Parallel.
        parallel_ai_search: Option<Json>,
        /// Reads the pages whose URLs a message contains.
        url_context: Option<JsonMap>,
        /// MCP servers that the provider calls.
        mcp_servers: Option<Json>,
        /// Web search by Exa.
        exa_ai_search: Option<Json>,
    }
}

impl ModelTool {
    /// Returns the name of the tool that the provider runs itself, for example `googleSearch`;
    /// `None` if this declares only functions.
    ///
    /// ```
    /// use retain_core::ModelTool;
    /// let tool = ModelTool::from_json(r#"{"googleSearch": {}}"#).unwrap();
    /// assert_eq!(tool.provider_tool(), Some("googleSearch"));
    /// ```
    pub fn provider_tool(&self) -> Option<&str> {
        let named = [
            ("retrieval", self.retrieval.is_some()),
            ("computerUse", self.computer_use.is_some()),
            ("fileSearch", self.file_search.is_some()),
            ("googleSearch", self.google_search.is_some()),
            ("googleMaps", self.google_maps.is_some()),
            ("codeExecution", self.code_execution.is_some()),
            ("enterpriseWebSearch", self.enterprise_web_search.is_some()),
            (
                "googleSearchRetrieval",
                self.google_search_retrieval.is_some(),
            ),
            ("parallelAiSearch", self.parallel_ai_search.is_some()),
            ("urlContext", self.url_context.is_some()),
            ("mcpServers", self.mcp_servers.is_some()),
            ("exaAiSearch", self.exa_ai_search.is_some()),
        ];
        let named = named.into_iter().find(|(_, is_set)| *is_set);
        let unknown = || self.extra.iter().map(|(name, _)| name).next();
        named.map(|(name, _)| name).or_else(unknown)
    }
}

wire_object! {
    /// A function that the model may call.
    pub struct FunctionDeclaration: FUNCTION_DECLARATION {
        /// What it does.
        description: Option<String>,
        /// Its name.
        name: Option<String>,
        /// Its parameters, as the provider's own schema.
        parameters: Option<Json>,
        /// Its parameters, as JSON Schema.
        parameters_json_schema: Option<Json>,
        /// Its result, as the provider's own schema.
        response: Option<Json>,
        /// Its result, as JSON Schema.
        response_json_schema: Option<Json>,
        /// Whether the model waits for the result.
        behavior: Option<String>,
    }
}

wire_text!(GenerateContentConfig, ModelTool, FunctionDeclaration);
