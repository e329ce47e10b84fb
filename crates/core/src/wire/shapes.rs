//! The fields of every model inside an ADK event or session, in wire order.
//! @generated from google-adk 2.13.0 by `testdata/wire/gen_shapes.py`. Do not edit.

use super::{Field, Kind, Shape};

const fn f(snake: &'static str, camel: &'static str, kind: Kind) -> Field {
    Field { snake, camel, kind }
}

pub(crate) static EVENT: Shape = Shape {
    name: "Event",
    fields: &[
        f("model_version", "modelVersion", Kind::Scalar),
        f("content", "content", Kind::Model(&CONTENT)),
        f(
            "grounding_metadata",
            "groundingMetadata",
            Kind::Model(&GROUNDING_METADATA),
        ),
        f("partial", "partial", Kind::Scalar),
        f("turn_complete", "turnComplete", Kind::Scalar),
        f("turn_complete_reason", "turnCompleteReason", Kind::Scalar),
        f("interaction_status", "interactionStatus", Kind::Scalar),
        f("finish_reason", "finishReason", Kind::Scalar),
        f("error_code", "errorCode", Kind::Scalar),
        f("error_message", "errorMessage", Kind::Scalar),
        f("interrupted", "interrupted", Kind::Scalar),
        f("custom_metadata", "customMetadata", Kind::Any),
        f(
            "usage_metadata",
            "usageMetadata",
            Kind::Model(&GENERATE_CONTENT_RESPONSE_USAGE_METADATA),
        ),
        f(
            "live_session_resumption_update",
            "liveSessionResumptionUpdate",
            Kind::Model(&LIVE_SERVER_SESSION_RESUMPTION_UPDATE),
        ),
        f("live_session_id", "liveSessionId", Kind::Scalar),
        f("go_away", "goAway", Kind::Model(&LIVE_SERVER_GO_AWAY)),
        f(
            "voice_activity",
            "voiceActivity",
            Kind::Model(&VOICE_ACTIVITY),
        ),
        f(
            "input_transcription",
            "inputTranscription",
            Kind::Model(&TRANSCRIPTION),
        ),
        f(
            "output_transcription",
            "outputTranscription",
            Kind::Model(&TRANSCRIPTION),
        ),
        f("avg_logprobs", "avgLogprobs", Kind::Scalar),
        f(
            "logprobs_result",
            "logprobsResult",
            Kind::Model(&LOGPROBS_RESULT),
        ),
        f(
            "cache_metadata",
            "cacheMetadata",
            Kind::Model(&CACHE_METADATA),
        ),
        f(
            "citation_metadata",
            "citationMetadata",
            Kind::Model(&CITATION_METADATA),
        ),
        f("interaction_id", "interactionId", Kind::Scalar),
        f("environment_id", "environmentId", Kind::Scalar),
        f("invocation_id", "invocationId", Kind::Scalar),
        f("author", "author", Kind::Scalar),
        f("actions", "actions", Kind::Model(&EVENT_ACTIONS)),
        f("output", "output", Kind::Any),
        f("node_info", "nodeInfo", Kind::Model(&NODE_INFO)),
        f("long_running_tool_ids", "longRunningToolIds", Kind::Set),
        f("branch", "branch", Kind::Scalar),
        f("isolation_scope", "isolationScope", Kind::Scalar),
        f("id", "id", Kind::Scalar),
        f("timestamp", "timestamp", Kind::Scalar),
    ],
};

pub(crate) static CONTENT: Shape = Shape {
    name: "Content",
    fields: &[
        f("parts", "parts", Kind::List(&Kind::Model(&PART))),
        f("role", "role", Kind::Scalar),
    ],
};

pub(crate) static PART: Shape = Shape {
    name: "Part",
    fields: &[
        f(
            "media_resolution",
            "mediaResolution",
            Kind::Model(&PART_MEDIA_RESOLUTION),
        ),
        f(
            "code_execution_result",
            "codeExecutionResult",
            Kind::Model(&CODE_EXECUTION_RESULT),
        ),
        f(
            "executable_code",
            "executableCode",
            Kind::Model(&EXECUTABLE_CODE),
        ),
        f("file_data", "fileData", Kind::Model(&FILE_DATA)),
        f("function_call", "functionCall", Kind::Model(&FUNCTION_CALL)),
        f(
            "function_response",
            "functionResponse",
            Kind::Model(&FUNCTION_RESPONSE),
        ),
        f("inline_data", "inlineData", Kind::Model(&BLOB)),
        f("text", "text", Kind::Scalar),
        f("thought", "thought", Kind::Scalar),
        f("thought_signature", "thoughtSignature", Kind::Bytes),
        f(
            "video_metadata",
            "videoMetadata",
            Kind::Model(&VIDEO_METADATA),
        ),
        f("tool_call", "toolCall", Kind::Model(&TOOL_CALL)),
        f("tool_response", "toolResponse", Kind::Model(&TOOL_RESPONSE)),
        f("part_metadata", "partMetadata", Kind::Any),
        f(
            "audio_transcription",
            "audioTranscription",
            Kind::Model(&TRANSCRIPTION),
        ),
        f("media_processing", "mediaProcessing", Kind::Scalar),
        f(
            "speech_metadata",
            "speechMetadata",
            Kind::Model(&SPEECH_METADATA),
        ),
    ],
};

