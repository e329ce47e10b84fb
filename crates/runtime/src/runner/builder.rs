//! The builder for a runner.

use std::{sync::Arc, time::Duration};

use retain_core::{
    ArtifactService, Clock, Ids, MemoryService, PlainSessionLog, RandomIds, SessionLog,
    SessionService, SystemClock, budget::ByteBudget,
};

use super::{
    Inner, Runner,
    begin::session_cache::SessionCache,
    drive::{active_runs::ActiveRuns, leases::Leases},
};
use crate::{
    agents::{Agent, AgentTree, IntoAgent},
    compaction::CompactionConfig,
    error::BuildError,
    plugins::{Plugin, Plugins},
    scheduler::Scheduler,
    telemetry::Telemetry,
};

/// Builds a [`Runner`].
#[must_use]
#[derive(Debug)]
pub struct RunnerBuilder {
    app_name: String,
    agent: Option<Arc<dyn Agent>>,
    sessions: Option<Arc<dyn SessionService>>,
    memory: Option<Arc<dyn MemoryService>>,
    artifacts: Option<Arc<dyn ArtifactService>>,
    plugins: Vec<Arc<dyn Plugin>>,
    compaction: Option<CompactionConfig>,
    auto_create_session: bool,
    is_resumable: bool,
    ingests_turns: bool,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    session_cache: usize,
    cached_bytes: usize,
    byte_budget: ByteBudget,
    idle_limit: Duration,
    tool_time_limit: Duration,
    host: Option<Arc<Scheduler>>,
    max_llm_calls: Option<Option<u32>>,
    telemetry: Option<Telemetry>,
}

impl Default for RunnerBuilder {
    fn default() -> RunnerBuilder {
        RunnerBuilder {
            app_name: String::new(),
            agent: None,
            sessions: None,
            memory: None,
            artifacts: None,
            plugins: Vec::new(),
            compaction: None,
            auto_create_session: false,
            is_resumable: false,
            ingests_turns: false,
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            session_cache: 256,
            cached_bytes: 256 * 1024 * 1024,
            byte_budget: ByteBudget::default(),
            idle_limit: Duration::from_secs(600),
            tool_time_limit: Duration::from_secs(600),
            host: None,
            max_llm_calls: None,
            telemetry: None,
        }
    }
}

impl RunnerBuilder {
    /// Sets the name of the app, whose sessions the runner uses.
    pub fn app_name(mut self, name: impl Into<String>) -> Self {
        self.app_name = name.into();
        self
    }

    /// Sets the root agent: the agent itself or an `Arc` of it.
    pub fn agent(mut self, agent: impl IntoAgent) -> Self {
        self.agent = Some(agent.into_agent());
        self
    }

    /// Sets the service that stores the sessions.
    pub fn session_service(mut self, sessions: Arc<dyn SessionService>) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Sets the service that stores the memories.
    pub fn memory_service(mut self, memory: Arc<dyn MemoryService>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Sets the service that stores the artifacts.
    pub fn artifact_service(mut self, artifacts: Arc<dyn ArtifactService>) -> Self {
        self.artifacts = Some(artifacts);
        self
    }

    /// Adds a plugin. The runner calls plugins in the order in which they were added.
    pub fn plugin(mut self, plugin: Arc<dyn Plugin>) -> Self {
        self.plugins.push(plugin);
        self
    }

    /// Summarizes the older events of long sessions as `config` specifies. The log keeps every
    /// event.
    pub fn compaction(mut self, config: CompactionConfig) -> Self {
        self.compaction = Some(config);
        self
    }

    /// Sets whether the runner creates a session that does not exist. By default it does not.
    pub fn auto_create_session(mut self, create: bool) -> Self {
        self.auto_create_session = create;
        self
    }

    /// Sets whether paused or interrupted runs can be resumed. Agents then store checkpoints in the
    /// session, and a run pauses at a pending call until every pending call is answered. ADK calls
    /// this `ResumabilityConfig`.
    ///
    /// Tools then run at least once: a tool that was running when the process died runs again.
    pub fn resumable(mut self, resumable: bool) -> Self {
        self.is_resumable = resumable;
        self
    }

    /// Sets whether the runner ingests the session into memory after each completed run. The run
    /// does not wait for this; [`Runner::flush_memory`] and [`Runner::close`] do. Needs a memory
    /// service. By default the runner does not ingest, and callers add sessions to memory
    /// themselves.
    pub fn ingest_after_turns(mut self, ingest: bool) -> Self {
        self.ingests_turns = ingest;
        self
    }

    /// Sets the clock that timestamps events.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the generator of ids.
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// Sets the limits of the cache that holds sessions between runs: the number of sessions, and
    /// their approximate total size in bytes. By default 256 sessions and 256 MiB.
    pub fn session_cache(mut self, sessions: usize, bytes: usize) -> Self {
        self.session_cache = sessions;
        self.cached_bytes = bytes;
        self
    }

    /// Counts the cached sessions against this budget, which evicts them when other work needs room.
    /// Several runners can share it. By default only the limits of the cache itself apply.
    pub fn byte_budget(mut self, budget: &ByteBudget) -> Self {
        self.byte_budget = budget.clone();
        self
    }

    /// Sets how long a run keeps its lease while its caller does not ask for the next event, or
    /// while a tool blocks its thread. After that, the lease expires and another run may take the
    /// session. The default is 10 minutes.
    pub fn idle_limit(mut self, limit: Duration) -> Self {
        self.idle_limit = limit;
        self
    }

    /// Sets the time limit for a tool call, unless the tool or the run sets its own. On a timeout,
    /// the runner drops the call and reports the timeout to the model.
    ///
    /// The default is 10 minutes: longer than nearly all tools take, and short enough that no tool
    /// blocks a session forever. `Duration::MAX` disables the limit.
    ///
    /// A tool that blocks its thread is not stopped: see [`Tool::run`](crate::Tool::run).
    pub fn tool_time_limit(mut self, limit: Duration) -> Self {
        self.tool_time_limit = limit;
        self
    }

    /// Sets the scheduler of the outermost run, for runs that are tools of another run.
    pub(crate) fn host_scheduler(mut self, host: &Arc<Scheduler>) -> Self {
        self.host = Some(Arc::clone(host));
        self
    }

    /// Sets the maximum number of model calls per run, overriding [`RunConfig`](crate::RunConfig);
    /// `None` means unlimited. With it, a server's operator can bound costs. By default each run
    /// sets its own limit.
    pub fn max_llm_calls(mut self, limit: Option<u32>) -> Self {
        self.max_llm_calls = Some(limit);
        self
    }

    /// Sets where telemetry may record the content of conversations. The default is
    /// [`Telemetry::from_env`], which records none unless the environment enables it.
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = Some(telemetry);
        self
    }

