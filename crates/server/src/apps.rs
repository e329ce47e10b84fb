//! The apps: named agents, each with one runner.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt as _, future::join_all};
use retain_core::{SessionKey, budget::ByteBudget};
use retain_runtime::{
    Agent, AgentsDir, BuildError, ConfigError, ConfigRegistry, FindRunner as _, IntoAgent, Plugin,
    Runner, Telemetry, error_kind,
};
use tokio::time::{sleep, timeout};

use crate::{
    adk::Dev,
    guard::Runs,
    services::{Server, Services},
};

/// The error of an app that cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The app does not exist.
    #[error("app {app:?} not found; available apps: {known}")]
    NotFound {
        /// The requested app.
        app: String,
        /// The existing apps.
        known: String,
    },
    /// The app's configuration is invalid. The error names the file to correct.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The app's agent is invalid.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Loading the app, or listing the apps, was interrupted. Try again.
    #[error("{} failed to load: {reason}", load_subject(.app))]
    BrokenOff {
        /// The requested app; empty for the list.
        app: String,
        /// The cause.
        reason: String,
    },
}

/// Names what failed to load: an app, or the list of apps if the name is empty.
fn load_subject(app: &str) -> String {
    match app {
        "" => "the list of apps".to_owned(),
        app => format!("app {app:?}"),
    }
}

/// The served apps: agents from a folder and agents built in code.
pub struct Apps {
    services: Services,
    dir: Option<AgentsDir>,
    /// The agents built in code.
    agents: BTreeMap<String, Arc<dyn Agent>>,
    plugins: Vec<Arc<dyn Plugin>>,
    telemetry: Telemetry,
    ingests_turns: bool,
    reloads: bool,
    creates_sessions: bool,
    runs: Runs,
    default_app: Option<String>,
    dev: Option<Dev>,
    /// The only app of `dir` to serve: set if the configured folder is an app and not a folder of
    /// apps.
    only: Option<String>,
    is_resumable: bool,
    max_llm_calls: Option<Option<u32>>,
    /// The budget of the sessions that all runners cache together.
    cached_sessions: ByteBudget,
    runners: Mutex<Runners>,
}

/// The runners of all apps.
#[derive(Debug, Default)]
struct Runners {
    by_app: BTreeMap<String, Runner>,
    /// Runners of earlier versions of reloaded apps. Their runs continue, and a request that
    /// already has such a runner may still start a run.
    replaced: Vec<Runner>,
}

/// Timeout for ingestion and for closing toolsets at shutdown, so that an unresponsive store does
/// not keep the process alive.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of replaced runners. Beyond it, idle ones are dropped.
const REPLACED_MAX: usize = 16;

impl Runners {
    /// Replaces a runner. The old one is kept at least until it is idle.
    fn replace(&mut self, app: &str, runner: Runner) {
        self.replaced
            .extend(self.by_app.insert(app.to_owned(), runner));
        let mut spare = self.replaced.len().saturating_sub(REPLACED_MAX);
        self.replaced.retain(|runner| {
            let is_dropped = spare > 0 && is_idle(runner);
            spare -= usize::from(is_dropped);
            !is_dropped
        });
    }

    fn all(&self) -> Vec<Runner> {
        let all = self.by_app.values().chain(&self.replaced);
        all.cloned().collect()
    }
}

/// Whether a runner has no active run, compaction or ingestion.
fn is_idle(runner: &Runner) -> bool {
    runner.unfinished() == 0
        && runner.flush_compaction().now_or_never().is_some()
        && runner.flush_memory().now_or_never().is_some()
}

async fn close(runner: &Runner) {
    if let Err(error) = runner.close().await {
        let (app, kind) = (runner.app_name(), error_kind(&error));
        tracing::error!(app, kind, "failed to close a runner");
        tracing::debug!(error = ?error.to_string(), "failed to close a runner");
    }
}

impl fmt::Debug for Apps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Apps");
        shown.field("dir", &self.dir).field("agents", &self.agents);
        shown.finish_non_exhaustive()
    }
}

