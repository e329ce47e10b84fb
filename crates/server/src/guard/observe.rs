//! Each request gets an id, a line in the log and its place in the counters. What is said in it,
//! and whose it is, is nowhere.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderName, HeaderValue, Method},
    response::Response,
};
use tracing::Instrument as _;

use super::Guards;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What stands for a path that is no route.
const NO_ROUTE: &str = "none";

/// Answers a request by `answer`, and notes that it did.
pub(super) async fn observed<F: Future<Output = Response>>(
    guards: &Arc<Guards>,
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    let began = Instant::now();
    let id = request_id(guards, request.headers());
    let method = known_method(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default());
    let mut response = answer(request).instrument(span.clone()).await;
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    let status = response.status().as_u16();
    let took = began.elapsed();
    guards.metrics.answered(method, route, status, took);
    span.in_scope(|| {
        let ms = took.as_micros() as f64 / 1e3;
        tracing::info!(target: "retain::access", method, route, status, ms, "answered");
    });
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The id that the client gives, if it is a decent one; else a new one.
fn request_id(guards: &Guards, headers: &HeaderMap) -> HeaderValue {
    let is_decent = |value: &&HeaderValue| {
        let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:".contains(b);
        (1..=128).contains(&value.len()) && value.as_bytes().iter().all(is_plain)
    };
    let given = headers.get(REQUEST_ID).filter(is_decent).cloned();
    given.unwrap_or_else(|| {
        let id = HeaderValue::try_from(guards.ids.new_id());
        id.unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    })
}

/// Methods that nobody knows are one, so that a client cannot make counters without end.
fn known_method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}
