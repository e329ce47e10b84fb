//! How one run is to go.

use std::time::Duration;

use retain_core::{Content, GetSessionConfig, JsonMap, RunOptions, StateDelta};

/// Whether answers come in pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StreamingMode {
    /// Whole answers only.
    #[default]
    None,
    /// Pieces as they come, then the whole answer.
    Sse,
}

/// How a run is to go.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// Whether answers come in pieces.
    pub streaming_mode: StreamingMode,
    /// How many model calls a run may make; any number if `None`.
    pub max_llm_calls: Option<u32>,
    /// Which events of the session are loaded; all if `None`.
    pub get_session_config: Option<GetSessionConfig>,
    /// Notes that go into every event of the run.
    pub custom_metadata: JsonMap,
    /// Labels for every model call.
    pub labels: JsonMap,
    /// Contents that the model sees before the user's message, in this run alone.
    pub model_input_context: Vec<Content>,
    /// Whether agents see what other agents thought.
    pub include_thoughts_from_other_agents: bool,
    /// How long one call of a tool may take; as long as the runner says if `None`. A tool may have
    /// a limit of its own.
    pub tool_time_limit: Option<Duration>,
    /// How the run waits for another run of the session, what cancels it, and which runs it is part
    /// of. Cancelling [`RunOptions::cancel`] stops the run as [`RunHandle::cancel`] does.
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
    /// With answers in pieces.
    pub fn streaming() -> RunConfig {
        RunConfig {
            streaming_mode: StreamingMode::Sse,
            ..RunConfig::default()
        }
    }
}

/// A message, and how to run on it; or a run that is to be taken up again.
///
/// ```
/// use retain_runtime::{RunConfig, RunRequest};
/// let request = RunRequest::new("Hello!")
///     .state_delta([("user:name", "Ada")].into())
///     .config(RunConfig::streaming());
/// ```
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// What the user says; nothing if a run is only taken up again.
    pub message: Option<Content>,
    /// The run that is taken up again, or the id of the one that begins. Without it a run gets an id,
    /// and an answer to a call goes on with the run of the call.
    pub invocation_id: Option<String>,
    /// Changes of state that are stored with the message.
    pub state_delta: StateDelta,
    /// How to run.
    pub config: RunConfig,
    /// Whether the stored message is the first event of the stream.
    pub yield_user_message: bool,
}

impl RunRequest {
    /// Runs on this message.
    pub fn new(message: impl Into<Content>) -> RunRequest {
        RunRequest {
            message: Some(message.into()),
            invocation_id: None,
            state_delta: StateDelta::default(),
            config: RunConfig::default(),
            yield_user_message: false,
        }
    }

    /// Goes on with a run that has paused, failed or was cut off by a crash, as
    /// [`Runner::resume`](crate::Runner::resume) does.
    pub fn resume(invocation_id: impl Into<String>) -> RunRequest {
        RunRequest {
            message: None,
            invocation_id: Some(invocation_id.into()),
            ..RunRequest::new("")
        }
    }

    /// Under this id. If a run of this id has begun with the same message, it is taken up again, so
    /// that a request can be repeated.
    pub fn invocation_id(mut self, id: impl Into<String>) -> RunRequest {
        self.invocation_id = Some(id.into());
        self
    }

    /// With changes of state.
    pub fn state_delta(mut self, delta: StateDelta) -> RunRequest {
        self.state_delta = delta;
        self
    }

    /// With a configuration.
    pub fn config(mut self, config: RunConfig) -> RunRequest {
        self.config = config;
        self
    }

    /// With options for the wait. A tool, callback or plugin that starts a run passes the
    /// [`run_options`](crate::ReadonlyContext::run_options) of its context.
    pub fn run_options(mut self, options: RunOptions) -> RunRequest {
        self.config.run_options = options;
        self
    }

    /// With the stored message as the first event of the stream.
    pub fn yielding_user_message(mut self) -> RunRequest {
        self.yield_user_message = true;
        self
    }
}
