//! `InvocationContext`: the context of a running agent.

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
    agents::{Agent, AgentTree, OutputRecorder},
    compaction::Compactor,
    contents::ContentsCache,
    context::{CallbackContext, Checkpoints, EventWatch, NodePaths, ReadonlyContext},
    error::{Result, RunError},
    plugins::Plugins,
    runner::RunConfig,
    scheduler::Scheduler,
    telemetry::Telemetry,
    tools::RecalledMemories,
};

/// An event on its way from an agent to the runner, which stores it and sends it to the run's
/// caller.
pub(crate) struct EmittedEvent {
    pub(crate) event: Box<Event>,
    /// Whether the agent knows that no other event follows.
    pub(crate) last: bool,
    /// Whether the event is a summary of other events: stored unchanged, and not sent to the
    /// caller.
    pub(crate) is_summary: bool,
    /// Receives the stored event once the run's caller has taken it, or the error.
    pub(crate) done: oneshot::Sender<Result<Box<Event>>>,
}

/// State that all agents of one run share.
pub(crate) struct Invocation {
    pub(crate) id: String,
    pub(crate) key: SessionKey,
    pub(crate) session: SharedSession,
    pub(crate) user_content: Content,
    pub(crate) run_config: RunConfig,
    pub(crate) telemetry: Telemetry,
    /// The limits of the session service.
    pub(crate) limits: Option<Limits>,
    /// The time limit for a tool without its own.
    pub(crate) tool_time_limit: Duration,
    pub(crate) memory: Option<Arc<dyn MemoryService>>,
    /// Summarizes the history when it grows too long.
    pub(crate) compactor: Option<Arc<Compactor>>,
    pub(crate) artifacts: Option<Arc<dyn ArtifactService>>,
    pub(crate) plugins: Plugins,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) tree: Arc<AgentTree>,
    /// Whether the root is an LLM agent. If so, agents transfer to one another, and events carry a
    /// node path.
    pub(crate) is_conversation: bool,
    pub(crate) paths: NodePaths,
    /// Whether agents store checkpoints.
    pub(crate) is_resumable: bool,
    /// The progress of the agents.
    pub(crate) checkpoints: Checkpoints,
    /// Sends the agents' events to the runner, in the order in which they are emitted.
    pub(crate) emitter: mpsc::UnboundedSender<EmittedEvent>,
    pub(crate) scheduler: Arc<Scheduler>,
    /// The scheduler of the outermost run, if this run is a tool of another run.
    pub(crate) host: Option<Arc<Scheduler>>,
    pub(crate) llm_calls: AtomicU32,
    /// The assembled contents, by agent.
    pub(crate) contents: Mutex<HashMap<String, ContentsCache>>,
    /// The memories for the user's message, searched once and used in every step.
    pub(crate) recalled: tokio::sync::OnceCell<RecalledMemories>,
    /// The innermost agent that failed. It records its failure before the agents above it do.
    pub(crate) failed: Mutex<Option<InvocationContext>>,
    /// The agents whose bodies are running, outermost first: their `after_agent` callbacks are
    /// pending.
    pub(crate) entered: Mutex<Vec<InvocationContext>>,
}

impl Invocation {
    /// Returns the scheduler of the outermost run. It polls its tasks with an almost empty stack,
    /// however deeply runs are nested.
    pub(crate) fn outermost_scheduler(&self) -> &Arc<Scheduler> {
        self.host.as_ref().unwrap_or(&self.scheduler)
    }

