//! The configuration of one run.

use std::time::Duration;

use retain_core::{Content, GetSessionConfig, JsonMap, RunOptions, StateDelta};

/// Whether answers are streamed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamingMode {
    /// Complete answers only.
    #[default]
    None,
    /// Chunks as they arrive, then the complete answer.
    Sse,
}

/// The configuration of a run.
///
/// ```
/// use retain_runtime::RunConfig;
/// let config = RunConfig::streaming().with_max_llm_calls(Some(20));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunConfig {
    /// Whether answers are streamed.
    pub streaming_mode: StreamingMode,
    /// The maximum number of model calls in the run; unlimited if `None`.
    pub max_llm_calls: Option<u32>,
    /// Which events of the session the run loads; all if `None`.
    pub get_session_config: Option<GetSessionConfig>,
    /// Metadata that the run adds to each of its events.
    pub custom_metadata: JsonMap,
    /// Labels for every model call.
    pub labels: JsonMap,
    /// Contents that the model sees before the user's message, in this run only.
    pub model_input_context: Vec<Content>,
    /// Whether agents see the thoughts of other agents.
    pub include_thoughts_from_other_agents: bool,
    /// The time limit for a tool call. `None` uses the limit of the runner. A tool may set its own.
    pub tool_time_limit: Option<Duration>,
    /// How long the run waits for another run of the session, what cancels it, and which runs it is
    /// nested in. Cancelling [`RunOptions::cancel`] stops the run as [`RunHandle::cancel`] does.
    ///
    /// [`RunHandle::cancel`]: crate::RunHandle::cancel
    pub run_options: RunOptions,
}

impl Default for RunConfig {
    fn default() -> RunConfig {
        RunConfig {
            streaming_mode: StreamingMode::None,
            max_llm_calls: Some(500),
            get_session_config: None,
            custom_metadata: JsonMap::default(),
            labels: JsonMap::default(),
            model_input_context: Vec::new(),
            include_thoughts_from_other_agents: false,
            tool_time_limit: None,
            run_options: RunOptions::default(),
        }
    }
}

impl RunConfig {
    /// Creates the default configuration with streamed answers.
    pub fn streaming() -> RunConfig {
        RunConfig {
            streaming_mode: StreamingMode::Sse,
            ..RunConfig::default()
        }
    }

    /// Sets whether answers are streamed.
    pub fn with_streaming_mode(mut self, mode: StreamingMode) -> RunConfig {
        self.streaming_mode = mode;
        self
    }

    /// Sets the maximum number of model calls; unlimited if `None`.
    pub fn with_max_llm_calls(mut self, limit: Option<u32>) -> RunConfig {
        self.max_llm_calls = limit;
        self
    }

    /// Sets which events of the session the run loads.
    pub fn with_get_session_config(mut self, config: GetSessionConfig) -> RunConfig {
        self.get_session_config = Some(config);
        self
    }

    /// Sets the metadata that the run adds to each of its events.
    pub fn with_custom_metadata(mut self, metadata: JsonMap) -> RunConfig {
        self.custom_metadata = metadata;
        self
    }

    /// Sets labels for every model call.
    pub fn with_labels(mut self, labels: JsonMap) -> RunConfig {
        self.labels = labels;
        self
    }

    /// Sets contents that the model sees before the user's message, in this run only.
    pub fn with_model_input_context(mut self, contents: Vec<Content>) -> RunConfig {
        self.model_input_context = contents;
        self
    }

    /// Sets whether agents see the thoughts of other agents.
    pub fn with_thoughts_from_other_agents(mut self, include: bool) -> RunConfig {
        self.include_thoughts_from_other_agents = include;
        self
    }

    /// Sets the time limit for a tool call.
    pub fn with_tool_time_limit(mut self, limit: Duration) -> RunConfig {
        self.tool_time_limit = Some(limit);
        self
    }

    /// Sets how long the run waits for another run, and what cancels it.
    pub fn with_run_options(mut self, options: RunOptions) -> RunConfig {
        self.run_options = options;
        self
    }
}

/// A message with the configuration of its run, or a run to resume.
///
/// ```
/// use retain_runtime::{RunConfig, RunRequest};
/// let request = RunRequest::new("Hello!")
///     .with_state_delta([("user:name", "Ada")].into())
///     .with_config(RunConfig::streaming());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunRequest {
    /// The user's message; `None` to resume a run without one.
    pub message: Option<Content>,
    /// The run to resume, or the id for a new run. Without it, a new run gets a generated id, and a
    /// function response continues the run that made the call.
    pub invocation_id: Option<String>,
    /// State changes that are stored with the message.
    pub state_delta: StateDelta,
    /// The configuration of the run.
    pub config: RunConfig,
    /// Whether the stream yields the stored message as its first event.
    pub yield_user_message: bool,
}

impl RunRequest {
    /// Creates a request that starts a run with this message.
    pub fn new(message: impl Into<Content>) -> RunRequest {
        RunRequest {
            message: Some(message.into()),
            invocation_id: None,
            state_delta: StateDelta::default(),
            config: RunConfig::default(),
            yield_user_message: false,
        }
    }

    /// Creates a request to resume a run after a pause, a failure or a crash, as
    /// [`Runner::resume`](crate::Runner::resume) does.
    pub fn resume(invocation_id: impl Into<String>) -> RunRequest {
        RunRequest {
            message: None,
            invocation_id: Some(invocation_id.into()),
            ..RunRequest::new("")
        }
    }

    /// Sets the run's id. If a run with this id has started with the same message, it is resumed,
    /// so that a client can retry the request.
    pub fn with_invocation_id(mut self, id: impl Into<String>) -> RunRequest {
        self.invocation_id = Some(id.into());
        self
    }

    /// Sets the state changes that are stored with the message.
    pub fn with_state_delta(mut self, delta: StateDelta) -> RunRequest {
        self.state_delta = delta;
        self
    }

    /// Sets the configuration.
    pub fn with_config(mut self, config: RunConfig) -> RunRequest {
        self.config = config;
        self
    }

    /// Sets how long the run waits for another run, and what cancels it. A tool, callback or plugin
    /// that starts a run passes its context's [`run_options`](crate::ReadonlyContext::run_options).
    pub fn with_run_options(mut self, options: RunOptions) -> RunRequest {
        self.config.run_options = options;
        self
    }

    /// Yields the stored message as the first event of the stream.
    pub fn yield_user_message(mut self) -> RunRequest {
        self.yield_user_message = true;
        self
    }
}