pub(crate) static PART_MEDIA_RESOLUTION: Shape = Shape {
    name: "PartMediaResolution",
    fields: &[
        f("level", "level", Kind::Scalar),
        f("num_tokens", "numTokens", Kind::Scalar),
    ],
};

pub(crate) static CODE_EXECUTION_RESULT: Shape = Shape {
    name: "CodeExecutionResult",
    fields: &[
        f("outcome", "outcome", Kind::Scalar),
        f("output", "output", Kind::Scalar),
        f("id", "id", Kind::Scalar),
    ],
};

pub(crate) static EXECUTABLE_CODE: Shape = Shape {
    name: "ExecutableCode",
    fields: &[
        f("code", "code", Kind::Scalar),
        f("language", "language", Kind::Scalar),
        f("id", "id", Kind::Scalar),
    ],
};

pub(crate) static FILE_DATA: Shape = Shape {
    name: "FileData",
    fields: &[
        f("display_name", "displayName", Kind::Scalar),
        f("file_uri", "fileUri", Kind::Scalar),
        f("mime_type", "mimeType", Kind::Scalar),
    ],
};

pub(crate) static FUNCTION_CALL: Shape = Shape {
    name: "FunctionCall",
    fields: &[
        f("id", "id", Kind::Scalar),
        f("args", "args", Kind::Any),
        f("name", "name", Kind::Scalar),
        f(
            "partial_args",
            "partialArgs",
            Kind::List(&Kind::Model(&PARTIAL_ARG)),
        ),
        f("will_continue", "willContinue", Kind::Scalar),
    ],
};

pub(crate) static PARTIAL_ARG: Shape = Shape {
    name: "PartialArg",
    fields: &[
        f("bool_value", "boolValue", Kind::Scalar),
        f("json_path", "jsonPath", Kind::Scalar),
        f("null_value", "nullValue", Kind::Scalar),
        f("number_value", "numberValue", Kind::Scalar),
        f("string_value", "stringValue", Kind::Scalar),
        f("will_continue", "willContinue", Kind::Scalar),
    ],
};

pub(crate) static FUNCTION_RESPONSE: Shape = Shape {
    name: "FunctionResponse",
    fields: &[
        f("will_continue", "willContinue", Kind::Scalar),
        f("scheduling", "scheduling", Kind::Scalar),
        f(
            "parts",
            "parts",
            Kind::List(&Kind::Model(&FUNCTION_RESPONSE_PART)),
        ),
        f("id", "id", Kind::Scalar),
        f("name", "name", Kind::Scalar),
        f("response", "response", Kind::Any),
    ],
};

pub(crate) static FUNCTION_RESPONSE_PART: Shape = Shape {
    name: "FunctionResponsePart",
    fields: &[
        f(
            "inline_data",
            "inlineData",
            Kind::Model(&FUNCTION_RESPONSE_BLOB),
        ),
        f(
            "file_data",
            "fileData",
            Kind::Model(&FUNCTION_RESPONSE_FILE_DATA),
        ),
        f("media_processing", "mediaProcessing", Kind::Scalar),
    ],
};

pub(crate) static FUNCTION_RESPONSE_BLOB: Shape = Shape {
    name: "FunctionResponseBlob",
    fields: &[
        f("mime_type", "mimeType", Kind::Scalar),
        f("data", "data", Kind::Bytes),
        f("display_name", "displayName", Kind::Scalar),
    ],
};

pub(crate) static FUNCTION_RESPONSE_FILE_DATA: Shape = Shape {
    name: "FunctionResponseFileData",
    fields: &[
        f("file_uri", "fileUri", Kind::Scalar),
        f("mime_type", "mimeType", Kind::Scalar),
        f("display_name", "displayName", Kind::Scalar),
    ],
};

pub(crate) static BLOB: Shape = Shape {
    name: "Blob",
    fields: &[
        f("data", "data", Kind::Bytes),
        f("display_name", "displayName", Kind::Scalar),
        f("mime_type", "mimeType", Kind::Scalar),
    ],
};

pub(crate) static VIDEO_METADATA: Shape = Shape {
    name: "VideoMetadata",
    fields: &[
        f("end_offset", "endOffset", Kind::Scalar),
        f("fps", "fps", Kind::Scalar),
        f("start_offset", "startOffset", Kind::Scalar),
    ],
};

