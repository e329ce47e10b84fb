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
    pub struct LlmResponse {
        /// The exact version of the model.
        model_version: Option<String> = "modelVersion",
        /// What it said.
        content: Option<Content> = "content",
        /// What the answer rests on.
        grounding_metadata: Option<Shaped<GroundingMetadata>> = "groundingMetadata",
        /// Whether this is a piece of a text that is still streaming. Never stored.
        partial: Option<bool> = "partial",
        /// Whether the model is done with its turn.
        turn_complete: Option<bool> = "turnComplete",
        /// Why the turn ended.
        turn_complete_reason: Option<String> = "turnCompleteReason",
        /// How an interaction stands.
        interaction_status: Option<String> = "interactionStatus",
        /// Why the model stopped.
        finish_reason: Option<String> = "finishReason",
        /// What went wrong, as a code.
        error_code: Option<String> = "errorCode",
        /// What went wrong, in words.
        error_message: Option<String> = "errorMessage",
        /// Whether the user cut in.
        interrupted: Option<bool> = "interrupted",
        /// The user's own notes; never re-cased.
        custom_metadata: Option<JsonMap> = "customMetadata",
        /// How many tokens it took.
        usage_metadata: Option<UsageMetadata> = "usageMetadata",
        /// News about resuming a live session.
        live_session_resumption_update: Option<Shaped<SessionResumptionUpdate>> = "liveSessionResumptionUpdate",
        /// The live session.
        live_session_id: Option<String> = "liveSessionId",
        /// The live server is about to close.
        go_away: Option<Shaped<GoAway>> = "goAway",
        /// Whether somebody is speaking.
        voice_activity: Option<Shaped<VoiceActivity>> = "voiceActivity",
        /// What the user said.
        input_transcription: Option<Transcription> = "inputTranscription",
        /// What the model said.
        output_transcription: Option<Transcription> = "outputTranscription",
        /// Mean log probability of the answer.
        avg_logprobs: Option<f64> = "avgLogprobs",
        /// Log probabilities token by token.
        logprobs_result: Option<Shaped<LogprobsResult>> = "logprobsResult",
        /// What was cached.
        cache_metadata: Option<Shaped<CacheMetadata>> = "cacheMetadata",
        /// Whom the answer cites.
        citation_metadata: Option<Shaped<CitationMetadata>> = "citationMetadata",
        /// The interaction it belongs to.
        interaction_id: Option<String> = "interactionId",
        /// The environment it ran in.
        environment_id: Option<String> = "environmentId",
    }
}

wire_object! {
    /// Token counts of one model call.
    pub struct UsageMetadata {
        /// Cached tokens by modality.
        cache_tokens_details: Option<Shaped<ModalityTokenCounts>> = "cacheTokensDetails",
        /// Tokens that came from a cache.
        cached_content_token_count: Option<i64> = "cachedContentTokenCount",
        /// Tokens of the answer.
        candidates_token_count: Option<i64> = "candidatesTokenCount",
        /// Tokens of the answer by modality.
        candidates_tokens_details: Option<Shaped<ModalityTokenCounts>> = "candidatesTokensDetails",
        /// Tokens of the prompt.
        prompt_token_count: Option<i64> = "promptTokenCount",
        /// Tokens of the prompt by modality.
        prompt_tokens_details: Option<Shaped<ModalityTokenCounts>> = "promptTokensDetails",
        /// Tokens spent thinking.
        thoughts_token_count: Option<i64> = "thoughtsTokenCount",
        /// Tokens of tool results in the prompt.
        tool_use_prompt_token_count: Option<i64> = "toolUsePromptTokenCount",
        /// The same by modality.
        tool_use_prompt_tokens_details: Option<Shaped<ModalityTokenCounts>> = "toolUsePromptTokensDetails",
        /// All together.
        total_token_count: Option<i64> = "totalTokenCount",
        /// How the call was paid for.
        traffic_type: Option<String> = "trafficType",
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
