//! OpenAI's chat completions and compatible servers: requests (`request`, `messages`, `tools`),
//! complete responses (`answer`), streamed ones (`stream`) and errors (`failure`).

mod answer;
mod arguments;
mod failure;
pub(crate) mod json;
mod media;
mod messages;
mod request;
pub(crate) mod schema;
mod server;
mod signature;
mod stream;
mod tools;

#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use futures_util::StreamExt as _;
use retain_core::{Json, LlmResponse, Part};
use retain_runtime::{BuildError, LlmRequest, Model, ModelCapabilities, ModelError, ModelStream};

pub(crate) use failure::{is_transient, parse_failure, reported_failure};
pub use server::OpenAiServer;
pub(crate) use signature::details as reasoning_details;

use crate::{
    Models,
    http::{AttemptError, Call, Http, HttpModel, malformed},
    provider::{Failure, Provider, StreamReader},
};

/// A model with OpenAI's chat completions API, at OpenAI, on Azure or on a compatible server.
///
/// ```
/// use retain_models::{Http, HttpSettings, OpenAi, OpenAiServer};
/// use retain_runtime::Model as _;
/// let http = Http::new(HttpSettings::default()).unwrap();
/// let model = OpenAi::new(http, OpenAiServer::ollama(), "qwen3:8b").with_name("ollama/qwen3:8b");
/// assert_eq!(model.name(), "ollama/qwen3:8b");
/// ```
#[derive(Clone)]
pub struct OpenAi {
    http: Http,
    chat: Chat,
    inner: HttpModel<Chat>,
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenAi").field(&self.inner).finish()
    }
}

impl OpenAi {
    /// Creates the model with the API key and URL from the environment. A prefix names the server:
    /// `ollama/…`, `groq/…`, `openrouter/…` and more, each with its own variables. Without a prefix
    /// it is OpenAI (`OPENAI_API_KEY`), or the server at `OPENAI_BASE_URL`.
    ///
    /// ```no_run
    /// let model = retain_models::OpenAi::from_env("gpt-4o")?;
    /// # Ok::<(), retain_runtime::BuildError>(())
    /// ```
    pub fn from_env(name: &str) -> Result<OpenAi, BuildError> {
        Models::from_env()?.openai(name)
    }

    /// Creates a model. `model` is the server's name for it; on Azure, it is the name of the
    /// deployment.
    pub fn new(http: Http, server: OpenAiServer, model: impl Into<String>) -> OpenAi {
        let model = model.into();
        let chat = Chat {
            server,
            name: model.clone(),
            model,
        };
        OpenAi::with_chat(http, chat)
    }

    /// Sets the name that the runtime uses, e.g. `openai/gpt-5`.
    pub fn with_name(self, name: impl Into<String>) -> OpenAi {
        let chat = Chat {
            name: name.into(),
            ..self.chat
        };
        OpenAi::with_chat(self.http, chat)
    }

    fn with_chat(http: Http, chat: Chat) -> OpenAi {
        let auth = chat.server.auth();
        let inner = HttpModel::new(chat.name.clone(), chat.clone(), auth, http.clone());
        OpenAi { http, chat, inner }
    }
}

impl Model for OpenAi {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        let hides_thoughts = request::hides_thoughts(&request.config);
        let is_wrapped = tools::is_wrapped(&request.config);
        let mut answers = self.inner.generate(request, stream);
        if hides_thoughts {
            answers = map_answers(answers, without_thoughts);
        }
        if is_wrapped {
            answers = map_answers(answers, unwrap_value);
        }
        answers
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.inner.capabilities()
    }
}

/// Applies `change` to every response; `None` drops the response.
fn map_answers(
    answers: ModelStream,
    change: fn(LlmResponse) -> Option<LlmResponse>,
) -> ModelStream {
    Box::pin(answers.filter_map(move |answer| async move { answer.map(change).transpose() }))
}

/// Replaces an answer's text with the value that the text's object wraps. Drops the text of chunks,
/// because they are pieces of that object.
fn unwrap_value(mut answer: LlmResponse) -> Option<LlmResponse> {
    let is_chunk = answer.partial == Some(true);
    let Some(parts) = answer.content.as_mut().and_then(|it| it.parts.as_mut()) else {
        return Some(answer);
    };
    let is_text = |part: &Part| part.thought != Some(true) && part.text.is_some();
    if is_chunk {
        parts.retain(|part| !is_text(part));
        return (!parts.is_empty()).then_some(answer);
    }
    for part in parts.iter_mut().filter(|part| is_text(part)) {
        let json = part.text.as_deref().and_then(|text| Json::parse(text).ok());
        if let Some(value) = json.as_ref().and_then(schema::value_in) {
            part.text = Some(value.to_string());
        }
    }
    Some(answer)
}

/// Removes thoughts; returns `None` for a chunk with nothing else. Keeps signed thoughts in an
/// answer with calls, because the next request must return them to the server.
fn without_thoughts(mut answer: LlmResponse) -> Option<LlmResponse> {
    let is_chunk = answer.partial == Some(true);
    let Some(parts) = answer.content.as_mut().and_then(|it| it.parts.as_mut()) else {
        return Some(answer);
    };
    let before = parts.len();
    let calls = parts.iter().any(|part| part.function_call.is_some());
    let is_kept =
        |part: &Part| part.thought != Some(true) || (calls && part.thought_signature.is_some());
    parts.retain(is_kept);
    let is_empty_chunk = is_chunk && parts.is_empty() && before > 0;
    (!is_empty_chunk).then_some(answer)
}

/// The chat completions of one model on one server.
#[derive(Debug, Clone)]
struct Chat {
    server: OpenAiServer,
    /// The name that the runtime uses.
    name: String,
    /// The server's name for the model.
    model: String,
}

impl Provider for Chat {
    fn call(&self, request: &LlmRequest, stream: bool) -> Result<Call, ModelError> {
        let model = request::wire_model(&self.name, &self.model, request);
        Ok(Call {
            url: self.server.url("chat/completions", model),
            headers: Vec::new(),
            body: request::body(self.server.kind, model, request, stream)?,
        })
    }

    fn read_answer(&self, body: &str) -> Result<LlmResponse, AttemptError> {
        let json = Json::parse(body)
            .map_err(|error| malformed(format!("the response is not valid JSON: {error}")))?;
        if let Some(failure) = failure::reported_failure(&json) {
            return Err(failure.into());
        }
        if json["choices"].as_array().is_none() {
            return Err(malformed("the response has no list of choices").into());
        }
        let mut answer = answer::Answer::default();
        answer.push(&json);
        Ok(answer.finish())
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::<stream::ChunkReader>::default()
    }

    fn failure(&self, status: u16, body: &str) -> Failure {
        failure::parse_failure(status, body)
    }

    fn is_transient(&self, code: &str) -> bool {
        failure::is_transient(code)
    }

    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::default()
            .with_output_schema_and_tools(self.server.kind.is_openai())
            .with_pairs_calls_by_id(true)
    }
}

/// Creates the error for a request that the server does not support.
pub(crate) fn invalid_request(message: impl Into<String>) -> ModelError {
    ModelError::new(message).with_code("InvalidRequest")
}
