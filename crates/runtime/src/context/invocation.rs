//! `InvocationContext`: everything a running agent has at hand.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use retain_core::{
    ArtifactService, Clock, Content, Event, Events, Ids, Limits, MemoryService, RunOptions,
    SessionKey, Shaped, SharedSession,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    agents::{Agent, AgentTree, OutputKeeper},
    compaction::Compactor,
    contents::ContentsCache,
    context::{CallbackContext, Checkpoints, EventWatch, NodePaths, ReadonlyContext},
    error::{Result, RunError},
    plugins::Plugins,
    runner::RunConfig,
    scheduler::Scheduler,
    telemetry::Telemetry,
    tools::Recalled,
};

/// An event on its way from an agent to the runner, which stores it and hands it on.
pub(crate) struct Emitted {
    pub(crate) event: Box<Event>,
    /// Whether the agent knows that nothing follows.
    pub(crate) last: bool,
    /// Whether it only lies over other events: it is stored as it is, and not handed on.
    pub(crate) is_overlay: bool,
    /// Answered when the event is stored and was taken by the caller of the run.
    pub(crate) done: oneshot::Sender<Result<Box<Event>>>,
}

/// What all agents of one run share.
pub(crate) struct Invocation {
    pub(crate) id: String,
    pub(crate) key: SessionKey,
    pub(crate) session: SharedSession,
    pub(crate) user_content: Content,
    pub(crate) run_config: RunConfig,
    pub(crate) telemetry: Telemetry,
    /// What may be stored.
    pub(crate) limits: Option<Limits>,
    /// How long a tool may take that has no limit of its own.
    pub(crate) tool_time_limit: Duration,
    pub(crate) memory: Option<Arc<dyn MemoryService>>,
    /// What sums up a history that grows too long.
    pub(crate) compactor: Option<Arc<Compactor>>,
    pub(crate) artifacts: Option<Arc<dyn ArtifactService>>,
    pub(crate) plugins: Plugins,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) tree: Arc<AgentTree>,
    /// Whether the root asks a model: then its agents hand over one after the other, and events say
    /// where they were made.
    pub(crate) is_conversation: bool,
    pub(crate) paths: NodePaths,
    /// Whether agents note how far they are.
    pub(crate) is_resumable: bool,
    /// How far they are.
    pub(crate) checkpoints: Checkpoints,
    /// Takes events in their order of arrival.
    pub(crate) emitter: mpsc::UnboundedSender<Emitted>,
    pub(crate) scheduler: Arc<Scheduler>,
    /// The scheduler of the outermost run, if this run is a tool of another.
    pub(crate) host: Option<Arc<Scheduler>>,
    pub(crate) llm_calls: AtomicU32,
    /// Contents that were assembled before, by agent.
    pub(crate) contents: Mutex<HashMap<String, ContentsCache>>,
    /// What memory gave for the user's message: searched once, used on every step.
    pub(crate) recalled: tokio::sync::OnceCell<Recalled>,
    /// The agent that failed, innermost first to say so.
    pub(crate) failed: Mutex<Option<InvocationContext>>,
    /// Agents whose body runs, outermost first: their after-callbacks are still owed.
    pub(crate) entered: Mutex<Vec<InvocationContext>>,
}

impl Invocation {
    /// The scheduler of the outermost run: its tasks begin at the bottom of the stack.
    pub(crate) fn outermost_scheduler(&self) -> &Arc<Scheduler> {
        self.host.as_ref().unwrap_or(&self.scheduler)
    }