pub(crate) static TOOL_CALL: Shape = Shape {
    name: "ToolCall",
    fields: &[
        f("id", "id", Kind::Scalar),
        f("tool_type", "toolType", Kind::Scalar),
        f("args", "args", Kind::Any),
    ],
};

pub(crate) static TOOL_RESPONSE: Shape = Shape {
    name: "ToolResponse",
    fields: &[
        f("id", "id", Kind::Scalar),
        f("tool_type", "toolType", Kind::Scalar),
        f("response", "response", Kind::Any),
    ],
};

pub(crate) static TRANSCRIPTION: Shape = Shape {
    name: "Transcription",
    fields: &[
        f("text", "text", Kind::Scalar),
        f("finished", "finished", Kind::Scalar),
        f("language_code", "languageCode", Kind::Scalar),
        f("speaker_label", "speakerLabel", Kind::Scalar),
        f("words", "words", Kind::List(&Kind::Model(&WORD_INFO))),
        f("start_offset", "startOffset", Kind::Scalar),
        f("end_offset", "endOffset", Kind::Scalar),
    ],
};

pub(crate) static WORD_INFO: Shape = Shape {
    name: "WordInfo",
    fields: &[
        f("word", "word", Kind::Scalar),
        f("start_offset", "startOffset", Kind::Scalar),
        f("end_offset", "endOffset", Kind::Scalar),
    ],
};

pub(crate) static SPEECH_METADATA: Shape = Shape {
    name: "SpeechMetadata",
    fields: &[
        f("speaker", "speaker", Kind::Scalar),
        f("style", "style", Kind::Scalar),
    ],
};

pub(crate) static GROUNDING_METADATA: Shape = Shape {
    name: "GroundingMetadata",
    fields: &[
        f(
            "image_search_queries",
            "imageSearchQueries",
            Kind::List(&Kind::Scalar),
        ),
        f(
            "grounding_chunks",
            "groundingChunks",
            Kind::List(&Kind::Model(&GROUNDING_CHUNK)),
        ),
        f(
            "grounding_supports",
            "groundingSupports",
            Kind::List(&Kind::Model(&GROUNDING_SUPPORT)),
        ),
        f(
            "retrieval_metadata",
            "retrievalMetadata",
            Kind::Model(&RETRIEVAL_METADATA),
        ),
        f(
            "search_entry_point",
            "searchEntryPoint",
            Kind::Model(&SEARCH_ENTRY_POINT),
        ),
        f(
            "web_search_queries",
            "webSearchQueries",
            Kind::List(&Kind::Scalar),
        ),
        f(
            "google_maps_widget_context_token",
            "googleMapsWidgetContextToken",
            Kind::Scalar,
        ),
        f(
            "retrieval_queries",
            "retrievalQueries",
            Kind::List(&Kind::Scalar),
        ),
        f(
            "source_flagging_uris",
            "sourceFlaggingUris",
            Kind::List(&Kind::Model(&GROUNDING_METADATA_SOURCE_FLAGGING_URI)),
        ),
    ],
};

pub(crate) static GROUNDING_CHUNK: Shape = Shape {
    name: "GroundingChunk",
    fields: &[
        f("image", "image", Kind::Model(&GROUNDING_CHUNK_IMAGE)),
        f("maps", "maps", Kind::Model(&GROUNDING_CHUNK_MAPS)),
        f(
            "retrieved_context",
            "retrievedContext",
            Kind::Model(&GROUNDING_CHUNK_RETRIEVED_CONTEXT),
        ),
        f("web", "web", Kind::Model(&GROUNDING_CHUNK_WEB)),
    ],
};

pub(crate) static GROUNDING_CHUNK_IMAGE: Shape = Shape {
    name: "GroundingChunkImage",
    fields: &[
        f("source_uri", "sourceUri", Kind::Scalar),
        f("image_uri", "imageUri", Kind::Scalar),
        f("title", "title", Kind::Scalar),
        f("domain", "domain", Kind::Scalar),
    ],
};

pub(crate) static GROUNDING_CHUNK_MAPS: Shape = Shape {
    name: "GroundingChunkMaps",
    fields: &[
        f(
            "place_answer_sources",
            "placeAnswerSources",
            Kind::Model(&GROUNDING_CHUNK_MAPS_PLACE_ANSWER_SOURCES),
        ),
        f("place_id", "placeId", Kind::Scalar),
        f("text", "text", Kind::Scalar),
        f("title", "title", Kind::Scalar),
        f("uri", "uri", Kind::Scalar),
        f("route", "route", Kind::Model(&GROUNDING_CHUNK_MAPS_ROUTE)),
    ],
};

