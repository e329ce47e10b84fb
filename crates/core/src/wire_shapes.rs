//! Markers for the ADK objects that Retain passes on without reading them.
//!
//! Each is the type parameter of a [`Shaped`](crate::Shaped); `wire/table.rs` lists the fields. A
//! marker that differs from the table does not compile as the type of a field.

use crate::wire::{Sealed, ShapeOf, ValueType, table};

macro_rules! markers {
    ($( $(#[$meta:meta])* $name:ident = $type:expr; )*) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}

        impl Sealed for $name {
            const TYPE: &'static ValueType = &$type;
        }

        impl ShapeOf for $name {}
    )* };
}

markers! {
    /// The resolution at which the model processes media.
    PartMediaResolution = ValueType::Object(&table::PART_MEDIA_RESOLUTION);
    /// A call of a tool that the provider runs.
    ToolCall = ValueType::Object(&table::TOOL_CALL);
    /// The result of a tool that the provider runs.
    ToolResponse = ValueType::Object(&table::TOOL_RESPONSE);
    /// Metadata of the speech in a part.
    SpeechMetadata = ValueType::Object(&table::SPEECH_METADATA);
    /// Arguments of a call that is still streaming.
    PartialArgs = ValueType::List(&ValueType::Object(&table::PARTIAL_ARG));
    /// Media in a function response.
    FunctionResponseParts = ValueType::List(&ValueType::Object(&table::FUNCTION_RESPONSE_PART));
    /// The words of a transcription.
    WordInfos = ValueType::List(&ValueType::Object(&table::WORD_INFO));
    /// The sources of a response.
    GroundingMetadata = ValueType::Object(&table::GROUNDING_METADATA);
    /// Token counts by modality.
    ModalityTokenCounts = ValueType::List(&ValueType::Object(&table::MODALITY_TOKEN_COUNT));
    /// An update about the resumption of a live session.
    SessionResumptionUpdate = ValueType::Object(&table::LIVE_SERVER_SESSION_RESUMPTION_UPDATE);
    /// A notice that the live server will close the connection.
    GoAway = ValueType::Object(&table::LIVE_SERVER_GO_AWAY);
    /// Voice activity of the user.
    VoiceActivity = ValueType::Object(&table::VOICE_ACTIVITY);
    /// The log probability of each token.
    LogprobsResult = ValueType::Object(&table::LOGPROBS_RESULT);
    /// Metadata of the context cache.
    CacheMetadata = ValueType::Object(&table::CACHE_METADATA);
    /// Citations.
    CitationMetadata = ValueType::Object(&table::CITATION_METADATA);
    /// Credentials that tools request, by call id.
    AuthConfigs = ValueType::Map(&ValueType::Object(&table::AUTH_CONFIG));
    /// Confirmations that tools request, by call id.
    ToolConfirmations = ValueType::Map(&ValueType::Object(&table::TOOL_CONFIRMATION));
    /// Widgets to show.
    UiWidgets = ValueType::List(&ValueType::Object(&table::UI_WIDGET));
    /// The workflow node that created an event.
    NodeInfo = ValueType::Object(&table::NODE_INFO);
}
