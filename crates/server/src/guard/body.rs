//! Limits on headers and bodies: size, encoding and speed.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::{MatchedPath, Request},
    http::{HeaderValue, header},
    response::Response,
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Limited;

use super::{fault, limits::ServerLimits};
use crate::stall_timer::StallTimer;

/// The only route that streams its body instead of reading it into memory.
const STREAMED: &str = "/api/v1/import";

/// Size of the request line and headers in bytes.
fn head_bytes(request: &Request) -> usize {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + 4);
    let line = request.uri().path_and_query();
    headers.sum::<usize>() + line.map_or(0, |line| line.as_str().len())
}

/// Check the size of the headers, and that the announced body is acceptable.
pub(super) fn check(request: &Request, limits: &ServerLimits) -> Result<(), Box<Response>> {
    let path = request.uri().path();
    if head_bytes(request) > limits.header_bytes {
        // The limit of the HTTP parser is coarse: what it accepts depends on how the head arrives.
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

/// Wrap the body so that it fails when it is too large or arrives too slowly.
pub(super) fn limited(request: Request, limits: &ServerLimits) -> Request {
    // An empty body needs no timer.
    if request.body().is_end_stream() {
        return request;
    }
    let most = match is_stream(&request) {
        true => usize::MAX,
        false => limits.body_bytes,
    };
    request.map(|body| Body::new(Limited::new(TimedBody::new(body, limits), most)))
}

/// Whether the body is unlimited. Decided by the route, because a path may end in any name that a
/// client chooses.
fn is_stream(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    route.is_some_and(|route| route.as_str() == STREAMED)
}

/// A body that must arrive fast enough. Only time spent waiting for the client counts; the handler
/// may read as slowly as it likes.
struct TimedBody {
    body: Body,
    patience: StallTimer,
}

impl TimedBody {
    fn new(body: Body, limits: &ServerLimits) -> TimedBody {
        TimedBody {
            body,
            patience: StallTimer::new(limits.body_timeout, limits.body_bytes_per_second),
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
            self.patience.note(bytes);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match self.patience.poll_end(cx) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;
    use tokio::time::sleep;

    use super::*;

    /// Count the chunks that are accepted if each takes this long.
    async fn taken(bytes: usize, every: Duration) -> usize {
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
        let mut taken = 0;
        while let Some(Ok(_)) = body.frame().await {
            taken += 1;
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_arrives_too_slowly_times_out() {
        // Each chunk is in time; all together are not.
        assert_eq!(taken(1, Duration::from_secs(10)).await, 3);
        assert_eq!(taken(1000, Duration::from_secs(10)).await, 100);
        assert_eq!(taken(100_000, Duration::from_secs(31)).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn body_with_a_fast_start_still_times_out() {
        let much = stream::once(async { Bytes::from(vec![b' '; 1_000_000]) });
        let drops = stream::iter(0..100).then(|_| async {
            sleep(Duration::from_secs(20)).await;
            Bytes::from(" ")
        });
        let pieces = much.chain(drops).map(Ok::<_, std::io::Error>);
        let limits = ServerLimits {
            body_timeout: Duration::from_secs(30),
            body_bytes_per_second: 100,
            ..ServerLimits::default()
        };
        let mut body = TimedBody::new(Body::from_stream(Box::pin(pieces)), &limits);
        let mut taken = 0;
        while let Some(Ok(_)) = body.frame().await {
            taken += 1;
        }
        assert_eq!(taken, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_handler_does_not_time_out_the_client() {
        let limits = ServerLimits::default();
        let pieces = stream::iter((0..20).map(|_| Ok::<_, std::io::Error>(Bytes::from("x"))));
        let mut body = TimedBody::new(Body::from_stream(pieces), &limits);
        let mut taken = 0;
        while let Some(Ok(_)) = body.frame().await {
            sleep(Duration::from_secs(60)).await;
            taken += 1;
        }
        assert_eq!(taken, 20);
    }
}
