//! The errors of a run, by what a caller can do next.

use retain_core::{ArtifactError, BoxError, MemoryError, SessionError};

use crate::{plugins::panic_text, template::TemplateError};

/// The result of a run, or of building an agent or a runner.
pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// Why a run failed. Events stored before the failure stay. The failure itself is stored as an
/// event of the agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The session could not be read or written; see the cause for what to do.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The message is invalid. Correct it. Nothing was stored, unless the message confirms a tool
    /// call: the agent checks a confirmation after the message is stored.
    #[error("invalid message: {reason}")]
    InvalidMessage {
        /// What is wrong with it.
        reason: String,
    },
    /// The request resumes a run, but the runner is not resumable. Nothing was stored. Build the
    /// runner with `resumable(true)`.
    #[error("cannot resume run {invocation_id:?}: build the runner with resumable(true)")]
    NotResumable {
        /// The run.
        invocation_id: String,
    },
    /// The run has reached its limit of model calls. Raise `max_llm_calls`, or look for a loop.
    #[error("the run reached its limit of {limit} model calls (see RunConfig::max_llm_calls)")]
    LlmCallsLimitExceeded {
        /// The limit.
        limit: u32,
    },
    /// The model failed, and no callback answered in its place.
    #[error("model {model} failed: {source}")]
    Model {
        /// The model's name.
        model: String,
        /// Why.
        source: ModelError,
    },
    /// The tool failed, and no callback answered in its place.
    #[error("tool {tool} failed: {source}")]
    Tool {
        /// The tool's name.
        tool: String,
        /// Why.
        source: ToolError,
    },
    /// A callback of an agent failed.
    #[error("{callback} callback of agent {agent} failed: {source}")]
    Callback {
        /// The agent.
        agent: String,
        /// The kind of callback, e.g. `before_model`.
        callback: &'static str,
        /// Why.
        source: BoxError,
    },
    /// A plugin failed.
    #[error("plugin {plugin} failed in {hook}: {source}")]
    Plugin {
        /// The plugin.
        plugin: String,
        /// The hook, e.g. `before_run`.
        hook: &'static str,
        /// Why.
        source: BoxError,
    },
    /// An instruction template names a value that does not exist.
    #[error("cannot render the instruction of agent {agent}: {source}")]
    Template {
        /// The agent.
        agent: String,
        /// The placeholder, and what is missing.
        source: TemplateError,
    },
    /// The agent's answer does not match its output schema.
    #[error("the answer of agent {agent} does not fit its output schema: {source}")]
    Output {
        /// The agent.
        agent: String,
        /// What does not match.
        source: BoxError,
    },
    /// A custom agent failed.
    #[error("agent {agent} failed: {source}")]
    Agent {
        /// The agent.
        agent: String,
        /// Why.
        source: BoxError,
    },
    /// The memory service failed, or there is none.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The run was interrupted for a reason outside the agent.
    #[error("the run was interrupted: {reason}")]
    BrokenOff {
        /// What happened.
        reason: String,
    },
    /// The run was cancelled before it was done.
    #[error("the run was cancelled")]
    Cancelled,
}

impl RunError {
    /// Returns the error code of the stored failure: ADK's name, if ADK has one.
    pub fn code(&self) -> &str {
        match self {
            RunError::Session(SessionError::NotFound { .. }) => "SessionNotFoundError",
            RunError::Session(_) => "SessionError",
            RunError::InvalidMessage { .. } | RunError::NotResumable { .. } => "ValueError",
            RunError::LlmCallsLimitExceeded { .. } => "LlmCallsLimitExceededError",
            RunError::Model { source, .. } => source.code.as_deref().unwrap_or("ModelError"),
            RunError::Tool { source, .. } => source.code.as_deref().unwrap_or("ToolError"),
            RunError::Callback { .. } => "CallbackError",
            RunError::Plugin { .. } => "RuntimeError",
            RunError::Template { source, .. } => template_code(source),
            RunError::Output { .. } => "ValidationError",
            RunError::Agent { .. } => "AgentError",
            RunError::Memory(_) => "MemoryError",
            RunError::BrokenOff { .. } => "RuntimeError",
            RunError::Cancelled => "CancelledError",
        }
    }

