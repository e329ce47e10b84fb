//! The bodies that ADK's routes take, as tables: its requests, and the contents of google-genai.

use super::validate::{
    Field, Kind,
    Kind::{Any, Bool, Bytes, Float, Integer, List, Map, Set, Text, Word},
    Model, Needed,
};

const fn field(camel: &'static str, snake: &'static str, kind: Kind, needed: Needed) -> Field {
    Field {
        camel,
        snake,
        kind,
        needed,
    }
}

/// A field that may be missing or null.
const fn maybe(camel: &'static str, snake: &'static str, kind: Kind) -> Field {
    field(camel, snake, kind, Needed::Nullable)
}

/// A closed object of google-genai, all of whose fields may be missing.
const fn closed(fields: &'static [Field]) -> Model {
    Model {
        fields,
        is_closed: true,
    }
}

const fn open(fields: &'static [Field]) -> Model {
    Model {
        fields,
        is_closed: false,
    }
}

/// The body of `/run` and `/run_sse`.
pub(super) static RUN_AGENT: Model = open(&[
    maybe("appName", "app_name", Text),
    field("userId", "user_id", Text, Needed::Yes),
    field("sessionId", "session_id", Text, Needed::Yes),
    maybe("newMessage", "new_message", Kind::Model(&CONTENT)),
    field("streaming", "streaming", Bool, Needed::No),
    maybe("stateDelta", "state_delta", Map),
    maybe("functionCallEventId", "function_call_event_id", Text),
    maybe("invocationId", "invocation_id", Text),
    maybe("customMetadata", "custom_metadata", Map),
    maybe(
        "serviceTier",
        "service_tier",
        Kind::WordOrText(
            "str-enum[ServiceTier]",
            &["flex", "standard", "priority", "deferred"],
        ),
    ),
]);

/// The body that creates a session.
pub(super) static CREATE_SESSION: Model = open(&[
    maybe("sessionId", "session_id", Text),
    maybe("state", "state", Map),
    maybe("events", "events", List(&Kind::Model(&EVENT))),
    maybe("options", "options", Map),
]);

/// The body that changes a session's state.
pub(super) static UPDATE_SESSION: Model =
    open(&[field("stateDelta", "state_delta", Map, Needed::Yes)]);

/// The body that saves an artifact.
pub(super) static SAVE_ARTIFACT: Model = open(&[
    field("filename", "filename", Text, Needed::Yes),
    field("artifact", "artifact", Kind::Model(&PART), Needed::Yes),
    maybe("customMetadata", "custom_metadata", Map),
]);

/// The body that adds a session to memory.
pub(super) static UPDATE_MEMORY: Model =
    open(&[field("sessionId", "session_id", Text, Needed::Yes)]);

/// An object that is only passed on.
const OBJECT: Kind = Kind::Model(&ANYTHING);
static ANYTHING: Model = open(&[]);

/// An event, as far as it is looked into here; the reader of events sees to the rest.
static EVENT: Model = open(&[
    maybe("modelVersion", "model_version", Text),
    maybe("content", "content", Kind::Model(&CONTENT)),
    maybe("groundingMetadata", "grounding_metadata", OBJECT),
    maybe("partial", "partial", Bool),
    maybe("turnComplete", "turn_complete", Bool),
    maybe("errorCode", "error_code", Text),
    maybe("errorMessage", "error_message", Text),
    maybe("interrupted", "interrupted", Bool),
    maybe("customMetadata", "custom_metadata", Map),
    maybe("usageMetadata", "usage_metadata", OBJECT),
    maybe(
        "liveSessionResumptionUpdate",
        "live_session_resumption_update",
        OBJECT,
    ),
    maybe("liveSessionId", "live_session_id", Text),
    maybe("goAway", "go_away", OBJECT),
    maybe("voiceActivity", "voice_activity", OBJECT),
    maybe("inputTranscription", "input_transcription", OBJECT),
    maybe("outputTranscription", "output_transcription", OBJECT),
    maybe("avgLogprobs", "avg_logprobs", Float),
    maybe("logprobsResult", "logprobs_result", OBJECT),
    maybe("cacheMetadata", "cache_metadata", OBJECT),
    maybe("citationMetadata", "citation_metadata", OBJECT),
    maybe("interactionId", "interaction_id", Text),
    maybe("environmentId", "environment_id", Text),
    field("invocationId", "invocation_id", Text, Needed::No),
    field("author", "author", Text, Needed::No),
    field("actions", "actions", Kind::Model(&ACTIONS), Needed::No),
    field("nodeInfo", "node_info", OBJECT, Needed::No),
    maybe("longRunningToolIds", "long_running_tool_ids", Set),
    maybe("branch", "branch", Text),
    maybe("isolationScope", "isolation_scope", Text),
    field("id", "id", Text, Needed::No),
    field("timestamp", "timestamp", Float, Needed::No),
]);

