//! `RunStream`: a run as its caller sees it, and the handle that cancels it.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, mpsc as std_mpsc},
    task::{Context, Poll},
};

use futures_core::Stream;
use retain_core::{Content, Event, SessionKey};
use tokio::sync::{mpsc, oneshot};

use super::{leases::IdleSince, stop::StopSignal};
use crate::{
    error::{ModelError, Result, RunError},
    runner::INVOCATION_ABORTED,
};

/// A message from the run to its caller.
#[derive(Debug)]
pub(crate) enum StreamItem {
    /// An event, and a sender with which the caller asks for the next one.
    Event(Box<Event>, Option<oneshot::Sender<()>>),
    /// The run is over.
    End(Result<()>),
}

/// Cancels a run. Clones refer to the same run.
#[derive(Debug, Clone)]
pub struct RunHandle {
    invocation_id: Arc<str>,
    stop: StopSignal,
}

impl RunHandle {
    pub(crate) fn new(invocation_id: &str, stop: StopSignal) -> RunHandle {
        RunHandle {
            invocation_id: invocation_id.into(),
            stop,
        }
    }

    /// Returns the id of the run, available before its first event.
    pub fn invocation_id(&self) -> &str {
        &self.invocation_id
    }

    /// Cancels the run: it drops its pending work, answers open calls with errors in the log, and
    /// ends the stream with those events. Cancelling a finished run has no effect.
    pub fn cancel(&self) {
        self.stop.cancel();
    }
}

/// A run's events, in order. The stream yields a complete event only after it is stored.
///
/// Polling the stream drives the run. Dropping the stream stops the run: stored events stay, and
/// unanswered calls get an error saying that the run was aborted.
pub struct RunStream {
    pub(crate) key: SessionKey,
    pub(crate) handle: RunHandle,
    pub(crate) events: mpsc::UnboundedReceiver<StreamItem>,
    /// Tells the run that the caller asks for the next event.
    pub(crate) taken: Option<oneshot::Sender<()>>,
    /// The run's future, until the run ends. Polling this stream polls it.
    pub(crate) run: Option<Run>,
    pub(crate) idle: Arc<IdleSince>,
    /// Whether the stream has yielded the end.
    pub(crate) is_over: bool,
}

/// The future of a run.
pub(crate) type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

impl RunStream {
    /// Returns the id of the run.
    pub fn invocation_id(&self) -> &str {
        self.handle.invocation_id()
    }

    /// Returns the id of the session, which may have been created for this run.
    pub fn session_id(&self) -> &str {
        &self.key.id
    }

    /// Returns a handle that cancels the run from elsewhere.
    pub fn handle(&self) -> RunHandle {
        self.handle.clone()
    }

    /// Collects all events until the run ends. Fails if the run fails.
    pub async fn collect_events(mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        while let Some(event) = futures_util::StreamExt::next(&mut self).await {
            events.push(event?);
        }
        Ok(events)
    }

    /// Returns the text of the last answer. Fails if the run fails, or if the run was cancelled or
    /// the model returned an error before any answer.
    pub async fn answer(self) -> Result<String> {
        let events = self.collect_events().await?;
        let text = |event: &Event| event.content().map(Content::text_concat);
        let answers = events
            .iter()
            .rev()
            .filter(|event| event.is_final_response());
        let answer = answers.filter_map(text).find(|text| !text.is_empty());
        match (answer, events.last().and_then(error_of_event)) {
            (None, Some(error)) => Err(error),
            (answer, _) => Ok(answer.unwrap_or_default()),
        }
    }
}

/// Returns the event's error, if it has one.
fn error_of_event(event: &Event) -> Option<RunError> {
    let code = event.response.error_code.clone()?;
    if code == INVOCATION_ABORTED {
        return Some(RunError::Cancelled);
    }
    let message = event.response.error_message.clone();
    let message = message.unwrap_or_else(|| code.clone());
    Some(RunError::Model {
        model: event
            .response
            .model_version
            .clone()
            .unwrap_or_else(|| event.author.clone()),
        source: ModelError::new(message).with_code(code),
    })
}

impl fmt::Debug for RunStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream")
            .field("session", &self.key)
            .field("invocation_id", &self.handle.invocation_id)
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