    /// Waits for a store while the other agents of the run pause, so that the log does not depend on
    /// how fast the store answers.
    pub(crate) async fn store_call<F: Future>(&self, call: F) -> F::Output {
        let call = self.scheduler.store_call(call);
        match &self.host {
            Some(host) => host.store_call(call).await,
            None => call.await,
        }
    }
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation")
            .field("id", &self.id)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// One agent's view of the run it is part of. Cloning shares it.
#[derive(Debug, Clone)]
pub struct InvocationContext {
    pub(crate) shared: Arc<Invocation>,
    pub(crate) agent: Arc<dyn Agent>,
    branch: Option<Arc<str>>,
    ended: Arc<AtomicBool>,
    /// Where in the tree this is, in runs that say so.
    node_path: Option<Arc<str>>,
    /// Whether the runner itself runs this agent, and not another agent.
    is_top: bool,
    /// Who it was handed over to, for the runner to go on with.
    handed_to: Arc<Mutex<Option<Arc<dyn Agent>>>>,
    /// Those above who want to know of events, innermost first.
    watches: Option<Arc<Watches>>,
    /// Those who handed over to it and wait for it to end, innermost first.
    handed_over: Option<Arc<HandedOver>>,
}

/// An agent that handed over inside of others. As in ADK, what is said under its name by those that
/// it waits for counts as its own words.
#[derive(Debug)]
struct HandedOver {
    agent: Arc<dyn Agent>,
    output: Mutex<OutputKeeper>,
    above: Option<Arc<HandedOver>>,
}

#[derive(Debug)]
struct Watches {
    watch: EventWatch,
    above: Option<Arc<Watches>>,
}

impl InvocationContext {
    /// For an agent that the runner itself runs. `path` is where it was before, if it goes on.
    pub(crate) fn new(
        shared: Arc<Invocation>,
        agent: Arc<dyn Agent>,
        branch: Option<&str>,
        path: Option<String>,
    ) -> InvocationContext {
        let enter = || shared.paths.enter(&shared.tree, agent.name());
        let path = shared.is_conversation.then(|| path.unwrap_or_else(enter));
        InvocationContext {
            shared,
            agent,
            branch: branch.map(Arc::from),
            ended: Arc::default(),
            node_path: path.map(Arc::from),
            is_top: true,
            handed_to: Arc::default(),
            watches: None,
            handed_over: None,
        }
    }

    /// Runs an agent as part of this one's work: its callbacks, then its body.
    pub async fn run_agent(&self, agent: &Arc<dyn Agent>) -> Result<()> {
        let ctx = InvocationContext {
            agent: Arc::clone(agent),
            ended: Arc::default(),
            is_top: false,
            handed_to: Arc::default(),
            ..self.clone()
        };
        // Agents run agents to any depth, so each gets its own stack.
        let run = async move { crate::agents::run_agent(&ctx).await };
        self.shared.scheduler.run(run).await?
    }

    /// The same, for those to whom this agent hands over and for whom it waits.
    pub(crate) fn waiting_with(&self, output: OutputKeeper) -> InvocationContext {
        let handed_over = HandedOver {
            agent: Arc::clone(&self.agent),
            output: Mutex::new(output),
            above: self.handed_over.clone(),
        };
        InvocationContext {
            handed_over: Some(Arc::new(handed_over)),
            ..self.clone()
        }
    }

    /// Puts what an event says under the output keys of those who wait for it under its name.
    fn stamp_for_waiting(&self, event: &mut Event) -> Result<()> {
        let mut waiting = self.handed_over.as_ref();
        while let Some(one) = waiting {
            if let Some(agent) = one
                .agent
                .as_llm_agent()
                .filter(|_| one.agent.name() == event.author)
            {
                let mut output = one.output.lock().unwrap_or_else(PoisonError::into_inner);
                agent.keep_output(&mut output, event)?;
            }
            waiting = one.above.as_ref();
        }
        Ok(())
    }

    /// The same, with somebody who wants to know of the events.
    pub(crate) fn watched(&self, watch: &EventWatch) -> InvocationContext {
        let watches = Watches {
            watch: watch.clone(),
            above: self.watches.clone(),
        };
        InvocationContext {
            watches: Some(Arc::new(watches)),
            ..self.clone()
        }
    }

