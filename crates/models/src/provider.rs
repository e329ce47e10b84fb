//! One provider's wire form: a pure translation without network and clock.

use std::{fmt, time::Duration};

use retain_core::{Content, LlmResponse};
use retain_runtime::{LlmRequest, ModelCapabilities, ModelError, SharedContent};

use crate::http::{Call, SseEvent, Trouble};

/// How one provider is spoken to.
pub(crate) trait Provider: fmt::Debug + Send + Sync + 'static {
    /// The HTTP call for a request. It does not contain the API key.
    fn call(&self, request: &LlmRequest, stream: bool) -> Result<Call, ModelError>;

    /// Reads an answer that came whole. A provider may also say in it that it has failed.
    fn whole(&self, body: &str) -> Result<LlmResponse, Trouble>;

    /// Reads a streamed answer.
    fn reader(&self) -> Box<dyn StreamReader>;

    /// What a failed call says, in the provider's own words.
    fn failure(&self, status: u16, body: &str) -> Failure;

    /// Whether an error of this code, told where an answer should be, may be gone with the next
    /// attempt. Asked only as long as nothing of the answer was handed on.
    fn may_pass(&self, _code: &str) -> bool {
        false
    }

    /// What the model can do that others cannot.
    fn capabilities(&self) -> ModelCapabilities;
}

/// Reads one streamed answer, event by event.
pub(crate) trait StreamReader: Send {
    /// Merges an event; returns the pieces to pass on. An error ends the stream.
    fn push(&mut self, event: &SseEvent) -> Result<Vec<LlmResponse>, Trouble>;

    /// The stream is over: gives the whole answer, or an error if it was cut off.
    fn finish(&mut self) -> Result<Vec<LlmResponse>, Trouble>;

    /// Whether the provider has said that nothing follows. What comes later is not waited for.
    fn is_done(&self) -> bool {
        false
    }
}

/// What a provider says of a call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The provider's own code, e.g. `RESOURCE_EXHAUSTED`.
    pub(crate) code: String,
    /// The provider's own words.
    pub(crate) message: String,
    /// When to try again, where the body says so. A `Retry-After` header counts before it.
    pub(crate) retry_after: Option<Duration>,
    /// Whether trying again cannot help, whatever the status: a quota that is used up, say.
    pub(crate) is_final: bool,
}

impl Failure {
    /// A failure that the status alone decides about.
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

/// The contents to send: the last word is the user's, as models answer nothing otherwise.
pub(crate) fn contents_of(request: &LlmRequest) -> Vec<SharedContent> {
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

/// A refusal that is not in the provider's own form: a proxy's page, say.
pub(crate) fn plain_failure(status: u16, body: &str) -> Failure {
    const SHOWN: usize = 500;
    let body = body.trim();
    let shown: String = body.chars().take(SHOWN).collect();
    let message = match shown.is_empty() {
        true => format!("the provider answered with status {status}"),
        false => shown,
    };
    Failure::new(status.to_string(), message)
}
