//! `RunStream`: a run as its caller sees it, and the handle by which it is cancelled.

use std::{
    pin::Pin,
    sync::{Arc, mpsc as std_mpsc},
    task::{Context, Poll},
};

use futures_core::Stream;
use retain_core::{Event, SessionKey};
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::{Result, RunError};

/// Whether a run is to go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Wish {
    #[default]
    GoOn,
    /// Cancelled through a handle.
    Cancel,
    /// Nobody listens any more.
    Abandon,
}

/// What the run sends to its caller.
#[derive(Debug)]
pub(super) enum Sent {
    /// An event, and whom to tell when the caller asks for the next one.
    Event(Box<Event>, Option<oneshot::Sender<()>>),
    /// The run is over.
    End(Result<()>),
}

/// Cancels a run. Cloning gives a second one for the same run.
#[derive(Debug, Clone)]
pub struct RunHandle {
    invocation_id: Arc<str>,
    wish: Arc<watch::Sender<Wish>>,
}

impl RunHandle {
    /// The id of the run, known before its first event.
    pub fn invocation_id(&self) -> &str {
        &self.invocation_id
    }

    /// Stops the run: what it is doing is dropped, open calls are answered by an error in the log,
    /// and the stream ends with the events that say so. A run that is over stays as it is.
    pub fn cancel(&self) {
        self.wish.send_replace(Wish::Cancel);
    }
}

/// The events of a run, as they come. A final event was stored before it comes out here.
///
/// The run goes on as far as events are taken. Dropping the stream stops it: what was stored stays,
/// and calls that have no answer get one that says that the run was cut off.
#[derive(Debug)]
pub struct RunStream {
    pub(super) key: SessionKey,
    pub(super) handle: RunHandle,
    pub(super) events: mpsc::UnboundedReceiver<Sent>,
    /// Told when the next event is asked for.
    pub(super) taken: Option<oneshot::Sender<()>>,
    pub(super) is_over: bool,
}

impl RunStream {
    pub(super) fn handle_of(invocation_id: &str, wish: Arc<watch::Sender<Wish>>) -> RunHandle {
        RunHandle {
            invocation_id: invocation_id.into(),
            wish,
        }
    }

    /// The id of the run.
    pub fn invocation_id(&self) -> &str {
        self.handle.invocation_id()
    }

    /// The id of the session, which may have been made for this run.
    pub fn session_id(&self) -> &str {
        &self.key.id
    }

    /// A handle to cancel the run from elsewhere.
    pub fn handle(&self) -> RunHandle {
        self.handle.clone()
    }

    /// Takes all events, to the end of the run. Fails if the run does.
    pub async fn collect_events(mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        while let Some(event) = futures_util::StreamExt::next(&mut self).await {
            events.push(event?);
        }
        Ok(events)
    }

    /// The text of the last answer. Fails if the run does.
    pub async fn answer(self) -> Result<String> {
        let events = self.collect_events().await?;
        let answer = events.iter().rev().find(|event| event.is_final_response());
        let content = answer.and_then(Event::content);
        Ok(content
            .map(|content| content.text_concat())
            .unwrap_or_default())
    }
}

impl Stream for RunStream {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        if let Some(taken) = self.taken.take() {
            // The run may be over already.
            let _ = taken.send(());
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        match std::task::ready!(self.events.poll_recv(cx)) {
            Some(Sent::Event(event, taken)) => {
                self.taken = taken;
                Poll::Ready(Some(Ok(*event)))
            }
            Some(Sent::End(result)) => {
                self.is_over = true;
                Poll::Ready(result.err().map(Err))
            }
            None => {
                self.is_over = true;
                let source = "its task ended before it was done".into();
                let agent = self.key.app.clone();
                Poll::Ready(Some(Err(RunError::Agent { agent, source })))
            }
        }
    }
}

impl Drop for RunStream {
    fn drop(&mut self) {
        if !self.is_over {
            // Cancelling by hand comes first.
            self.handle.wish.send_if_modified(|wish| {
                let was_going_on = *wish == Wish::GoOn;
                if was_going_on {
                    *wish = Wish::Abandon;
                }
                was_going_on
            });
        }
    }
}

/// The events of a run for callers that are not async. Dropping it stops the run.
#[derive(Debug)]
pub struct BlockingRun {
    events: std_mpsc::Receiver<Result<Event>>,
}

impl BlockingRun {
    /// Hands the events of a run over, one at a time, on a thread of their own.
    pub(super) fn of(
        run: impl Future<Output = Result<RunStream>> + Send + 'static,
    ) -> Result<BlockingRun> {
        // Without a place to wait in, the next event is made only when it is asked for.
        let (send, events) = std_mpsc::sync_channel(0);
        let runtime = super::blocking_runtime()?.clone();
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let mut stream = match run.await {
                    Ok(stream) => stream,
                    Err(error) => {
                        let _ = send.send(Err(error));
                        return;
                    }
                };
                while let Some(event) = futures_util::StreamExt::next(&mut stream).await {
                    // Nobody listens any more: dropping the stream stops the run.
                    if send.send(event).is_err() {
                        return;
                    }
                }
            });
        });
        Ok(BlockingRun { events })
    }
}

impl Iterator for BlockingRun {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        self.events.recv().ok()
    }
}