    /// The same, on a branch below this one.
    pub(crate) fn on_branch(&self, name: &str) -> InvocationContext {
        let branch = match &self.branch {
            Some(above) => format!("{above}.{name}"),
            None => name.to_owned(),
        };
        InvocationContext {
            branch: Some(branch.into()),
            ..self.clone()
        }
    }

    /// Where in the tree this is, in runs that say so.
    pub(crate) fn node_path(&self) -> Option<&str> {
        self.node_path.as_deref()
    }

    /// Whether the runner itself runs this agent.
    pub(crate) fn is_top(&self) -> bool {
        self.is_top
    }

    /// Lets the runner go on with another agent when this one ends.
    pub(crate) fn hand_over(&self, agent: Arc<dyn Agent>) {
        let mut handed_to = self
            .handed_to
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *handed_to = Some(agent);
    }

    /// Who this agent has handed over to. Asked once.
    pub(crate) fn take_handed_to(&self) -> Option<Arc<dyn Agent>> {
        let mut handed_to = self
            .handed_to
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        handed_to.take()
    }

    /// Whether this agent has handed over.
    pub(crate) fn has_handed_over(&self) -> bool {
        let handed_to = self
            .handed_to
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        handed_to.is_some()
    }

    /// The id of the run.
    pub fn invocation_id(&self) -> &str {
        &self.shared.id
    }

    /// The agent that runs.
    pub fn agent_name(&self) -> &str {
        self.agent.name()
    }

    /// Whether this is the agent that the runner was built with.
    pub fn is_root(&self) -> bool {
        Arc::ptr_eq(&self.agent, self.shared.tree.root())
    }

    /// The address of the session.
    pub fn session_key(&self) -> &SessionKey {
        &self.shared.key
    }

    /// The live session. Changing it stores nothing; emit an event for that.
    pub fn session(&self) -> &SharedSession {
        &self.shared.session
    }

    /// The events of the session as they are now. Cheap.
    pub fn events(&self) -> Events {
        self.shared.session.update(|session| session.events.clone())
    }

    /// What the user said to start the run.
    pub fn user_content(&self) -> &Content {
        &self.shared.user_content
    }

    /// How the run is to go.
    pub fn run_config(&self) -> &RunConfig {
        &self.shared.run_config
    }

    /// The options for a run or a rewind that this run starts: it is cancelled with this run, and
    /// fails at once where it would wait for this run to end.
    pub fn run_options(&self) -> RunOptions {
        self.shared.run_config.run_options.clone()
    }