pub(crate) static GROUNDING_CHUNK_MAPS_PLACE_ANSWER_SOURCES: Shape = Shape {
    name: "GroundingChunkMapsPlaceAnswerSources",
    fields: &[
        f(
            "review_snippet",
            "reviewSnippet",
            Kind::List(&Kind::Model(
                &GROUNDING_CHUNK_MAPS_PLACE_ANSWER_SOURCES_REVIEW_SNIPPET,
            )),
        ),
        f("flag_content_uri", "flagContentUri", Kind::Scalar),
        f(
            "review_snippets",
            "reviewSnippets",
            Kind::List(&Kind::Model(
                &GROUNDING_CHUNK_MAPS_PLACE_ANSWER_SOURCES_REVIEW_SNIPPET,
            )),
        ),
    ],
};

pub(crate) static GROUNDING_CHUNK_MAPS_PLACE_ANSWER_SOURCES_REVIEW_SNIPPET: Shape = Shape {
    name: "GroundingChunkMapsPlaceAnswerSourcesReviewSnippet",
    fields: &[
        f(
            "author_attribution",
            "authorAttribution",
            Kind::Model(&GROUNDING_CHUNK_MAPS_PLACE_ANSWER_SOURCES_AUTHOR_ATTRIBUTION),
        ),
        f("flag_content_uri", "flagContentUri", Kind::Scalar),
        f("google_maps_uri", "googleMapsUri", Kind::Scalar),
        f(
            "relative_publish_time_description",
            "relativePublishTimeDescription",
            Kind::Scalar,
        ),
        f("review", "review", Kind::Scalar),
        f("review_id", "reviewId", Kind::Scalar),
        f("title", "title", Kind::Scalar),
    ],
};

pub(crate) static GROUNDING_CHUNK_MAPS_PLACE_ANSWER_SOURCES_AUTHOR_ATTRIBUTION: Shape = Shape {
    name: "GroundingChunkMapsPlaceAnswerSourcesAuthorAttribution",
    fields: &[
        f("display_name", "displayName", Kind::Scalar),
        f("photo_uri", "photoUri", Kind::Scalar),
        f("uri", "uri", Kind::Scalar),
    ],
};

pub(crate) static GROUNDING_CHUNK_MAPS_ROUTE: Shape = Shape {
    name: "GroundingChunkMapsRoute",
    fields: &[
        f("distance_meters", "distanceMeters", Kind::Scalar),
        f("duration", "duration", Kind::Scalar),
        f("encoded_polyline", "encodedPolyline", Kind::Scalar),
    ],
};

pub(crate) static GROUNDING_CHUNK_RETRIEVED_CONTEXT: Shape = Shape {
    name: "GroundingChunkRetrievedContext",
    fields: &[
        f("document_name", "documentName", Kind::Scalar),
        f("rag_chunk", "ragChunk", Kind::Model(&RAG_CHUNK)),
        f("text", "text", Kind::Scalar),
        f("title", "title", Kind::Scalar),
        f("uri", "uri", Kind::Scalar),
        f(
            "custom_metadata",
            "customMetadata",
            Kind::List(&Kind::Model(&GROUNDING_CHUNK_CUSTOM_METADATA)),
        ),
        f("file_search_store", "fileSearchStore", Kind::Scalar),
        f("page_number", "pageNumber", Kind::Scalar),
        f("media_id", "mediaId", Kind::Scalar),
    ],
};

pub(crate) static RAG_CHUNK: Shape = Shape {
    name: "RagChunk",
    fields: &[
        f("page_span", "pageSpan", Kind::Model(&RAG_CHUNK_PAGE_SPAN)),
        f("text", "text", Kind::Scalar),
        f("chunk_id", "chunkId", Kind::Scalar),
        f("file_id", "fileId", Kind::Scalar),
    ],
};

pub(crate) static RAG_CHUNK_PAGE_SPAN: Shape = Shape {
    name: "RagChunkPageSpan",
    fields: &[
        f("first_page", "firstPage", Kind::Scalar),
        f("last_page", "lastPage", Kind::Scalar),
    ],
};

pub(crate) static GROUNDING_CHUNK_CUSTOM_METADATA: Shape = Shape {
    name: "GroundingChunkCustomMetadata",
    fields: &[
        f("key", "key", Kind::Scalar),
        f("numeric_value", "numericValue", Kind::Scalar),
        f(
            "string_list_value",
            "stringListValue",
            Kind::Model(&GROUNDING_CHUNK_STRING_LIST),
        ),
        f("string_value", "stringValue", Kind::Scalar),
    ],
};

pub(crate) static GROUNDING_CHUNK_STRING_LIST: Shape = Shape {
    name: "GroundingChunkStringList",
    fields: &[f("values", "values", Kind::List(&Kind::Scalar))],
};

