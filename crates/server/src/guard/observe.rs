//! Give each request an id, a log line and its counters, even if the client disconnects. Neither
//! content nor user names are recorded.

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
const CLIENT_LEFT: u16 = 499;

/// Links the span of a request to the caller's trace, from the request's headers.
#[derive(Clone)]
pub struct TraceContext(Arc<SetParent>);

type SetParent = dyn Fn(&Span, &HeaderMap) + Send + Sync;

impl TraceContext {
    /// Called for each request before its handler.
    pub fn new(tell: impl Fn(&Span, &HeaderMap) + Send + Sync + 'static) -> TraceContext {
        TraceContext(Arc::new(tell))
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceContext")
    }
}

/// Handle a request with `answer` and record it.
pub(super) async fn observe<F: Future<Output = Response>>(
    guards: &Arc<Guards>,
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    let id = request_id(guards, request.headers());
    let method = known_method(request.method());
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default());
    let mut asked = RequestRecord {
        guards,
        method,
        route: request.extensions().get::<MatchedPath>().cloned(),
        began: Instant::now(),
        span: span.clone(),
        status: CLIENT_LEFT,
    };
    // The span for tracing; the log has its own.
    let followed = span.in_scope(|| followed(method, asked.route.as_ref()));
    if let Some(context) = guards
        .trace_context
        .as_ref()
        .filter(|_| !followed.is_disabled())
    {
        (context.0)(&followed, request.headers());
    }
    let answer = answer(request).instrument(followed.clone());
    let mut response = answer.instrument(span).await;
    asked.status = response.status().as_u16();
    followed.record("http.response.status_code", i64::from(asked.status));
    if response.status().is_server_error() {
        followed.record("otel.status_description", response.status().as_str());
    }
    drop(asked);
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// A request in progress. Recorded on drop, so that a request whose client disconnected is recorded
/// too.
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
        self.guards.metrics.answered(method, route, status, took);
        let _inside = self.span.enter();
        let ms = took.as_micros() as f64 / 1e3;
        match status {
            CLIENT_LEFT => {
                tracing::info!(target: "retain::access", method, route, status, ms, "client \
                                                                                     disconnected");
            }
            _ => tracing::info!(target: "retain::access", method, route, status, ms, "answered"),
        }
    }
}

/// The span of a request by OpenTelemetry's conventions. It has the route, not the path, which
/// contains names of users and sessions.
fn followed(method: &'static str, route: Option<&MatchedPath>) -> Span {
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

/// The client's request id if it is well-formed, otherwise a new one.
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

/// Count unknown methods as one, so that a client cannot create unlimited counters.
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

    /// Routes that never respond, behind guards.
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
        let mut asked = Box::pin(router(&guards).oneshot(request("/hangs")));
        let answer = tokio::time::timeout(Duration::ZERO, &mut asked).await;
        assert!(answer.is_err(), "it hangs");
        assert_eq!(count(&guards, "/hangs", CLIENT_LEFT), 0);
        drop(asked);
        assert_eq!(count(&guards, "/hangs", CLIENT_LEFT), 1);
    }

    #[tokio::test]
    async fn panicking_handler_returns_500() {
        let guards = Arc::new(Guards::default());
        for (path, kind) in [
            ("/panics", "application/json"),
            ("/api/panics", "application/problem+json"),
        ] {
            let asked = router(&guards).oneshot(request(path));
            let answer = tokio::time::timeout(Duration::from_secs(20), asked).await;
            let answer = answer.unwrap().unwrap();
            assert_eq!(answer.status(), 500);
            assert_eq!(answer.headers()["content-type"], kind);
            assert!(answer.headers().contains_key("x-request-id"));
            assert_eq!(count(&guards, path, 500), 1);
        }
    }
}
