//! Drives a run: runs the agent, stores and sends its events, and releases the lease at the end.
//!
//! The driver cancels an agent by dropping its future, but only between appends, so that every
//! append completes.

pub(crate) mod active_runs;
pub(crate) mod leases;
mod prior_run;
pub(crate) mod stop;
pub(crate) mod store;
pub(crate) mod stream;

use std::{
    any::Any,
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::FutureExt as _;
use retain_core::{
    CancellationToken, Event, LlmResponse, RunOptions, SessionKey, SessionOrigin, SharedSession,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::unconstrained,
};
use tracing::Span;

use crate::{
    agents::run_agent,
    context::{EmittedEvent, Invocation, InvocationContext},
    error::{Result, RunError, error_kind},
    flow::find_transfer_target,
    plugins::ask_plugins,
    runner::{
        Inner, RunConfig, RunRequest,
        begin::{StartedRun, resume::StartPoint},
    },
    telemetry,
};
use leases::{HeldLease, IdleSince};
use prior_run::{PriorRun, PriorStatus};
use stop::{StopReason, StopSignal};
use stream::StreamItem;

/// The connection of a run to its caller.
pub(crate) struct Caller {
    pub(crate) stop: StopSignal,
    pub(crate) out: mpsc::UnboundedSender<StreamItem>,
    pub(crate) started_run: oneshot::Sender<Result<String>>,
    pub(crate) idle: Arc<IdleSince>,
}

/// Executes one run, from its message to its end.
pub(crate) async fn run(
    inner: Arc<Inner>,
    key: SessionKey,
    request: RunRequest,
    caller: Caller,
    span: Span,
) {
    let _active_run = inner.active_runs.enter(&key, &caller.stop);
    // Box the parts of a run, which together would be a very large future.
    let begin = match Box::pin(inner.begin(&key, &request)).await {
        Ok(begin) => begin,
        Err(error) => {
            telemetry::mark_failed(&span, error.code());
            // The caller may have disconnected, and then nobody needs the error.
            let _ = caller.started_run.send(Err(error));
            return;
        }
    };
    telemetry::record_invocation(&span, inner.telemetry, &key, &begin.invocation_id);
    let _ = caller.started_run.send(Ok(begin.invocation_id.clone()));
    return_to_caller().await;
    let (emitter, emitted) = mpsc::unbounded_channel();
    let mut driver = Driver::new(inner, key, begin, request, emitter, caller.idle);
    driver.out = Some(caller.out);
    Box::pin(driver.drive(emitted, caller.stop, span)).await;
}

/// Returns to the caller once, so that it learns that the run has started before any agent acts.
/// The caller polls again when it wants an event. Nothing wakes it before that: in a nested run, a
/// wake would count as a completion whose place in the order depends on the threads.
async fn return_to_caller() {
    let mut has_returned = false;
    poll_fn(|_| match std::mem::replace(&mut has_returned, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// How the agent's execution ended.
enum AgentEnd {
    Done(Result<()>),
    /// The run was stopped before its agent was done.
    Stopped(StopReason),
}

/// The next step of the driver.
enum DriveStep {
    EmittedEvent(EmittedEvent),
    AgentEnd(AgentEnd),
}

/// A stored event that the caller has not taken yet. The agent that emitted it waits until then.
pub(crate) struct PendingDelivery {
    taken: oneshot::Receiver<()>,
    event: Box<Event>,
    done: oneshot::Sender<Result<Box<Event>>>,
}

/// An active run.
pub(crate) struct Driver {
    pub(crate) inner: Arc<Inner>,
    pub(crate) ctx: InvocationContext,
    pub(crate) session: SharedSession,
    user_events: Vec<Event>,
    /// Whether the resumed run has already ended, so that no agent runs.
    is_over: bool,
    /// The lease; `None` after its release, or if the service has no leases.
    pub(crate) lease: Option<HeldLease>,
    /// Whether the last append ended the run.
    pub(crate) is_released: bool,
    pub(crate) idle: Arc<IdleSince>,
    out: Option<mpsc::UnboundedSender<StreamItem>>,
    /// The event that the caller must take before the next one is stored.
    pub(crate) pending_delivery: Option<PendingDelivery>,
    /// Whether the run has loaded only a part of the session.
    pub(crate) is_windowed: bool,
    /// The options for a new lease, which is needed if an event follows the one that released the
    /// lease. They ignore a cancellation of the run, so that the events that seal the run can be
    /// stored.
    pub(crate) options: RunOptions,
}

/// Creates the state that all agents of a run share. Moves the session, the node paths, the
/// checkpoints and the assembled contents out of `begin`.
fn new_invocation(
    inner: &Inner,
    key: SessionKey,
    run_config: RunConfig,
    begin: &mut StartedRun,
    emitter: mpsc::UnboundedSender<EmittedEvent>,
) -> Invocation {
    let tool_time_limit = run_config.tool_time_limit;
    let origin = SessionOrigin::new(&inner.log, &begin.session);
    Invocation {
        id: begin.invocation_id.clone(),
        key,
        session: SharedSession::new(std::mem::take(&mut begin.session)),
        user_content: std::mem::take(&mut begin.user_content),
        limits: inner.sessions.limits().cloned(),
        tool_time_limit: tool_time_limit.unwrap_or(inner.tool_time_limit),
        run_config,
        telemetry: inner.telemetry,
        memory: inner.memory_for(origin.as_ref()),
        compactor: inner.compactor.clone(),
        artifacts: inner.artifacts_for(origin.as_ref()),
        plugins: inner.plugins.clone(),
        clock: Arc::clone(&inner.clock),
        ids: Arc::clone(&inner.ids),
        is_conversation: inner.tree.root().as_llm_agent().is_some(),
        tree: Arc::clone(&inner.tree),
        paths: std::mem::take(&mut begin.start.paths),
        is_resumable: inner.is_resumable,
        checkpoints: std::mem::take(&mut begin.start.checkpoints),
        emitter,
        scheduler: Arc::default(),
        host: inner.host.clone(),
        llm_calls: 0.into(),
        contents: std::mem::take(&mut begin.assembled).into(),
        recalled: tokio::sync::OnceCell::new(),
        failed: None.into(),
        entered: Vec::new().into(),
    }
}

impl Driver {
    fn new(
        inner: Arc<Inner>,
        key: SessionKey,
        mut begin: StartedRun,
        request: RunRequest,
        emitter: mpsc::UnboundedSender<EmittedEvent>,
        idle: Arc<IdleSince>,
    ) -> Driver {
        let token = begin.token;
        let lease = token.map(|token| inner.leases.hold(&key, token, &idle));
        let is_windowed = request.config.get_session_config.is_some();
        let mut config = request.config;
        let options = config.run_options.clone();
        config.run_options = options.clone().with_outer_session(key.clone());
        let invocation = new_invocation(&inner, key, config, &mut begin, emitter);
        let session = invocation.session.clone();
        let StartPoint {
            agent,
            branch,
            path,
            is_over,
            ..
        } = begin.start;
        Driver {
            inner,
            ctx: InvocationContext::new(Arc::new(invocation), agent, branch.as_deref(), path),
            session,
            user_events: match request.yield_user_message {
                true => begin.user_events,
                false => Vec::new(),
            },
            is_over,
            lease,
            is_released: false,
            idle,
            out: None,
            pending_delivery: None,
            is_windowed,
            options: options.with_cancel(CancellationToken::new()),
        }
    }

    async fn drive(
        mut self,
        mut emitted: mpsc::UnboundedReceiver<EmittedEvent>,
        stop: StopSignal,
        span: Span,
    ) {
        for event in std::mem::take(&mut self.user_events) {
            self.send_event(Box::new(event), None);
        }
        let mut is_complete = false;
        let ended = match self.is_over {
            true => None,
            false => Some(Box::pin(self.run_until_stopped(&mut emitted, &stop)).await),
        };
        let has_run = ended.is_some();
        let result = match ended {
            None => Ok(()),
            Some(AgentEnd::Done(Ok(()))) => {
                is_complete = true;
                self.after_run().await
            }
            Some(AgentEnd::Done(Err(error))) => Err(error),
            Some(AgentEnd::Stopped(reason)) => self.seal(reason).await,
        };
        if let Err(error) = &result {
            telemetry::mark_failed(&span, error.code());
            let plugins = &self.ctx.shared.plugins;
            let notification = plugins.notify("on_run_error", |plugin| {
                plugin.on_run_error(&self.ctx, error)
            });
            notification.await;
        }
        if let Err(error) = self.release_lease().await {
            let invocation = self.ctx.invocation_id();
            tracing::warn!(
                invocation,
                kind = error_kind(&error),
                "failed to release a run's lease; it will expire"
            );
            let error = error.to_string();
            tracing::debug!(session = ?self.ctx.shared.key, ?error, "failed to release a run's lease");
        }
        match &result {
            Ok(()) => self.cache_session(),
            // The session may have been deleted, or its user erased.
            Err(_) => self.inner.session_cache.evict(&self.ctx.shared.key),
        }
        // Drop these contexts, because they refer back to the run and the cycle would leak it.
        drop((
            self.ctx.take_failed_agent(),
            self.ctx.take_agents_awaiting_after(),
        ));
        if has_run {
            self.start_work(is_complete && result.is_ok(), &span);
        }
        self.send(StreamItem::End(result));
    }

    /// Starts the work that must follow the run. As in ADK, a summary follows a complete run; after
    /// another one it stays pending.
    fn start_work(&self, is_complete: bool, span: &Span) {
        let whole = (!self.is_windowed).then(|| self.session.snapshot());
        let key = &self.ctx.shared.key;
        self.inner.start_ingestion(key, whole.clone());
        if is_complete {
            self.inner.start_compaction(key, whole, span);
        }
    }

    /// Runs the agent until it is done or stopped.
    async fn run_until_stopped(
        &mut self,
        emitted: &mut mpsc::UnboundedReceiver<EmittedEvent>,
        stop: &StopSignal,
    ) -> AgentEnd {
        let ctx = self.ctx.clone();
        let (root, scheduler) = (ctx.clone(), Arc::clone(&ctx.shared.scheduler));
        let agents = scheduler.run_first(async move { run_root(&root).await });
        let agents = AssertUnwindSafe(agents).catch_unwind().map(|result| {
            let panicked =
                |panic: Box<dyn Any + Send>| Err(RunError::panicked(ctx.agent_name(), &*panic));
            result.map_or_else(panicked, Result::flatten)
        });
        let mut agents = pin!(agents);
        let ended = loop {
            match self.next(agents.as_mut(), emitted, stop).await {
                DriveStep::AgentEnd(ended) => break ended,
                DriveStep::EmittedEvent(emitted) => {
                    scheduler.count_event();
                    if let Some(reason) = self.store_and_send(emitted, stop).await {
                        break AgentEnd::Stopped(reason);
                    }
                }
            }
        };
        if let AgentEnd::Done(Err(error)) = &ended {
            self.store_failure(error).await;
        }
        ended
    }

    /// Stores an agent's event and sends it to the caller. Returns a reason to stop the run if the
    /// stop signal comes while a plugin handles the event.
    async fn store_and_send(
        &mut self,
        emitted: EmittedEvent,
        stop: &StopSignal,
    ) -> Option<StopReason> {
        let EmittedEvent {
            event,
            last,
            is_summary,
            done,
        } = emitted;
        if done.is_closed() {
            // Another agent cancelled the emitter before its event was stored.
            return None;
        }
        if is_summary {
            let stored = self.append(event, false).await;
            self.report_stored(done, stored);
            return None;
        }
        let event = tokio::select! {
            biased;
            event = self.apply_plugins(event) => event,
            reason = stop.wait_for_stop() => return Some(reason),
        };
        let stored = match event {
            Ok(event) => self.append_or_revert(event, last).await,
            Err(error) => Err(error),
        };
        match stored {
            Err(error) => self.report_stored(done, Err(error)),
            // Wait for the caller even after a partial event, so that the run does not read ahead
            // of the caller.
            Ok(event) => {
                let (taker, taken) = oneshot::channel();
                self.send_event(event.clone(), Some(taker));
                self.pending_delivery = Some(PendingDelivery { taken, event, done });
            }
        }
        None
    }

    /// Lets the agents continue until an event can be stored or the run ends. An outside completion
    /// enters only when no event waits and no agent can continue without one, or when it must.
    async fn next(
        &mut self,
        mut agents: Pin<&mut impl Future<Output = Result<()>>>,
        emitted: &mut mpsc::UnboundedReceiver<EmittedEvent>,
        stop: &StopSignal,
    ) -> DriveStep {
        let scheduler = Arc::clone(&self.ctx.shared.scheduler);
        let host = self.ctx.shared.host.clone();
        let mut stopped = pin!(stop.wait_for_stop());
        let next = poll_fn(|cx| {
            scheduler.begin_poll(host.as_deref());
            self.poll_taken(cx);
            // Still store an event that was emitted before the run was stopped.
            if let emitted @ Poll::Ready(_) = self.poll_emitted(cx, emitted) {
                return emitted;
            }
            if let Poll::Ready(reason) = stopped.as_mut().poll(cx) {
                return Poll::Ready(DriveStep::AgentEnd(AgentEnd::Stopped(reason)));
            }
            loop {
                if let Poll::Ready(result) = agents.as_mut().poll(cx) {
                    return Poll::Ready(DriveStep::AgentEnd(AgentEnd::Done(result)));
                }
                if let emitted @ Poll::Ready(_) = self.poll_emitted(cx, emitted) {
                    return emitted;
                }
                let is_waiting = self.pending_delivery.is_some() || !scheduler.is_at_rest();
                if is_waiting || !scheduler.continue_next() {
                    return Poll::Pending;
                }
            }
        });
        // Tokio's cooperative budget would change the order of events.
        unconstrained(next).await
    }

    /// Returns the agents' next event if it may be stored: the caller has taken the previous one,
    /// and each agent that can continue without an outside completion has done so.
    fn poll_emitted(
        &self,
        cx: &mut Context<'_>,
        emitted: &mut mpsc::UnboundedReceiver<EmittedEvent>,
    ) -> Poll<DriveStep> {
        let scheduler = &self.ctx.shared.scheduler;
        let must_wait = !scheduler.is_at_rest() || scheduler.must_enter();
        if self.pending_delivery.is_some() || must_wait {
            return Poll::Pending;
        }
        match emitted.poll_recv(cx) {
            Poll::Ready(Some(emitted)) => Poll::Ready(DriveStep::EmittedEvent(emitted)),
            // The driver itself holds a sender, so the channel is never closed.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Lets the agent that emitted the pending event continue, once the caller has taken the event.
    fn poll_taken(&mut self, cx: &mut Context<'_>) {
        let Some(pending_delivery) = &mut self.pending_delivery else {
            return;
        };
        let Poll::Ready(taken) = Pin::new(&mut pending_delivery.taken).poll(cx) else {
            return;
        };
        if let Some(PendingDelivery { event, done, .. }) = self.pending_delivery.take()
            && taken.is_ok()
        {
            self.report_stored(done, Ok(event));
        }
    }

    /// Tells an agent the result of storing its event.
    fn report_stored(&self, done: oneshot::Sender<Result<Box<Event>>>, stored: Result<Box<Event>>) {
        // A cancelled agent no longer waits.
        let answer = || drop(done.send(stored));
        self.ctx.shared.scheduler.answer(answer);
    }

    pub(crate) fn send_event(&self, event: Box<Event>, taken: Option<oneshot::Sender<()>>) {
        self.send(StreamItem::Event(event, taken));
    }

    fn send(&self, sent: StreamItem) {
        if let Some(out) = &self.out {
            // Sending fails if the caller has dropped its stream; the stop signal follows.
            let _ = out.send(sent);
        }
    }
}

/// Runs the root agent, unless a plugin answers in its place.
async fn run_root(ctx: &InvocationContext) -> Result<()> {
    let answer = ask_plugins!(ctx.shared.plugins, before_run(ctx));
    let Some(content) = answer else {
        return run_agents(ctx).await;
    };
    let event = Event {
        author: "model".to_owned(),
        response: LlmResponse::from_content(content),
        ..ctx.new_event()
    };
    ctx.emit(event).await?;
    Ok(())
}

/// Runs an agent, then each agent that it transfers to. If a function response resumed this run, an
/// agent that had transferred before does not run again.
async fn run_agents(first: &InvocationContext) -> Result<()> {
    let mut prior = PriorRun::new(first);
    let mut ctx = first.clone();
    loop {
        let next = match prior.status_of(&ctx) {
            PriorStatus::Waits => None,
            PriorStatus::TransferredTo(name) => Some(find_transfer_target(&ctx, &name)?),
            PriorStatus::Open => {
                run_agent(&ctx).await?;
                ctx.take_transfer_target()
            }
        };
        let Some(agent) = next else {
            return Ok(());
        };
        ctx = InvocationContext::new(Arc::clone(&first.shared), agent, first.branch(), None);
    }
}
