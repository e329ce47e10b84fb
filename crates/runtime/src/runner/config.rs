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
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// Whether answers are streamed.
    pub streaming_mode: StreamingMode,
    /// The maximum number of model calls of a run; unlimited if `None`.
    pub max_llm_calls: Option<u32>,
    /// Which events of the session the run loads; all if `None`.
    pub get_session_config: Option<GetSessionConfig>,
    /// Metadata that the run adds to each of its events.
    pub custom_metadata: JsonMap,
    /// Labels of every model call.
    pub labels: JsonMap,
    /// Contents that the model sees before the user's message, in this run only.
    pub model_input_context: Vec<Content>,
    /// Whether agents see the thoughts of other agents.
    pub include_thoughts_from_other_agents: bool,
    /// The time limit of one tool call; the runner's if `None`. A tool may set its own limit.
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
    /// Streams answers.
    pub fn streaming() -> RunConfig {
        RunConfig {
            streaming_mode: StreamingMode::Sse,
            ..RunConfig::default()
        }
    }
}

/// A message with the configuration of its run, or a run to resume.
///
/// ```
/// use retain_runtime::{RunConfig, RunRequest};
/// let request = RunRequest::new("Hello!")
///     .state_delta([("user:name", "Ada")].into())
///     .config(RunConfig::streaming());
/// ```
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The user's message; `None` to resume a run without one.
    pub message: Option<Content>,
    /// The run to resume, or the id of a new run. Without it a new run gets a generated id, and a
    /// function response continues the run of its call.
    pub invocation_id: Option<String>,
    /// State changes that are stored with the message.
    pub state_delta: StateDelta,
    /// The configuration of the run.
    pub config: RunConfig,
    /// Whether the stream yields the stored message as its first event.
    pub yield_user_message: bool,
}

impl RunRequest {
    /// Starts a run with this message.
    pub fn new(message: impl Into<Content>) -> RunRequest {
        RunRequest {
            message: Some(message.into()),
            invocation_id: None,
            state_delta: StateDelta::default(),
            config: RunConfig::default(),
            yield_user_message: false,
        }
    }

    /// Resumes a run that has paused, failed or been interrupted by a crash, as
    /// [`Runner::resume`](crate::Runner::resume) does.
    pub fn resume(invocation_id: impl Into<String>) -> RunRequest {
        RunRequest {
            message: None,
            invocation_id: Some(invocation_id.into()),
            ..RunRequest::new("")
        }
    }

    /// Sets the id of the run. If a run with this id has begun with the same message, it is
    /// resumed, so that a client can retry the request.
    pub fn invocation_id(mut self, id: impl Into<String>) -> RunRequest {
        self.invocation_id = Some(id.into());
        self
    }

    /// Adds state changes.
    pub fn state_delta(mut self, delta: StateDelta) -> RunRequest {
        self.state_delta = delta;
        self
    }

    /// Sets the configuration.
    pub fn config(mut self, config: RunConfig) -> RunRequest {
        self.config = config;
        self
    }

    /// Sets the options of the wait for the lease. A tool, callback or plugin that starts a run
    /// passes the [`run_options`](crate::ReadonlyContext::run_options) of its context.
    pub fn run_options(mut self, options: RunOptions) -> RunRequest {
        self.config.run_options = options;
        self
    }

    /// Yields the stored message as the first event of the stream.
    pub fn yielding_user_message(mut self) -> RunRequest {
        self.yield_user_message = true;
        self
    }
}