pub(crate) static GROUNDING_CHUNK_WEB: Shape = Shape {
    name: "GroundingChunkWeb",
    fields: &[
        f("domain", "domain", Kind::Scalar),
        f("title", "title", Kind::Scalar),
        f("uri", "uri", Kind::Scalar),
    ],
};

pub(crate) static GROUNDING_SUPPORT: Shape = Shape {
    name: "GroundingSupport",
    fields: &[
        f(
            "confidence_scores",
            "confidenceScores",
            Kind::List(&Kind::Scalar),
        ),
        f(
            "grounding_chunk_indices",
            "groundingChunkIndices",
            Kind::List(&Kind::Scalar),
        ),
        f("segment", "segment", Kind::Model(&SEGMENT)),
        f("rendered_parts", "renderedParts", Kind::List(&Kind::Scalar)),
    ],
};

pub(crate) static SEGMENT: Shape = Shape {
    name: "Segment",
    fields: &[
        f("start_index", "startIndex", Kind::Scalar),
        f("end_index", "endIndex", Kind::Scalar),
        f("part_index", "partIndex", Kind::Scalar),
        f("text", "text", Kind::Scalar),
    ],
};

pub(crate) static RETRIEVAL_METADATA: Shape = Shape {
    name: "RetrievalMetadata",
    fields: &[f(
        "google_search_dynamic_retrieval_score",
        "googleSearchDynamicRetrievalScore",
        Kind::Scalar,
    )],
};

pub(crate) static SEARCH_ENTRY_POINT: Shape = Shape {
    name: "SearchEntryPoint",
    fields: &[
        f("rendered_content", "renderedContent", Kind::Scalar),
        f("sdk_blob", "sdkBlob", Kind::Bytes),
    ],
};

pub(crate) static GROUNDING_METADATA_SOURCE_FLAGGING_URI: Shape = Shape {
    name: "GroundingMetadataSourceFlaggingUri",
    fields: &[
        f("flag_content_uri", "flagContentUri", Kind::Scalar),
        f("source_id", "sourceId", Kind::Scalar),
    ],
};

pub(crate) static GENERATE_CONTENT_RESPONSE_USAGE_METADATA: Shape = Shape {
    name: "GenerateContentResponseUsageMetadata",
    fields: &[
        f(
            "cache_tokens_details",
            "cacheTokensDetails",
            Kind::List(&Kind::Model(&MODALITY_TOKEN_COUNT)),
        ),
        f(
            "cached_content_token_count",
            "cachedContentTokenCount",
            Kind::Scalar,
        ),
        f(
            "candidates_token_count",
            "candidatesTokenCount",
            Kind::Scalar,
        ),
        f(
            "candidates_tokens_details",
            "candidatesTokensDetails",
            Kind::List(&Kind::Model(&MODALITY_TOKEN_COUNT)),
        ),
        f("prompt_token_count", "promptTokenCount", Kind::Scalar),
        f(
            "prompt_tokens_details",
            "promptTokensDetails",
            Kind::List(&Kind::Model(&MODALITY_TOKEN_COUNT)),
        ),
        f("thoughts_token_count", "thoughtsTokenCount", Kind::Scalar),
        f(
            "tool_use_prompt_token_count",
            "toolUsePromptTokenCount",
            Kind::Scalar,
        ),
        f(
            "tool_use_prompt_tokens_details",
            "toolUsePromptTokensDetails",
            Kind::List(&Kind::Model(&MODALITY_TOKEN_COUNT)),
        ),
        f("total_token_count", "totalTokenCount", Kind::Scalar),
        f("traffic_type", "trafficType", Kind::Scalar),
    ],
};

pub(crate) static MODALITY_TOKEN_COUNT: Shape = Shape {
    name: "ModalityTokenCount",
    fields: &[
        f("modality", "modality", Kind::Scalar),
        f("token_count", "tokenCount", Kind::Scalar),
    ],
};

pub(crate) static LIVE_SERVER_SESSION_RESUMPTION_UPDATE: Shape = Shape {
    name: "LiveServerSessionResumptionUpdate",
    fields: &[
        f("new_handle", "newHandle", Kind::Scalar),
        f("resumable", "resumable", Kind::Scalar),
        f(
            "last_consumed_client_message_index",
            "lastConsumedClientMessageIndex",
            Kind::Scalar,
        ),
    ],
};

pub(crate) static LIVE_SERVER_GO_AWAY: Shape = Shape {
    name: "LiveServerGoAway",
    fields: &[f("time_left", "timeLeft", Kind::Scalar)],
};

pub(crate) static VOICE_ACTIVITY: Shape = Shape {
    name: "VoiceActivity",
    fields: &[
        f("voice_activity_type", "voiceActivityType", Kind::Scalar),
        f("audio_offset", "audioOffset", Kind::Scalar),
    ],
};

