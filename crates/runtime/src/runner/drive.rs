//! Driving a run: the agent works, what it emits is stored and handed on, and in the end the
//! session is given back.
//!
//! The agent's future is dropped to cancel it, but only between appends, so that nothing is left
//! half written.

use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures_util::FutureExt as _;
use retain_core::{Append, Event, JsonMap, LlmResponse, SessionKey, SharedSession, within_run};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Inner, RunRequest, abort,
    begin::Begun,
    leases::HeldLease,
    stream::{Sent, Wish},
};
use crate::{
    agents::{owed_after_agent, run_agent},
    context::{Emitted, Invocation, InvocationContext},
    error::{Result, RunError},
    plugins::ask_plugins,
};

/// Keys of an event's metadata that belong to ADK itself.
const INTERNAL_METADATA: &str = "__adk_internal_";

/// How long callbacks and plugins may take over a run that is to end: a session must not be held
/// for good by one that hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// One run, from its message to its end.
pub(super) async fn run(
    inner: Arc<Inner>,
    key: SessionKey,
    request: RunRequest,
    wishes: watch::Receiver<Wish>,
    out: mpsc::UnboundedSender<Sent>,
    begun: oneshot::Sender<Result<String>>,
) {
    // The parts of a run are boxed: together they would be a very large future.
    let begin = match Box::pin(inner.begin(&key, &request)).await {
        Ok(begin) => begin,
        Err(error) => {
            // Whoever asked may be gone; then nobody needs to know.
            let _ = begun.send(Err(error));
            return;
        }
    };
    let _ = begun.send(Ok(begin.invocation_id.clone()));
    let (emitter, emitted) = mpsc::channel(1);
    let mut driver = Driver::new(inner, key, begin, request, emitter);
    driver.out = Some(out);
    Box::pin(driver.drive(emitted, wishes)).await;
}

/// How the agent's work ended.
enum Ended {
    Done(Result<()>),
    /// It was cut off, by this wish.
    CutOff(Wish),
}

/// An event that the caller has not taken yet, and who waits for that.
struct Untaken {
    taken: oneshot::Receiver<()>,
    event: Box<Event>,
    done: oneshot::Sender<Result<Box<Event>>>,
}

struct Driver {
    inner: Arc<Inner>,
    ctx: InvocationContext,
    session: SharedSession,
    user_event: Option<Event>,
    /// The right to write; none when it was given back with the last write, or never was.
    lease: Option<HeldLease>,
    out: Option<mpsc::UnboundedSender<Sent>>,
    untaken: VecDeque<Untaken>,
    is_windowed: bool,
}

impl Driver {
    fn new(
        inner: Arc<Inner>,
        key: SessionKey,
        begin: Begun,
        request: RunRequest,
        emitter: mpsc::Sender<Emitted>,
    ) -> Driver {
        let session = SharedSession::new(begin.session);
        let lease = begin.token.map(|token| inner.leases.hold(&key, token));
        let is_windowed = request.config.get_session_config.is_some();
        let invocation = Invocation {
            id: begin.invocation_id,
            key,
            session: session.clone(),
            user_content: begin.user_content,
            run_config: request.config,
            memory: inner.memory.clone(),
            plugins: inner.plugins.clone(),
            clock: Arc::clone(&inner.clock),
            ids: Arc::clone(&inner.ids),
            root: Arc::clone(&inner.root),
            emitter,
            llm_calls: 0.into(),
            contents: begin.assembled.into(),
            recalled: tokio::sync::OnceCell::new(),
            entered: Vec::new().into(),
        };
        Driver {
            inner,
            ctx: InvocationContext::new(Arc::new(invocation)),
            session,
            user_event: request.yield_user_message.then_some(begin.user_event),
            lease,
            out: None,
            untaken: VecDeque::new(),
            is_windowed,
        }
    }

    async fn drive(
        mut self,
        mut emitted: mpsc::Receiver<Emitted>,
        mut wishes: watch::Receiver<Wish>,
    ) {
        if let Some(event) = self.user_event.take() {
            self.hand_on(Box::new(event), None);
        }
        let result = match Box::pin(self.work(&mut emitted, &mut wishes)).await {
            Ended::Done(Ok(())) => self.after_run().await,
            Ended::Done(Err(error)) => Err(error),
            Ended::CutOff(wish) => self.seal(wish).await,
        };
        if let Err(error) = &result {
            let plugins = &self.ctx.shared.plugins;
            let tell = plugins.tell("on_run_error", |plugin| {
                plugin.on_run_error(&self.ctx, error)
            });
            tell.await;
        }
        if let Err(error) = self.give_back().await {
            tracing::warn!(session = %self.ctx.shared.key, %error, "a run ends by its lease alone");
        }
        self.keep();
        self.send(Sent::End(result));
    }

