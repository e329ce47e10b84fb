//! Shutdown in phases: stop listening, wait for running requests, interrupt the rest.
//!
//! Live tails end immediately. Streams of runs end after the grace period, with a frame that gives
//! the reason; this cancels the run, and the runner stores it as interrupted.

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

use crate::metrics::{GaugeGuard, Metrics};

/// The phase of a shutdown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The server accepts connections.
    #[default]
    Open,
    /// The server accepts no more connections; running requests may finish.
    Draining,
    /// The server interrupts running requests.
    Over,
}

/// The shutdown state of a server.
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

/// Waits for a phase.
#[derive(Debug)]
pub(crate) struct PhaseWatcher(watch::Receiver<Phase>);

impl PhaseWatcher {
    /// Waits until the phase is reached.
    pub(crate) async fn reached(&mut self, phase: Phase) {
        if self.0.wait_for(|now| *now >= phase).await.is_err() {
            // The sender is gone without a shutdown, so wait forever.
            std::future::pending::<()>().await;
        }
    }
}

impl Shutdown {
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    pub(crate) fn follow(&self) -> PhaseWatcher {
        PhaseWatcher(self.phase.subscribe())
    }

    /// Wraps an event stream so that it ends when the server shuts down. Other responses stay
    /// unchanged.
    pub(crate) fn end_with_server(
        &self,
        response: Response,
        is_run: bool,
        metrics: &Metrics,
    ) -> Response {
        let content_type = response.headers().get(header::CONTENT_TYPE);
        let is_events = |value: &[u8]| value.starts_with(b"text/event-stream");
        if !content_type.is_some_and(|value| is_events(value.as_bytes())) {
            return response;
        }
        let (phase, last_frame) = match is_run {
            true => (Phase::Over, INTERRUPTED_RUN),
            false => (Phase::Draining, RESTART),
        };
        let mut follower = self.follow();
        let end = Box::pin(async move { follower.reached(phase).await });
        let counted = metrics.stream();
        response.map(|body| {
            Body::new(EndingBody {
                body: Some(body),
                end,
                last_frame: Bytes::from_static(last_frame),
                _counted: counted,
            })
        })
    }
}

/// The last frame of an interrupted run's stream, in ADK's format for late errors.
const INTERRUPTED_RUN: &[u8] =
    b"data: {\"error\": \"the server is shutting down; the run was interrupted\"}\n\n";

/// The last frame of a live tail. It is `restart`, because the client may reconnect; `end` means
/// that the session was deleted.
const RESTART: &[u8] = b"event: restart\ndata: {\"reason\":\"shutdown\"}\n\n";

/// A body that ends when the server shuts down.
struct EndingBody {
    body: Option<Body>,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    last_frame: Bytes,
    _counted: GaugeGuard,
}

impl HttpBody for EndingBody {
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
                let last_frame = std::mem::take(&mut self.last_frame);
                Poll::Ready(Some(Ok(Frame::data(last_frame))))
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
