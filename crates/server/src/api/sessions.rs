//! Sessions: create, read, list, delete, fork.

use axum::{
    extract::State,
    http::{Method, StatusCode},
    response::Response,
};
use retain_core::{
    CreateSession, JsonMap, ListCursor, ListSessions, Session, SessionKey, SessionMeta, Window,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Api,
    body::{JsonBody, answer, no_content, ok},
    caller::RequestCaller,
    operation::Operation,
    path::{AppPath, SessionPath, UserPath},
    problem::Problem,
    query::{INTEGER_MAX, Kind, Param, Params},
    shapes::{FreeObject, LoggedEvent, Position, Ttl, logged_events},
};
use crate::{guard::Scope, routes::Access, services::Shared, untrusted_input};

const PAGE: usize = 100;

const AFTER: Param = Param::new("after", Kind::Text, "The `next` of the previous page.");
const LIMIT: Param = Param::new(
    "limit",
    Kind::Integer(1, 1000),
    "Maximum number of results (default 100).",
);
const STATE: Param = Param::new(
    "state",
    Kind::Flag,
    "Whether to include the state of each session.",
);
const USER: Param = Param::new("user", Kind::Text, "Only sessions of this user.");
const LIST: &[Param] = &[AFTER, LIMIT, STATE];
const LIST_ALL: &[Param] = &[USER, AFTER, LIMIT, STATE];

const RECENT: Param = Param::new(
    "recent",
    Kind::Integer(0, INTEGER_MAX),
    "Only the newest N events.",
);
const AFTER_POSITION: Param = Param::new(
    "afterPosition",
    Kind::Integer(0, INTEGER_MAX),
    "Only events after this position.",
);
const UP_TO: Param = Param::new(
    "upTo",
    Kind::Integer(0, INTEGER_MAX),
    "Only events up to this position.",
);
const AFTER_TIME: Param = Param::new(
    "afterTime",
    Kind::Time,
    "Only events from this time or later, in seconds since 1970.",
);
const EVENTS: Param = Param::new(
    "events",
    Kind::Flag,
    "Whether to include events (default true).",
);
const READ: &[Param] = &[RECENT, AFTER_POSITION, UP_TO, AFTER_TIME, EVENTS];

/// The parameters that select events of a log.
pub(super) const WINDOW: [Param; 4] = [RECENT, AFTER_POSITION, UP_TO, AFTER_TIME];

pub(super) fn routes(api: Api) -> Api {
    const ALL: &str = "/api/v1/apps/{app}/sessions";
    const OF_USER: &str = "/api/v1/apps/{app}/users/{user}/sessions";
    const ONE: &str = "/api/v1/apps/{app}/users/{user}/sessions/{session}";
    const FORK: &str = "/api/v1/apps/{app}/users/{user}/sessions/{session}/fork";
    let read = Access::Path(Scope::SessionsRead);
    let write = Access::Path(Scope::SessionsWrite);
    let list_all = Operation::new(
        Method::GET,
        ALL,
        "listAppSessions",
        "List the sessions of all users",
    );
    let list = Operation::new(
        Method::GET,
        OF_USER,
        "listSessions",
        "List the sessions of a user",
    );
    let create = Operation::new(Method::POST, OF_USER, "createSession", "Create a session");
    let get = Operation::new(Method::GET, ONE, "getSession", "Read a session");
    let delete = Operation::new(
        Method::DELETE,
        ONE,
        "deleteSession",
        "Delete a session; succeeds if there is none",
    );
    let fork_it = Operation::new(
        Method::POST,
        FORK,
        "forkSession",
        "Fork a session: copy its log up to a position into a new session",
    );
    api.add(
        list_all.query(LIST_ALL).answers::<SessionList>(200),
        read,
        list_app,
    )
    .add(
        list.query(LIST).answers::<SessionList>(200),
        read,
        list_user,
    )
    .add(
        create
            .may_take::<NewSession>()
            .answers::<SessionBody>(201)
            .fails(&[409]),
        write,
        create_session,
    )
    .add(
        get.query(READ).answers::<SessionBody>(200).fails(&[404]),
        read,
        get_session,
    )
    .add(delete, write, delete_session)
    .add(
        fork_it
            .may_take::<Fork>()
            .answers::<SessionBody>(201)
            .fails(&[404, 409]),
        write,
        fork,
    )
}

/// A session with the requested events.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
struct SessionBody {
    /// Its id.
    id: String,
    /// The app.
    app_name: String,
    /// The user.
    user_id: String,
    /// Its own state keys, and the shared ones with the prefixes `app:` and `user:`.
    #[schemars(with = "FreeObject")]
    state: JsonMap,
    /// When it last changed, in seconds since 1970.
    last_update_time: f64,
    /// The last position of its log.
    position: u64,
    /// The requested events, oldest first.
    events: Vec<LoggedEvent>,
    /// The original session and position; only in the response to a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<OriginBody>,
}

/// A session in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionInfo {
    /// Its id.
    id: String,
    /// The app.
    app_name: String,
    /// The user.
    user_id: String,
    /// Its state, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FreeObject>")]
    state: Option<JsonMap>,
    /// When it was created, in seconds since 1970.
    create_time: f64,
    /// When it last changed.
    last_update_time: f64,
    /// The last position of its log.
    position: u64,
    /// The original session and position, if this session is a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<OriginBody>,
    /// When it expires unless it is written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<f64>,
}

/// The session and position that a fork was copied from.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Origin")]
struct OriginBody {
    /// The id of the original session.
    session_id: String,
    /// The last position that both sessions share.
    position: u64,
}

