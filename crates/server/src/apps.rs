//! The apps: agents by name, each with one runner.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt as _, future::join_all};
use retain_core::SessionKey;
use retain_runtime::{
    Agent, AgentsDir, BuildError, ConfigError, ConfigRegistry, Plugin, Runner, Telemetry,
    error_kind,
};
use tokio::time::{sleep, timeout};

use crate::{
    adk::Dev,
    guard::Runs,
    services::{Server, Services},
};

/// Why an app is unavailable, by what a caller can do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The app does not exist. Ask for the list.
    #[error("app {app:?} not found; available apps: {known}")]
    NotFound {
        /// The requested app.
        app: String,
        /// The existing apps.
        known: String,
    },
    /// Its configuration is invalid. Correct the named file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its agent is invalid.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Reading it was interrupted. Try again.
    #[error("app {app:?} failed to load: {reason}")]
    BrokenOff {
        /// The requested app; empty for the list.
        app: String,
        /// The cause.
        reason: String,
    },
}

/// The served apps: those of a folder and those of the program.
pub struct Apps {
    services: Services,
    dir: Option<AgentsDir>,
    given: BTreeMap<String, Arc<dyn Agent>>,
    plugins: Vec<Arc<dyn Plugin>>,
    telemetry: Telemetry,
    ingests_turns: bool,
    reloads: bool,
    creates_sessions: bool,
    runs: Runs,
    default_app: Option<String>,
    dev: Option<Dev>,
    /// The only app to serve, if the given folder is itself an app; its sibling folders are ignored.
    only: Option<String>,
    is_resumable: bool,
    max_llm_calls: Option<Option<u32>>,
    runners: Mutex<Runners>,
}

/// The runners.
#[derive(Debug, Default)]
struct Runners {
    by_app: BTreeMap<String, Runner>,
    /// Runners whose app was reloaded. Their runs continue, and a request may be about to start
    /// one.
    replaced: Vec<Runner>,
}

/// Timeout for ingestion and for closing toolsets at shutdown. An unresponsive store must not keep
/// the process alive.
const CLOSING: Duration = Duration::from_secs(60);

/// Maximum number of idle replaced runners.
const REPLACED_KEPT: usize = 16;