    /// Which of parallel agents this is, as `parent.child`.
    pub fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// Ends the run of this agent: nothing follows what it is doing.
    pub fn end_invocation(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether this agent was told to end.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// An event of this agent in this run, with nothing in it yet. It gets its id when it is emitted.
    pub fn new_event(&self) -> Event {
        Event {
            invocation_id: self.shared.id.clone(),
            author: self.agent.name().to_owned(),
            branch: self.branch.as_deref().map(str::to_owned),
            timestamp: self.shared.clock.now(),
            ..Event::default()
        }
    }

    /// Stores an event and hands it to the caller of the run. Returns when the caller has taken it,
    /// with the event as stored. A partial event is handed on and not stored.
    ///
    /// Author, invocation, branch, id and time are filled in where they are missing.
    pub async fn emit(&self, event: Event) -> Result<Event> {
        Ok(*self.send(Box::new(event), false).await?)
    }

    /// As [`emit`](Self::emit); `last` says that this run writes nothing more after it.
    pub(crate) async fn send(&self, mut event: Box<Event>, last: bool) -> Result<Box<Event>> {
        self.complete(&mut event);
        self.stamp_for_waiting(&mut event)?;
        let (done, stored) = oneshot::channel();
        let emitted = Emitted {
            event,
            last,
            is_overlay: false,
            done,
        };
        self.submit(emitted, stored).await
    }

    /// Stores a summary as part of the run. The caller of the run is not shown it.
    pub(crate) async fn store_overlay(&self, event: Event) -> Result<()> {
        let (done, stored) = oneshot::channel();
        let emitted = Emitted {
            event: Box::new(event),
            last: false,
            is_overlay: true,
            done,
        };
        self.submit(emitted, stored).await?;
        Ok(())
    }

    async fn submit(
        &self,
        emitted: Emitted,
        stored: oneshot::Receiver<Result<Box<Event>>>,
    ) -> Result<Box<Event>> {
        // The runner hangs up when the run was cancelled.
        let sent = self.shared.emitter.send(emitted);
        sent.map_err(|_| RunError::Cancelled)?;
        let stored = stored.await.map_err(|_| RunError::Cancelled)??;
        let mut is_ended = false;
        self.each_watch(|watch| is_ended |= watch.note(&stored));
        if is_ended {
            // Whoever runs it drops it; until then it does nothing more.
            return std::future::pending().await;
        }
        Ok(stored)
    }

    /// Tells everybody above who wants to know.
    pub(super) fn each_watch(&self, mut tell: impl FnMut(&EventWatch)) {
        let mut watches = self.watches.as_ref();
        while let Some(above) = watches {
            tell(&above.watch);
            watches = above.above.as_ref();
        }
    }

    /// Fills in what an event of this agent lacks.
    pub(crate) fn complete(&self, event: &mut Event) {
        let shared = &self.shared;
        if event.author.is_empty() {
            event.author = self.agent.name().to_owned();
        }
        event.invocation_id.clone_from(&shared.id);
        if event.branch.is_none() {
            event.branch = self.branch.as_deref().map(str::to_owned);
        }
        if event.id.is_empty() {
            event.id = shared.ids.new_id();
        }
        if event.timestamp == 0.0 {
            event.timestamp = shared.clock.now();
        }
        if event.node_info.is_none()
            && let Some(path) = &self.node_path
        {
            let path = retain_core::JsonMap::from([("path", &**path)]);
            event.node_info = Some(Shaped::new(path));
        }
    }

    /// Counts a model call.
    pub(crate) fn count_llm_call(&self) -> Result<()> {
        let made = self.shared.llm_calls.fetch_add(1, Ordering::Relaxed);
        match self.shared.run_config.max_llm_calls {
            Some(limit) if made >= limit => Err(RunError::LlmCallsLimitExceeded { limit }),
            _ => Ok(()),
        }
    }

    /// A view for reading only.
    pub fn readonly(&self) -> ReadonlyContext {
        ReadonlyContext::new(self.clone())
    }

    /// A context for a callback of this agent, with actions of its own.
    pub fn callback(&self) -> CallbackContext {
        CallbackContext::new(self.clone(), Arc::default())
    }

    /// Notes that this agent failed, unless one below it did.
    pub(crate) fn note_failure(&self) {
        let failed = self.shared.failed.lock();
        let mut failed = failed.unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert_with(|| self.clone());
    }

    /// The agent that failed; this one if nobody said so.
    pub(crate) fn failed(&self) -> InvocationContext {
        let failed = self.shared.failed.lock();
        let mut failed = failed.unwrap_or_else(PoisonError::into_inner);
        failed.take().unwrap_or_else(|| self.clone())
    }

    /// Notes that the agent's body runs, so that its after-callback is owed.
    pub(crate) fn enter(&self) {
        self.entered().push(self.clone());
    }

    /// Notes that its after-callback is owed no more.
    pub(crate) fn leave(&self) {
        self.entered()
            .retain(|entered| !Arc::ptr_eq(&entered.ended, &self.ended));
    }

    /// The agents whose after-callbacks are owed, innermost last. They are owed no more.
    pub(crate) fn take_entered(&self) -> Vec<InvocationContext> {
        std::mem::take(&mut *self.entered())
    }

    fn entered(&self) -> std::sync::MutexGuard<'_, Vec<InvocationContext>> {
        let entered = self.shared.entered.lock();
        entered.unwrap_or_else(PoisonError::into_inner)
    }
}
