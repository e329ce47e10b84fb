//! What a model is asked with, beside the contents: generation settings and declared tools.
//!
//! The names are those of Google's `GenerateContentConfig`. Settings that the runtime does not look
//! into are kept as JSON.

use crate::{
    json::{Json, JsonMap},
    wire::{wire_object, wire_text},
};

wire_object! {
    /// How a model is to answer.
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
        /// How the provider is reached.
        http_options: Option<Json>,
        /// Whether the provider's answer comes back as it was.
        should_return_http_response: Option<bool>,
        /// What the model is told before anything else.
        system_instruction: Option<String>,
        /// How freely it chooses words.
        temperature: Option<f64>,
        /// Only the likeliest words whose probabilities add up to this.
        top_p: Option<f64>,
        /// Only so many of the likeliest words.
        top_k: Option<f64>,
        /// How many answers.
        candidate_count: Option<i64>,
        /// At most so many tokens.
        max_output_tokens: Option<i64>,
        /// Texts that end the answer.
        stop_sequences: Option<Vec<String>>,
        /// Whether log probabilities come back.
        response_logprobs: Option<bool>,
        /// How many alternatives with their log probabilities.
        logprobs: Option<i64>,
        /// Discourages words that were used already.
        presence_penalty: Option<f64>,
        /// The same, by how often.
        frequency_penalty: Option<f64>,
        /// Makes answers repeatable, as far as the model can.
        seed: Option<i64>,
        /// The media type of the answer.
        response_mime_type: Option<String>,
        /// The schema that the answer has to follow.
        response_schema: Option<Json>,
        /// The same as JSON Schema.
        response_json_schema: Option<Json>,
        /// How a model is picked.
        routing_config: Option<Json>,
        /// How a model is picked, otherwise.
        model_selection_config: Option<Json>,
        /// What is blocked.
        safety_settings: Option<Vec<Json>>,
        /// The tools that the model may use.
        tools: Option<Vec<ModelTool>>,
        /// How it is to use them.
        tool_config: Option<Json>,
        /// Labels for billing.
        labels: Option<JsonMap>,
        /// A cache to build on.
        cached_content: Option<String>,
        /// In which modalities to answer.
        response_modalities: Option<Vec<String>>,
        /// How finely media is looked at.
        media_resolution: Option<String>,
        /// How to speak.
        speech_config: Option<Json>,
        /// Whether audio is timed.
        audio_timestamp: Option<bool>,
        /// Calls that a client library makes by itself.
        automatic_function_calling: Option<Json>,
        /// How much the model thinks.
        thinking_config: Option<Json>,
        /// How pictures are to be.
        image_config: Option<Json>,
        /// Whether answers about civic matters are enhanced.
        enable_enhanced_civic_answers: Option<bool>,
        /// What prompts and answers are screened by.
        model_armor_config: Option<Json>,
        /// In which tier the request is served.
        service_tier: Option<String>,
        /// How speech is written down.
        audio_transcription_config: Option<Json>,
        /// Where an answer is gone on with.
        continuation_token: Option<String>,
        /// Whether a client library goes on with answers by itself.
        automatic_continuation: Option<bool>,
        /// Where the answer is put.
        generation_output_config: Option<Json>,
        /// Whether the provider keeps the answer.
        store: Option<bool>,
    }
}

wire_object! {
    /// Tools that are declared together: our functions, or one that runs on the provider's side.
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
        /// Functions that the model may ask us to call.
        function_declarations: Option<Vec<FunctionDeclaration>>,
        /// Google Search of older models.
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

wire_object! {
    /// A function that the model may ask us to call.
    pub struct FunctionDeclaration: FUNCTION_DECLARATION {
        /// What it does.
        description: Option<String>,
        /// Its name.
        name: Option<String>,
        /// Its parameters, as the provider's own schema.
        parameters: Option<Json>,
        /// Its parameters, as JSON Schema.
        parameters_json_schema: Option<Json>,
        /// What it answers, as the provider's own schema.
        response: Option<Json>,
        /// What it answers, as JSON Schema.
        response_json_schema: Option<Json>,
        /// Whether the model waits for the answer.
        behavior: Option<String>,
    }
}

wire_text!(GenerateContentConfig, ModelTool, FunctionDeclaration);
