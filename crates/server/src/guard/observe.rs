//! Give each request an id, a log line and a count, even if the client disconnects. Neither content
//! nor user names are recorded.

use std::{fmt, sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderName, HeaderValue, Method},
    response::Response,
};
use retain_runtime::telemetry::SPANS;
use tracing::{Instrument as _, Span, field::Empty};

use super::Guards;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The route label of unknown paths.
const NO_ROUTE: &str = "none";

/// The status recorded for a request whose client disconnected before the response.
const CLIENT_DISCONNECTED: u16 = 499;

/// Links the span of a request to the client's trace, which the request's headers name.
#[derive(Clone)]
pub struct TraceContext(Arc<SetParent>);

type SetParent = dyn Fn(&Span, &HeaderMap) + Send + Sync;

impl TraceContext {
    /// Calls `link` with the span and the headers of each request, before its handler.
    pub fn new(link: impl Fn(&Span, &HeaderMap) + Send + Sync + 'static) -> TraceContext {
        TraceContext(Arc::new(link))
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceContext")
    }
}

/// Handles a request with `answer` and records it.
pub(super) async fn observe<F: Future<Output = Response>>(
    guards: &Arc<Guards>,
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    let id = request_id(guards, request.headers());
    let method = known_method(request.method());
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default());
    let mut record = RequestRecord {
        guards,
        method,
        route: request.extensions().get::<MatchedPath>().cloned(),
        began: Instant::now(),
        span: span.clone(),
        status: CLIENT_DISCONNECTED,
    };
    // A second span, for OpenTelemetry; the first one is for the log.
    let otel_span = span.in_scope(|| otel_span(method, record.route.as_ref()));
    if let Some(context) = guards
        .trace_context
        .as_ref()
        .filter(|_| !otel_span.is_disabled())
    {
        (context.0)(&otel_span, request.headers());
    }
    let answer = answer(request).instrument(otel_span.clone());
    let mut response = answer.instrument(span).await;
    record.status = response.status().as_u16();
    otel_span.record("http.response.status_code", i64::from(record.status));
    if response.status().is_server_error() {
        otel_span.record("otel.status_description", response.status().as_str());
    }
    drop(record);
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// A request in progress. Dropping it writes the log line and the counters, even if the client
/// disconnected.
struct RequestRecord<'a> {
    guards: &'a Guards,
    method: &'static str,
    route: Option<MatchedPath>,
    began: Instant,
    span: Span,
    status: u16,
}

impl Drop for RequestRecord<'_> {
    fn drop(&mut self) {
        let (method, status, took) = (self.method, self.status, self.began.elapsed());
        let route = self.route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
        self.guards
            .metrics
            .record_response(method, route, status, took);
        let _inside = self.span.enter();
        let ms = took.as_micros() as f64 / 1e3;
        match status {
            CLIENT_DISCONNECTED => {
                tracing::info!(target: "retain::access", method, route, status, ms, "client \
                                                                                     disconnected");
            }
            _ => tracing::info!(target: "retain::access", method, route, status, ms, "answered"),
        }
    }
}

/// Creates the span of a request by OpenTelemetry's conventions. It contains the route instead of
/// the path, which names users and sessions.
fn otel_span(method: &'static str, route: Option<&MatchedPath>) -> Span {
    let route = route.map_or(NO_ROUTE, MatchedPath::as_str);
    tracing::info_span!(
        target: SPANS,
        "http_request",
        "otel.name" = %format_args!("{method} {route}"),
        "otel.kind" = "server",
        "http.request.method" = method,
        "http.route" = route,
        "http.response.status_code" = Empty,
        "otel.status_description" = Empty,
    )
}

/// Returns the client's request id if it is well-formed, otherwise a new one.
fn request_id(guards: &Guards, headers: &HeaderMap) -> HeaderValue {
    let is_well_formed = |value: &&HeaderValue| {
        let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:".contains(b);
        (1..=128).contains(&value.len()) && value.as_bytes().iter().all(is_plain)
    };
    let given = headers.get(REQUEST_ID).filter(is_well_formed).cloned();
    given.unwrap_or_else(|| {
        let id = HeaderValue::try_from(guards.ids.new_id());
        id.unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    })
}

/// Maps unknown methods to `OTHER`, so that a client cannot create any number of counters.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::{Router, body::Body, middleware::from_fn_with_state, routing::get};
    use tower::ServiceExt as _;

    use super::*;
    use crate::guard::guard_request;

    /// Creates routes that panic or never respond, behind guards.
    fn router(guards: &Arc<Guards>) -> Router {
        let panics = async || -> &'static str { panic!("on purpose") };
        Router::new()
            .route("/panics", get(panics))
            .route("/api/panics", get(panics))
            .route("/hangs", get(std::future::pending::<&'static str>))
            .layer(from_fn_with_state(Arc::clone(guards), guard_request))
    }

    fn request(path: &str) -> Request {
        Request::get(path).body(Body::empty()).unwrap()
    }

    fn count(guards: &Guards, route: &str, status: u16) -> usize {
        let line = format!(
            "retain_http_requests_total{{method=\"GET\",route=\"{route}\",status=\"{status}\"}} 1"
        );
        let text = guards.metrics.text(&[]);
        text.lines().filter(|found| *found == line).count()
    }

    #[tokio::test]
    async fn request_of_a_disconnected_client_is_counted() {
        let guards = Arc::new(Guards::default());
        let mut pending = Box::pin(router(&guards).oneshot(request("/hangs")));
        let answer = tokio::time::timeout(Duration::ZERO, &mut pending).await;
        assert!(answer.is_err(), "the handler never responds");
        assert_eq!(count(&guards, "/hangs", CLIENT_DISCONNECTED), 0);
        drop(pending);
        assert_eq!(count(&guards, "/hangs", CLIENT_DISCONNECTED), 1);
    }

    #[tokio::test]
    async fn panicking_handler_returns_500() {
        let guards = Arc::new(Guards::default());
        for (path, kind) in [
            ("/panics", "application/json"),
            ("/api/panics", "application/problem+json"),
        ] {
            let pending = router(&guards).oneshot(request(path));
            let answer = tokio::time::timeout(Duration::from_secs(20), pending).await;
            let answer = answer.unwrap().unwrap();
            assert_eq!(answer.status(), 500);
            assert_eq!(answer.headers()["content-type"], kind);
            assert!(answer.headers().contains_key("x-request-id"));
            assert_eq!(count(&guards, path, 500), 1);
        }
    }
}
