//! Driving a run: the agent works, what it emits is stored and handed on, and in the end the
//! session is given back.
//!
//! The agent's future is dropped to cancel it, but only between appends, so that nothing is left
//! half written.

pub(crate) mod active_runs;
pub(crate) mod leases;
mod prior_run;
pub(crate) mod stop;
pub(crate) mod store;
pub(crate) mod stream;

use std::{collections::VecDeque, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use retain_core::{CancellationToken, Event, LlmResponse, RunOptions, SessionKey, SharedSession};
use tokio::sync::{mpsc, oneshot};
use tracing::Span;

use crate::{
    agents::run_agent,
    context::{Emitted, Invocation, InvocationContext},
    error::{Result, RunError, error_kind},
    flow::related,
    plugins::ask_plugins,
    runner::{
        Inner, RunRequest,
        begin::{Begun, resume::Start},
    },
    telemetry,
};
use leases::{HeldLease, Idle};
use prior_run::{Before, Past};
use stop::{StopReason, StopSignal};
use stream::Sent;

/// What connects a run with its caller.
pub(crate) struct Caller {
    pub(crate) stop: StopSignal,
    pub(crate) out: mpsc::UnboundedSender<Sent>,
    pub(crate) begun: oneshot::Sender<Result<String>>,
    pub(crate) idle: Arc<Idle>,
}

/// One run, from its message to its end.
pub(crate) async fn run(
    inner: Arc<Inner>,
    key: SessionKey,
    request: RunRequest,
    caller: Caller,
    span: Span,
) {
    let _going_on = inner.going_on.enter();
    // The parts of a run are boxed: together they would be a very large future.
    let begin = match Box::pin(inner.begin(&key, &request)).await {
        Ok(begin) => begin,
        Err(error) => {
            telemetry::failed(&span, error.code());
            // Whoever asked may be gone; then nobody needs to know.
            let _ = caller.begun.send(Err(error));
            return;
        }
    };
    telemetry::invocation_begun(&span, inner.telemetry, &key, &begin.invocation_id);
    let _ = caller.begun.send(Ok(begin.invocation_id.clone()));
    let (emitter, emitted) = mpsc::channel(1);
    let mut driver = Driver::new(inner, key, begin, request, emitter, caller.idle);
    driver.out = Some(caller.out);
    Box::pin(driver.drive(emitted, caller.stop, span)).await;
}

/// How the agent's work ended.
enum Ended {
    Done(Result<()>),
    /// It was stopped before its agent was done.
    Stopped(StopReason),
}

/// An event that the caller has not taken yet, and who waits for that.
pub(crate) struct Untaken {
    taken: oneshot::Receiver<()>,
    event: Box<Event>,
    done: oneshot::Sender<Result<Box<Event>>>,
}

/// One run while it goes on.
pub(crate) struct Driver {
    pub(crate) inner: Arc<Inner>,
    pub(crate) ctx: InvocationContext,
    pub(crate) session: SharedSession,
    user_events: Vec<Event>,
    /// Whether there is nothing left to do.
    is_over: bool,
    /// The right to write; none when it was given back, or never was.
    pub(crate) lease: Option<HeldLease>,
    /// Whether the run was given back with what it wrote last.
    pub(crate) is_given_back: bool,
    pub(crate) idle: Arc<Idle>,
    out: Option<mpsc::UnboundedSender<Sent>>,
    pub(crate) untaken: VecDeque<Untaken>,
    pub(crate) is_windowed: bool,
    /// For taking the lease again, also after a cancellation.
    pub(crate) options: RunOptions,
}

impl Driver {
    fn new(
        inner: Arc<Inner>,
        key: SessionKey,
        begin: Begun,
        request: RunRequest,
        emitter: mpsc::Sender<Emitted>,
        idle: Arc<Idle>,
    ) -> Driver {
        let session = SharedSession::new(begin.session);
        let token = begin.token;
        let lease = token.map(|token| inner.leases.hold(&key, token, &idle));
        let is_windowed = request.config.get_session_config.is_some();
        let mut config = request.config;
        let options = config.run_options.clone();
        config.run_options = options.clone().within(key.clone());
        let invocation = Invocation {
            id: begin.invocation_id,
            key,
            session: session.clone(),
            user_content: begin.user_content,
            limits: inner.sessions.limits().cloned(),
            tool_time_limit: {
                let limit = config.tool_time_limit;
                limit.unwrap_or(inner.tool_time_limit)
            },
            run_config: config,
            telemetry: inner.telemetry,
            memory: inner.memory.clone(),
            compactor: inner.compactor.clone(),
            artifacts: inner.artifacts.clone(),
            plugins: inner.plugins.clone(),
            clock: Arc::clone(&inner.clock),
            ids: Arc::clone(&inner.ids),
            is_conversation: inner.tree.root().as_llm_agent().is_some(),
            tree: Arc::clone(&inner.tree),
            paths: begin.start.paths,
            is_resumable: inner.is_resumable,
            checkpoints: begin.start.checkpoints,
            emitter,
            llm_calls: 0.into(),
            contents: begin.assembled.into(),
            recalled: tokio::sync::OnceCell::new(),
            failed: None.into(),
            entered: Vec::new().into(),
        };
        let Start {
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
            is_given_back: false,
            idle,
            out: None,
            untaken: VecDeque::new(),
            is_windowed,
            options: options.with_cancel(CancellationToken::new()),
        }
    }

    async fn drive(mut self, mut emitted: mpsc::Receiver<Emitted>, stop: StopSignal, span: Span) {
        for event in std::mem::take(&mut self.user_events) {
            self.hand_on(Box::new(event), None);
        }
        let mut is_complete = false;
        let ended = match self.is_over {
            true => None,
            false => Some(Box::pin(self.work(&mut emitted, &stop)).await),
        };
        let result = match ended {
            None => Ok(()),
            Some(Ended::Done(Ok(()))) => {
                is_complete = true;
                self.after_run().await
            }
            Some(Ended::Done(Err(error))) => Err(error),
            Some(Ended::Stopped(reason)) => self.seal(reason).await,
        };
        if let Err(error) = &result {
            telemetry::failed(&span, error.code());
            let plugins = &self.ctx.shared.plugins;
            let tell = plugins.tell("on_run_error", |plugin| {
                plugin.on_run_error(&self.ctx, error)
            });
            tell.await;
        }
        if let Err(error) = self.give_back().await {
            let invocation = self.ctx.invocation_id();
            tracing::warn!(
                invocation,
                kind = error_kind(&error),
                "a run ends by its lease alone"
            );
            tracing::debug!(session = ?self.ctx.shared.key, error = ?error.to_string(), "a run ends by its lease alone");
        }
        self.keep();
        // They point back at the run, which would never be let go.
        drop((self.ctx.failed(), self.ctx.take_entered()));
        if is_complete && result.is_ok() {
            let whole = (!self.is_windowed).then(|| self.session.snapshot());
            let key = &self.ctx.shared.key;
            self.inner.ingest_later(key, whole.clone());
            self.inner.compact_later(key, whole, &span);
        }
        self.send(Sent::End(result));
    }

    /// Lets the agent work until it is done or cut off.
    async fn work(&mut self, emitted: &mut mpsc::Receiver<Emitted>, stop: &StopSignal) -> Ended {
        let ctx = self.ctx.clone();
        let agent = AssertUnwindSafe(run_root(&ctx)).catch_unwind();
        let mut agent = std::pin::pin!(agent);
        let ended = loop {
            tokio::select! {
                biased;
                Some(emitted) = emitted.recv() => {
                    if let Some(reason) = self.take(emitted, stop).await {
                        break Ended::Stopped(reason);
                    }
                }
                () = taken(&mut self.untaken) => {}
                reason = stop.stopped() => break Ended::Stopped(reason),
                ran = &mut agent => {
                    break Ended::Done(ran.unwrap_or_else(|panic| Err(RunError::panicked(ctx.agent_name(), &*panic))));
                }
            }
        };
        if let Ended::Done(Err(error)) = &ended {
            self.store_failure(error).await;
        }
        ended
    }

    /// Stores an event of the agent and hands it on. Returns why the run must stop, if that was
    /// signalled while a plugin still worked on the event.
    async fn take(&mut self, emitted: Emitted, stop: &StopSignal) -> Option<StopReason> {
        let Emitted {
            event,
            last,
            is_overlay,
            done,
        } = emitted;
        if done.is_closed() {
            // Whoever said it was cut off by another agent before it was heard.
            return None;
        }
        if is_overlay {
            let stored = self.append(event, false).await;
            drop(done.send(stored));
            return None;
        }
        let event = tokio::select! {
            biased;
            event = self.past_plugins(event) => event,
            reason = stop.stopped() => return Some(reason),
        };
        let stored = match event {
            Ok(event) => self.append_or_forget(event, last).await,
            Err(error) => Err(error),
        };
        match stored {
            Err(error) => drop(done.send(Err(error))),
            Ok(event) if event.is_partial() => {
                self.hand_on(event.clone(), None);
                // An agent that does not wait is fine.
                let _ = done.send(Ok(event));
            }
            Ok(event) => {
                let (tell, taken) = oneshot::channel();
                self.hand_on(event.clone(), Some(tell));
                self.untaken.push_back(Untaken { taken, event, done });
            }
        }
        None
    }

    pub(crate) fn hand_on(&self, event: Box<Event>, taken: Option<oneshot::Sender<()>>) {
        self.send(Sent::Event(event, taken));
    }

    fn send(&self, sent: Sent) {
        if let Some(out) = &self.out {
            // The caller has dropped its stream; the stop signal follows.
            let _ = out.send(sent);
        }
    }
}

/// The root agent's run, unless a plugin answers in its place.
async fn run_root(ctx: &InvocationContext) -> Result<()> {
    let answer = ask_plugins!(ctx.shared.plugins, before_run(ctx));
    let Some(content) = answer else {
        return run_agents(ctx).await;
    };
    let event = Event {
        author: "model".to_owned(),
        response: LlmResponse::of(content),
        ..ctx.new_event()
    };
    ctx.emit(event).await?;
    Ok(())
}

/// Runs an agent, and whoever it hands over to, one after the other. Who handed over in this run
/// before an answer took it up is not run again.
async fn run_agents(first: &InvocationContext) -> Result<()> {
    let mut past = Past::of(first);
    let mut ctx = first.clone();
    loop {
        let next = match past.of_agent(&ctx) {
            Before::Waits => None,
            Before::HandedTo(name) => Some(related(&ctx, &name)?),
            Before::Open => {
                run_agent(&ctx).await?;
                ctx.take_handed_to()
            }
        };
        let Some(agent) = next else {
            return Ok(());
        };
        ctx = InvocationContext::new(Arc::clone(&first.shared), agent, first.branch(), None);
    }
}

/// Waits until the caller has taken the oldest event that it has not, and tells its agent.
async fn taken(untaken: &mut VecDeque<Untaken>) {
    let Some(oldest) = untaken.front_mut() else {
        return std::future::pending().await;
    };
    let is_taken = (&mut oldest.taken).await.is_ok();
    if let Some(Untaken { event, done, .. }) = untaken.pop_front()
        && is_taken
    {
        // The agent may not wait any more.
        let _ = done.send(Ok(event));
    }
}