pub(crate) static LOGPROBS_RESULT: Shape = Shape {
    name: "LogprobsResult",
    fields: &[
        f(
            "chosen_candidates",
            "chosenCandidates",
            Kind::List(&Kind::Model(&LOGPROBS_RESULT_CANDIDATE)),
        ),
        f(
            "top_candidates",
            "topCandidates",
            Kind::List(&Kind::Model(&LOGPROBS_RESULT_TOP_CANDIDATES)),
        ),
        f("log_probability_sum", "logProbabilitySum", Kind::Scalar),
    ],
};

pub(crate) static LOGPROBS_RESULT_CANDIDATE: Shape = Shape {
    name: "LogprobsResultCandidate",
    fields: &[
        f("log_probability", "logProbability", Kind::Scalar),
        f("token", "token", Kind::Scalar),
        f("token_id", "tokenId", Kind::Scalar),
    ],
};

pub(crate) static LOGPROBS_RESULT_TOP_CANDIDATES: Shape = Shape {
    name: "LogprobsResultTopCandidates",
    fields: &[f(
        "candidates",
        "candidates",
        Kind::List(&Kind::Model(&LOGPROBS_RESULT_CANDIDATE)),
    )],
};

pub(crate) static CACHE_METADATA: Shape = Shape {
    name: "CacheMetadata",
    fields: &[
        f("cache_name", "cache_name", Kind::Scalar),
        f("expire_time", "expire_time", Kind::Scalar),
        f("fingerprint", "fingerprint", Kind::Scalar),
        f("invocations_used", "invocations_used", Kind::Scalar),
        f("contents_count", "contents_count", Kind::Scalar),
        f("created_at", "created_at", Kind::Scalar),
    ],
};

pub(crate) static CITATION_METADATA: Shape = Shape {
    name: "CitationMetadata",
    fields: &[f(
        "citations",
        "citations",
        Kind::List(&Kind::Model(&CITATION)),
    )],
};

pub(crate) static CITATION: Shape = Shape {
    name: "Citation",
    fields: &[
        f("end_index", "endIndex", Kind::Scalar),
        f("license", "license", Kind::Scalar),
        f(
            "publication_date",
            "publicationDate",
            Kind::Model(&GOOGLE_TYPE_DATE),
        ),
        f("start_index", "startIndex", Kind::Scalar),
        f("title", "title", Kind::Scalar),
        f("uri", "uri", Kind::Scalar),
    ],
};

pub(crate) static GOOGLE_TYPE_DATE: Shape = Shape {
    name: "GoogleTypeDate",
    fields: &[
        f("day", "day", Kind::Scalar),
        f("month", "month", Kind::Scalar),
        f("year", "year", Kind::Scalar),
    ],
};

pub(crate) static EVENT_ACTIONS: Shape = Shape {
    name: "EventActions",
    fields: &[
        f("skip_summarization", "skipSummarization", Kind::Scalar),
        f("state_delta", "stateDelta", Kind::Any),
        f("artifact_delta", "artifactDelta", Kind::Map(&Kind::Scalar)),
        f("transfer_to_agent", "transferToAgent", Kind::Scalar),
        f("transfer_reason", "transferReason", Kind::Scalar),
        f("escalate", "escalate", Kind::Scalar),
        f(
            "requested_auth_configs",
            "requestedAuthConfigs",
            Kind::Map(&Kind::Model(&AUTH_CONFIG)),
        ),
        f(
            "requested_tool_confirmations",
            "requestedToolConfirmations",
            Kind::Map(&Kind::Model(&TOOL_CONFIRMATION)),
        ),
        f("compaction", "compaction", Kind::Model(&EVENT_COMPACTION)),
        f("end_of_agent", "endOfAgent", Kind::Scalar),
        f("agent_state", "agentState", Kind::Any),
        f(
            "rewind_before_invocation_id",
            "rewindBeforeInvocationId",
            Kind::Scalar,
        ),
        f("route", "route", Kind::Any),
        f(
            "render_ui_widgets",
            "renderUiWidgets",
            Kind::List(&Kind::Model(&UI_WIDGET)),
        ),
        f("set_model_response", "setModelResponse", Kind::Any),
    ],
};

pub(crate) static AUTH_CONFIG: Shape = Shape {
    name: "AuthConfig",
    fields: &[
        f("auth_scheme", "authScheme", Kind::Model(&AUTH_SCHEME)),
        f(
            "raw_auth_credential",
            "rawAuthCredential",
            Kind::Model(&AUTH_CREDENTIAL),
        ),
        f(
            "exchanged_auth_credential",
            "exchangedAuthCredential",
            Kind::Model(&AUTH_CREDENTIAL),
        ),
        f("credential_key", "credentialKey", Kind::Scalar),
    ],
};

