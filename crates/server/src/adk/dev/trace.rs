//! What happened in a run.

use axum::{extract::Path, http::Method, response::Response};

use super::{super::errors::AdkError, IsDev, LOOKS, json};
use crate::routes::Routes;

pub(super) fn routes(routes: Routes) -> Routes {
    let of_app = "/dev/apps/{app}/debug/trace/{event}";
    let session_of_app = "/dev/apps/{app}/debug/trace/session/{session}";
    routes
        .add(Method::GET, "/debug/trace/{event}", LOOKS, event)
        .add(
            Method::GET,
            "/debug/trace/session/{session}",
            LOOKS,
            session,
        )
        .add(Method::GET, of_app, LOOKS, event_of_app)
        .add(Method::GET, session_of_app, LOOKS, session_of)
}

async fn event(dev: IsDev, Path(event): Path<String>) -> Result<Response, AdkError> {
    found(&dev, None, &event)
}

async fn event_of_app(
    dev: IsDev,
    Path((app, event)): Path<(String, String)>,
) -> Result<Response, AdkError> {
    found(&dev, Some(&app), &event)
}

fn found(dev: &IsDev, app: Option<&str>, event: &str) -> Result<Response, AdkError> {
    let found = dev.0.traces().of_event(app, event);
    let found = found.ok_or_else(|| AdkError::not_found("Trace not found"))?;
    Ok(json(found))
}

async fn session(dev: IsDev, Path(session): Path<String>) -> Response {
    json(dev.0.traces().of_session(None, &session))
}

async fn session_of(dev: IsDev, Path((app, session)): Path<(String, String)>) -> Response {
    json(dev.0.traces().of_session(Some(&app), &session))
}
