//! Anthropic's Messages API: Claude at Anthropic and on Vertex AI.
//!
//! ```text
//! LlmRequest → request (messages → blocks, tools) → HTTP → answer | stream → LlmResponse
//! ```

mod answer;
mod blocks;
mod ids;
mod messages;
mod output_schema;
mod request;
mod stream;
mod tool_result;
mod tools;
mod usage;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use retain_core::{Json, LlmResponse};
use retain_runtime::{BuildError, LlmRequest, Model, ModelCapabilities, ModelError, ModelStream};

use crate::{
    Models,
    http::{Address, AttemptError, Auth, Call, Http, HttpModel, Secret, malformed},
    provider::{Failure, Provider, StreamReader, plain_failure},
};

/// The base URL of Anthropic.
pub(crate) const BASE_URL: &str = "https://api.anthropic.com";

/// A Claude model.
///
/// ```
/// use retain_models::{Claude, Http, HttpSettings};
/// use retain_runtime::Model as _;
/// let http = Http::new(HttpSettings::default())?;
/// let model = Claude::new("claude-sonnet-5", "sk-ant-…".into(), http);
/// assert_eq!(model.name(), "claude-sonnet-5");
/// # Ok::<(), retain_runtime::BuildError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Claude(HttpModel<Messages>);

impl Claude {
    /// Creates the model with credentials from the environment: `ANTHROPIC_API_KEY` or
    /// `ANTHROPIC_AUTH_TOKEN`, or a Vertex AI project.
    ///
    /// ```no_run
    /// let model = retain_models::Claude::from_env("claude-sonnet-5")?;
    /// # Ok::<(), retain_runtime::BuildError>(())
    /// ```
    pub fn from_env(name: &str) -> Result<Claude, BuildError> {
        Models::from_env()?.claude(name)
    }

    /// Creates a model at Anthropic with an API key.
    pub fn new(model: impl Into<String>, key: Secret, http: Http) -> Claude {
        Claude::with_base_url(BASE_URL, model, key, http)
    }

    /// Creates a model at another compatible server, e.g. a gateway.
    pub fn with_base_url(
        base_url: impl Into<String>,
        model: impl Into<String>,
        key: Secret,
        http: Http,
    ) -> Claude {
        Claude::with_auth(base_url.into(), model, Auth::Header("x-api-key", key), http)
    }

    /// Creates a model with a bearer token.
    pub fn with_token(
        base_url: impl Into<String>,
        model: impl Into<String>,
        token: Secret,
        http: Http,
    ) -> Claude {
        Claude::with_auth(base_url.into(), model, Auth::Bearer(token), http)
    }

    fn with_auth(base_url: String, model: impl Into<String>, auth: Auth, http: Http) -> Claude {
        let model = model.into();
        let host = ClaudeHost::Anthropic {
            base_url: Address::new(base_url),
        };
        let provider = Messages::new(&model, host);
        Claude(HttpModel::new(model, provider, auth, http))
    }

    /// Creates a model on Vertex AI.
    pub(crate) fn on_vertex(
        base_url: String,
        model: impl Into<String>,
        auth: Auth,
        http: Http,
    ) -> Claude {
        let model = model.into();
        let base_url = Address::new(base_url);
        let provider = Messages::new(&model, ClaudeHost::Vertex { base_url });
        Claude(HttpModel::new(model, provider, auth, http))
    }
}

impl Model for Claude {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn generate(&self, request: Arc<LlmRequest>, stream: bool) -> ModelStream {
        self.0.generate(request, stream)
    }

    fn capabilities(&self) -> ModelCapabilities {
        self.0.capabilities()
    }
}

/// The service that hosts the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaudeHost {
    /// Anthropic, or a compatible server.
    Anthropic {
        /// E.g. `https://api.anthropic.com`.
        base_url: Address,
    },
    /// Vertex AI: the URL contains the model, and the body contains the API version.
    Vertex {
        /// E.g. `https://H/v1/projects/P/locations/L`.
        base_url: Address,
    },
}

/// The wire format of one model.
#[derive(Debug, Clone)]
pub(crate) struct Messages {
    /// The provider's name for the model.
    model: String,
    host: ClaudeHost,
}

impl Messages {
    /// Creates the wire format. `anthropic/claude-x` and `projects/…/models/claude-x` name the
    /// model `claude-x`.
    pub(crate) fn new(name: &str, host: ClaudeHost) -> Messages {
        Messages {
            model: wire_model_name(name).to_owned(),
            host,
        }
    }

