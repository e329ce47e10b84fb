//! Limits on headers and bodies: size, encoding, speed and memory.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    extract::{MatchedPath, Request},
    http::{HeaderValue, header},
    response::Response,
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Limited;
use retain_core::budget::{Meter, OverBudget};

use super::{fault, limits::ServerLimits};
use crate::stall_timer::StallTimer;

/// The only route that streams its body instead of reading it into memory.
const STREAMED: &str = "/api/v1/import";

/// Returns the size of the request line and headers in bytes.
fn head_bytes(request: &Request) -> usize {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + 4);
    let line = request.uri().path_and_query();
    headers.sum::<usize>() + line.map_or(0, |line| line.as_str().len())
}

/// Checks the size of the headers, and the encoding and announced size of the body.
pub(super) fn check(request: &Request, limits: &ServerLimits) -> Result<(), Box<Response>> {
    let path = request.uri().path();
    if head_bytes(request) > limits.header_bytes {
        // The HTTP parser's limit is imprecise: it depends on how the bytes of the headers arrive.
        let limit = limits.header_bytes;
        let detail = format!("the headers exceed the limit of {limit} bytes");
        return Err(Box::new(fault(path, 431, &detail)));
    }
    let encoding = request.headers().get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        // The size of a compressed body is known only after decompressing it.
        let detail = "compressed bodies are not supported; send the body without Content-Encoding";
        let mut response = fault(path, 415, detail);
        let identity = HeaderValue::from_static("identity");
        response
            .headers_mut()
            .insert(header::ACCEPT_ENCODING, identity);
        return Err(Box::new(response));
    }
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits.body_bytes as u64) && !is_stream(request) {
        let limit = limits.body_bytes;
        let detail = format!("the body exceeds the limit of {limit} bytes");
        return Err(Box::new(fault(path, 413, &detail)));
    }
    Ok(())
}

/// Wraps the body so that it fails when it is too large or arrives too slowly, and counts its
/// bytes, unless the handler streams it.
pub(super) fn with_limits(request: Request, limits: &ServerLimits, meter: &Meter) -> Request {
    // An empty body needs no timer.
    if request.body().is_end_stream() {
        return request;
    }
    let is_stream = is_stream(&request);
    request.map(|body| {
        let body = TimedBody::new(body, limits);
        match is_stream {
            true => Body::new(body),
            false => {
                let body = Limited::new(body, limits.body_bytes);
                Body::new(ReservedBody::new(Body::new(body), meter.clone()))
            }
        }
    })
}

/// Whether the size of the body is unlimited. The route decides, because clients choose the ids in
/// a path.
fn is_stream(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    route.is_some_and(|route| route.as_str() == STREAMED)
}

/// A body that must arrive fast enough. Only time spent waiting for the client counts; the handler
/// may read as slowly as it likes.
struct TimedBody {
    body: Body,
    timer: StallTimer,
}

impl TimedBody {
    fn new(body: Body, limits: &ServerLimits) -> TimedBody {
        TimedBody {
            body,
            timer: StallTimer::new(limits.body_timeout, limits.body_bytes_per_second),
        }
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            let piece = frame.as_ref().and_then(|frame| frame.as_ref().ok());
            let bytes = piece.and_then(Frame::data_ref).map_or(0, Bytes::len);
            self.timer.record_progress(bytes);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match self.timer.poll_expired(cx) {
            Poll::Ready(()) => Poll::Ready(Some(Err(
                "timed out reading the body: it arrived too slowly".into(),
            ))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body whose bytes are reserved as they arrive. Reading waits while the budget is used up.
struct ReservedBody {
    body: Body,
    meter: Meter,
    waiting: Option<WaitingFrame>,
}

/// A frame that waits for its bytes.
struct WaitingFrame {
    frame: Frame<Bytes>,
    reserve: Pin<Box<dyn Future<Output = Result<(), OverBudget>> + Send>>,
}

impl ReservedBody {
    fn new(body: Body, meter: Meter) -> ReservedBody {
        ReservedBody {
            body,
            meter,
            waiting: None,
        }
    }
}

impl HttpBody for ReservedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if self.waiting.is_none() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into_inner()))),
                None => return Poll::Ready(None),
            };
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            if self.meter.try_charge(bytes).is_ok() {
                return Poll::Ready(Some(Ok(frame)));
            }
            let meter = self.meter.clone();
            let reserve = Box::pin(async move { meter.reserve(bytes).await });
            self.waiting = Some(WaitingFrame { frame, reserve });
        }
        let Some(waiting) = &mut self.waiting else {
            return Poll::Ready(None);
        };
        let reserved = ready!(waiting.reserve.as_mut().poll(cx));
        let frame = self.waiting.take().map(|waiting| Ok(waiting.frame));
        match reserved {
            Ok(()) => Poll::Ready(frame),
            Err(error) => Poll::Ready(Some(Err(error.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.waiting {
            Some(_) => SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;
    use tokio::time::sleep;

    use super::*;

    /// Counts the accepted chunks of a body that sends one chunk of `bytes` per `every`.
    async fn accepted_chunks(bytes: usize, every: Duration) -> usize {
        let pieces = stream::iter(0..100).then(move |_| async move {
            sleep(every).await;
            Ok::<_, std::io::Error>(Bytes::from(vec![b' '; bytes]))
        });
        let limits = ServerLimits {
            body_timeout: Duration::from_secs(30),
            body_bytes_per_second: 100,
            ..ServerLimits::default()
        };
        let mut body = TimedBody::new(Body::from_stream(Box::pin(pieces)), &limits);
        let mut accepted = 0;
        while let Some(Ok(_)) = body.frame().await {
            accepted += 1;
        }
        accepted
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_arrives_too_slowly_times_out() {
        // The chunks of the first body arrive in time, but the body is too slow on average. Those
        // of the last body arrive too late.
        assert_eq!(accepted_chunks(1, Duration::from_secs(10)).await, 3);
        assert_eq!(accepted_chunks(1000, Duration::from_secs(10)).await, 100);
        assert_eq!(accepted_chunks(100_000, Duration::from_secs(31)).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn body_with_a_fast_start_still_times_out() {
        let large_chunk = stream::once(async { Bytes::from(vec![b' '; 1_000_000]) });
        let small_chunks = stream::iter(0..100).then(|_| async {
            sleep(Duration::from_secs(20)).await;
            Bytes::from(" ")
        });
        let pieces = large_chunk.chain(small_chunks).map(Ok::<_, std::io::Error>);
        let limits = ServerLimits {
            body_timeout: Duration::from_secs(30),
            body_bytes_per_second: 100,
            ..ServerLimits::default()
        };
        let mut body = TimedBody::new(Body::from_stream(Box::pin(pieces)), &limits);
        let mut accepted = 0;
        while let Some(Ok(_)) = body.frame().await {
            accepted += 1;
        }
        assert_eq!(accepted, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_handler_does_not_time_out_the_client() {
        let limits = ServerLimits::default();
        let pieces = stream::iter((0..20).map(|_| Ok::<_, std::io::Error>(Bytes::from("x"))));
        let mut body = TimedBody::new(Body::from_stream(pieces), &limits);
        let mut accepted = 0;
        while let Some(Ok(_)) = body.frame().await {
            sleep(Duration::from_secs(60)).await;
            accepted += 1;
        }
        assert_eq!(accepted, 20);
    }
}
