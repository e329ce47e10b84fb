//! The names of the ADK objects that Retain passes on without looking into them.
//!
//! Each is a marker for [`Shaped`](crate::Shaped); the fields stand in `wire/table.rs`.

use crate::wire::{Sealed, ShapeOf, ValueType, table};

macro_rules! markers {
    ($( $(#[$meta:meta])* $name:ident = $type:expr; )*) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}

        impl Sealed for $name {
            fn value_type() -> &'static ValueType {
                static TYPE: ValueType = $type;
                &TYPE
            }
        }

        impl ShapeOf for $name {}
    )* };
}

markers! {
    /// How finely media is looked at.
    PartMediaResolution = ValueType::Object(&table::PART_MEDIA_RESOLUTION);
    /// A call of a tool that runs on the model's side.
    ToolCall = ValueType::Object(&table::TOOL_CALL);
    /// The answer of such a tool.
    ToolResponse = ValueType::Object(&table::TOOL_RESPONSE);
    /// About the speech in a part.
    SpeechMetadata = ValueType::Object(&table::SPEECH_METADATA);
    /// Arguments that are still streaming in.
    PartialArgs = ValueType::List(&ValueType::Object(&table::PARTIAL_ARG));
    /// Media in a function response.
    FunctionResponseParts = ValueType::List(&ValueType::Object(&table::FUNCTION_RESPONSE_PART));
    /// The words of a transcription.
    WordInfos = ValueType::List(&ValueType::Object(&table::WORD_INFO));
    /// What an answer rests on.
    GroundingMetadata = ValueType::Object(&table::GROUNDING_METADATA);
    /// Token counts by modality.
    ModalityTokenCounts = ValueType::List(&ValueType::Object(&table::MODALITY_TOKEN_COUNT));
    /// News about resuming a live session.
    SessionResumptionUpdate = ValueType::Object(&table::LIVE_SERVER_SESSION_RESUMPTION_UPDATE);
    /// The live server is about to close.
    GoAway = ValueType::Object(&table::LIVE_SERVER_GO_AWAY);
    /// Whether somebody is speaking.
    VoiceActivity = ValueType::Object(&table::VOICE_ACTIVITY);
    /// Log probabilities token by token.
    LogprobsResult = ValueType::Object(&table::LOGPROBS_RESULT);
    /// What was cached.
    CacheMetadata = ValueType::Object(&table::CACHE_METADATA);
    /// Whom an answer cites.
    CitationMetadata = ValueType::Object(&table::CITATION_METADATA);
    /// Credentials that tools ask for, by call id.
    AuthConfigs = ValueType::Map(&ValueType::Object(&table::AUTH_CONFIG));
    /// Confirmations that tools ask for, by call id.
    ToolConfirmations = ValueType::Map(&ValueType::Object(&table::TOOL_CONFIRMATION));
    /// Widgets to show.
    UiWidgets = ValueType::List(&ValueType::Object(&table::UI_WIDGET));
    /// The workflow node that made an event.
    NodeInfo = ValueType::Object(&table::NODE_INFO);
}
