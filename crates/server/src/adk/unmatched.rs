//! Requests without a route: paths of the default app, trailing slashes, and FastAPI's 404 and 405.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, StatusCode, Uri, header, uri::PathAndQuery},
    response::{IntoResponse as _, Response},
};
use tower::ServiceExt as _;

use super::errors::AdkError;
use crate::services::Server;

/// Adds the fallbacks to the router.
pub(crate) fn with_fallbacks(router: Router, server: &Arc<Server>) -> Router {
    let router = router.method_not_allowed_fallback(method_not_allowed);
    let paths = Server::routes().into_iter().map(|route| route.path);
    let unmatched = Arc::new(Unmatched {
        routed: router.clone().fallback(async || not_found()),
        paths: paths.collect(),
        server: Arc::clone(server),
    });
    router.fallback(move |request: Request| {
        let unmatched = Arc::clone(&unmatched);
        async move { unmatched.answer(request).await }
    })
}

/// Handles requests that match no route.
struct Unmatched {
    /// The routes that handle a path after `/apps/{app}` was added to it.
    routed: Router,
    /// The path patterns of the routes, with parameters in braces.
    paths: Vec<&'static str>,
    server: Arc<Server>,
}

async fn method_not_allowed() -> AdkError {
    AdkError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
}

impl Unmatched {
    async fn answer(&self, mut request: Request) -> Response {
        let path = request.uri().path();
        let default_app = self.server.apps.default_app();
        let Some(app) = default_app.filter(|_| may_omit_app(path)) else {
            return self.redirect(&request).unwrap_or_else(not_found);
        };
        let Some(uri) = with_path(request.uri(), &format!("/apps/{app}{path}")) else {
            return not_found();
        };
        *request.uri_mut() = uri;
        if let Some(redirect) = self.redirect(&request) {
            return redirect;
        }
        let answered = self.routed.clone().oneshot(request).await;
        answered.unwrap_or_else(|never| match never {})
    }

    /// Redirects a path with a redundant trailing slash, as FastAPI does.
    fn redirect(&self, request: &Request) -> Option<Response> {
        let requested = request.uri().path();
        let path = requested.strip_suffix('/')?;
        let is_known = |path: &str| self.paths.iter().any(|known| matches_pattern(known, path));
        if is_known(requested) || !is_known(path) {
            return None;
        }
        let uri = with_path(request.uri(), path)?;
        // The target names no host: clients behind a proxy must use the host of the proxy.
        let target = HeaderValue::from_str(uri.path_and_query()?.as_str()).ok()?;
        let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
        response.headers_mut().insert(header::LOCATION, target);
        Some(response)
    }
}

fn not_found() -> Response {
    AdkError::not_found("Not Found").into_response()
}

/// Whether ADK accepts the path without `/apps/{app}`, for the default app.
fn may_omit_app(path: &str) -> bool {
    path.starts_with("/users/") || path == "/app-info"
}

fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let mut text = path.to_owned();
    if let Some(query) = uri.query() {
        text.push('?');
        text.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(text.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

/// Whether a path matches a pattern of a route.
fn matches_pattern(pattern: &str, path: &str) -> bool {
    let (pattern, path) = (pattern.split('/'), path.split('/'));
    let is_name = |pattern: &str| pattern.starts_with('{') && !pattern.starts_with("{*");
    pattern.clone().count() == path.clone().count()
        && pattern
            .zip(path)
            .all(|(pattern, path)| pattern == path || (is_name(pattern) && !path.is_empty()))
}
