//! `Content` and `Part`: what users, models and tools say to one another, in Gemini's own form.

use crate::{
    json::{Json, JsonMap},
    wire::{Bytes, Shaped, wire_object, wire_text},
    wire_shapes::{
        FunctionResponseParts, PartMediaResolution, PartialArgs, SpeechMetadata, ToolCall,
        ToolResponse, WordInfos,
    },
};

wire_object! {
    /// One message: who speaks (`user` or `model`) and its parts.
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
    /// One piece of a message. Exactly one of the data fields is set, as a rule.
    pub struct Part: PART {
        /// How finely media is looked at.
        media_resolution: Option<Shaped<PartMediaResolution>>,
        /// What running code gave.
        code_execution_result: Option<CodeExecutionResult>,
        /// Code that the model wrote to be run.
        executable_code: Option<ExecutableCode>,
        /// Data at an address.
        file_data: Option<FileData>,
        /// The model's wish to call a function.
        function_call: Option<FunctionCall>,
        /// What the function answered.
        function_response: Option<FunctionResponse>,
        /// Data in the message itself.
        inline_data: Option<Blob>,
        /// Text.
        text: Option<String>,
        /// Whether this is the model thinking aloud.
        thought: Option<bool>,
        /// The model's own mark on a thought; must go back to it on the same part.
        thought_signature: Option<Bytes>,
        /// Which piece of a video is meant.
        video_metadata: Option<VideoMetadata>,
        /// A call of a tool that the model's own side runs.
        tool_call: Option<Shaped<ToolCall>>,
        /// The answer of such a tool.
        tool_response: Option<Shaped<ToolResponse>>,
        /// The user's own notes on the part.
        part_metadata: Option<JsonMap>,
        /// What was heard in the part's audio.
        audio_transcription: Option<Transcription>,
        /// How media is to be processed.
        media_processing: Option<String>,
        /// About the speech in the part.
        speech_metadata: Option<Shaped<SpeechMetadata>>,
    }
}

wire_object! {
    /// The model's wish to call a function.
    pub struct FunctionCall: FUNCTION_CALL {
        /// Ties the answer to the call. ADK's own begin with `adk-`.
        id: Option<String>,
        /// The arguments, by name; never re-cased.
        args: Option<JsonMap>,
        /// The function.
        name: Option<String>,
        /// Arguments that are still streaming in.
        partial_args: Option<Shaped<PartialArgs>>,
        /// Whether more of this call follows.
        will_continue: Option<bool>,
    }
}

wire_object! {
    /// What a function answered.
    pub struct FunctionResponse: FUNCTION_RESPONSE {
        /// Whether more of this answer follows.
        will_continue: Option<bool>,
        /// When the model should take the answer up.
        scheduling: Option<String>,
        /// Media in the answer.
        parts: Option<Shaped<FunctionResponseParts>>,
        /// The call that is answered.
        id: Option<String>,
        /// The function.
        name: Option<String>,
        /// The answer; never re-cased.
        response: Option<JsonMap>,
    }
}

wire_object! {
    /// Data in the message itself.
    pub struct Blob: BLOB {
        /// The bytes.
        data: Option<Bytes>,
        /// A name to show.
        display_name: Option<String>,
        /// Its media type.
        mime_type: Option<String>,
    }
}

wire_object! {
    /// Data at an address.
    pub struct FileData: FILE_DATA {
        /// A name to show.
        display_name: Option<String>,
        /// The address.
        file_uri: Option<String>,
        /// Its media type.
        mime_type: Option<String>,
    }
}

wire_object! {
    /// Code that the model wrote to be run.
    pub struct ExecutableCode: EXECUTABLE_CODE {
        /// The code.
        code: Option<String>,
        /// Its language, e.g. `PYTHON`.
        language: Option<String>,
        /// Ties the result to the code.
        id: Option<String>,
    }
}

wire_object! {
    /// What running code gave.
    pub struct CodeExecutionResult: CODE_EXECUTION_RESULT {
        /// E.g. `OUTCOME_OK`.
        outcome: Option<String>,
        /// What it printed, or the error.
        output: Option<String>,
        /// The code this is the result of.
        id: Option<String>,
    }
}

wire_object! {
    /// Which piece of a video is meant.
    pub struct VideoMetadata: VIDEO_METADATA {
        /// Where it ends, e.g. `3.5s`.
        end_offset: Option<String>,
        /// Frames a second to look at.
        fps: Option<f64>,
        /// Where it starts.
        start_offset: Option<String>,
    }
}

wire_object! {
    /// Speech as text.
    pub struct Transcription: TRANSCRIPTION {
        /// The text.
        text: Option<String>,
        /// Whether the utterance is over.
        finished: Option<bool>,
        /// Its language.
        language_code: Option<String>,
        /// Who spoke.
        speaker_label: Option<String>,
        /// The single words.
        words: Option<Shaped<WordInfos>>,
        /// Where it starts in the audio.
        start_offset: Option<String>,
        /// Where it ends in the audio.
        end_offset: Option<String>,
    }
}

wire_text!(Content, Part, FunctionCall, FunctionResponse, Transcription);

impl Content {
    /// A message of `role` with the given parts.
    pub fn new(role: impl Into<String>, parts: Vec<Part>) -> Content {
        Content {
            role: Some(role.into()),
            parts: Some(parts),
            ..Content::default()
        }
    }

    /// A text said by the user.
    pub fn user(text: impl Into<String>) -> Content {
        Content::new("user", vec![Part::text(text)])
    }

    /// A text said by the model.
    pub fn model(text: impl Into<String>) -> Content {
        Content::new("model", vec![Part::text(text)])
    }

    /// The parts; none when the field is absent.
    pub fn parts(&self) -> &[Part] {
        self.parts.as_deref().unwrap_or_default()
    }

    /// The texts of all parts, thoughts left out, one after the other.
    pub fn text_concat(&self) -> String {
        let spoken = self
            .parts()
            .iter()
            .filter(|part| part.thought != Some(true));
        spoken.filter_map(|part| part.text.as_deref()).collect()
    }

    /// The function calls in it.
    pub fn function_calls(&self) -> impl Iterator<Item = &FunctionCall> {
        self.parts()
            .iter()
            .filter_map(|part| part.function_call.as_ref())
    }

    /// The function responses in it.
    pub fn function_responses(&self) -> impl Iterator<Item = &FunctionResponse> {
        self.parts()
            .iter()
            .filter_map(|part| part.function_response.as_ref())
    }
}

impl From<&str> for Content {
    /// A text said by the user.
    fn from(text: &str) -> Content {
        Content::user(text)
    }
}

impl From<String> for Content {
    /// A text said by the user.
    fn from(text: String) -> Content {
        Content::user(text)
    }
}

impl Part {
    /// A part of text.
    pub fn text(text: impl Into<String>) -> Part {
        Part {
            text: Some(text.into()),
            ..Part::default()
        }
    }

    /// A part of bytes with their media type.
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
    /// A part of text.
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
    /// A call of `name` with `args`, which must be a JSON object to have any effect.
    pub fn new(name: impl Into<String>, args: impl Into<Json>) -> FunctionCall {
        FunctionCall {
            name: Some(name.into()),
            args: args.into().as_object().cloned(),
            ..FunctionCall::default()
        }
    }
}

impl FunctionResponse {
    /// The answer of `name` to the call `id`.
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