    /// Lets the agent work until it is done or cut off.
    async fn work(
        &mut self,
        emitted: &mut mpsc::Receiver<Emitted>,
        wishes: &mut watch::Receiver<Wish>,
    ) -> Ended {
        let ctx = self.ctx.clone();
        let agent = within_run(ctx.shared.key.clone(), run_root(&ctx));
        let mut agent = std::pin::pin!(AssertUnwindSafe(agent).catch_unwind());
        let ended = loop {
            tokio::select! {
                biased;
                Some(emitted) = emitted.recv() => {
                    if let Some(wish) = self.take(emitted, wishes).await {
                        break Ended::CutOff(wish);
                    }
                }
                () = taken(&mut self.untaken) => {}
                wish = wished(wishes) => break Ended::CutOff(wish),
                ran = &mut agent => {
                    break Ended::Done(ran.unwrap_or_else(|panic| Err(panicked(&ctx, &*panic))));
                }
            }
        };
        // What the agent emitted and did not wait for is part of its work.
        while let Ok(emitted) = emitted.try_recv() {
            self.take(emitted, wishes).await;
        }
        if let Ended::Done(Err(error)) = &ended {
            self.store_failure(error).await;
        }
        ended
    }

    /// Stores an event of the agent and hands it on. Gives the wish that came before it was stored,
    /// if plugins took so long.
    async fn take(&mut self, emitted: Emitted, wishes: &mut watch::Receiver<Wish>) -> Option<Wish> {
        let Emitted { event, last, done } = emitted;
        let event = tokio::select! {
            biased;
            event = self.past_plugins(event) => event,
            wish = wished(wishes) => return Some(wish),
        };
        let stored = match event {
            Ok(event) => self.append(event, last).await,
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

    /// Stores an event of the run itself, and hands it on. Plugins have a limited time for it.
    async fn store(&mut self, event: Event, last: bool) -> Result<()> {
        let asked = Box::pin(self.past_plugins(Box::new(event.clone())));
        let event = match tokio::time::timeout(PATIENCE, asked).await {
            Ok(event) => event?,
            Err(_) => Box::new(event),
        };
        let event = self.append(event, last).await?;
        self.hand_on(event, None);
        Ok(())
    }

    /// The event as plugins want it.
    async fn past_plugins(&self, mut event: Box<Event>) -> Result<Box<Event>> {
        add_metadata(&mut event, &self.ctx.run_config().custom_metadata);
        let replaced = ask_plugins!(self.inner.plugins, on_event(&self.ctx, &event));
        if let Some(replaced) = replaced {
            *event = self.replaced(*event, replaced);
        }
        Ok(event)
    }

    /// Stores an event, unless it is partial.
    async fn append(&mut self, event: Box<Event>, last: bool) -> Result<Box<Event>> {
        if event.is_partial() {
            return Ok(event);
        }
        let Some(log) = self.inner.sessions.log() else {
            let stored = self
                .inner
                .sessions
                .append_event_locked(&self.session, *event);
            return Ok(Box::new(stored.await?));
        };
        let append = Append::from(*event);
        let append = match (&self.lease, last) {
            (Some(lease), true) => append.ending_run(lease.token),
            (Some(lease), false) => append.within_run(lease.token),
            // The run was given back too early: something followed the last event after all.
            (None, _) => append.beginning_run(self.ctx.run_config().turn),
        };
        let appended = log.append_live(&self.session, append).await?;
        if last {
            self.lease = None;
        } else if let (None, Some(token)) = (&self.lease, appended.run) {
            self.lease = Some(self.inner.leases.hold(&self.ctx.shared.key, token));
        }
        let stored = appended.events.into_iter().next();
        match stored {
            Some((_, event)) => Ok(Box::new(Arc::unwrap_or_clone(event))),
            None => Err(RunError::Cancelled),
        }
    }

    /// What a plugin put in the place of an event. Which event it is, the plugin does not decide.
    fn replaced(&self, original: Event, mut event: Event) -> Event {
        add_metadata(&mut event, &self.ctx.run_config().custom_metadata);
        if event.author.is_empty() {
            event.author = original.author;
        }
        let kept = original.response.custom_metadata.into_iter().flatten();
        let kept = kept.filter(|(key, _)| key.starts_with(INTERNAL_METADATA));
        let kept: Vec<_> = kept.collect();
        if !kept.is_empty() {
            event
                .response
                .custom_metadata
                .get_or_insert_default()
                .extend(kept);
        }
        Event {
            id: original.id,
            invocation_id: original.invocation_id,
            timestamp: original.timestamp,
            ..event
        }
    }

    /// Seals a run that was cut off: callbacks that are owed, answers to open calls.
    async fn seal(&mut self, wish: Wish) -> Result<()> {
        self.untaken.clear();
        for ctx in self.ctx.take_entered().into_iter().rev() {
            if tokio::time::timeout(PATIENCE, owed_after_agent(&ctx))
                .await
                .is_err()
            {
                tracing::warn!(
                    agent = ctx.agent_name(),
                    "a callback after a cancelled run hangs"
                );
            }
        }
        let events = self.session.update(|session| session.events.clone());
        let id = self.ctx.invocation_id();
        let mut sealing = abort::answers_to_open_calls(&events, id);
        // Who stops listening after the answer has cut nothing off.
        let is_complete = wish == Wish::Abandon && abort::is_answered(&events, id);
        if sealing.is_empty() && !is_complete {
            sealing.push(abort::plain_abort(id, self.inner.root.name()));
        }
        let count = sealing.len();
        for (number, mut event) in (1..).zip(sealing) {
            event.id = self.inner.ids.new_id();
            event.timestamp = self.inner.clock.now();
            self.store(event, number == count).await?;
        }
        let after = tokio::time::timeout(PATIENCE, self.after_run());
        after.await.unwrap_or(Ok(()))
    }

    /// Stores why the agent failed, and hands that on.
    async fn store_failure(&mut self, error: &RunError) {
        let mut event = Event {
            response: LlmResponse {
                error_code: Some(error.code().to_owned()),
                error_message: Some(error.cause()),
                ..LlmResponse::default()
            },
            ..self.ctx.new_event()
        };
        self.ctx.complete(&mut event);
        let is_last = self.inner.plugins.is_empty();
        if let Err(error) = self.store(event, is_last).await {
            tracing::warn!(%error, "the failure of a run could not be stored");
        }
    }

    async fn after_run(&self) -> Result<()> {
        ask_plugins!(self.inner.plugins, after_run(&self.ctx));
        Ok(())
    }

    /// Ends the run, if its last write did not.
    async fn give_back(&mut self) -> Result<()> {
        if let (Some(log), Some(lease)) = (self.inner.sessions.log(), self.lease.take()) {
            log.end_run(&self.ctx.shared.key, lease.token).await?;
        }
        Ok(())
    }

    /// Keeps the session at hand for the next run.
    fn keep(&self) {
        if self.is_windowed || self.inner.sessions.log().is_none() {
            return;
        }
        let shared = &self.ctx.shared;
        let mut assembled = shared
            .contents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let assembled = std::mem::take(&mut *assembled);
        let session = self.session.snapshot();
        self.inner.kept.put(shared.key.clone(), session, assembled);
    }

    fn hand_on(&self, event: Box<Event>, taken: Option<oneshot::Sender<()>>) {
        self.send(Sent::Event(event, taken));
    }

    fn send(&self, sent: Sent) {
        if let Some(out) = &self.out {
            // Nobody listens: the wish that says so is on its way.
            let _ = out.send(sent);
        }
    }
}

/// The root agent's run, unless a plugin answers in its place.
async fn run_root(ctx: &InvocationContext) -> Result<()> {
    let answer = ask_plugins!(ctx.shared.plugins, before_run(ctx));
    let Some(content) = answer else {
        return run_agent(ctx).await;
    };
    let event = Event {
        author: "model".to_owned(),
        response: LlmResponse::of(content),
        ..ctx.new_event()
    };
    ctx.emit(event).await?;
    Ok(())
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

/// Waits for the wish to end the run.
async fn wished(wishes: &mut watch::Receiver<Wish>) -> Wish {
    match wishes.wait_for(|wish| *wish != Wish::GoOn).await {
        Ok(wish) => *wish,
        Err(_) => Wish::Abandon,
    }
}

fn panicked(ctx: &InvocationContext, panic: &(dyn std::any::Any + Send)) -> RunError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "no reason given".to_owned());
    RunError::Agent {
        agent: ctx.agent_name().to_owned(),
        source: format!("panicked: {text}").into(),
    }
}

/// Adds the run's notes to an event; those of the event itself win.
pub(super) fn add_metadata(event: &mut Event, metadata: &JsonMap) {
    let mut notes = metadata
        .iter()
        .filter(|(key, _)| !key.starts_with(INTERNAL_METADATA))
        .peekable();
    if notes.peek().is_none() {
        return;
    }
    let mut all: JsonMap = notes.map(|(key, value)| (key, value.clone())).collect();
    all.extend(event.response.custom_metadata.take().into_iter().flatten());
    event.response.custom_metadata = Some(all);
}
