//! `Content` and `Part`: the messages of users, models and tools, in Gemini's format.

use crate::{
    json::{Json, JsonMap},
    wire::{Bytes, Shaped, wire_object, wire_text},
    wire_shapes::{
        FunctionResponseParts, PartMediaResolution, PartialArgs, SpeechMetadata, ToolCall,
        ToolResponse, WordInfos,
    },
};

wire_object! {
    /// One message: its role (`user` or `model`) and its parts.
    ///
    /// ```
    /// use retain_core::Content;
    /// let content = Content::user("Which floors do I prefer?");
    /// assert_eq!(content.role.as_deref(), Some("user"));
    /// assert_eq!(content.text_concat(), "Which floors do I prefer?");
    /// ```
    pub struct Content: CONTENT {
        /// The parts; [`Content::parts`] reads them as a slice.
        parts: Option<Vec<Part>>,
        /// `user` or `model`.
        role: Option<String>,
    }
}

wire_object! {
    /// One part of a message. Usually exactly one of the data fields is set.
    pub struct Part: PART {
        /// The resolution at which the model processes media.
        media_resolution: Option<Shaped<PartMediaResolution>>,
        /// The result of executed code.
        code_execution_result: Option<CodeExecutionResult>,
        /// Code that the model wants to execute.
        executable_code: Option<ExecutableCode>,
        /// A file, by URI.
        file_data: Option<FileData>,
        /// A function call that the model requests.
        function_call: Option<FunctionCall>,
        /// The result of a function call.
        function_response: Option<FunctionResponse>,
        /// Inline bytes.
        inline_data: Option<Blob>,
        /// Text.
        text: Option<String>,
        /// Whether this is a thought of the model.
        thought: Option<bool>,
        /// The opaque signature of a thought. The caller must send it back on the same part.
        thought_signature: Option<Bytes>,
        /// The range and frame rate of a video.
        video_metadata: Option<VideoMetadata>,
        /// A call to a tool that the provider runs.
        tool_call: Option<Shaped<ToolCall>>,
        /// The result of a tool that the provider runs.
        tool_response: Option<Shaped<ToolResponse>>,
        /// Metadata of the part; keys are never renamed.
        part_metadata: Option<JsonMap>,
        /// The transcription of the part's audio.
        audio_transcription: Option<Transcription>,
        /// The way in which the model processes media.
        media_processing: Option<String>,
        /// Metadata of the speech in the part.
        speech_metadata: Option<Shaped<SpeechMetadata>>,
    }
}

wire_object! {
    /// A function call that the model requests.
    pub struct FunctionCall: FUNCTION_CALL {
        /// The id that the response repeats. Ids made by ADK start with `adk-`.
        id: Option<String>,
        /// The arguments by name; keys are never renamed.
        args: Option<JsonMap>,
        /// The name of the function.
        name: Option<String>,
        /// Arguments of a call that is still streaming.
        partial_args: Option<Shaped<PartialArgs>>,
        /// Whether more parts of this call follow.
        will_continue: Option<bool>,
    }
}

wire_object! {
    /// The result of a function call.
    pub struct FunctionResponse: FUNCTION_RESPONSE {
        /// Whether more responses to this call follow.
        will_continue: Option<bool>,
        /// When the model handles the response.
        scheduling: Option<String>,
        /// Media in the response.
        parts: Option<Shaped<FunctionResponseParts>>,
        /// The id of the call.
        id: Option<String>,
        /// The name of the function.
        name: Option<String>,
        /// The result; keys are never renamed.
        response: Option<JsonMap>,
    }
}

wire_object! {
    /// Inline bytes.
    pub struct Blob: BLOB {
        /// The bytes.
        data: Option<Bytes>,
        /// The display name.
        display_name: Option<String>,
        /// Its media type.
        mime_type: Option<String>,
    }
}

wire_object! {
    /// A file, by URI.
    pub struct FileData: FILE_DATA {
        /// The display name.
        display_name: Option<String>,
        /// The URI.
        file_uri: Option<String>,
        /// Its media type.
        mime_type: Option<String>,
    }
}

wire_object! {
    /// Code that the model wants to execute.
    pub struct ExecutableCode: EXECUTABLE_CODE {
        /// The code.
        code: Option<String>,
        /// Its language, e.g. `PYTHON`.
        language: Option<String>,
        /// The id that the result repeats.
        id: Option<String>,
    }
}