    /// Returns the request's model, which a callback may have changed.
    fn model_of<'a>(&'a self, request: &'a LlmRequest) -> &'a str {
        match request.model.is_empty() {
            true => &self.model,
            false => wire_model_name(&request.model),
        }
    }

    fn url(&self, model: &str, stream: bool) -> String {
        let method = if stream {
            "streamRawPredict"
        } else {
            "rawPredict"
        };
        match &self.host {
            ClaudeHost::Anthropic { base_url } => format!("{base_url}/v1/messages"),
            ClaudeHost::Vertex { base_url } => {
                format!("{base_url}/publishers/anthropic/models/{model}:{method}")
            }
        }
    }
}

/// Returns Anthropic's name for the model: without the prefix `anthropic/` or a Vertex AI path.
pub(crate) fn wire_model_name(name: &str) -> &str {
    let name = name.strip_prefix("anthropic/").unwrap_or(name);
    match name.starts_with("projects/") {
        true => name.rsplit('/').next().unwrap_or(name),
        false => name,
    }
}

impl Provider for Messages {
    fn call(&self, request: &LlmRequest, stream: bool) -> Result<Call, ModelError> {
        let model = self.model_of(request);
        // The name may become part of the URL, so it must not be able to change the path.
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@:".contains(c);
        if !model.chars().all(is_allowed) || model.contains("..") {
            return Err(invalid_request(format!(
                "{model:?} is not a valid Claude model name; expected for example \"claude-sonnet-5\""
            )));
        }
        let mut body = request::body(request)?;
        let mut headers = Vec::new();
        match &self.host {
            ClaudeHost::Anthropic { .. } => {
                body.insert("model", model);
                headers.push(("anthropic-version", "2023-06-01".to_owned()));
            }
            ClaudeHost::Vertex { .. } => {
                body.insert("anthropic_version", "vertex-2023-10-16");
            }
        }
        if stream {
            body.insert("stream", true);
        }
        let body = Json::from(body).to_json();
        let body =
            body.map_err(|error| invalid_request(format!("cannot encode the request: {error}")))?;
        Ok(Call {
            url: self.url(model, stream),
            headers,
            body,
        })
    }

    fn read_answer(&self, body: &str) -> Result<LlmResponse, AttemptError> {
        let message = Json::parse(body)
            .map_err(|error| malformed(format!("the response is not valid JSON: {error}")))?;
        if message["type"] == "error" {
            return Err(failure_of(&message["error"], "error").into());
        }
        Ok(answer::read_answer(&message)?)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::new(stream::Reader::default())
    }

    fn failure(&self, status: u16, body: &str) -> Failure {
        match Json::parse(body) {
            // Vertex AI uses Google's error format if the request did not reach Claude.
            Ok(answer) if !answer["error"].is_null() => {
                failure_of(&answer["error"], &status.to_string())
            }
            _ => plain_failure(status, body),
        }
    }

    /// Accepts the codes of <https://platform.claude.com/docs/en/api/errors> and, for Vertex AI,
    /// Google's.
    fn is_transient(&self, code: &str) -> bool {
        matches!(
            code,
            "overloaded_error" | "api_error" | "rate_limit_error" | "timeout_error"
        ) || matches!(code, "UNAVAILABLE" | "INTERNAL" | "RESOURCE_EXHAUSTED")
    }

    fn capabilities(&self) -> ModelCapabilities {
        ModelCapabilities::default()
            // The schema is sent as a tool that Claude must call, so Claude could not call other
            // tools.
            .with_output_schema_and_tools(false)
            .with_pairs_calls_by_id(true)
    }
}

/// Parses an error object: Anthropic sends a `type`, Google a `status`.
fn failure_of(error: &Json, default_code: &str) -> Failure {
    let code = ["type", "status", "code"]
        .iter()
        .find_map(|key| error[*key].as_str());
    let message = match error["message"].as_str() {
        Some(message) => message.to_owned(),
        None => error.to_string(),
    };
    Failure::new(code.unwrap_or(default_code), message)
}

/// Creates the error for a request that Claude does not support.
fn invalid_request(message: impl Into<String>) -> ModelError {
    ModelError::new(message).with_code("InvalidRequest")
}
