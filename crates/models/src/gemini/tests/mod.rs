//! Gemini's wire format: requests, answers and credentials.

mod address;
mod answers;
mod differential;
mod history;
mod played;
mod schemas;
mod streams;
mod tokens;

use retain_core::{Content, GenerateContentConfig, Json, LlmResponse};
use retain_runtime::{LlmRequest, ModelError};

use super::{GeminiWire, backend::Backend};
use crate::{http::Sse, provider::Provider};

fn api() -> GeminiWire {
    gemini(Backend::Api)
}

fn vertex() -> GeminiWire {
    gemini(Backend::Vertex {
        project: Some("my-project".to_owned()),
        location: "us-central1".to_owned(),
    })
}

fn gemini(backend: Backend) -> GeminiWire {
    GeminiWire {
        name: "gemini-2.5-flash".to_owned(),
        backend,
        base_url: None,
        api_version: None,
        quota_project: None,
    }
}

fn json(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

/// Builds a request from contents and settings as JSON.
fn request(contents: &Json, config: &Json) -> LlmRequest {
    let contents = contents.as_array().expect("a list").iter();
    let contents = contents.map(|content| {
        let content = Content::from_json(&content.to_string()).expect("a content");
        content.into()
    });
    let mut request = LlmRequest::default();
    request.contents = contents.collect();
    request.config = GenerateContentConfig::from_json(&config.to_string()).expect("settings");
    request
}

/// Reads a stream that is split at `cuts`. Returns its chunks and then the complete answer.
fn read(gemini: &GeminiWire, stream: &[u8], cuts: &[usize]) -> Result<Vec<String>, ModelError> {
    let mut sse = Sse::default();
    let mut reader = gemini.reader();
    let mut answers = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&stream.len()]) {
        for event in sse.push(&stream[from..to]) {
            answers.extend(reader.push(&event)?);
        }
        from = to;
    }
    for event in sse.finish() {
        answers.extend(reader.push(&event)?);
    }
    if let Some(error) = sse.error() {
        return Err(ModelError::new(error.message()));
    }
    answers.extend(reader.finish()?);
    Ok(answers.iter().map(answer_text).collect())
}

/// Returns an answer as JSON text, with generated ids replaced.
fn answer_text(answer: &LlmResponse) -> String {
    without_ids(&answer.to_json().expect("JSON"))
}

fn without_ids(text: &str) -> String {
    let mut pieces = text.split("\"adk-");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |output, piece| {
        let rest = piece.split_once('"').map_or("", |(_, rest)| rest);
        format!("{output}\"adk\"{rest}")
    })
}
