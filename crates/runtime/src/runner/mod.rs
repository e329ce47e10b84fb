//! The runner turns a user's message into stored events, with one run at a time per session.
//!
//! `begin` stores the message and takes the session's lease, `drive` runs the agent and stores its
//! events, and the caller reads them from a `stream`.
//!
//! The caller drives the run by asking for events. If it drops the stream, a task of the runner
//! finishes the run, so that the log is complete.

mod after;
mod begin;
mod builder;
mod config;
mod drive;
mod ephemeral;
mod rewind;
mod toolsets;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::FutureExt as _;
use retain_core::{
    ArtifactService, BoxError, Clock, Content, Ids, MemoryError, MemoryService, Session,
    SessionError, SessionKey, SessionLog, SessionOrigin, SessionService, SessionWork, Window,
};
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument as _;

pub(crate) use after::abort::INVOCATION_ABORTED;
pub use builder::RunnerBuilder;
pub use config::{RunConfig, RunRequest, StreamingMode};
pub use drive::stream::{BlockingRun, RunHandle, RunStream};
pub(crate) use ephemeral::EphemeralSessions;

use crate::{
    agents::{Agent, AgentTree},
    compaction::{CompactionError, Compactor},
    error::{Result, RunError},
    plugins::Plugins,
    scheduler::Scheduler,
    telemetry::{self, Telemetry},
};
use after::{AfterRuns, ingest::Ingests};
use begin::{message, session_cache::SessionCache};
use drive::{active_runs::ActiveRuns, leases::Leases, stop::StopSignal};

/// Runs an agent on sessions.
///
/// ```
/// use std::sync::Arc;
/// use retain_runtime::{LlmAgent, Runner, ScriptedModel};
/// # use retain_stores::InMemorySessionService;
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new("scripted").reply("Hello, Ada!");
/// let runner = Runner::builder()
///     .app_name("greetings")
///     .agent(LlmAgent::builder("greeter").model(model).build()?)
///     .session_service(Arc::new(InMemorySessionService::new()))
///     .auto_create_session(true)
///     .build()?;
///
/// let run = runner.run("ada", Some("s1"), "Hi!").await?;
/// assert_eq!(run.answer().await?, "Hello, Ada!");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Runner {
    inner: Arc<Inner>,
}

/// State that all runs of a runner share.
#[derive(Debug)]
struct Inner {
    app_name: String,
    tree: Arc<AgentTree>,
    sessions: Arc<dyn SessionService>,
    /// The log of `sessions`, or an adapter over it.
    log: Arc<dyn SessionLog>,
    memory: Option<Arc<dyn MemoryService>>,
    artifacts: Option<Arc<dyn ArtifactService>>,
    plugins: Plugins,
    compactor: Option<Arc<Compactor>>,
    after_runs: AfterRuns<CompactionError>,
    ingests: Ingests,
    ingests_turns: bool,
    auto_create_session: bool,
    is_resumable: bool,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    session_cache: Arc<SessionCache>,
    leases: Arc<Leases>,
    active_runs: ActiveRuns,
    tool_time_limit: Duration,
    /// The outermost run's scheduler, if these runs are tools of another run.
    host: Option<Arc<Scheduler>>,
    /// The limit for all runs; `None` if each run sets its own.
    max_llm_calls: Option<Option<u32>>,
    telemetry: Telemetry,
}

impl Runner {
    /// Returns a builder for a runner.
    pub fn builder() -> RunnerBuilder {
        RunnerBuilder::default()
    }

    /// Returns the name of the app, whose sessions the runner uses.
    pub fn app_name(&self) -> &str {
        &self.inner.app_name
    }

    /// Returns the root agent.
    pub fn agent(&self) -> &Arc<dyn Agent> {
        self.inner.tree.root()
    }

    /// Returns the session service.
    pub fn session_service(&self) -> &Arc<dyn SessionService> {
        &self.inner.sessions
    }

    /// Returns the memory service, if there is one.
    pub fn memory_service(&self) -> Option<&Arc<dyn MemoryService>> {
        self.inner.memory.as_ref()
    }

    /// Returns the artifact service, if there is one.
    pub fn artifact_service(&self) -> Option<&Arc<dyn ArtifactService>> {
        self.inner.artifacts.as_ref()
    }

    /// Runs the agent on the user's message. Without a session id, creates a session.
    ///
    /// When this returns, the message is stored and the run holds the session's lease, after
    /// waiting for any earlier run. If the caller drops this future while it waits, the log may
    /// still receive the message later, as a run that was cancelled immediately.
    ///
    /// Needs a Tokio runtime with time enabled.
    pub async fn run(
        &self,
        user_id: &str,
        session_id: Option<&str>,
        message: impl Into<Content>,
    ) -> Result<RunStream> {
        let request = RunRequest::new(message);
        self.run_with(user_id, session_id, request).await
    }