impl Apps {
    /// Creates an empty set of apps on these services.
    pub fn new(services: Services) -> Apps {
        Apps {
            services,
            dir: None,
            agents: BTreeMap::new(),
            plugins: Vec::new(),
            telemetry: Telemetry::from_env(),
            ingests_turns: false,
            reloads: false,
            creates_sessions: false,
            runs: Runs::default(),
            default_app: None,
            dev: None,
            only: None,
            is_resumable: false,
            max_llm_calls: None,
            cached_sessions: ByteBudget::default(),
            runners: Mutex::default(),
        }
    }

    /// Adds the agents of a folder.
    pub fn with_dir(mut self, dir: AgentsDir) -> Apps {
        self.dir = Some(dir);
        self
    }

    /// Adds the agents of the folder at `path`. A folder with its own `root_agent.yaml` is the only
    /// app, and requests need not name it.
    pub fn with_agents_at(self, path: &Path, registry: ConfigRegistry) -> Result<Apps, AppError> {
        if !path.join("root_agent.yaml").is_file() {
            return Ok(self.with_dir(AgentsDir::open(path, registry)?));
        }
        // Resolve `.`, which has no file name.
        let folder = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = folder.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default().to_owned();
        let parent = folder.parent().unwrap_or(&folder);
        let mut apps = self.with_dir(AgentsDir::open(parent, registry)?);
        apps.only = Some(name.clone());
        apps.default_app.get_or_insert(name);
        Ok(apps)
    }

    /// Serves `agent`, built in code, as `app`.
    pub fn with_agent(mut self, app: impl Into<String>, agent: impl IntoAgent) -> Apps {
        self.agents.insert(app.into(), agent.into_agent());
        self
    }

    /// Adds a plugin for all runs.
    pub fn with_plugin(mut self, plugin: Arc<dyn Plugin>) -> Apps {
        self.plugins.push(plugin);
        self
    }

    /// Sets where message content may be recorded. Defaults to the environment, see
    /// [`Telemetry::from_env`].
    pub fn with_telemetry(mut self, telemetry: Telemetry) -> Apps {
        self.telemetry.content_in_spans = telemetry.content_in_spans;
        self.telemetry.content_in_process |= telemetry.content_in_process;
        self
    }

    /// Adds the developer tools: the web UI, graphs of agents and traces of runs. Traces need
    /// [their layer](crate::Traces::layer) in the program's `tracing` subscriber.
    pub fn with_dev(mut self, dev: Dev) -> Apps {
        self.telemetry.content_in_process = true;
        self.dev = Some(dev);
        self
    }

    pub(crate) fn dev_settings(&self) -> Option<&Dev> {
        self.dev.as_ref()
    }