pub(crate) static AUTH_SCHEME: Shape = Shape {
    name: "APIKey|HTTPBase|OAuth2|OpenIdConnect|HTTPBearer|OpenIdConnectWithConfig|CustomAuthScheme",
    fields: &[
        f("type_", "type", Kind::Scalar),
        f("description", "description", Kind::Scalar),
        f("in_", "in", Kind::Scalar),
        f("name", "name", Kind::Scalar),
        f("scheme", "scheme", Kind::Scalar),
        f("flows", "flows", Kind::Model(&OAUTH_FLOWS)),
        f("openIdConnectUrl", "openIdConnectUrl", Kind::Scalar),
        f("bearerFormat", "bearerFormat", Kind::Scalar),
        f(
            "authorization_endpoint",
            "authorization_endpoint",
            Kind::Scalar,
        ),
        f("token_endpoint", "token_endpoint", Kind::Scalar),
        f("userinfo_endpoint", "userinfo_endpoint", Kind::Scalar),
        f("revocation_endpoint", "revocation_endpoint", Kind::Scalar),
        f(
            "token_endpoint_auth_methods_supported",
            "token_endpoint_auth_methods_supported",
            Kind::List(&Kind::Scalar),
        ),
        f(
            "grant_types_supported",
            "grant_types_supported",
            Kind::List(&Kind::Scalar),
        ),
        f("scopes", "scopes", Kind::List(&Kind::Scalar)),
    ],
};

pub(crate) static OAUTH_FLOWS: Shape = Shape {
    name: "OAuthFlows",
    fields: &[
        f("implicit", "implicit", Kind::Model(&OAUTH_FLOW_IMPLICIT)),
        f("password", "password", Kind::Model(&OAUTH_FLOW_PASSWORD)),
        f(
            "clientCredentials",
            "clientCredentials",
            Kind::Model(&OAUTH_FLOW_CLIENT_CREDENTIALS),
        ),
        f(
            "authorizationCode",
            "authorizationCode",
            Kind::Model(&OAUTH_FLOW_AUTHORIZATION_CODE),
        ),
    ],
};

pub(crate) static OAUTH_FLOW_IMPLICIT: Shape = Shape {
    name: "OAuthFlowImplicit",
    fields: &[
        f("refreshUrl", "refreshUrl", Kind::Scalar),
        f("scopes", "scopes", Kind::Map(&Kind::Scalar)),
        f("authorizationUrl", "authorizationUrl", Kind::Scalar),
    ],
};

pub(crate) static OAUTH_FLOW_PASSWORD: Shape = Shape {
    name: "OAuthFlowPassword",
    fields: &[
        f("refreshUrl", "refreshUrl", Kind::Scalar),
        f("scopes", "scopes", Kind::Map(&Kind::Scalar)),
        f("tokenUrl", "tokenUrl", Kind::Scalar),
    ],
};

pub(crate) static OAUTH_FLOW_CLIENT_CREDENTIALS: Shape = Shape {
    name: "OAuthFlowClientCredentials",
    fields: &[
        f("refreshUrl", "refreshUrl", Kind::Scalar),
        f("scopes", "scopes", Kind::Map(&Kind::Scalar)),
        f("tokenUrl", "tokenUrl", Kind::Scalar),
    ],
};

pub(crate) static OAUTH_FLOW_AUTHORIZATION_CODE: Shape = Shape {
    name: "OAuthFlowAuthorizationCode",
    fields: &[
        f("refreshUrl", "refreshUrl", Kind::Scalar),
        f("scopes", "scopes", Kind::Map(&Kind::Scalar)),
        f("authorizationUrl", "authorizationUrl", Kind::Scalar),
        f("tokenUrl", "tokenUrl", Kind::Scalar),
    ],
};

pub(crate) static AUTH_CREDENTIAL: Shape = Shape {
    name: "AuthCredential",
    fields: &[
        f("auth_type", "authType", Kind::Scalar),
        f("resource_ref", "resourceRef", Kind::Scalar),
        f("api_key", "apiKey", Kind::Scalar),
        f("http", "http", Kind::Model(&HTTP_AUTH)),
        f(
            "service_account",
            "serviceAccount",
            Kind::Model(&SERVICE_ACCOUNT),
        ),
        f("oauth2", "oauth2", Kind::Model(&OAUTH2_AUTH)),
    ],
};

pub(crate) static HTTP_AUTH: Shape = Shape {
    name: "HttpAuth",
    fields: &[
        f("scheme", "scheme", Kind::Scalar),
        f("credentials", "credentials", Kind::Model(&HTTP_CREDENTIALS)),
        f(
            "additional_headers",
            "additionalHeaders",
            Kind::Map(&Kind::Scalar),
        ),
    ],
};