    /// Waits for a call to a store while the run's other agents pause, so that the order of events
    /// does not depend on the store's speed.
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

/// An agent's view of its run. Clones share their state.
#[derive(Debug, Clone)]
pub struct InvocationContext {
    pub(crate) shared: Arc<Invocation>,
    pub(crate) agent: Arc<dyn Agent>,
    branch: Option<Arc<str>>,
    ended: Arc<AtomicBool>,
    /// The node path, if the run has node paths.
    node_path: Option<Arc<str>>,
    /// Whether the runner itself runs this agent, and not another agent.
    is_top: bool,
    /// The target of this agent's transfer, with which the runner continues.
    transfer_target: Arc<Mutex<Option<Arc<dyn Agent>>>>,
    /// The watches of agents above, innermost first.
    watches: Option<Arc<WatchChain>>,
    /// The agents that transferred to this one and wait for its end, innermost first.
    waiting_agents: Option<Arc<TransferredAgent>>,
}

/// A nested agent that has transferred and waits for the target. As in ADK, events that the target
/// emits under this agent's name count as this agent's own.
#[derive(Debug)]
struct TransferredAgent {
    agent: Arc<dyn Agent>,
    output: Mutex<OutputRecorder>,
    above: Option<Arc<TransferredAgent>>,
}

#[derive(Debug)]
struct WatchChain {
    watch: EventWatch,
    above: Option<Arc<WatchChain>>,
}

impl InvocationContext {
    /// Creates the context of an agent that the runner itself runs. `path` is the node path, if the
    /// agent is resumed.
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
            transfer_target: Arc::default(),
            watches: None,
            waiting_agents: None,
        }
    }

    /// Runs another agent, including its callbacks, as part of this one.
    pub async fn run_agent(&self, agent: &Arc<dyn Agent>) -> Result<()> {
        let ctx = InvocationContext {
            agent: Arc::clone(agent),
            ended: Arc::default(),
            is_top: false,
            transfer_target: Arc::default(),
            ..self.clone()
        };
        // Agents run agents to any depth, so each gets its own stack.
        let run = async move { crate::agents::run_agent(&ctx).await };
        self.shared.scheduler.run(run).await?
    }

    /// Returns the context for the target of a transfer, which runs while this agent waits.
    pub(crate) fn with_waiting_agent(&self, output: OutputRecorder) -> InvocationContext {
        let waiting_agents = TransferredAgent {
            agent: Arc::clone(&self.agent),
            output: Mutex::new(output),
            above: self.waiting_agents.clone(),
        };
        InvocationContext {
            waiting_agents: Some(Arc::new(waiting_agents)),
            ..self.clone()
        }
    }

    /// Finds the agents that wait for a transfer target and have the event's author as their name,
    /// and adds the output of each to the event's state delta.
    fn store_output_of_waiting_agents(&self, event: &mut Event) -> Result<()> {
        let mut waiting = self.waiting_agents.as_ref();
        while let Some(one) = waiting {
            if let Some(agent) = one
                .agent
                .as_llm_agent()
                .filter(|_| one.agent.name() == event.author)
            {
                let mut output = one.output.lock().unwrap_or_else(PoisonError::into_inner);
                agent.store_output(&mut output, event)?;
            }
            waiting = one.above.as_ref();
        }
        Ok(())
    }

    /// Returns this context with a watch on its events.
    pub(crate) fn with_watch(&self, watch: &EventWatch) -> InvocationContext {
        let watches = WatchChain {
            watch: watch.clone(),
            above: self.watches.clone(),
        };
        InvocationContext {
            watches: Some(Arc::new(watches)),
            ..self.clone()
        }
    }

    /// Returns this context on a branch below this one.
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

    /// Returns the node path, if the run has node paths.
    pub(crate) fn node_path(&self) -> Option<&str> {
        self.node_path.as_deref()
    }

    /// Whether the runner itself runs this agent.
    pub(crate) fn is_run_by_runner(&self) -> bool {
        self.is_top
    }

    /// Makes the runner continue with another agent when this one ends.
    pub(crate) fn transfer_to(&self, agent: Arc<dyn Agent>) {
        let mut transfer_target = self
            .transfer_target
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *transfer_target = Some(agent);
    }

    /// Returns the target of this agent's transfer and clears it.
    pub(crate) fn take_transfer_target(&self) -> Option<Arc<dyn Agent>> {
        let mut transfer_target = self
            .transfer_target
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        transfer_target.take()
    }

    /// Whether this agent has transferred.
    pub(crate) fn has_transferred(&self) -> bool {
        let transfer_target = self
            .transfer_target
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        transfer_target.is_some()
    }

    /// Returns the id of the run.
    pub fn invocation_id(&self) -> &str {
        &self.shared.id
    }

    /// Returns the name of the running agent.
    pub fn agent_name(&self) -> &str {
        self.agent.name()
    }

    /// Whether this is the agent that the runner was built with.
    pub fn is_root(&self) -> bool {
        Arc::ptr_eq(&self.agent, self.shared.tree.root())
    }

    /// Returns the key of the session.
    pub fn session_key(&self) -> &SessionKey {
        &self.shared.key
    }

    /// Returns the live session. Direct changes to it are not stored: emit an event instead.
    pub fn session(&self) -> &SharedSession {
        &self.shared.session
    }

    /// Returns the current events of the session. Cheap.
    pub fn events(&self) -> Events {
        self.shared.session.update(|session| session.events.clone())
    }

    /// Returns the user's message that began the run.
    pub fn user_content(&self) -> &Content {
        &self.shared.user_content
    }

    /// Returns the configuration of the run.
    pub fn run_config(&self) -> &RunConfig {
        &self.shared.run_config
    }

    /// Returns the options for a run or a rewind that this run starts. With them, cancelling this
    /// run also cancels the started run, which fails immediately if it would have to wait for this
    /// run to end.
    pub fn run_options(&self) -> RunOptions {
        self.shared.run_config.run_options.clone()
    }

    /// Returns the branch of a parallel agent, as `parent.child`.
    pub fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// Ends the run of this agent after its current step.
    pub fn end_invocation(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether [`end_invocation`](Self::end_invocation) was called for this agent.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Creates an empty event of this agent in this run. Emitting the event assigns its id.
    pub fn new_event(&self) -> Event {
        Event {
            invocation_id: self.shared.id.clone(),
            author: self.agent.name().to_owned(),
            branch: self.branch.as_deref().map(str::to_owned),
            timestamp: self.shared.clock.now(),
            ..Event::default()
        }
    }

    /// Stores an event and sends it to the caller of the run. Returns the stored event when the
    /// caller has taken it. A partial event is sent and not stored.
    ///
    /// Fills in author, branch, id, timestamp and node path where they are missing, and sets the id
    /// of the run.
    pub async fn emit(&self, event: Event) -> Result<Event> {
        Ok(*self.send(Box::new(event), false).await?)
    }

    /// Like [`emit`](Self::emit). `last` tells that the run appends nothing after this event.
    pub(crate) async fn send(&self, mut event: Box<Event>, last: bool) -> Result<Box<Event>> {
        self.fill_missing_fields(&mut event);
        self.store_output_of_waiting_agents(&mut event)?;
        let (done, stored) = oneshot::channel();
        let emitted = EmittedEvent {
            event,
            last,
            is_summary: false,
            done,
        };
        self.submit(emitted, stored).await
    }

    /// Stores a summary as part of the run. The run's caller does not see it.
    pub(crate) async fn store_summary(&self, event: Event) -> Result<()> {
        let (done, stored) = oneshot::channel();
        let emitted = EmittedEvent {
            event: Box::new(event),
            last: false,
            is_summary: true,
            done,
        };
        self.submit(emitted, stored).await?;
        Ok(())
    }

    async fn submit(
        &self,
        emitted: EmittedEvent,
        stored: oneshot::Receiver<Result<Box<Event>>>,
    ) -> Result<Box<Event>> {
        // The runner closes the channel when the run is cancelled.
        let sent = self.shared.emitter.send(emitted);
        sent.map_err(|_| RunError::Cancelled)?;
        let stored = stored.await.map_err(|_| RunError::Cancelled)??;
        let mut is_ended = false;
        self.for_each_watch(|watch| is_ended |= watch.record(&stored));
        if is_ended {
            // The agent above will drop this agent, which must not continue until then.
            return std::future::pending().await;
        }
        Ok(stored)
    }

    /// Calls `call` for the watches of all agents above.
    pub(super) fn for_each_watch(&self, mut call: impl FnMut(&EventWatch)) {
        let mut watches = self.watches.as_ref();
        while let Some(above) = watches {
            call(&above.watch);
            watches = above.above.as_ref();
        }
    }

    /// Fills in missing fields of an event of this agent.
    pub(crate) fn fill_missing_fields(&self, event: &mut Event) {
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

    /// Counts a model call. Fails if the limit is reached.
    pub(crate) fn count_llm_call(&self) -> Result<()> {
        let made = self.shared.llm_calls.fetch_add(1, Ordering::Relaxed);
        match self.shared.run_config.max_llm_calls {
            Some(limit) if made >= limit => Err(RunError::LlmCallsLimitExceeded { limit }),
            _ => Ok(()),
        }
    }

    /// Returns a read-only view.
    pub fn readonly(&self) -> ReadonlyContext {
        ReadonlyContext::new(self.clone())
    }

    /// Creates a context for a callback of this agent, with its own actions.
    pub fn callback(&self) -> CallbackContext {
        CallbackContext::new(self.clone(), Arc::default())
    }

    /// Records that this agent failed, unless an agent below it has recorded its own failure.
    pub(crate) fn record_failure(&self) {
        let failed = self.shared.failed.lock();
        let mut failed = failed.unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert_with(|| self.clone());
    }

    /// Returns and clears the agent that failed; returns this one if none is recorded.
    pub(crate) fn take_failed_agent(&self) -> InvocationContext {
        let failed = self.shared.failed.lock();
        let mut failed = failed.unwrap_or_else(PoisonError::into_inner);
        failed.take().unwrap_or_else(|| self.clone())
    }

    /// Records that the agent's body runs, so that its `after_agent` callback is pending.
    pub(crate) fn enter(&self) {
        self.entered().push(self.clone());
    }

    /// Records that the agent's `after_agent` callback is no longer pending.
    pub(crate) fn leave(&self) {
        self.entered()
            .retain(|entered| !Arc::ptr_eq(&entered.ended, &self.ended));
    }

    /// Returns and clears the agents with pending `after_agent` callbacks, innermost last.
    pub(crate) fn take_agents_awaiting_after(&self) -> Vec<InvocationContext> {
        std::mem::take(&mut *self.entered())
    }

    fn entered(&self) -> std::sync::MutexGuard<'_, Vec<InvocationContext>> {
        let entered = self.shared.entered.lock();
        entered.unwrap_or_else(PoisonError::into_inner)
    }
}
