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
    pub struct GenerateContentConfig {
        /// How the provider is reached.
        http_options: Option<Json> = "httpOptions",
        /// Whether the provider's answer comes back as it was.
        should_return_http_response: Option<bool> = "shouldReturnHttpResponse",
        /// What the model is told before anything else.
        system_instruction: Option<String> = "systemInstruction",
        /// How freely it chooses words.
        temperature: Option<f64> = "temperature",
        /// Only the likeliest words whose probabilities add up to this.
        top_p: Option<f64> = "topP",
        /// Only so many of the likeliest words.
        top_k: Option<f64> = "topK",
        /// How many answers.
        candidate_count: Option<i64> = "candidateCount",
        /// At most so many tokens.
        max_output_tokens: Option<i64> = "maxOutputTokens",
        /// Texts that end the answer.
        stop_sequences: Option<Vec<String>> = "stopSequences",
        /// Whether log probabilities come back.
        response_logprobs: Option<bool> = "responseLogprobs",
        /// How many alternatives with their log probabilities.
        logprobs: Option<i64> = "logprobs",
        /// Discourages words that were used already.
        presence_penalty: Option<f64> = "presencePenalty",
        /// The same, by how often.
        frequency_penalty: Option<f64> = "frequencyPenalty",
        /// Makes answers repeatable, as far as the model can.
        seed: Option<i64> = "seed",
        /// The media type of the answer.
        response_mime_type: Option<String> = "responseMimeType",
        /// The schema that the answer has to follow.
        response_schema: Option<Json> = "responseSchema",
        /// The same as JSON Schema.
        response_json_schema: Option<Json> = "responseJsonSchema",
        /// How a model is picked.
        routing_config: Option<Json> = "routingConfig",
        /// How a model is picked, otherwise.
        model_selection_config: Option<Json> = "modelSelectionConfig",
        /// What is blocked.
        safety_settings: Option<Vec<Json>> = "safetySettings",
        /// The tools that the model may use.
        tools: Option<Vec<ModelTool>> = "tools",
        /// How it is to use them.
        tool_config: Option<Json> = "toolConfig",
        /// Labels for billing.
        labels: Option<JsonMap> = "labels",
        /// A cache to build on.
        cached_content: Option<String> = "cachedContent",
        /// In which modalities to answer.
        response_modalities: Option<Vec<String>> = "responseModalities",
        /// How finely media is looked at.
        media_resolution: Option<String> = "mediaResolution",
        /// How to speak.
        speech_config: Option<Json> = "speechConfig",
        /// Whether audio is timed.
        audio_timestamp: Option<bool> = "audioTimestamp",
        /// Calls that a client library makes by itself.
        automatic_function_calling: Option<Json> = "automaticFunctionCalling",
        /// How much the model thinks.
        thinking_config: Option<Json> = "thinkingConfig",
        /// How pictures are to be.
        image_config: Option<Json> = "imageConfig",
        /// Whether answers about civic matters are enhanced.
        enable_enhanced_civic_answers: Option<bool> = "enableEnhancedCivicAnswers",
        /// What prompts and answers are screened by.
        model_armor_config: Option<Json> = "modelArmorConfig",
        /// In which tier the request is served.
        service_tier: Option<String> = "serviceTier",
        /// How speech is written down.
        audio_transcription_config: Option<Json> = "audioTranscriptionConfig",
        /// Where an answer is gone on with.
        continuation_token: Option<String> = "continuationToken",
        /// Whether a client library goes on with answers by itself.
        automatic_continuation: Option<bool> = "automaticContinuation",
        /// Where the answer is put.
        generation_output_config: Option<Json> = "generationOutputConfig",
        /// Whether the provider keeps the answer.
        store: Option<bool> = "store",
    }
}

wire_object! {
    /// Tools that are declared together: functions of ours, or one that runs on the model's side.
    pub struct ModelTool {
        /// Functions that the model may ask us to call.
        function_declarations: Option<Vec<FunctionDeclaration>> = "functionDeclarations",
        /// Look-ups in a corpus.
        retrieval: Option<Json> = "retrieval",
        /// Google Search.
        google_search: Option<JsonMap> = "googleSearch",
        /// Reads the pages that a message names.
        url_context: Option<JsonMap> = "urlContext",
        /// Runs code.
        code_execution: Option<JsonMap> = "codeExecution",
        /// Google Maps.
        google_maps: Option<JsonMap> = "googleMaps",
        /// Google Search for enterprises.
        enterprise_web_search: Option<JsonMap> = "enterpriseWebSearch",
        /// Looks at a screen and acts on it.
        computer_use: Option<Json> = "computerUse",
    }
}

wire_object! {
    /// A function that the model may ask us to call.
    pub struct FunctionDeclaration {
        /// What it does.
        description: Option<String> = "description",
        /// Its name.
        name: Option<String> = "name",
        /// Its parameters, as the provider's own schema.
        parameters: Option<Json> = "parameters",
        /// Its parameters, as JSON Schema.
        parameters_json_schema: Option<Json> = "parametersJsonSchema",
        /// What it answers, as the provider's own schema.
        response: Option<Json> = "response",
        /// What it answers, as JSON Schema.
        response_json_schema: Option<Json> = "responseJsonSchema",
        /// Whether the model waits for the answer.
        behavior: Option<String> = "behavior",
    }
}

wire_text!(GenerateContentConfig, ModelTool, FunctionDeclaration);
