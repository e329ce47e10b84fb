//! What a request brings along: headers and a body, not too much, not packed, not too slowly.

use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{MatchedPath, Request},
    http::{HeaderValue, header},
    response::Response,
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Limited;
use tokio::time::{Instant, Sleep, sleep};

use super::{fault, limits::ServerLimits};

/// The only route whose body is handled as it comes, and never in memory as a whole.
const STREAMED: &str = "/api/v1/import";

/// Bytes of the request's line and headers.
fn head_bytes(request: &Request) -> usize {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + 4);
    let line = request.uri().path_and_query();
    headers.sum::<usize>() + line.map_or(0, |line| line.as_str().len())
}

/// Whether the headers are of a decent size, and speak of a body that can be taken.
pub(super) fn check(request: &Request, limits: &ServerLimits) -> Result<(), Box<Response>> {
    let path = request.uri().path();
    if head_bytes(request) > limits.header_bytes {
        // The reader's own bound is coarse: what it lets pass depends on how the head arrives.
        let limit = limits.header_bytes;
        let detail = format!("the headers are larger than {limit} bytes together");
        return Err(Box::new(fault(path, 431, &detail)));
    }
    let encoding = request.headers().get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        // What a packed body grows to is known only when it is too late.
        let detail = "a packed body is not taken; send it without Content-Encoding";
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
        let detail = format!("the body is larger than {limit} bytes, which is the most there is");
        return Err(Box::new(fault(path, 413, &detail)));
    }
    Ok(())
}

/// The request, whose body ends in an error where it is too large or comes too slowly.
pub(super) fn limited(request: Request, limits: &ServerLimits) -> Request {
    // Nothing to wait for: nothing to watch.
    if request.body().is_end_stream() {
        return request;
    }
    let patience = limits.body_timeout;
    let most = match is_stream(&request) {
        true => usize::MAX,
        false => limits.body_bytes,
    };
    request.map(|body| Body::new(Limited::new(Timely::new(body, patience), most)))
}

/// Whether there is no limit. By the route: a path may end in whatever a client calls its things.
fn is_stream(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    route.is_some_and(|route| route.as_str() == STREAMED)
}

/// A body whose pieces come in time.
struct Timely {
    body: Body,
    patience: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl Timely {
    fn new(body: Body, patience: Duration) -> Timely {
        Timely {
            body,
            patience,
            alarm: Box::pin(sleep(patience)),
        }
    }
}

impl HttpBody for Timely {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            let deadline = Instant::now() + self.patience;
            self.alarm.as_mut().reset(deadline);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match self.alarm.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(Err("the body came too slowly".into()))),
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