    /// Creates the error for an agent that panicked.
    pub(crate) fn panicked(agent: &str, panic: &(dyn std::any::Any + Send)) -> RunError {
        RunError::Agent {
            agent: agent.to_owned(),
            source: format!("panicked: {}", panic_text(panic)).into(),
        }
    }

    /// Returns the message of the underlying error, without the name of the model, tool or agent.
    /// As in ADK, the failure's event stores this message.
    pub fn cause(&self) -> String {
        match self {
            RunError::Model { source, .. } => source.to_string(),
            RunError::Tool { source, .. } => source.to_string(),
            RunError::Callback { source, .. }
            | RunError::Plugin { source, .. }
            | RunError::Output { source, .. }
            | RunError::Agent { source, .. } => source.to_string(),
            error => error.to_string(),
        }
    }
}

/// Returns the kind of an error: the first identifier of its `Debug` output. Logs record the kind
/// instead of the message, because they must not contain users' names or texts.
pub fn error_kind(error: &(impl std::fmt::Debug + ?Sized)) -> String {
    let written = format!("{error:?}");
    let name = written.split(|c: char| !c.is_ascii_alphanumeric()).next();
    // The `Debug` output of a plain text begins with a quotation mark.
    let name = name.filter(|name| !name.is_empty());
    name.unwrap_or("error").to_owned()
}

/// Why a model call failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The provider's own code, e.g. `RESOURCE_EXHAUSTED`.
    pub code: Option<String>,
    /// What happened. Never holds an API key.
    pub message: String,
    /// The underlying cause, if there is one.
    #[source]
    pub source: Option<BoxError>,
}

impl ModelError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> ModelError {
        ModelError {
            code: None,
            message: message.into(),
            source: None,
        }
    }

    /// Adds the provider's code.
    pub fn with_code(mut self, code: impl Into<String>) -> ModelError {
        self.code = Some(code.into());
        self
    }

    /// Adds the cause.
    pub fn with_source(mut self, source: impl Into<BoxError>) -> ModelError {
        self.source = Some(source.into());
        self
    }
}

/// Why a tool call failed. To report a problem to the model instead, return a result with an
/// `error` field.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// A short code, if there is one.
    pub code: Option<String>,
    /// What happened.
    pub message: String,
    /// The underlying cause, if there is one.
    #[source]
    pub source: Option<BoxError>,
}

impl ToolError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> ToolError {
        ToolError {
            code: None,
            message: message.into(),
            source: None,
        }
    }

    /// Adds a code.
    pub fn with_code(mut self, code: impl Into<String>) -> ToolError {
        self.code = Some(code.into());
        self
    }
}

impl From<BoxError> for ToolError {
    fn from(source: BoxError) -> ToolError {
        ToolError {
            code: None,
            message: source.to_string(),
            source: Some(source),
        }
    }
}

impl From<ArtifactError> for ToolError {
    fn from(source: ArtifactError) -> ToolError {
        ToolError::from(BoxError::from(source))
    }
}

impl From<MemoryError> for ToolError {
    fn from(source: MemoryError) -> ToolError {
        ToolError::from(BoxError::from(source))
    }
}

/// The configuration of an agent or a runner is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what}: {reason}")]
pub struct BuildError {
    /// What is invalid, e.g. `agent name "1st"`.
    pub what: String,
    /// Why, and what to do instead.
    pub reason: String,
}

impl BuildError {
    /// Creates an error about `what`, with its `reason`.
    pub fn new(what: impl Into<String>, reason: impl Into<String>) -> BuildError {
        BuildError {
            what: what.into(),
            reason: reason.into(),
        }
    }
}

/// ADK's names for template errors.
fn template_code(error: &TemplateError) -> &'static str {
    match error {
        TemplateError::NoArtifactService { .. } => "ValueError",
        TemplateError::UnreadableArtifact { .. } => "InputValidationError",
        _ => "KeyError",
    }
}
