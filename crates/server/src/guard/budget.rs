//! The memory budget of requests: each counts its bytes until its response is sent.
//!
//! An API key gets at most half of the budget, so that one tenant cannot exhaust it for the others.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::{MatchedPath, Request},
    http::{HeaderValue, header},
    response::Response,
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use retain_core::budget::{BudgetUse, ByteBudget, Meter};

use super::{Guards, fault, keys::KeyId};
use crate::routes::is_public;

/// Bytes of a request besides its content: its tasks, headers and small buffers.
const REQUEST_BYTES: usize = 16 * 1024;

/// Bytes of a connection between requests.
pub(crate) const CONNECTION_BYTES: usize = 16 * 1024;

/// Maximum size of one piece of a response. The HTTP library takes a piece as a whole, and the
/// budget counts it until then.
const PIECE_BYTES: usize = 32 * 1024;

/// Number of shares above which unused ones are removed.
const SHARES_MAX: usize = 1024;

/// A request that is over budget may be repeated after this time.
const RETRY_SECONDS: &str = "2";

/// The budget of the server, and the share of each API key.
#[derive(Debug, Default)]
pub(crate) struct MemoryLimit {
    whole: ByteBudget,
    shares: Mutex<HashMap<String, ByteBudget>>,
}

impl MemoryLimit {
    /// Limits requests and caches to `budget`.
    pub(crate) fn new(budget: ByteBudget) -> MemoryLimit {
        MemoryLimit {
            whole: budget,
            shares: Mutex::default(),
        }
    }

    /// The budget of the whole server.
    pub(crate) fn budget(&self) -> &ByteBudget {
        &self.whole
    }

    /// The share of an API key.
    fn share(&self, key: &str) -> ByteBudget {
        let Some(limit) = self.whole.limit() else {
            return ByteBudget::default();
        };
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.len() >= SHARES_MAX {
            shares.retain(|_, share| share.used() > 0);
        }
        let share = shares.entry(key.to_owned());
        share.or_insert_with(|| self.whole.part(limit / 2)).clone()
    }
}

/// Starts to count the bytes of a request, or returns the response that rejects it. Operators get
/// answers also when the budget is used up.
pub(super) async fn open_meter(
    guards: &Guards,
    request: Request,
) -> Result<(Request, Meter), Box<Response>> {
    let meter = new_meter(guards, &request);
    match meter.reserve(REQUEST_BYTES).await {
        Ok(()) => Ok((request, meter)),
        Err(_) => Err(Box::new(over_budget(request.uri().path()))),
    }
}

fn new_meter(guards: &Guards, request: &Request) -> Meter {
    let route = request.extensions().get::<MatchedPath>();
    let is_metrics = route.is_some_and(|route| route.as_str() == "/metrics");
    let memory = &guards.memory;
    if is_metrics || is_public(request) {
        let meter = Meter::new(&memory.whole, BudgetUse::Requests);
        meter.admit();
        return meter;
    }
    let budget = match request.extensions().get::<KeyId>() {
        Some(KeyId(key)) => memory.share(key),
        None => memory.whole.clone(),
    };
    Meter::new(&budget, BudgetUse::Requests)
}

fn over_budget(path: &str) -> Response {
    let detail = "the server has reached its memory limit; see Retry-After";
    let mut response = fault(path, 503, detail);
    let seconds = HeaderValue::from_static(RETRY_SECONDS);
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

/// Counts the bytes of a response until the client has read them. Replaces the error of a request
/// that could not get enough bytes.
pub(super) fn hold_until_end(response: Response, meter: Meter, path: &str) -> Response {
    let status = response.status();
    if meter.is_refused() && (status.is_client_error() || status.is_server_error()) {
        return over_budget(path);
    }
    if response.body().is_end_stream() {
        return response;
    }
    response.map(|body| {
        Body::new(MeteredBody {
            body,
            rest: Bytes::new(),
            _meter: meter,
        })
    })
}

/// A body in small pieces that holds a meter. While the client does not read, at most one piece is
/// taken from it.
struct MeteredBody {
    body: Body,
    /// The part of the last piece that was not sent.
    rest: Bytes,
    _meter: Meter,
}

impl HttpBody for MeteredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest + body.lower());
        if let Some(upper) = body.upper() {
            hint.set_upper(rest + upper);
        }
        hint
    }
}

/// Counts a connection until the result is dropped.
pub(crate) fn count_connection(guards: &Arc<Guards>) -> retain_core::budget::Reservation {
    let mut bytes = guards.memory.whole.empty(BudgetUse::Requests);
    bytes.force_grow(CONNECTION_BYTES);
    bytes
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    const MB: usize = 1024 * 1024;

    #[tokio::test]
    async fn response_counts_until_its_last_piece_is_taken() {
        let budget = ByteBudget::new(MB);
        let meter = Meter::new(&budget, BudgetUse::Requests);
        meter.charge(MB / 2).unwrap();
        let sent = vec![7; PIECE_BYTES * 3 + 1];
        let response = Response::new(Body::from(sent.clone()));
        let mut body = hold_until_end(response, meter, "/").into_body();
        assert_eq!(body.size_hint().exact(), Some(sent.len() as u64));
        let mut received = Vec::new();
        while received.len() < sent.len() {
            assert_eq!((budget.used(), body.is_end_stream()), (MB / 2, false));
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE_BYTES);
            received.extend_from_slice(&piece);
        }
        assert!(received == sent && body.is_end_stream());
        drop(body);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn api_key_gets_half_of_the_budget() {
        let limit = MemoryLimit::new(ByteBudget::new(MB));
        let use_of = BudgetUse::Requests;
        let held = limit.share("a").try_reserve(use_of, MB / 2).unwrap();
        limit.share("a").try_reserve(use_of, 1).unwrap_err();
        let other = limit.share("b").try_reserve(use_of, MB / 2).unwrap();
        for number in 0..2 * SHARES_MAX {
            limit.share(&format!("key {number}"));
        }
        limit.share("a").try_reserve(use_of, 1).unwrap_err();
        drop((held, other));
        assert_eq!(limit.budget().used(), 0);
    }
}