    /// Like [`run`](Self::run), with all options.
    pub async fn run_with(
        &self,
        user_id: &str,
        session_id: Option<&str>,
        request: RunRequest,
    ) -> Result<RunStream> {
        if tokio::runtime::Handle::try_current().is_err() {
            let reason = "it needs a Tokio runtime; without one, use run_blocking".to_owned();
            return Err(RunError::BrokenOff { reason });
        }
        let mut request = request;
        request.message = request.message.map(message::check_message).transpose()?;
        if let Some(limit) = self.inner.max_llm_calls {
            request.config.max_llm_calls = limit;
        }
        let key = self.session_key(user_id, session_id).await?;
        let options = &mut request.config.run_options;
        options.check_not_nested(&key)?;
        let stop = StopSignal::child_of(&options.cancel);
        options.cancel = stop.token().clone();
        let (send, events) = mpsc::unbounded_channel();
        let (started_run, began) = oneshot::channel();
        let mut stream = RunStream {
            key: key.clone(),
            handle: RunHandle::new("", stop.clone()),
            events,
            taken: None,
            run: None,
            idle: Arc::default(),
            is_over: false,
        };
        let caller = drive::Caller {
            stop: stop.clone(),
            out: send,
            started_run,
            idle: Arc::clone(&stream.idle),
        };
        let span = telemetry::invocation(&key.id);
        let run = drive::run(Arc::clone(&self.inner), key, request, caller, span.clone());
        let run = run.instrument(span);
        // A panic outside the agent must not reach the caller.
        let run = AssertUnwindSafe(run).catch_unwind();
        stream.run = Some(Box::pin(run.map(drop)));
        // Dropping this future drops the stream, which finishes the run in the background.
        let invocation_id = stream.begin(began).await?;
        stream.idle.begin();
        stream.handle = RunHandle::new(&invocation_id, stop);
        Ok(stream)
    }

    /// Resumes a run that has paused, failed or been interrupted by a crash. It does not repeat
    /// stored work. A run that waits for an answer keeps waiting, and a finished run yields
    /// nothing.
    ///
    /// It executes tool calls that have no result yet, possibly for a second time. The tools of a
    /// resumable runner must therefore be idempotent.
    ///
    /// Needs a runner that is [`resumable`](RunnerBuilder::resumable).
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use retain_runtime::{LlmAgent, Runner, RunError, ScriptedModel, ModelError};
    /// # use retain_stores::InMemorySessionService;
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = ScriptedModel::new("scripted")
    ///     .reply(ModelError::new("out of service"))
    ///     .reply("Here I am again.");
    /// let runner = Runner::builder()
    ///     .app_name("desk")
    ///     .agent(LlmAgent::builder("clerk").model(model).build()?)
    ///     .session_service(Arc::new(InMemorySessionService::new()))
    ///     .auto_create_session(true)
    ///     .resumable(true)
    ///     .build()?;
    ///
    /// let run = runner.run("ada", Some("s1"), "Hello?").await?;
    /// let id = run.invocation_id().to_owned();
    /// assert!(run.answer().await.is_err());
    ///
    /// let run = runner.resume("ada", "s1", &id).await?;
    /// assert_eq!(run.answer().await?, "Here I am again.");
    /// # Ok(()) }
    /// ```
    pub async fn resume(
        &self,
        user_id: &str,
        session_id: &str,
        invocation_id: &str,
    ) -> Result<RunStream> {
        let request = RunRequest::resume(invocation_id);
        self.run_with(user_id, Some(session_id), request).await
    }

