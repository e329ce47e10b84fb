//! Requests that no route takes: paths without an app where one is the default, a slash too many,
//! and FastAPI's 404 and 405.

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

/// The router with what is answered where it has no route.
pub(crate) fn with_fallbacks(router: Router, server: &Arc<Server>) -> Router {
    let router = router.method_not_allowed_fallback(wrong_method);
    let routed = router.clone();
    let server = Arc::clone(server);
    router.fallback(move |request: Request| {
        let (routed, server) = (routed.clone(), Arc::clone(&server));
        async move { no_route(routed, &server, request).await }
    })
}

async fn wrong_method() -> AdkError {
    AdkError::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
}

async fn no_route(routed: Router, server: &Server, mut request: Request) -> Response {
    let path = request.uri().path();
    if let Some(app) = server.apps.default_app().filter(|_| may_lack_app(path)) {
        let Some(uri) = with_path(request.uri(), &format!("/apps/{app}{path}")) else {
            return not_found();
        };
        *request.uri_mut() = uri;
        let answered = routed.oneshot(request).await;
        return answered.unwrap_or_else(|never| match never {});
    }
    redirect_without_slash(&request).unwrap_or_else(not_found)
}

fn not_found() -> Response {
    AdkError::not_found("Not Found").into_response()
}

/// ADK's paths that are taken for the default app.
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

/// As FastAPI: a known path with a slash behind it is asked for again without.
fn redirect_without_slash(request: &Request) -> Option<Response> {
    let path = request.uri().path().strip_suffix('/')?;
    let is_known = |known: &str| fits(known, path);
    if !Server::routes().iter().any(|route| is_known(route.path)) {
        return None;
    }
    let uri = with_path(request.uri(), path)?;
    let target = uri.path_and_query()?.as_str();
    let host = request.headers().get(header::HOST)?.to_str().ok()?;
    let target = HeaderValue::from_str(&format!("http://{host}{target}")).ok()?;
    let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
    response.headers_mut().insert(header::LOCATION, target);
    Some(response)
}

/// Whether a path is of this form.
fn fits(form: &str, path: &str) -> bool {
    let (form, path) = (form.split('/'), path.split('/'));
    let is_name = |form: &str| form.starts_with('{') && !form.starts_with("{*");
    form.clone().count() == path.clone().count()
        && form
            .zip(path)
            .all(|(form, path)| form == path || (is_name(form) && !path.is_empty()))
}
