//! `LlmResponse`: the part of an event that comes from the model.

use crate::{
    content::{Content, Transcription},
    json::JsonMap,
    wire::{Shaped, wire_object, wire_text},
    wire_shapes::{
        CacheMetadata, CitationMetadata, GoAway, GroundingMetadata, LogprobsResult,
        ModalityTokenCounts, SessionResumptionUpdate, VoiceActivity,
    },
};

wire_object! {
    /// A response of a model, or one chunk of it.
    pub struct LlmResponse: LLM_RESPONSE {
        /// The exact version of the model.
        model_version: Option<String>,
        /// The message.
        content: Option<Content>,
        /// The sources of the response.
        grounding_metadata: Option<Shaped<GroundingMetadata>>,
        /// Whether this is a chunk of a streaming response. Partial events are never stored.
        partial: Option<bool>,
        /// Whether the model has completed its turn.
        turn_complete: Option<bool>,
        /// Why the turn ended.
        turn_complete_reason: Option<String>,
        /// The status of the interaction.
        interaction_status: Option<String>,
        /// Why the model stopped.
        finish_reason: Option<String>,
        /// The error code.
        error_code: Option<String>,
        /// The error message.
        error_message: Option<String>,
        /// Whether the user interrupted the model.
        interrupted: Option<bool>,
        /// Custom metadata; keys are never renamed.
        custom_metadata: Option<JsonMap>,
        /// Token counts.
        usage_metadata: Option<UsageMetadata>,
        /// An update about the resumption of a live session.
        live_session_resumption_update: Option<Shaped<SessionResumptionUpdate>>,
        /// The id of the live session.
        live_session_id: Option<String>,
        /// A notice that the live server will close the connection.
        go_away: Option<Shaped<GoAway>>,
        /// Voice activity of the user.
        voice_activity: Option<Shaped<VoiceActivity>>,
        /// The transcription of the user's speech.
        input_transcription: Option<Transcription>,
        /// The transcription of the model's speech.
        output_transcription: Option<Transcription>,
        /// The average log probability.
        avg_logprobs: Option<f64>,
        /// The log probability of each token.
        logprobs_result: Option<Shaped<LogprobsResult>>,
        /// Metadata of the context cache.
        cache_metadata: Option<Shaped<CacheMetadata>>,
        /// Citations.
        citation_metadata: Option<Shaped<CitationMetadata>>,
        /// The id of the interaction.
        interaction_id: Option<String>,
        /// The id of the environment.
        environment_id: Option<String>,
    }
}

wire_object! {
    /// Token counts of one model call.
    pub struct UsageMetadata: GENERATE_CONTENT_RESPONSE_USAGE_METADATA {
        /// Cached tokens by modality.
        cache_tokens_details: Option<Shaped<ModalityTokenCounts>>,
        /// Tokens that came from a cache.
        cached_content_token_count: Option<i64>,
        /// Tokens of the response.
        candidates_token_count: Option<i64>,
        /// Tokens of the response by modality.
        candidates_tokens_details: Option<Shaped<ModalityTokenCounts>>,
        /// Tokens of the prompt.
        prompt_token_count: Option<i64>,
        /// Tokens of the prompt by modality.
        prompt_tokens_details: Option<Shaped<ModalityTokenCounts>>,
        /// Tokens spent thinking.
        thoughts_token_count: Option<i64>,
        /// Tokens of tool results in the prompt.
        tool_use_prompt_token_count: Option<i64>,
        /// Tokens of tool results by modality.
        tool_use_prompt_tokens_details: Option<Shaped<ModalityTokenCounts>>,
        /// The sum of all tokens.
        total_token_count: Option<i64>,
        /// The billing type of the call.
        traffic_type: Option<String>,
    }
}

wire_text!(LlmResponse, UsageMetadata);

impl LlmResponse {
    /// Creates a response with this content.
    pub fn from_content(content: Content) -> LlmResponse {
        LlmResponse {
            content: Some(content),
            ..LlmResponse::default()
        }
    }
}
