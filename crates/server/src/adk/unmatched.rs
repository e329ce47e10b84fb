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

/// Add the fallbacks to the router.
pub(crate) fn with_fallbacks(router: Router, server: &Arc<Server>) -> Router {
    let router = router.method_not_allowed_fallback(wrong_method);
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

/// What the fallbacks need.
struct Unmatched {
    /// The routes, for a rewritten path.
    routed: Router,
    /// Their paths, with names in braces.
    paths: Vec<&'static str>,
    server: Arc<Server>,
}

async fn wrong_method() -> AdkError {
    AdkError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
}

impl Unmatched {
    async fn answer(&self, mut request: Request) -> Response {
        let path = request.uri().path();
        let default_app = self.server.apps.default_app();
        let Some(app) = default_app.filter(|_| may_lack_app(path)) else {
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

    /// As in FastAPI, redirect a known path with a trailing slash.
    fn redirect(&self, request: &Request) -> Option<Response> {
        let asked = request.uri().path();
        let path = asked.strip_suffix('/')?;
        let is_known = |path: &str| self.paths.iter().any(|known| fits(known, path));
        if is_known(asked) || !is_known(path) {
            return None;
        }
        let uri = with_path(request.uri(), path)?;
        // Without a host, because a proxy has its own.
        let target = HeaderValue::from_str(uri.path_and_query()?.as_str()).ok()?;
        let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
        response.headers_mut().insert(header::LOCATION, target);
        Some(response)
    }
}

fn not_found() -> Response {
    AdkError::not_found("Not Found").into_response()
}

/// ADK's paths for the default app.
fn may_lack_app(path: &str) -> bool {
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

/// Whether a path matches this pattern.
fn fits(form: &str, path: &str) -> bool {
    let (form, path) = (form.split('/'), path.split('/'));
    let is_name = |form: &str| form.starts_with('{') && !form.starts_with("{*");
    form.clone().count() == path.clone().count()
        && form
            .zip(path)
            .all(|(form, path)| form == path || (is_name(form) && !path.is_empty()))
}
