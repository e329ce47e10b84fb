//! Sessions: create (also with events, as an import), read, list, change the state, delete.

use axum::{
    extract::{Path, Request, State as Shares},
    http::Method,
    response::Response,
};
use retain_core::{
    Append, Event, EventActions, GetSessionConfig, Ids as _, JsonMap, RandomIds, Session,
    SessionKey, State,
};

use super::{
    answers::{json_response, null_response, session_text, sessions_text},
    bodies::{self, Body, Expected},
    errors::AdkError,
    models::{CREATE_SESSION, UPDATE_SESSION},
    redact,
    validate::Kind,
};
use crate::{
    guard::Scope,
    routes::{Access, Routes},
    services::Shared,
};

const SESSIONS: &str = "/apps/{app}/users/{user}/sessions";
const SESSION: &str = "/apps/{app}/users/{user}/sessions/{session}";

/// Sessions with ids like these are made by evaluations, and not listed.
const EVALUATIONS: [&str; 2] = ["adk-eval-session-", "___eval___session___"];

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
    let found = sessions.list_sessions(&app, Some(&user)).await?;
    let is_shown = |id: &str| !EVALUATIONS.iter().any(|prefix| id.starts_with(prefix));
    let shown = found.sessions.iter().filter(|it| is_shown(&it.id));
    Ok(json_response(sessions_text(shown)?))
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
    server.apps.forget_session(&key);
    Ok(null_response())
}

/// The session with all its events.
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
    let expected = Expected {
        kind: &Kind::Map,
        is_optional: true,
        keeps_unknown: false,
    };
    let state = bodies::read_as(request, expected).await?;
    let state = state.map(|body| State::from(body.into_map()));
    let sessions = &server.services.sessions;
    let created = sessions.create_session(&app, &user, state, Some(&session));
    Ok(json_response(session_text(&created.await?)?))
}

async fn create_session(
    Shares(server): Shares<Shared>,
    Path((app, user)): Path<(String, String)>,
    request: Request,
) -> Result<Response, AdkError> {
    static KIND: Kind = bodies::of(&CREATE_SESSION);
    let expected = Expected {
        kind: &KIND,
        is_optional: true,
        // A newer ADK may have written what is imported here.
        keeps_unknown: true,
    };
    let body = bodies::read_as(request, expected).await?;
    let body = body.unwrap_or_default();
    check_options(&body)?;
    let new = NewSession {
        app,
        user,
        id: body.text("sessionId"),
        state: body.map("state").map(State::from),
        events: body.events("events")?,
    };
    let session = match new.events.is_empty() {
        true => new.create(&server).await?,
        // In a task of its own: a client that goes away leaves no half of a session.
        false => match tokio::spawn(async move { new.import(&server).await }).await {
            Ok(imported) => imported?,
            Err(error) => return Err(AdkError::internal(&error)),
        },
    };
    Ok(json_response(session_text(&session)?))
}

/// Options are for services that know some; ours knows none.
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

/// A session that is to be made.
struct NewSession {
    app: String,
    user: String,
    id: Option<String>,
    state: Option<State>,
    events: Vec<Event>,
}

impl NewSession {
    async fn create(self, server: &Shared) -> Result<Session, AdkError> {
        let sessions = &server.services.sessions;
        let id = self.id.as_deref();
        let created = sessions.create_session(&self.app, &self.user, self.state, id);
        Ok(created.await?)
    }

    /// Makes the session with its events as they are, or not at all. The state that came with them
    /// is what it begins with; their changes come on top, so that it ends as it was.
    async fn import(mut self, server: &Shared) -> Result<Session, AdkError> {
        let events: Vec<Event> = std::mem::take(&mut self.events);
        let events: Vec<Event> = events.into_iter().map(restored).collect();
        let sessions = &server.services.sessions;
        let created = self.create(server).await?;
        let key: SessionKey = created.key();
        let appended = sessions.append(&key, Append::from(events)).await;
        if let Err(error) = appended {
            sessions
                .delete_session(&key.app, &key.user, &key.id)
                .await?;
            return Err(error.into());
        }
        find(server, &key.app, &key.user, &key.id).await
    }
}

/// The event with a note that it came from outside, and without notes that only programs make.
fn restored(mut event: Event) -> Event {
    let notes = event.response.custom_metadata.take();
    let mut notes: JsonMap = notes.and_then(redact::public_notes).unwrap_or_default();
    notes.insert(redact::RESTORED, true);
    event.response.custom_metadata = Some(notes);
    event
}

async fn update_session(
    Shares(server): Shares<Shared>,
    Path((app, user, session)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, AdkError> {
    static KIND: Kind = bodies::of(&UPDATE_SESSION);
    let body = bodies::read(request, &KIND).await?;
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
