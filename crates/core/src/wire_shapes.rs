//! The names of the ADK objects that Retain passes on without looking into them.
//!
//! Each is a marker for [`Shaped`](crate::Shaped); the fields stand in `wire/shapes.rs`.

use crate::wire::{self, Kind, Sealed, ShapeOf};

macro_rules! markers {
    ($( $(#[$meta:meta])* $name:ident = $kind:expr; )*) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}

        impl Sealed for $name {
            fn kind() -> &'static Kind {
                static KIND: Kind = $kind;
                &KIND
            }
        }

        impl ShapeOf for $name {}
    )* };
}

markers! {
    /// How finely media is looked at.
    PartMediaResolution = Kind::Model(&wire::PART_MEDIA_RESOLUTION);
    /// A call of a tool that runs on the model's side.
    ToolCall = Kind::Model(&wire::TOOL_CALL);
    /// The answer of such a tool.
    ToolResponse = Kind::Model(&wire::TOOL_RESPONSE);
    /// About the speech in a part.
    SpeechMetadata = Kind::Model(&wire::SPEECH_METADATA);
    /// Arguments that are still streaming in.
    PartialArgs = Kind::List(&Kind::Model(&wire::PARTIAL_ARG));
    /// Media in a function response.
    FunctionResponseParts = Kind::List(&Kind::Model(&wire::FUNCTION_RESPONSE_PART));
    /// The words of a transcription.
    WordInfos = Kind::List(&Kind::Model(&wire::WORD_INFO));
    /// What an answer rests on.
    GroundingMetadata = Kind::Model(&wire::GROUNDING_METADATA);
    /// Token counts by modality.
    ModalityTokenCounts = Kind::List(&Kind::Model(&wire::MODALITY_TOKEN_COUNT));
    /// News about resuming a live session.
    SessionResumptionUpdate = Kind::Model(&wire::LIVE_SERVER_SESSION_RESUMPTION_UPDATE);
    /// The live server is about to close.
    GoAway = Kind::Model(&wire::LIVE_SERVER_GO_AWAY);
    /// Whether somebody is speaking.
    VoiceActivity = Kind::Model(&wire::VOICE_ACTIVITY);
    /// Log probabilities token by token.
    LogprobsResult = Kind::Model(&wire::LOGPROBS_RESULT);
    /// What was cached.
    CacheMetadata = Kind::Model(&wire::CACHE_METADATA);
    /// Whom an answer cites.
    CitationMetadata = Kind::Model(&wire::CITATION_METADATA);
    /// Credentials that tools ask for, by call id.
    AuthConfigs = Kind::Map(&Kind::Model(&wire::AUTH_CONFIG));
    /// Confirmations that tools ask for, by call id.
    ToolConfirmations = Kind::Map(&Kind::Model(&wire::TOOL_CONFIRMATION));
    /// Widgets to show.
    UiWidgets = Kind::List(&Kind::Model(&wire::UI_WIDGET));
    /// The workflow node that made an event.
    NodeInfo = Kind::Model(&wire::NODE_INFO);
}
