//! The interface of a provider: a pure translation to and from its wire format, without I/O.

use std::{fmt, time::Duration};

use retain_core::{Content, LlmResponse};
use retain_runtime::{LlmRequest, ModelCapabilities, ModelError, SharedContent};

use crate::http::{AttemptError, Call, SseEvent};

/// Translates requests and responses for one provider.
pub(crate) trait Provider: fmt::Debug + Send + Sync + 'static {
    /// Builds the HTTP call for a request, without the API key.
    fn call(&self, request: &LlmRequest, stream: bool) -> Result<Call, ModelError>;

    /// Parses the body of a successful unstreamed response. Some providers report errors in such
    /// bodies.
    fn read_answer(&self, body: &str) -> Result<LlmResponse, AttemptError>;

    /// Creates a reader for a streamed response.
    fn reader(&self) -> Box<dyn StreamReader>;

    /// Parses the body of an unsuccessful response.
    fn failure(&self, status: u16, body: &str) -> Failure;

    /// Whether an error code in a response body means a transient error. Called only while a retry
    /// is possible, that is, before the caller has received any part of the response.
    fn is_transient(&self, _code: &str) -> bool {
        false
    }

    /// Returns the optional capabilities of the model.
    fn capabilities(&self) -> ModelCapabilities;
}

/// Reads a streamed response, event by event.
pub(crate) trait StreamReader: Send {
    /// Parses an event and returns the chunks that it completes. An error ends the stream.
    fn push(&mut self, event: &SseEvent) -> Result<Vec<LlmResponse>, AttemptError>;

    /// Ends the stream: returns the complete response, or an error if it was truncated.
    fn finish(&mut self) -> Result<Vec<LlmResponse>, AttemptError>;

    /// Whether the provider has signaled the end of the response. Data after it is not read.
    fn is_done(&self) -> bool {
        false
    }
}

/// A failure that the provider reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The provider's own code, e.g. `RESOURCE_EXHAUSTED`.
    pub(crate) code: String,
    /// The provider's own message.
    pub(crate) message: String,
    /// The retry delay, if the body states one. A `Retry-After` header takes precedence.
    pub(crate) retry_after: Option<Duration>,
    /// Whether the error is permanent even if its HTTP status is usually transient, for example an
    /// exhausted quota.
    pub(crate) is_final: bool,
}

impl Failure {
    /// Creates a failure whose status alone decides whether it is retried.
    pub(crate) fn new(code: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure {
            code: code.into(),
            message: message.into(),
            retry_after: None,
            is_final: false,
        }
    }
}

impl From<Failure> for ModelError {
    fn from(failure: Failure) -> ModelError {
        ModelError::new(failure.message).with_code(failure.code)
    }
}

/// Returns the request's contents. If the last one is not from the user, adds one of ADK's prompts,
/// because models answer only a user.
pub(crate) fn contents_to_send(request: &LlmRequest) -> Vec<SharedContent> {
    let mut contents = request.contents.clone();
    let prompt = match contents.last() {
        None => "Handle the requests as specified in the System Instruction.",
        Some(last) if last.role.as_deref() != Some("user") => {
            "Continue processing previous requests as instructed. Exit or provide a summary if no \
             more outputs are needed."
        }
        Some(_) => return contents,
    };
    contents.push(Content::user(prompt).into());
    contents
}

/// Creates a failure from a body that is not in the provider's format, such as the error page of a
/// proxy.
pub(crate) fn plain_failure(status: u16, body: &str) -> Failure {
    const SHOWN: usize = 500;
    let body = body.trim();
    let shown: String = body.chars().take(SHOWN).collect();
    let message = match shown.is_empty() {
        true => format!("the provider returned HTTP status {status}"),
        false => shown,
    };
    Failure::new(status.to_string(), message)
}