    /// Runs the agent for a synchronous caller. The run has its own threads, so this works with and
    /// without a Tokio runtime; inside one it blocks the calling task.
    ///
    /// ```no_run
    /// # fn with(runner: retain_runtime::Runner) -> Result<(), retain_runtime::RunError> {
    /// for event in runner.run_blocking("ada", Some("s1"), "Hi!")? {
    ///     let event = event?;
    ///     println!("{}: {:?}", event.author, event.content());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn run_blocking(
        &self,
        user_id: &str,
        session_id: Option<&str>,
        message: impl Into<Content>,
    ) -> Result<BlockingRun> {
        self.run_blocking_with(user_id, session_id, RunRequest::new(message))
    }

    /// Like [`run_blocking`](Self::run_blocking), with all options.
    pub fn run_blocking_with(
        &self,
        user_id: &str,
        session_id: Option<&str>,
        request: RunRequest,
    ) -> Result<BlockingRun> {
        let runner = self.clone();
        let user_id = user_id.to_owned();
        let session_id = session_id.map(str::to_owned);
        let run = async move {
            let run = runner.run_with(&user_id, session_id.as_deref(), request);
            run.await
        };
        BlockingRun::start(run.in_current_span())
    }

    /// Waits for pending summaries of finished runs, each up to its [time
    /// limit](crate::CompactionConfig::with_time_limit). Returns the sessions whose compaction has
    /// failed since the last call, with the errors, which are also logged when they happen.
    pub async fn flush_compaction(&self) -> Vec<(SessionKey, CompactionError)> {
        self.inner.after_runs.wait_until_idle().await;
        self.inner.after_runs.take_failures()
    }

    /// Waits until the sessions of finished runs are ingested into memory, if the runner [ingests
    /// runs](RunnerBuilder::ingest_after_turns).
    ///
    /// Returns the sessions whose ingestion has failed since the last call, with the errors; each
    /// failure is also logged when it happens. The runner retries them after their next run, or you
    /// add them yourself.
    pub async fn flush_memory(&self) -> Vec<(SessionKey, MemoryError)> {
        let ingests = &self.inner.ingests.after_runs;
        ingests.wait_until_idle().await;
        ingests.take_failures()
    }

    /// Returns the number of runs that hold a lease, including those whose callers have
    /// disconnected.
    pub fn running(&self) -> usize {
        self.inner.leases.count()
    }

    /// Returns the number of unfinished runs, including those that wait for a lease and those whose
    /// callers have disconnected.
    pub fn unfinished(&self) -> usize {
        self.inner.active_runs.count()
    }

    /// Cancels the active runs of a user, because the user is about to be erased.
    pub fn cancel_user(&self, user_id: &str) {
        self.inner.active_runs.cancel_user(user_id);
    }

    /// Drops the cached sessions of a user who was erased.
    pub fn evict_user(&self, user_id: &str) {
        self.inner.session_cache.evict_user(user_id);
    }

    /// Drops the cached sessions that no longer exist, for example because another process has erased
    /// their user.
    pub async fn evict_deleted_sessions(&self) -> Result<()> {
        for (key, incarnation) in self.inner.session_cache.incarnations() {
            if !self.inner.log.session_exists(&key, incarnation).await? {
                self.inner.session_cache.evict(&key);
            }
        }
        Ok(())
    }

    /// Waits for pending summaries and ingestions, closes toolsets and plugins, and flushes the
    /// session service.
    pub async fn close(&self) -> Result<()> {
        self.inner.after_runs.wait_until_idle().await;
        self.inner.ingests.after_runs.wait_until_idle().await;
        toolsets::close(self.agent()).await;
        for plugin in self.inner.plugins.iter() {
            plugin.close().await;
        }
        Ok(self.inner.sessions.flush().await?)
    }

    /// Does the pending work of a session of this app, as after a run. Returns false if a background
    /// task of this runner is doing some of it.
    pub(crate) async fn do_pending_work(&self, pending: &SessionWork) -> Result<bool, BoxError> {
        self.inner.do_pending_work(pending).await
    }

    /// The session log of the runner.
    pub(crate) fn session_log(&self) -> &Arc<dyn SessionLog> {
        &self.inner.log
    }

    async fn session_key(&self, user_id: &str, session_id: Option<&str>) -> Result<SessionKey> {
        let app = &self.inner.app_name;
        if let Some(id) = session_id {
            return Ok(SessionKey::new(app, user_id, id));
        }
        if !self.inner.auto_create_session {
            let reason = "is missing; give one, or build the runner with auto_create_session(true)";
            return Err(SessionError::invalid("session id", reason).into());
        }
        let created = self.inner.sessions.create_session(app, user_id, None, None);
        Ok(created.await?.key())
    }
}

impl Inner {
    /// Returns the memory service for writes on behalf of a session.
    fn memory_for(&self, origin: Option<&SessionOrigin>) -> Option<Arc<dyn MemoryService>> {
        let memory = self.memory.as_ref()?;
        let bound = origin.and_then(|origin| memory.for_session(origin.clone()));
        Some(bound.unwrap_or_else(|| Arc::clone(memory)))
    }

    /// Returns the artifact service for writes on behalf of a session.
    fn artifacts_for(&self, origin: Option<&SessionOrigin>) -> Option<Arc<dyn ArtifactService>> {
        let artifacts = self.artifacts.as_ref()?;
        let bound = origin.and_then(|origin| artifacts.for_session(origin.clone()));
        Some(bound.unwrap_or_else(|| Arc::clone(artifacts)))
    }

    /// Reads the session with the events of `window`.
    async fn read_session(
        &self,
        key: &SessionKey,
        window: Window,
    ) -> Result<Session, SessionError> {
        let read = self.log.read(key, window).await?;
        read.ok_or_else(|| SessionError::NotFound { key: key.clone() })
    }
}

/// Returns the runner's own Tokio runtime: for callers without one, and for work that must continue
/// when the caller's runtime shuts down.
fn own_runtime() -> Result<&'static tokio::runtime::Handle> {
    static RUNTIME: OnceLock<Option<tokio::runtime::Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let builder = builder.enable_all().thread_name("retain-runs");
        builder.worker_threads(2).build().ok()
    });
    let runtime = runtime.as_ref().map(tokio::runtime::Runtime::handle);
    runtime.ok_or_else(|| RunError::BrokenOff {
        reason: "its threads could not be started".to_owned(),
    })
}