    /// Returns the folder of an app, if it has one.
    pub(crate) fn folder_of(&self, app: &str) -> Option<PathBuf> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let dir = self.dir.as_ref()?;
        let is_name = !app.is_empty() && app.chars().all(is_word);
        let is_served = self.only.as_ref().is_none_or(|only| only == app);
        let is_of_folder = is_name && is_served && !self.agents.contains_key(app);
        is_of_folder.then(|| dir.root().join(app))
    }

    /// Sets whether the events of each run are ingested into memory when it ends.
    pub fn with_ingest_after_turns(mut self, ingest: bool) -> Apps {
        self.ingests_turns = ingest;
        self
    }

    /// Sets whether an app is reloaded on its next use after its files changed.
    pub fn with_reload_agents(mut self, reload: bool) -> Apps {
        self.reloads = reload;
        self
    }

    /// Sets whether a run creates a missing session.
    pub fn with_auto_create_session(mut self, create: bool) -> Apps {
        self.creates_sessions = create;
        self
    }

    /// Sets whether runs are resumable: a request that names a run continues it. Runs then store
    /// checkpoints as events that clients see.
    pub fn with_resumable(mut self, resumable: bool) -> Apps {
        self.is_resumable = resumable;
        self
    }

    /// Sets the maximum number of model calls per run; unlimited if `None`. Defaults to that of
    /// [`RunConfig`](retain_runtime::RunConfig).
    pub fn with_max_llm_calls(mut self, limit: Option<u32>) -> Apps {
        self.max_llm_calls = Some(limit);
        self
    }

    /// Limits the sessions that the runners of all apps cache together to a quarter of `budget`.
    /// They count against it, and requests evict them.
    pub fn with_byte_budget(mut self, budget: &ByteBudget) -> Apps {
        self.cached_sessions = budget.part(budget.limit().unwrap_or_default() / 4);
        self
    }

    /// Limits the number of concurrent runs.
    pub fn with_runs(mut self, runs: Runs) -> Apps {
        self.runs = runs;
        self
    }

    /// Returns the active runs. Call [`Runs::admit`] before starting one.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Waits up to `patience` until the interruptions of runs are stored, and then up to a minute
    /// until ingestion has ended and toolsets are closed.
    pub async fn close(&self, patience: Duration) {
        let runners = self.runners().all();
        let recorded = async {
            while runners.iter().any(|runner| runner.unfinished() > 0) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(patience, recorded).await.is_err() {
            tracing::warn!("timed out storing runs as interrupted; their leases will expire");
        }
        let closed = join_all(runners.iter().map(close));
        if timeout(CLOSE_TIMEOUT, closed).await.is_err() {
            tracing::warn!("timed out ingesting events and closing toolsets");
        }
    }

    /// Sets the default app, for requests that name none, such as paths that start with `/users/`.
    pub fn with_default_app(mut self, app: impl Into<String>) -> Apps {
        self.default_app = Some(app.into());
        self
    }

    /// Returns the default app.
    pub fn default_app(&self) -> Option<&str> {
        self.default_app.as_deref()
    }

    /// Returns the sorted names of all apps. Reads the folder.
    pub fn names(&self) -> Result<Vec<String>, AppError> {
        let mut names: Vec<String> = self.agents.keys().cloned().collect();
        if let Some(dir) = &self.dir {
            let is_served = |app: &String| self.only.as_ref().is_none_or(|only| only == app);
            names.extend(dir.apps()?.into_iter().filter(is_served));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Returns the runner of an app. Reads files on first use and on reload.
    pub fn runner(&self, app: &str) -> Result<Runner, AppError> {
        if let Some(runner) = self.ready_runner(app) {
            return Ok(runner);
        }
        let agent = self.agent_of(app)?;
        if let Some(runner) = self.runner_for(&self.runners(), app, &agent) {
            return Ok(runner);
        }
        let runner = self.make_runner(app, Arc::clone(&agent))?;
        Ok(self.store_runner(app, &agent, runner))
    }

    /// Stores a new runner unless another request stored one first, and returns the stored one.
    fn store_runner(&self, app: &str, agent: &Arc<dyn Agent>, new: Runner) -> Runner {
        let mut runners = self.runners();
        if let Some(runner) = self.runner_for(&runners, app, agent) {
            return runner;
        }
        runners.replace(app, new.clone());
        new
    }

    /// Returns the existing runner of an app if it runs this agent. Without reloading, the agent
    /// never changes.
    fn runner_for(&self, runners: &Runners, app: &str, agent: &Arc<dyn Agent>) -> Option<Runner> {
        let runner = runners.by_app.get(app)?;
        let is_current = !self.reloads || Arc::ptr_eq(runner.agent(), agent);
        is_current.then(|| runner.clone())
    }

    /// Deletes the recorded traces of a deleted session.
    pub(crate) fn delete_traces_of_session(&self, session: &SessionKey) {
        if let Some(dev) = &self.dev {
            dev.traces().delete_session(session);
        }
    }

    /// Cancels the active runs of a user of an app. Runs on other servers end at their next append.
    pub(crate) fn cancel_runs_of_user(&self, app: &str, user: &str) {
        for runner in self.runners_of(app) {
            runner.cancel_user(user);
        }
    }

    /// Drops the cached sessions and recorded traces of an erased user.
    pub(crate) fn evict_user(&self, app: &str, user: &str) {
        for runner in self.runners_of(app) {
            runner.evict_user(user);
        }
        if let Some(dev) = &self.dev {
            dev.traces().delete_user(app, user);
        }
    }

    /// Drops the cached sessions that no longer exist, for example because another server has erased
    /// their user.
    pub async fn evict_deleted_sessions(&self) {
        let runners = self.runners().all();
        for runner in runners {
            runner.evict_deleted().await;
        }
    }

    fn runners_of(&self, app: &str) -> Vec<Runner> {
        let mut runners = self.runners().all();
        runners.retain(|runner| runner.app_name() == app);
        runners
    }

    /// Returns the runner of an app; `None` if files must be read first.
    fn ready_runner(&self, app: &str) -> Option<Runner> {
        let reads = self.reloads && !self.agents.contains_key(app);
        match reads {
            true => None,
            false => self.runners().by_app.get(app).cloned(),
        }
    }

    fn agent_of(&self, app: &str) -> Result<Arc<dyn Agent>, AppError> {
        if let Some(agent) = self.agents.get(app) {
            return Ok(Arc::clone(agent));
        }
        let known = self.names()?;
        let Some(dir) = self
            .dir
            .as_ref()
            .filter(|_| known.iter().any(|name| name == app))
        else {
            return Err(AppError::NotFound {
                app: app.to_owned(),
                known: known.join(", "),
            });
        };
        Ok(match self.reloads {
            true => dir.reload(app)?.agent,
            false => dir.load(app)?,
        })
    }

    fn make_runner(&self, app: &str, agent: Arc<dyn Agent>) -> Result<Runner, AppError> {
        let services = &self.services;
        let mut builder = Runner::builder()
            .app_name(app)
            .agent(agent)
            .session_service(services.session_service())
            .memory_service(Arc::clone(&services.memory))
            .artifact_service(Arc::clone(&services.artifacts))
            .ingest_after_turns(self.ingests_turns)
            .auto_create_session(self.creates_sessions)
            .resumable(self.is_resumable)
            .byte_budget(&self.cached_sessions)
            .telemetry(self.telemetry);
        if let Some(limit) = self.max_llm_calls {
            builder = builder.max_llm_calls(limit);
        }
        for plugin in &self.plugins {
            builder = builder.plugin(Arc::clone(plugin));
        }
        Ok(builder.build()?)
    }

    fn runners(&self) -> MutexGuard<'_, Runners> {
        self.runners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Returns the runner of an app. Files are read on a blocking thread.
    pub(crate) async fn runner(self: &Arc<Self>, app: &str) -> Result<Runner, AppError> {
        if let Some(runner) = self.apps.ready_runner(app) {
            return Ok(runner);
        }
        let (server, name) = (Arc::clone(self), app.to_owned());
        let read = tokio::task::spawn_blocking(move || server.apps.runner(&name));
        read.await
            .unwrap_or_else(|error| Err(task_error(app, &error)))
    }

    /// Returns the sorted names of all apps.
    pub(crate) async fn app_names(self: &Arc<Self>) -> Result<Vec<String>, AppError> {
        let server = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || server.apps.names());
        read.await
            .unwrap_or_else(|error| Err(task_error("", &error)))
    }
}

fn task_error(app: &str, error: &tokio::task::JoinError) -> AppError {
    AppError::BrokenOff {
        app: app.to_owned(),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use retain_memory::InMemoryMemoryService;
    use retain_runtime::{LlmAgent, OfflineModel};
    use retain_stores::{InMemoryArtifactService, InMemorySessionService};

    use super::*;

    fn apps() -> Apps {
        let agent = LlmAgent::builder("clerk").model(OfflineModel::new());
        let services = Services {
            sessions: Arc::new(InMemorySessionService::new()),
            memory: Arc::new(InMemoryMemoryService::new()),
            long_term_memory: None,
            artifacts: Arc::new(InMemoryArtifactService::new()),
            quotas: Default::default(),
        };
        Apps::new(services).with_agent("desk", agent.build().unwrap())
    }

    #[test]
    fn concurrent_first_requests_share_one_runner() {
        let apps = apps();
        let agent = apps.agent_of("desk").unwrap();
        // Two requests found no runner, and each created one.
        let make = |_| apps.make_runner("desk", Arc::clone(&agent)).unwrap();
        for runner in [1, 2].map(make) {
            apps.store_runner("desk", &agent, runner);
        }
        assert_eq!(apps.runners().all().len(), 1);
    }

    #[test]
    fn number_of_replaced_runners_is_limited() {
        let apps = apps();
        let agent = apps.agent_of("desk").unwrap();
        for count in 1..=2 * REPLACED_MAX {
            let runner = apps.make_runner("desk", Arc::clone(&agent)).unwrap();
            apps.runners().replace("desk", runner);
            let kept = apps.runners().all().len();
            assert_eq!(kept, count.min(REPLACED_MAX + 1));
        }
    }
}
