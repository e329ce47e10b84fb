//! How a server ends: it listens no more, waits a while for what is running, then cuts it off.
//!
//! Streams that only follow a session end at once. Those of running turns have the time that the
//! server waits, and then end with a line that says why; dropping them stops the turn, and the
//! runner stores that it was cut off.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    http::header,
    response::Response,
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;

use crate::metrics::{Counted, Metrics};

/// How far the end has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Not at all.
    #[default]
    Open,
    /// Nobody comes in any more; what runs may go on for a while.
    Draining,
    /// What still runs is cut off.
    Over,
}

/// Whether the server is about to end.
#[derive(Debug)]
pub struct Shutdown {
    phase: watch::Sender<Phase>,
}

impl Default for Shutdown {
    fn default() -> Shutdown {
        Shutdown {
            phase: watch::Sender::new(Phase::Open),
        }
    }
}

/// Somebody who wants to know.
#[derive(Debug)]
pub(crate) struct Follower(watch::Receiver<Phase>);

impl Follower {
    /// Returns when the end has come so far.
    pub(crate) async fn reached(&mut self, phase: Phase) {
        if self.0.wait_for(|now| *now >= phase).await.is_err() {
            // Who could tell is gone without telling: then there is no end to wait for.
            std::future::pending::<()>().await;
        }
    }
}

impl Shutdown {
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    pub(crate) fn follow(&self) -> Follower {
        Follower(self.phase.subscribe())
    }

    /// The answer, which ends with the server if it is a stream of events.
    pub(crate) fn ending(&self, response: Response, is_run: bool, metrics: &Metrics) -> Response {
        let content_type = response.headers().get(header::CONTENT_TYPE);
        let is_events = |value: &[u8]| value.starts_with(b"text/event-stream");
        if !content_type.is_some_and(|value| is_events(value.as_bytes())) {
            return response;
        }
        let (phase, last_words) = match is_run {
            true => (Phase::Over, LAST_WORDS),
            false => (Phase::Draining, END_OF_TAIL),
        };
        let mut follower = self.follow();
        let end = Box::pin(async move { follower.reached(phase).await });
        let counted = metrics.stream();
        response.map(|body| {
            Body::new(Ending {
                body: Some(body),
                end,
                last_words: Bytes::from_static(last_words),
                _counted: counted,
            })
        })
    }
}

/// What the stream of a turn says that is cut off, as ADK says late errors.
const LAST_WORDS: &[u8] =
    b"data: {\"error\": \"the server is shutting down; the turn was cut off\"}\n\n";

/// What the stream of a session's events says, so that its reader knows that there is more to come:
/// not `end`, which is for a session that is deleted.
const END_OF_TAIL: &[u8] = b"event: restart\ndata: {\"reason\":\"shutdown\"}\n\n";

/// A body that ends when the server does.
struct Ending {
    body: Option<Body>,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    last_words: Bytes,
    _counted: Counted,
}

impl HttpBody for Ending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            if frame.is_none() {
                self.body = None;
            }
            return Poll::Ready(frame);
        }
        match self.end.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                self.body = None;
                let last_words = std::mem::take(&mut self.last_words);
                Poll::Ready(Some(Ok(Frame::data(last_words))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
