//! Traces of runs.

use axum::{
    extract::{Path, State},
    http::Method,
    response::Response,
};
use retain_core::{Json, SessionKey, Window};

use super::{super::errors::AdkError, DevOnly, LOOKS, json};
use crate::{routes::Routes, services::Shared};

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

async fn event(
    dev: DevOnly,
    State(server): State<Shared>,
    Path(event): Path<String>,
) -> Result<Response, AdkError> {
    found(&dev, &server, None, &event).await
}

async fn event_of_app(
    dev: DevOnly,
    State(server): State<Shared>,
    Path((app, event)): Path<(String, String)>,
) -> Result<Response, AdkError> {
    found(&dev, &server, Some(&app), &event).await
}

async fn found(
    dev: &DevOnly,
    server: &Shared,
    app: Option<&str>,
    event: &str,
) -> Result<Response, AdkError> {
    if let Some((session, found)) = dev.0.traces().of_event(app, event)
        && is_there(dev, server, &session).await?
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
    spans(&dev, &server, None, &session).await
}

async fn session_of(
    dev: DevOnly,
    State(server): State<Shared>,
    Path((app, session)): Path<(String, String)>,
) -> Result<Response, AdkError> {
    spans(&dev, &server, Some(&app), &session).await
}

/// The spans of one session. The path has no user: if several sessions have the id, it is the one
/// that ran last.
async fn spans(
    dev: &DevOnly,
    server: &Shared,
    app: Option<&str>,
    id: &str,
) -> Result<Response, AdkError> {
    let traces = dev.0.traces();
    while let Some(session) = traces.session_named(app, id) {
        if is_there(dev, server, &session).await? {
            return Ok(json(traces.of_session(&session)));
        }
    }
    Ok(json(Vec::<Json>::new()))
}

/// Check that a session exists. If it was deleted, for instance by another process, drop its
/// traces.
async fn is_there(dev: &DevOnly, server: &Shared, session: &SessionKey) -> Result<bool, AdkError> {
    let read = server.services.sessions.read(session, Window::NONE);
    let is_there = read.await?.is_some();
    if !is_there {
        dev.0.traces().forget_session(session);
    }
    Ok(is_there)
}
