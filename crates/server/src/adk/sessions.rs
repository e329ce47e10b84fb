//! Sessions: create (also with events, as an import), read, list, update the state, delete.

use axum::{
    extract::{Path, Request, State as Shares},
    http::Method,
    response::Response,
};
use retain_core::{
    CreateSession, Event, EventActions, GetSessionConfig, Ids as _, JsonMap, RandomIds, Session,
    SessionKey, State,
    adk::{ValueType, table},
};

use super::{
    answers::{json_response, null_response, session_text},
    bodies::{self, Body, ExpectedBody},
    dev::with_initial_state,
    errors::AdkError,
    redact::redacted,
    session_list::list_text,
};
use crate::{
    guard::{Caller, Scope},
    routes::{Access, Routes},
    services::Shared,
    untrusted_input,
};

const SESSIONS: &str = "/apps/{app}/users/{user}/sessions";
const SESSION: &str = "/apps/{app}/users/{user}/sessions/{session}";

pub(super) fn routes(routes: Routes) -> Routes {
    let (reads, writes) = (
        Access::Path(Scope::SessionsRead),
        Access::Path(Scope::SessionsWrite),
    );
    routes
        .add(Method::GET, SESSIONS, reads, list_sessions)
        .add(Method::POST, SESSIONS, writes, create_session)
        .add(Method::GET, SESSION, reads, get_session)
        .add(Method::POST, SESSION, writes, create_session_with_id)
        .add(Method::PATCH, SESSION, writes, update_session)
        .add(Method::DELETE, SESSION, writes, delete_session)
}

async fn list_sessions(
    Shares(server): Shares<Shared>,
    Path((app, user)): Path<(String, String)>,
) -> Result<Response, AdkError> {
    let sessions = &server.services.sessions;
    let listed = sessions.list_encoded(&app, &user).await?;
    Ok(json_response(redacted(list_text(&app, &user, &listed)?)?))
}

async fn get_session(
    Shares(server): Shares<Shared>,
    Path((app, user, session)): Path<(String, String, String)>,
) -> Result<Response, AdkError> {
    let session = find(&server, &app, &user, &session).await?;
    Ok(json_response(session_text(&session)?))
}

async fn delete_session(
    Shares(server): Shares<Shared>,
    Path((app, user, session)): Path<(String, String, String)>,
) -> Result<Response, AdkError> {
    let sessions = &server.services.sessions;
    sessions.delete_session(&app, &user, &session).await?;
    let key = SessionKey::new(app, user, session);
    server.apps.delete_traces_of_session(&key);
    Ok(null_response())
}

/// Loads a session with all its events, or fails with 404.
pub(super) async fn find(
    server: &Shared,
    app: &str,
    user: &str,
    session: &str,
) -> Result<Session, AdkError> {
    let sessions = &server.services.sessions;
    let all = GetSessionConfig::default();
    let found = sessions.get_session(app, user, session, all).await?;
    found.ok_or_else(|| AdkError::not_found("Session not found"))
}

async fn create_session_with_id(
    Shares(server): Shares<Shared>,
    Path((app, user, session)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, AdkError> {
    let expected = ExpectedBody {
        value: &ValueType::Dict,
        is_optional: true,
        keeps_unknown: false,
    };
    let caller = Caller::from_extensions(request.extensions());
    let state = bodies::read_as(request, expected).await?;
    let state = state.map(Body::into_map);
    untrusted_input::check_state(&caller, state.iter().flat_map(JsonMap::keys))?;
    let state = State::from(with_initial_state(&server, &app, state.unwrap_or_default()).await);
    let sessions = &server.services.sessions;
    let created = sessions.create_session(&app, &user, Some(state), Some(&session));
    Ok(json_response(session_text(&created.await?)?))
}

async fn create_session(
    Shares(server): Shares<Shared>,
    Path((app, user)): Path<(String, String)>,
    request: Request,
) -> Result<Response, AdkError> {
    static BODY: ValueType = ValueType::Object(&table::CREATE_SESSION_REQUEST);
    let expected = ExpectedBody {
        value: &BODY,
        is_optional: true,
        // A newer ADK may have exported the session, with fields that this version does not know.
        keeps_unknown: true,
    };
    let caller = Caller::from_extensions(request.extensions());
    let body = bodies::read_as(request, expected).await?;
    let body = body.unwrap_or_default();
    check_options(&body)?;
    let events = body.events("events")?;
    let state = body.map("state").unwrap_or_default();
    let state = match events.is_empty() {
        true => {
            untrusted_input::check_state(&caller, state.keys())?;
            with_initial_state(&server, &app, state).await
        }
        // An export also contains `app:` keys, which a user-bound API key must not set.
        false => untrusted_input::without_forbidden_keys(&caller, state),
    };
    let mut new = CreateSession::new(app, user).with_state(State::from(state));
    new.session_id = body.text("sessionId");
    let sessions = &server.services.sessions;
    let session = match events.is_empty() {
        true => sessions.create(new).await?,
        false => {
            let events = events
                .into_iter()
                .map(untrusted_input::mark_restored)
                .collect();
            sessions.create_with_events(new, events).await?
        }
    };
    Ok(json_response(session_text(&session)?))
}

/// Rejects session options: ADK passes them to its session service, and Retain's has none.
fn check_options(body: &Body) -> Result<(), AdkError> {
    let options = body.map("options").unwrap_or_default();
    let bound = ["app_name", "session_id", "state", "user_id"];
    let bound: Vec<&str> = bound
        .into_iter()
        .filter(|key| options.contains_key(key))
        .collect();
    if !bound.is_empty() {
        return Err(AdkError::bad_request(format!(
            "Session options cannot contain keys already bound by the endpoint: {}",
            bound.join(", ")
        )));
    }
    match options.is_empty() {
        true => Ok(()),
        false => Err(AdkError::bad_request(
            "Session options are not supported by the configured session service.",
        )),
    }
}

async fn update_session(
    Shares(server): Shares<Shared>,
    Path((app, user, session)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, AdkError> {
    static BODY: ValueType = ValueType::Object(&table::UPDATE_SESSION_REQUEST);
    let caller = Caller::from_extensions(request.extensions());
    let body = bodies::read(request, &BODY).await?;
    untrusted_input::check_state(&caller, body.keys("stateDelta"))?;
    let mut session = find(&server, &app, &user, &session).await?;
    let event = Event {
        invocation_id: format!("p-{}", RandomIds.new_id()),
        author: "user".to_owned(),
        actions: EventActions {
            state_delta: body.map("stateDelta").unwrap_or_default(),
            ..EventActions::default()
        },
        ..Event::default()
    };
    let sessions = &server.services.sessions;
    sessions.append_event(&mut session, event).await?;
    Ok(json_response(session_text(&session)?))
}