static ACTIONS: Model = closed(&[
    maybe("skipSummarization", "skip_summarization", Bool),
    field("stateDelta", "state_delta", Map, Needed::No),
    field("artifactDelta", "artifact_delta", Map, Needed::No),
    maybe("transferToAgent", "transfer_to_agent", Text),
    maybe("transferReason", "transfer_reason", Text),
    maybe("escalate", "escalate", Bool),
    field(
        "requestedAuthConfigs",
        "requested_auth_configs",
        Map,
        Needed::No,
    ),
    field(
        "requestedToolConfirmations",
        "requested_tool_confirmations",
        Map,
        Needed::No,
    ),
    maybe("compaction", "compaction", OBJECT),
    maybe("endOfAgent", "end_of_agent", Bool),
    maybe("agentState", "agent_state", Map),
    maybe(
        "rewindBeforeInvocationId",
        "rewind_before_invocation_id",
        Text,
    ),
    maybe("route", "route", Any),
    maybe("renderUiWidgets", "render_ui_widgets", List(&Any)),
    maybe("setModelResponse", "set_model_response", Any),
]);

/// What somebody said.
static CONTENT: Model = closed(&[
    maybe("parts", "parts", List(&Kind::Model(&PART))),
    maybe("role", "role", Text),
]);

/// A piece of it, or the body of an artifact.
static PART: Model = closed(&[
    maybe(
        "mediaResolution",
        "media_resolution",
        Kind::Model(&MEDIA_RESOLUTION),
    ),
    maybe(
        "codeExecutionResult",
        "code_execution_result",
        Kind::Model(&CODE_EXECUTION_RESULT),
    ),
    maybe(
        "executableCode",
        "executable_code",
        Kind::Model(&EXECUTABLE_CODE),
    ),
    maybe("fileData", "file_data", Kind::Model(&FILE_DATA)),
    maybe("functionCall", "function_call", Kind::Model(&FUNCTION_CALL)),
    maybe(
        "functionResponse",
        "function_response",
        Kind::Model(&FUNCTION_RESPONSE),
    ),
    maybe("inlineData", "inline_data", Kind::Model(&BLOB)),
    maybe("text", "text", Text),
    maybe("thought", "thought", Bool),
    maybe("thoughtSignature", "thought_signature", Bytes),
    maybe(
        "videoMetadata",
        "video_metadata",
        Kind::Model(&VIDEO_METADATA),
    ),
    maybe("toolCall", "tool_call", Kind::Model(&TOOL_CALL)),
    maybe("toolResponse", "tool_response", Kind::Model(&TOOL_RESPONSE)),
    maybe("partMetadata", "part_metadata", Map),
    maybe("audioTranscription", "audio_transcription", Map),
    maybe("mediaProcessing", "media_processing", Any),
    maybe("speechMetadata", "speech_metadata", Map),
]);

static MEDIA_RESOLUTION: Model = closed(&[
    maybe(
        "level",
        "level",
        Word(&[
            "MEDIA_RESOLUTION_UNSPECIFIED",
            "MEDIA_RESOLUTION_LOW",
            "MEDIA_RESOLUTION_MEDIUM",
            "MEDIA_RESOLUTION_HIGH",
            "MEDIA_RESOLUTION_ULTRA_HIGH",
        ]),
    ),
    maybe("numTokens", "num_tokens", Integer),
]);

static CODE_EXECUTION_RESULT: Model = closed(&[
    maybe(
        "outcome",
        "outcome",
        Word(&[
            "OUTCOME_UNSPECIFIED",
            "OUTCOME_OK",
            "OUTCOME_FAILED",
            "OUTCOME_DEADLINE_EXCEEDED",
        ]),
    ),
    maybe("output", "output", Text),
    maybe("id", "id", Text),
]);

static EXECUTABLE_CODE: Model = closed(&[
    maybe("code", "code", Text),
    maybe(
        "language",
        "language",
        Word(&["LANGUAGE_UNSPECIFIED", "PYTHON"]),
    ),
    maybe("id", "id", Text),
]);

static FILE_DATA: Model = closed(&[
    maybe("displayName", "display_name", Text),
    maybe("fileUri", "file_uri", Text),
    maybe("mimeType", "mime_type", Text),
]);

static BLOB: Model = closed(&[
    maybe("data", "data", Bytes),
    maybe("displayName", "display_name", Text),
    maybe("mimeType", "mime_type", Text),
]);

static FUNCTION_CALL: Model = closed(&[
    maybe("id", "id", Text),
    maybe("args", "args", Map),
    maybe("name", "name", Text),
    maybe("partialArgs", "partial_args", List(&Kind::Map)),
    maybe("willContinue", "will_continue", Bool),
]);

static FUNCTION_RESPONSE: Model = closed(&[
    maybe("willContinue", "will_continue", Bool),
    maybe(
        "scheduling",
        "scheduling",
        Word(&["SCHEDULING_UNSPECIFIED", "SILENT", "WHEN_IDLE", "INTERRUPT"]),
    ),
    maybe("parts", "parts", List(&Kind::Map)),
    maybe("id", "id", Text),
    maybe("name", "name", Text),
    maybe("response", "response", Map),
]);

static VIDEO_METADATA: Model = closed(&[
    maybe("endOffset", "end_offset", Text),
    maybe("fps", "fps", Float),
    maybe("startOffset", "start_offset", Text),
]);

static TOOL_CALL: Model = closed(&[
    maybe("id", "id", Text),
    maybe("toolType", "tool_type", Any),
    maybe("args", "args", Map),
]);

static TOOL_RESPONSE: Model = closed(&[
    maybe("id", "id", Text),
    maybe("toolType", "tool_type", Any),
    maybe("response", "response", Map),
]);