impl Runners {
    /// Replace a runner. The old one is kept while it is busy.
    fn replace(&mut self, app: &str, runner: Runner) {
        self.replaced
            .extend(self.by_app.insert(app.to_owned(), runner));
        let mut spare = self.replaced.len().saturating_sub(REPLACED_KEPT);
        self.replaced.retain(|runner| {
            let goes = spare > 0 && is_idle(runner);
            spare -= usize::from(goes);
            !goes
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
        shown.field("dir", &self.dir).field("given", &self.given);
        shown.finish_non_exhaustive()
    }
}

impl Apps {
    /// Create an empty set of apps on these services.
    pub fn new(services: Services) -> Apps {
        Apps {
            services,
            dir: None,
            given: BTreeMap::new(),
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
            runners: Mutex::default(),
        }
    }

    /// Add the agents of a folder.
    pub fn with_dir(mut self, dir: AgentsDir) -> Apps {
        self.dir = Some(dir);
        self
    }

    /// Add the agents of the folder at `path`. A folder with its own `root_agent.yaml` is the only
    /// app, and requests need not name it.
    pub fn with_agents_at(self, path: &Path, registry: ConfigRegistry) -> Result<Apps, AppError> {
        if !path.join("root_agent.yaml").is_file() {
            return Ok(self.with_dir(AgentsDir::open(path, registry)?));
        }
        // `.` has a name too.
        let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = whole.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default().to_owned();
        let folder = whole.parent().unwrap_or(&whole);
        let mut apps = self.with_dir(AgentsDir::open(folder, registry)?);
        apps.only = Some(name.clone());
        apps.default_app.get_or_insert(name);
        Ok(apps)
    }

    /// Serve `agent`, built in code, as `app`.
    pub fn with_agent(mut self, app: impl Into<String>, agent: Arc<dyn Agent>) -> Apps {
        self.given.insert(app.into(), agent);
        self
    }

    /// Add a plugin for all runs.
    pub fn with_plugin(mut self, plugin: Arc<dyn Plugin>) -> Apps {
        self.plugins.push(plugin);
        self
    }

    /// Set where message content may be recorded. Defaults to the environment, see
    /// [`Telemetry::from_env`].
    pub fn with_telemetry(mut self, telemetry: Telemetry) -> Apps {
        self.telemetry.content_in_spans = telemetry.content_in_spans;
        self.telemetry.content_in_process |= telemetry.content_in_process;
        self
    }

    /// Add the developer tools: the web UI, graphs of agents and traces of runs. Traces need [their
    /// layer](crate::Traces::layer) in the program's `tracing` subscriber.
    pub fn with_dev(mut self, dev: Dev) -> Apps {
        self.telemetry.content_in_process = true;
        self.dev = Some(dev);
        self
    }

    pub(crate) fn dev_settings(&self) -> Option<&Dev> {
        self.dev.as_ref()
    }

    /// The folder of an app, if it has one.
    pub(crate) fn folder_of(&self, app: &str) -> Option<PathBuf> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let dir = self.dir.as_ref()?;
        let is_name = !app.is_empty() && app.chars().all(is_word);
        let is_served = self.only.as_ref().is_none_or(|only| only == app);
        let is_of_folder = is_name && is_served && !self.given.contains_key(app);
        is_of_folder.then(|| dir.root().join(app))
    }

    /// Set whether each run is ingested into memory.
    pub fn with_ingest_after_turns(mut self, ingest: bool) -> Apps {
        self.ingests_turns = ingest;
        self
    }

    /// Set whether changed files are reloaded when an app is used.
    pub fn with_reload_agents(mut self, reload: bool) -> Apps {
        self.reloads = reload;
        self
    }

    /// Set whether a run creates a missing session.
    pub fn with_auto_create_session(mut self, create: bool) -> Apps {
        self.creates_sessions = create;
        self
    }

    /// Set whether runs are resumable: a request that names a run continues it. Runs then store
    /// checkpoints as events that clients see.
    pub fn with_resumable(mut self, resumable: bool) -> Apps {
        self.is_resumable = resumable;
        self
    }

    /// Set the maximum number of model calls per run; unlimited if `None`. Defaults to that of
    /// [`RunConfig`](retain_runtime::RunConfig).
    pub fn with_max_llm_calls(mut self, limit: Option<u32>) -> Apps {
        self.max_llm_calls = Some(limit);
        self
    }

    /// Limit the number of concurrent runs.
    pub fn with_runs(mut self, runs: Runs) -> Apps {
        self.runs = runs;
        self
    }

    /// The active runs. Call [`Runs::admit`] before starting one.
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Wait up to `patience` until runs without a client are stored as interrupted, and up to a
    /// minute for ingestion.
    pub async fn close(&self, patience: Duration) {
        let runners = self.runners().all();
        let sealed = async {
            while runners.iter().any(|runner| runner.unfinished() > 0) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(patience, sealed).await.is_err() {
            tracing::warn!("failed to record a run as interrupted in time; its lease will expire");
        }
        let closed = join_all(runners.iter().map(close));
        if timeout(CLOSING, closed).await.is_err() {
            tracing::warn!("runners did not close in time");
        }
    }

    /// Set the default app: paths that start with `/users/` belong to it.
    pub fn with_default_app(mut self, app: impl Into<String>) -> Apps {
        self.default_app = Some(app.into());
        self
    }

    /// The default app.
    pub fn default_app(&self) -> Option<&str> {
        self.default_app.as_deref()
    }

    /// The sorted names of all apps. Reads the folder.
    pub fn names(&self) -> Result<Vec<String>, AppError> {
        let mut names: Vec<String> = self.given.keys().cloned().collect();
        if let Some(dir) = &self.dir {
            let is_served = |app: &String| self.only.as_ref().is_none_or(|only| only == app);
            names.extend(dir.apps()?.into_iter().filter(is_served));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The runner of an app. Reads files on first use and on reload.
    pub fn runner(&self, app: &str) -> Result<Runner, AppError> {
        if let Some(runner) = self.ready_runner(app) {
            return Ok(runner);
        }
        let agent = self.agent_of(app)?;
        if let Some(runner) = self.runner_for(&self.runners(), app, &agent) {
            return Ok(runner);
        }
        let made = self.make_runner(app, Arc::clone(&agent))?;
        Ok(self.adopt(app, &agent, made))
    }

    /// Store a new runner, unless another request stored one first; return the stored one.
    fn adopt(&self, app: &str, agent: &Arc<dyn Agent>, made: Runner) -> Runner {
        let mut runners = self.runners();
        if let Some(runner) = self.runner_for(&runners, app, agent) {
            return runner;
        }
        runners.replace(app, made.clone());
        made
    }

    /// The existing runner, if it fits this agent; without reloading, any fits.
    fn runner_for(&self, runners: &Runners, app: &str, agent: &Arc<dyn Agent>) -> Option<Runner> {
        let runner = runners.by_app.get(app)?;
        let is_good = !self.reloads || Arc::ptr_eq(runner.agent(), agent);
        is_good.then(|| runner.clone())
    }

    /// Drop the cached state of a deleted session.
    pub(crate) fn forget_session(&self, session: &SessionKey) {
        if let Some(dev) = &self.dev {
            dev.traces().forget_session(session);
        }
    }

    /// Drop the cached state of an erased user.
    pub(crate) fn forget_user(&self, app: &str, user: &str) {
        if let Some(dev) = &self.dev {
            dev.traces().forget_user(app, user);
        }
    }

    /// The runner of an app, if no file must be read.
    fn ready_runner(&self, app: &str) -> Option<Runner> {
        let reads = self.reloads && !self.given.contains_key(app);
        match reads {
            true => None,
            false => self.runners().by_app.get(app).cloned(),
        }
    }

    fn agent_of(&self, app: &str) -> Result<Arc<dyn Agent>, AppError> {
        if let Some(agent) = self.given.get(app) {
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
    /// The runner of an app. Files are read off the executor.
    pub(crate) async fn runner(self: &Arc<Self>, app: &str) -> Result<Runner, AppError> {
        if let Some(runner) = self.apps.ready_runner(app) {
            return Ok(runner);
        }
        let (server, name) = (Arc::clone(self), app.to_owned());
        let read = tokio::task::spawn_blocking(move || server.apps.runner(&name));
        read.await
            .unwrap_or_else(|error| Err(task_error(app, &error)))
    }

    /// The sorted names of all apps.
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
        };
        Apps::new(services).with_agent("desk", Arc::new(agent.build().unwrap()))
    }

    #[test]
    fn concurrent_first_requests_share_one_runner() {
        let apps = apps();
        let agent = apps.agent_of("desk").unwrap();
        // Both found none, and each created one.
        let make = |_| apps.make_runner("desk", Arc::clone(&agent)).unwrap();
        for made in [1, 2].map(make) {
            apps.adopt("desk", &agent, made);
        }
        assert_eq!(apps.runners().all().len(), 1);
    }

    #[test]
    fn number_of_replaced_runners_is_limited() {
        let apps = apps();
        let agent = apps.agent_of("desk").unwrap();
        for made in 1..=2 * REPLACED_KEPT {
            let runner = apps.make_runner("desk", Arc::clone(&agent)).unwrap();
            apps.runners().replace("desk", runner);
            let kept = apps.runners().all().len();
            assert_eq!(kept, made.min(REPLACED_KEPT + 1));
        }
    }
}
