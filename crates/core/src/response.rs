//! What a model answers: the part of an event that comes from the model.

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
    /// The answer of a model, or a piece of it.
    pub struct LlmResponse: LLM_RESPONSE {
        /// The exact version of the model.
        model_version: Option<String>,
        /// What it said.
        content: Option<Content>,
        /// What the answer rests on.
        grounding_metadata: Option<Shaped<GroundingMetadata>>,
        /// Whether this is a piece of a text that is still streaming. Never stored.
        partial: Option<bool>,
        /// Whether the model is done with its turn.
        turn_complete: Option<bool>,
        /// Why the turn ended.
        turn_complete_reason: Option<String>,
        /// How an interaction stands.
        interaction_status: Option<String>,
        /// Why the model stopped.
        finish_reason: Option<String>,
        /// What went wrong, as a code.
        error_code: Option<String>,
        /// What went wrong, in words.
        error_message: Option<String>,
        /// Whether the user cut in.
        interrupted: Option<bool>,
        /// The user's own notes; never re-cased.
        custom_metadata: Option<JsonMap>,
        /// How many tokens it took.
        usage_metadata: Option<UsageMetadata>,
        /// News about resuming a live session.
        live_session_resumption_update: Option<Shaped<SessionResumptionUpdate>>,
        /// The live session.
        live_session_id: Option<String>,
        /// The live server is about to close.
        go_away: Option<Shaped<GoAway>>,
        /// Whether somebody is speaking.
        voice_activity: Option<Shaped<VoiceActivity>>,
        /// What the user said.
        input_transcription: Option<Transcription>,
        /// What the model said.
        output_transcription: Option<Transcription>,
        /// Mean log probability of the answer.
        avg_logprobs: Option<f64>,
        /// Log probabilities token by token.
        logprobs_result: Option<Shaped<LogprobsResult>>,
        /// What was cached.
        cache_metadata: Option<Shaped<CacheMetadata>>,
        /// Whom the answer cites.
        citation_metadata: Option<Shaped<CitationMetadata>>,
        /// The interaction it belongs to.
        interaction_id: Option<String>,
        /// The environment it ran in.
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
        /// Tokens of the answer.
        candidates_token_count: Option<i64>,
        /// Tokens of the answer by modality.
        candidates_tokens_details: Option<Shaped<ModalityTokenCounts>>,
        /// Tokens of the prompt.
        prompt_token_count: Option<i64>,
        /// Tokens of the prompt by modality.
        prompt_tokens_details: Option<Shaped<ModalityTokenCounts>>,
        /// Tokens spent thinking.
        thoughts_token_count: Option<i64>,
        /// Tokens of tool results in the prompt.
        tool_use_prompt_token_count: Option<i64>,
        /// The same by modality.
        tool_use_prompt_tokens_details: Option<Shaped<ModalityTokenCounts>>,
        /// All together.
        total_token_count: Option<i64>,
        /// How the call was paid for.
        traffic_type: Option<String>,
    }
}

wire_text!(LlmResponse, UsageMetadata);

impl LlmResponse {
    /// An answer with this content.
    pub fn of(content: Content) -> LlmResponse {
        LlmResponse {
            content: Some(content),
            ..LlmResponse::default()
        }
    }
}
