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
    pub struct Content {
        /// The parts; [`Content::parts`] reads them as a slice.
        parts: Option<Vec<Part>> = "parts",
        /// `user` or `model`.
        role: Option<String> = "role",
    }
}

wire_object! {
    /// One piece of a message. Exactly one of the data fields is set, as a rule.
    pub struct Part {
        /// How finely media is looked at.
        media_resolution: Option<Shaped<PartMediaResolution>> = "mediaResolution",
        /// What running code gave.
        code_execution_result: Option<CodeExecutionResult> = "codeExecutionResult",
        /// Code that the model wrote to be run.
        executable_code: Option<ExecutableCode> = "executableCode",
        /// Data at an address.
        file_data: Option<FileData> = "fileData",
        /// The model's wish to call a function.
        function_call: Option<FunctionCall> = "functionCall",
        /// What the function answered.
        function_response: Option<FunctionResponse> = "functionResponse",
        /// Data in the message itself.
        inline_data: Option<Blob> = "inlineData",
        /// Text.
        text: Option<String> = "text",
        /// Whether this is the model thinking aloud.
        thought: Option<bool> = "thought",
        /// The model's own mark on a thought; must go back to it on the same part.
        thought_signature: Option<Bytes> = "thoughtSignature",
        /// Which piece of a video is meant.
        video_metadata: Option<VideoMetadata> = "videoMetadata",
        /// A call of a tool that the model's own side runs.
        tool_call: Option<Shaped<ToolCall>> = "toolCall",
        /// The answer of such a tool.
        tool_response: Option<Shaped<ToolResponse>> = "toolResponse",
        /// The user's own notes on the part.
        part_metadata: Option<JsonMap> = "partMetadata",
        /// What was heard in the part's audio.
        audio_transcription: Option<Transcription> = "audioTranscription",
        /// How media is to be processed.
        media_processing: Option<String> = "mediaProcessing",
        /// About the speech in the part.
        speech_metadata: Option<Shaped<SpeechMetadata>> = "speechMetadata",
    }
}

wire_object! {
    /// The model's wish to call a function.
    pub struct FunctionCall {
        /// Ties the answer to the call. ADK's own begin with `adk-`.
        id: Option<String> = "id",
        /// The arguments, by name; never re-cased.
        args: Option<JsonMap> = "args",
        /// The function.
        name: Option<String> = "name",
        /// Arguments that are still streaming in.
        partial_args: Option<Shaped<PartialArgs>> = "partialArgs",
        /// Whether more of this call follows.
        will_continue: Option<bool> = "willContinue",
    }
}

wire_object! {
    /// What a function answered.
    pub struct FunctionResponse {
        /// Whether more of this answer follows.
        will_continue: Option<bool> = "willContinue",
        /// When the model should take the answer up.
        scheduling: Option<String> = "scheduling",
        /// Media in the answer.
        parts: Option<Shaped<FunctionResponseParts>> = "parts",
        /// The call that is answered.
        id: Option<String> = "id",
        /// The function.
        name: Option<String> = "name",
        /// The answer; never re-cased.
        response: Option<JsonMap> = "response",
    }
}

wire_object! {
    /// Data in the message itself.
    pub struct Blob {
        /// The bytes.
        data: Option<Bytes> = "data",
        /// A name to show.
        display_name: Option<String> = "displayName",
        /// Its media type.
        mime_type: Option<String> = "mimeType",
    }
}

wire_object! {
    /// Data at an address.
    pub struct FileData {
        /// A name to show.
        display_name: Option<String> = "displayName",
        /// The address.
        file_uri: Option<String> = "fileUri",
        /// Its media type.
        mime_type: Option<String> = "mimeType",
    }
}

wire_object! {
    /// Code that the model wrote to be run.
    pub struct ExecutableCode {
        /// The code.
        code: Option<String> = "code",
        /// Its language, e.g. `PYTHON`.
        language: Option<String> = "language",
        /// Ties the result to the code.
        id: Option<String> = "id",
    }
}

wire_object! {
    /// What running code gave.
    pub struct CodeExecutionResult {
        /// E.g. `OUTCOME_OK`.
        outcome: Option<String> = "outcome",
        /// What it printed, or the error.
        output: Option<String> = "output",
        /// The code this is the result of.
        id: Option<String> = "id",
    }
}

wire_object! {
    /// Which piece of a video is meant.
    pub struct VideoMetadata {
        /// Where it ends, e.g. `3.5s`.
        end_offset: Option<String> = "endOffset",
        /// Frames a second to look at.
        fps: Option<f64> = "fps",
        /// Where it starts.
        start_offset: Option<String> = "startOffset",
    }
}

wire_object! {
    /// Speech as text.
    pub struct Transcription {
        /// The text.
        text: Option<String> = "text",
        /// Whether the utterance is over.
        finished: Option<bool> = "finished",
        /// Its language.
        language_code: Option<String> = "languageCode",
        /// Who spoke.
        speaker_label: Option<String> = "speakerLabel",
        /// The single words.
        words: Option<Shaped<WordInfos>> = "words",
        /// Where it starts in the audio.
        start_offset: Option<String> = "startOffset",
        /// Where it ends in the audio.
        end_offset: Option<String> = "endOffset",
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
