//! Traces of runs.

use axum::{
    extract::{Path, State},
    http::Method,
    response::Response,
};
use retain_core::{Json, SessionKey, Window};

use super::{super::errors::AdkError, DevOnly, VIEW, json};
use crate::{routes::Routes, services::Shared};

pub(super) fn routes(routes: Routes) -> Routes {
    let event_path_of_app = "/dev/apps/{app}/debug/trace/{event}";
    let session_path_of_app = "/dev/apps/{app}/debug/trace/session/{session}";
    routes
        .add(Method::GET, "/debug/trace/{event}", VIEW, event)
        .add(Method::GET, "/debug/trace/session/{session}", VIEW, session)
        .add(Method::GET, event_path_of_app, VIEW, event_of_app)
        .add(Method::GET, session_path_of_app, VIEW, session_of_app)
}

async fn event(
    dev: DevOnly,
    State(server): State<Shared>,
    Path(event): Path<String>,
) -> Result<Response, AdkError> {
    event_trace(&dev, &server, None, &event).await
}

async fn event_of_app(
    dev: DevOnly,
    State(server): State<Shared>,
    Path((app, event)): Path<(String, String)>,
) -> Result<Response, AdkError> {
    event_trace(&dev, &server, Some(&app), &event).await
}

async fn event_trace(
    dev: &DevOnly,
    server: &Shared,
    app: Option<&str>,
    event: &str,
) -> Result<Response, AdkError> {
    if let Some((session, found)) = dev.0.traces().event_attributes(app, event)
        && session_exists(dev, server, &session).await?
    {
        return Ok(json(found));
    }
    Err(AdkError::not_found("Trace not found"))
}

async fn session(
    dev: DevOnly,
    State(server): State<Shared>,
    Path(session): Path<String>,
) -> Result<Response, AdkError> {
    session_spans(&dev, &server, None, &session).await
}

async fn session_of_app(
    dev: DevOnly,
    State(server): State<Shared>,
    Path((app, session)): Path<(String, String)>,
) -> Result<Response, AdkError> {
    session_spans(&dev, &server, Some(&app), &session).await
}

/// Returns the spans of one session. The path has no user: of several sessions with this id, the
/// one that ran last is returned.
async fn session_spans(
    dev: &DevOnly,
    server: &Shared,
    app: Option<&str>,
    id: &str,
) -> Result<Response, AdkError> {
    let traces = dev.0.traces();
    while let Some(session) = traces.latest_session(app, id) {
        if session_exists(dev, server, &session).await? {
            return Ok(json(traces.session_spans(&session)));
        }
    }
    Ok(json(Vec::<Json>::new()))
}

/// Whether a session exists. If not, another process may have deleted it, so this deletes its
/// traces.
async fn session_exists(
    dev: &DevOnly,
    server: &Shared,
    session: &SessionKey,
) -> Result<bool, AdkError> {
    let read = server.services.sessions.read(session, Window::NONE);
    let exists = read.await?.is_some();
    if !exists {
        dev.0.traces().delete_session(session);
    }
    Ok(exists)
}