impl RunStream {
    /// Polls the run until it has started. Returns its id.
    pub(crate) async fn begin(
        &mut self,
        mut began: oneshot::Receiver<Result<String>>,
    ) -> Result<String> {
        let began = std::future::poll_fn(|cx| {
            self.poll_run(cx);
            Pin::new(&mut began).poll(cx)
        });
        match began.await {
            Ok(began) => began,
            Err(_) => Err(self.early_end_error()),
        }
    }

    fn poll_run(&mut self, cx: &mut Context<'_>) {
        let Some(run) = &mut self.run else {
            return;
        };
        // A tool that blocks its thread blocks this poll too, and the run makes no progress.
        self.idle.begin();
        let is_over = run.as_mut().poll(cx).is_ready();
        self.idle.end();
        if is_over {
            self.run = None;
        }
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        match std::task::ready!(self.events.poll_recv(cx)) {
            Some(StreamItem::Event(event, taken)) => {
                self.taken = taken;
                self.idle.begin();
                Poll::Ready(Some(Ok(*event)))
            }
            Some(StreamItem::End(result)) => {
                self.is_over = true;
                Poll::Ready(result.err().map(Err))
            }
            None => {
                self.is_over = true;
                Poll::Ready(Some(Err(self.early_end_error())))
            }
        }
    }

    fn early_end_error(&self) -> RunError {
        RunError::BrokenOff {
            reason: "it panicked outside its agent".to_owned(),
        }
    }
}

impl Stream for RunStream {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        self.idle.end();
        if let Some(taken) = self.taken.take() {
            // Sending fails if the run is over.
            let _ = taken.send(());
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        // Yield events that were sent already, so that the run waits until the caller has taken
        // them.
        if let sent @ Poll::Ready(_) = self.poll_sent(cx) {
            return sent;
        }
        self.poll_run(cx);
        self.poll_sent(cx)
    }
}

impl Drop for RunStream {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else {
            return;
        };
        self.handle.stop.abandon();
        // Finish the run in the background, because the caller must not wait for it.
        let runtime = tokio::runtime::Handle::try_current();
        match runtime.or_else(|_| crate::runner::own_runtime().cloned()) {
            Ok(runtime) => drop(runtime.spawn(run)),
            Err(error) => {
                tracing::warn!(
                    ?error,
                    "failed to finish an abandoned run; the session is locked until its lease \
                     expires"
                );
            }
        }
    }
}

/// A run's events for synchronous callers. Dropping it stops the run.
#[derive(Debug)]
pub struct BlockingRun {
    session_id: String,
    handle: RunHandle,
    /// Requests the next event.
    wanted: std_mpsc::Sender<()>,
    events: std_mpsc::Receiver<Option<Result<Event>>>,
}

impl BlockingRun {
    /// Starts a thread that drives the run when the caller asks for events.
    pub(crate) fn start(
        run: impl Future<Output = Result<RunStream>> + Send + 'static,
    ) -> Result<BlockingRun> {
        let (started_run, began) = std_mpsc::channel();
        let (wanted, wants) = std_mpsc::channel();
        let (send, events) = std_mpsc::channel();
        let runtime = crate::runner::own_runtime()?.clone();
        std::thread::spawn(move || {
            let mut stream = match runtime.block_on(run) {
                Ok(stream) => stream,
                Err(error) => return drop(started_run.send(Err(error))),
            };
            let about = (stream.session_id().to_owned(), stream.handle());
            // If the caller has disconnected, dropping the stream stops the run.
            let mut has_caller = started_run.send(Ok(about)).is_ok();
            while has_caller && wants.recv().is_ok() {
                let event = runtime.block_on(futures_util::StreamExt::next(&mut stream));
                has_caller = send.send(event).is_ok();
            }
            let _inside = runtime.enter();
            drop(stream);
        });
        let (session_id, handle) = began.recv().map_err(|_| RunError::BrokenOff {
            reason: "its thread panicked".to_owned(),
        })??;
        Ok(BlockingRun {
            session_id,
            handle,
            wanted,
            events,
        })
    }

    /// Returns the id of the run.
    pub fn invocation_id(&self) -> &str {
        self.handle.invocation_id()
    }

    /// Returns the id of the session, which may have been created for this run.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Returns a handle that cancels the run from elsewhere.
    pub fn handle(&self) -> RunHandle {
        self.handle.clone()
    }
}

impl Iterator for BlockingRun {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        self.wanted.send(()).ok()?;
        self.events.recv().ok()?
    }
}

impl Drop for BlockingRun {
    fn drop(&mut self) {
        // The thread may be waiting for an event; it ends when the run does.
        self.handle.stop.abandon();
    }
}