/// Sessions sorted by (last update, user, id).
#[derive(Debug, Serialize, JsonSchema)]
struct SessionList {
    /// The sessions.
    sessions: Vec<SessionInfo>,
    /// Pass this as `after` to read the next page; null at the end.
    next: Option<String>,
}

/// A session to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewSession {
    /// Its id; generated if missing.
    session_id: Option<String>,
    /// The initial state.
    #[schemars(with = "Option<FreeObject>")]
    state: Option<JsonMap>,
    /// Time to live after the last write.
    ttl_seconds: Option<Ttl>,
}

/// A fork to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fork {
    /// Copy up to this position (default: the whole log).
    position: Option<Position>,
    /// The id of the new session; generated if missing.
    session_id: Option<String>,
}

impl From<Session> for SessionBody {
    fn from(session: Session) -> SessionBody {
        SessionBody {
            events: logged_events(&session),
            id: session.id,
            app_name: session.app_name,
            user_id: session.user_id,
            state: session.state.into(),
            last_update_time: session.last_update_time,
            position: session.position,
            origin: None,
        }
    }
}

impl From<SessionMeta> for SessionInfo {
    fn from(meta: SessionMeta) -> SessionInfo {
        let origin = meta.origin.map(|origin| OriginBody {
            session_id: origin.session_id,
            position: origin.position,
        });
        SessionInfo {
            id: meta.id,
            app_name: meta.app_name,
            user_id: meta.user_id,
            state: meta.state.map(JsonMap::from),
            create_time: meta.create_time,
            last_update_time: meta.last_update_time,
            position: meta.position,
            origin,
            expires_at: meta.expire_time,
        }
    }
}

async fn list_app(
    State(server): State<Shared>,
    AppPath(app): AppPath,
    params: Params,
) -> Result<Response, Problem> {
    let params = params.only(LIST_ALL)?;
    let user = params.text(&USER).map(str::to_owned);
    list(&server, app, user, &params).await
}

async fn list_user(
    State(server): State<Shared>,
    UserPath { app, user }: UserPath,
    params: Params,
) -> Result<Response, Problem> {
    list(&server, app, Some(user), &params.only(LIST)?).await
}

async fn list(
    server: &Shared,
    app_name: String,
    user_id: Option<String>,
    params: &Params,
) -> Result<Response, Problem> {
    let after = params
        .text(&AFTER)
        .map(str::parse::<ListCursor>)
        .transpose();
    let reason = "is not the `next` of a page; omit it to read the first page";
    let limit = params.count(&LIMIT)?.unwrap_or(PAGE);
    let mut query = ListSessions::new(app_name).with_limit(limit);
    query.user_id = user_id;
    query.after = after.map_err(|_| Problem::invalid_parameter(AFTER.name, reason))?;
    query.with_state = params.flag(&STATE)?.unwrap_or(false);
    let found = server.services.sessions.list(query).await?;
    ok(&SessionList {
        sessions: found.sessions.into_iter().map(SessionInfo::from).collect(),
        next: found.next.map(|next| next.to_string()),
    })
}

async fn create_session(
    State(server): State<Shared>,
    RequestCaller(caller): RequestCaller,
    UserPath { app, user }: UserPath,
    params: Params,
    JsonBody(new): JsonBody<NewSession>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    untrusted_input::check_state(&caller, new.state.iter().flat_map(JsonMap::keys))?;
    let mut create = CreateSession::new(app, user);
    create.session_id = new.session_id;
    create.state = new.state.map(Into::into);
    create.ttl = new.ttl_seconds.map(Into::into);
    let session = server.services.sessions.create(create).await?;
    answer(StatusCode::CREATED, &SessionBody::from(session))
}

/// Reads the window of events to return from the query parameters.
pub(super) fn window(params: &Params) -> Result<Window, Problem> {
    let after = params.integer(&AFTER_POSITION)?.unwrap_or(0);
    Ok(Window {
        last: params.integer(&UP_TO)?.unwrap_or(u64::MAX),
        after_timestamp: params.time(&AFTER_TIME)?,
        newest: params.count(&RECENT)?,
        ..Window::after(after)
    })
}

/// Reads a session, or fails with 404.
pub(super) async fn read(
    server: &Shared,
    key: &SessionKey,
    window: Window,
) -> Result<Session, Problem> {
    let session = server.services.sessions.read(key, window).await?;
    session.ok_or_else(|| retain_core::SessionError::NotFound { key: key.clone() }.into())
}

async fn get_session(
    State(server): State<Shared>,
    SessionPath(key): SessionPath,
    params: Params,
) -> Result<Response, Problem> {
    let params = params.only(READ)?;
    let window = match params.flag(&EVENTS)? {
        Some(false) => Window::NONE,
        _ => window(&params)?,
    };
    ok(&SessionBody::from(read(&server, &key, window).await?))
}

async fn delete_session(
    State(server): State<Shared>,
    SessionPath(key): SessionPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let sessions = &server.services.sessions;
    sessions
        .delete_session(&key.app, &key.user, &key.id)
        .await?;
    server.apps.delete_traces_of_session(&key);
    Ok(no_content())
}

async fn fork(
    State(server): State<Shared>,
    SessionPath(key): SessionPath,
    params: Params,
    JsonBody(fork): JsonBody<Fork>,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let position = fork.position.map(|position| position.0);
    let session = server
        .services
        .sessions
        .fork(&key, position, fork.session_id.as_deref())
        .await?;
    let origin = OriginBody {
        session_id: key.id,
        position: session.position,
    };
    let body = SessionBody {
        origin: Some(origin),
        events: Vec::new(),
        ..SessionBody::from(session)
    };
    answer(StatusCode::CREATED, &body)
}