wire_object! {
    /// The result of executed code.
    pub struct CodeExecutionResult: CODE_EXECUTION_RESULT {
        /// The outcome, e.g. `OUTCOME_OK`.
        outcome: Option<String>,
        /// The output or the error of the code.
        output: Option<String>,
        /// The id of the code.
        id: Option<String>,
    }
}

wire_object! {
    /// The range and frame rate of a video.
    pub struct VideoMetadata: VIDEO_METADATA {
        /// The end, e.g. `3.5s`.
        end_offset: Option<String>,
        /// Frames per second.
        fps: Option<f64>,
        /// The start.
        start_offset: Option<String>,
    }
}

wire_object! {
    /// Speech as text.
    pub struct Transcription: TRANSCRIPTION {
        /// The text.
        text: Option<String>,
        /// Whether the utterance has ended.
        finished: Option<bool>,
        /// Its language.
        language_code: Option<String>,
        /// The label of the speaker.
        speaker_label: Option<String>,
        /// The words, with their times.
        words: Option<Shaped<WordInfos>>,
        /// The start in the audio.
        start_offset: Option<String>,
        /// The end in the audio.
        end_offset: Option<String>,
    }
}

wire_text!(Content, Part, FunctionCall, FunctionResponse, Transcription);

impl Content {
    /// Creates a message of `role` with the given parts.
    pub fn new(role: impl Into<String>, parts: Vec<Part>) -> Content {
        Content {
            role: Some(role.into()),
            parts: Some(parts),
            ..Content::default()
        }
    }

    /// Creates a text message of the user.
    pub fn user(text: impl Into<String>) -> Content {
        Content::new("user", vec![Part::text(text)])
    }

    /// Creates a text message of the model.
    pub fn model(text: impl Into<String>) -> Content {
        Content::new("model", vec![Part::text(text)])
    }

    /// Returns the parts; empty if the field is absent.
    pub fn parts(&self) -> &[Part] {
        self.parts.as_deref().unwrap_or_default()
    }

    /// Returns the texts of all parts, concatenated, without thoughts.
    pub fn text_concat(&self) -> String {
        let parts = self
            .parts()
            .iter()
            .filter(|part| part.thought != Some(true));
        parts.filter_map(|part| part.text.as_deref()).collect()
    }

    /// Returns the function calls in the message.
    pub fn function_calls(&self) -> impl Iterator<Item = &FunctionCall> {
        self.parts()
            .iter()
            .filter_map(|part| part.function_call.as_ref())
    }

    /// Returns the function responses in the message.
    pub fn function_responses(&self) -> impl Iterator<Item = &FunctionResponse> {
        self.parts()
            .iter()
            .filter_map(|part| part.function_response.as_ref())
    }
}

impl From<&str> for Content {
    /// Creates a text message of the user.
    fn from(text: &str) -> Content {
        Content::user(text)
    }
}

impl From<String> for Content {
    /// Creates a text message of the user.
    fn from(text: String) -> Content {
        Content::user(text)
    }
}

impl Part {
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Part {
        Part {
            text: Some(text.into()),
            ..Part::default()
        }
    }

    /// Creates an inline-data part: bytes and their media type.
    pub fn bytes(data: impl Into<Bytes>, mime_type: impl Into<String>) -> Part {
        Part {
            inline_data: Some(Blob {
                data: Some(data.into()),
                mime_type: Some(mime_type.into()),
                ..Blob::default()
            }),
            ..Part::default()
        }
    }
}

impl From<&str> for Part {
    /// Creates a text part.
    fn from(text: &str) -> Part {
        Part::text(text)
    }
}

impl From<FunctionCall> for Part {
    fn from(call: FunctionCall) -> Part {
        Part {
            function_call: Some(call),
            ..Part::default()
        }
    }
}

impl From<FunctionResponse> for Part {
    fn from(response: FunctionResponse) -> Part {
        Part {
            function_response: Some(response),
            ..Part::default()
        }
    }
}

impl FunctionCall {
    /// Creates a call to `name` with `args`. If `args` is not a JSON object, the call has no
    /// arguments.
    pub fn new(name: impl Into<String>, args: impl Into<Json>) -> FunctionCall {
        FunctionCall {
            name: Some(name.into()),
            args: args.into().as_object().cloned(),
            ..FunctionCall::default()
        }
    }
}

impl FunctionResponse {
    /// Creates the response of `name` to the call `id`.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        response: JsonMap,
    ) -> FunctionResponse {
        FunctionResponse {
            id: Some(id.into()),
            name: Some(name.into()),
            response: Some(response),
            ..FunctionResponse::default()
        }
    }
}
