//! What a request brings along: headers and a body, not too much, not packed, not too slowly.

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
use crate::patience::Patience;

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
    let most = match is_stream(&request) {
        true => usize::MAX,
        false => limits.body_bytes,
    };
    request.map(|body| Body::new(Limited::new(Timely::new(body, limits), most)))
}

/// Whether there is no limit. By the route: a path may end in whatever a client calls its things.
fn is_stream(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    route.is_some_and(|route| route.as_str() == STREAMED)
}

/// A body whose pieces come in time, and not drop by drop. Only the time counts in which the client
/// is waited for: whoever reads the body may take as long as it likes.
struct Timely {
    body: Body,
    patience: Patience,
}

impl Timely {
    fn new(body: Body, limits: &ServerLimits) -> Timely {
        Timely {
            body,
            patience: Patience::new(limits.body_timeout, limits.body_bytes_per_second),
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
            let piece = frame.as_ref().and_then(|frame| frame.as_ref().ok());
            let bytes = piece.and_then(Frame::data_ref).map_or(0, Bytes::len);
            self.patience.note(bytes);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match self.patience.poll_end(cx) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;
    use tokio::time::sleep;

    use super::*;

    /// How many pieces of a body are taken whose every piece takes so long.
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
        let mut body = Timely::new(Body::from_stream(Box::pin(pieces)), &limits);
        let mut taken = 0;
        while let Some(Ok(_)) = body.frame().await {
            taken += 1;
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_does_not_come_drop_by_drop() {
        // Each in time; all together not.
        assert_eq!(taken(1, Duration::from_secs(10)).await, 3);
        assert_eq!(taken(1000, Duration::from_secs(10)).await, 100);
        assert_eq!(taken(100_000, Duration::from_secs(31)).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_sent_much_may_not_sit_on_it() {
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
        let mut body = Timely::new(Body::from_stream(Box::pin(pieces)), &limits);
        let mut taken = 0;
        while let Some(Ok(_)) = body.frame().await {
            taken += 1;
        }
        assert_eq!(taken, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_does_not_make_its_client_slow() {
        let limits = ServerLimits::default();
        let pieces = stream::iter((0..20).map(|_| Ok::<_, std::io::Error>(Bytes::from("x"))));
        let mut body = Timely::new(Body::from_stream(pieces), &limits);
        let mut taken = 0;
        while let Some(Ok(_)) = body.frame().await {
            sleep(Duration::from_secs(60)).await;
            taken += 1;
        }
        assert_eq!(taken, 20);
    }
}