pub(crate) static HTTP_CREDENTIALS: Shape = Shape {
    name: "HttpCredentials",
    fields: &[
        f("username", "username", Kind::Scalar),
        f("password", "password", Kind::Scalar),
        f("token", "token", Kind::Scalar),
    ],
};

pub(crate) static SERVICE_ACCOUNT: Shape = Shape {
    name: "ServiceAccount",
    fields: &[
        f(
            "service_account_credential",
            "serviceAccountCredential",
            Kind::Model(&SERVICE_ACCOUNT_CREDENTIAL),
        ),
        f("scopes", "scopes", Kind::List(&Kind::Scalar)),
        f(
            "use_default_credential",
            "useDefaultCredential",
            Kind::Scalar,
        ),
        f("use_id_token", "useIdToken", Kind::Scalar),
        f("audience", "audience", Kind::Scalar),
    ],
};

pub(crate) static SERVICE_ACCOUNT_CREDENTIAL: Shape = Shape {
    name: "ServiceAccountCredential",
    fields: &[
        f("type_", "type", Kind::Scalar),
        f("project_id", "projectId", Kind::Scalar),
        f("private_key_id", "privateKeyId", Kind::Scalar),
        f("private_key", "privateKey", Kind::Scalar),
        f("client_email", "clientEmail", Kind::Scalar),
        f("client_id", "clientId", Kind::Scalar),
        f("auth_uri", "authUri", Kind::Scalar),
        f("token_uri", "tokenUri", Kind::Scalar),
        f(
            "auth_provider_x509_cert_url",
            "authProviderX509CertUrl",
            Kind::Scalar,
        ),
        f("client_x509_cert_url", "clientX509CertUrl", Kind::Scalar),
        f("universe_domain", "universeDomain", Kind::Scalar),
    ],
};

pub(crate) static OAUTH2_AUTH: Shape = Shape {
    name: "OAuth2Auth",
    fields: &[
        f("client_id", "clientId", Kind::Scalar),
        f("client_secret", "clientSecret", Kind::Scalar),
        f("auth_uri", "authUri", Kind::Scalar),
        f("nonce", "nonce", Kind::Scalar),
        f("state", "state", Kind::Scalar),
        f("redirect_uri", "redirectUri", Kind::Scalar),
        f("auth_response_uri", "authResponseUri", Kind::Scalar),
        f("auth_code", "authCode", Kind::Scalar),
        f("access_token", "accessToken", Kind::Scalar),
        f("refresh_token", "refreshToken", Kind::Scalar),
        f("id_token", "idToken", Kind::Scalar),
        f("expires_at", "expiresAt", Kind::Scalar),
        f("expires_in", "expiresIn", Kind::Scalar),
        f("audience", "audience", Kind::Scalar),
        f("prompt", "prompt", Kind::Scalar),
        f("code_verifier", "codeVerifier", Kind::Scalar),
        f("code_challenge_method", "codeChallengeMethod", Kind::Scalar),
        f(
            "token_endpoint_auth_method",
            "tokenEndpointAuthMethod",
            Kind::Scalar,
        ),
    ],
};

pub(crate) static TOOL_CONFIRMATION: Shape = Shape {
    name: "ToolConfirmation",
    fields: &[
        f("hint", "hint", Kind::Scalar),
        f("confirmed", "confirmed", Kind::Scalar),
        f("payload", "payload", Kind::Any),
    ],
};

pub(crate) static EVENT_COMPACTION: Shape = Shape {
    name: "EventCompaction",
    fields: &[
        f("start_timestamp", "startTimestamp", Kind::Scalar),
        f("end_timestamp", "endTimestamp", Kind::Scalar),
        f(
            "compacted_content",
            "compactedContent",
            Kind::Model(&CONTENT),
        ),
    ],
};

pub(crate) static UI_WIDGET: Shape = Shape {
    name: "UiWidget",
    fields: &[
        f("id", "id", Kind::Scalar),
        f("provider", "provider", Kind::Scalar),
        f("payload", "payload", Kind::Any),
    ],
};

pub(crate) static NODE_INFO: Shape = Shape {
    name: "NodeInfo",
    fields: &[
        f("path", "path", Kind::Scalar),
        f("output_for", "outputFor", Kind::List(&Kind::Scalar)),
        f("message_as_output", "messageAsOutput", Kind::Scalar),
    ],
};

pub(crate) static SESSION: Shape = Shape {
    name: "Session",
    fields: &[
        f("id", "id", Kind::Scalar),
        f("app_name", "appName", Kind::Scalar),
        f("user_id", "userId", Kind::Scalar),
        f("state", "state", Kind::Any),
        f("events", "events", Kind::List(&Kind::Model(&EVENT))),
        f("last_update_time", "lastUpdateTime", Kind::Scalar),
    ],
};
