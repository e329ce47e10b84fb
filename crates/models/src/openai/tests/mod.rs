//! OpenAI's wire format: requests as sent, and documented responses split at every byte.

mod agreement;
mod differential;
mod errors;
mod lenient;
mod over_http;
mod recorded;
mod requests;
mod streams;

use retain_core::{FunctionCall, Json, LlmResponse, Part};
use retain_runtime::{LlmRequest, ModelError};

use super::{Chat, OpenAiServer};
use crate::{
    Secret,
    http::SseEvent,
    provider::{Provider as _, StreamReader as _},
};

/// Returns one server of each kind, with the name that the tests use for it.
fn servers() -> [(&'static str, OpenAiServer); 8] {
    let key = || Secret::from("sk-canary-0123456789");
    let azure = "https://example.openai.azure.com";
    [
        ("openai", OpenAiServer::openai(key())),
        ("azure", OpenAiServer::azure(azure, "2024-10-21", key())),
        (
            "openrouter",
            OpenAiServer::new("https://openrouter.ai/api/v1", Some(key())),
        ),
        ("ollama", OpenAiServer::ollama()),
        (
            "groq",
            OpenAiServer::new("https://api.groq.com/openai/v1", Some(key())),
        ),
        (
            "mistral",
            OpenAiServer::new("https://api.mistral.ai/v1", Some(key())),
        ),
        (
            "deepseek",
            OpenAiServer::new("https://api.deepseek.com", Some(key())),
        ),
        ("other", OpenAiServer::new("http://localhost:8000/v1", None)),
    ]
}

fn server(name: &str) -> OpenAiServer {
    let mut servers = servers().into_iter();
    let found = servers.find(|(known, _)| *known == name);
    found.expect("a known server").1
}

fn chat(server: OpenAiServer) -> Chat {
    Chat {
        server,
        name: "test/model-1".to_owned(),
        model: "model-1".to_owned(),
    }
}

/// Returns the JSON body that is sent for a request.
fn request_body(server_name: &str, request: &LlmRequest) -> Result<Json, ModelError> {
    let call = chat(server(server_name)).call(request, false)?;
    Ok(Json::parse(&call.body).expect("a body of JSON"))
}

/// Parses a complete response.
fn read_answer(body: &str) -> Result<LlmResponse, ModelError> {
    chat(server("other"))
        .read_answer(body)
        .map_err(ModelError::from)
}

/// Reads events. Returns their chunks and then the complete answer.
fn read<'a>(data: impl IntoIterator<Item = &'a str>) -> Result<Vec<LlmResponse>, ModelError> {
    let mut reader = super::stream::ChunkReader::default();
    let mut answers = Vec::new();
    for data in data {
        let event = SseEvent {
            event: None,
            data: data.to_owned(),
        };
        answers.extend(reader.push(&event)?);
    }
    answers.extend(reader.finish()?);
    Ok(answers)
}

/// Returns the last answer, which is complete.
fn last(answers: &[LlmResponse]) -> &LlmResponse {
    let (last, pieces) = answers.split_last().expect("an answer");
    assert_eq!(last.partial, Some(false));
    assert!(pieces.iter().all(|piece| piece.partial == Some(true)));
    last
}

fn parts(answer: &LlmResponse) -> &[Part] {
    answer.content.as_ref().expect("a content").parts()
}

fn calls(answer: &LlmResponse) -> Vec<&FunctionCall> {
    let content = answer.content.as_ref().expect("a content");
    content.function_calls().collect()
}

/// Returns each call as a text: id, name, arguments.
fn call_texts(answer: &LlmResponse) -> Vec<String> {
    let text = |call: &&FunctionCall| {
        let args = Json::from(call.args.clone().unwrap_or_default());
        let id = call.id.as_deref().unwrap_or("-");
        format!("{id} {}({args})", call.name.as_deref().unwrap_or("-"))
    };
    calls(answer).iter().map(text).collect()
}