    /// Builds the runner, or returns an error if the configuration is invalid.
    pub fn build(self) -> Result<Runner, BuildError> {
        self.check()?;
        let missing = |reason: &str| BuildError::new("runner", reason);
        let root = self.agent;
        let root = root.ok_or_else(|| missing("has no agent; set one with `agent`"))?;
        let sessions = self
            .sessions
            .ok_or_else(|| missing("has no session service; set one with `session_service`"))?;
        let compaction = self.compaction.map(|config| config.build(&*root));
        let compactor = compaction.transpose()?.map(Arc::new);
        let tree = AgentTree::new(root)?;
        check_models(&tree)?;
        // Without a log each refresh reads the whole session, so caching it saves nothing.
        let (log, cached_sessions) = match Arc::clone(&sessions).log() {
            Some(log) => (log, self.session_cache),
            None => {
                let log = PlainSessionLog::new(Arc::clone(&sessions));
                (Arc::new(log) as Arc<dyn SessionLog>, 0)
            }
        };
        Ok(Runner {
            inner: Arc::new(Inner {
                app_name: self.app_name,
                tree: Arc::new(tree),
                leases: Leases::new(Arc::clone(&log), self.idle_limit),
                active_runs: ActiveRuns::default(),
                sessions,
                log,
                memory: self.memory,
                artifacts: self.artifacts,
                plugins: Plugins::new(self.plugins),
                compactor,
                after_runs: Default::default(),
                ingests: Default::default(),
                ingests_turns: self.ingests_turns,
                auto_create_session: self.auto_create_session,
                is_resumable: self.is_resumable,
                clock: self.clock,
                ids: self.ids,
                session_cache: SessionCache::new(
                    cached_sessions,
                    self.cached_bytes,
                    &self.byte_budget,
                ),
                tool_time_limit: self.tool_time_limit,
                host: self.host,
                max_llm_calls: self.max_llm_calls,
                telemetry: self.telemetry.unwrap_or_else(Telemetry::from_env),
            }),
        })
    }
}

impl RunnerBuilder {
    fn check(&self) -> Result<(), BuildError> {
        if self.app_name.is_empty() {
            let reason = "has no app name; set one with `app_name`";
            return Err(BuildError::new("runner", reason));
        }
        if self.ingests_turns && self.memory.is_none() {
            let reason = "ingests runs but has no memory; set one with `memory_service`";
            return Err(BuildError::new("runner", reason));
        }
        if let Some((twin, _)) = duplicate_plugin(&self.plugins) {
            let reason = "occurs twice; give each plugin a unique name";
            return Err(BuildError::new(format!("plugin {twin:?}"), reason));
        }
        Ok(())
    }
}

/// Checks that every LLM agent has a model or inherits one from an ancestor.
fn check_models(tree: &AgentTree) -> Result<(), BuildError> {
    let has_model = |agent: &Arc<dyn Agent>| {
        let agent = agent.as_llm_agent();
        agent.is_some_and(|agent| agent.model().is_some())
    };
    let lacks_model = |agent: &&Arc<dyn Agent>| {
        agent.as_llm_agent().is_some()
            && !has_model(agent)
            && !tree.ancestors(agent.name()).any(has_model)
    };
    match tree.agents().find(lacks_model) {
        Some(agent) => Err(BuildError::new(
            format!("agent {:?}", agent.name()),
            "has no model; give it one with `model`, for example \"offline\"",
        )),
        None => Ok(()),
    }
}

fn duplicate_plugin(plugins: &[Arc<dyn Plugin>]) -> Option<(&str, usize)> {
    let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name()).collect();
    let twin = |(at, name): &(usize, &str)| names[..*at].contains(name);
    let duplicate = names.iter().copied().enumerate().find(twin);
    duplicate.map(|(at, name)| (name, at))
}
