//! State of a session now or at a position, of a user, and of an app.

use axum::{extract::State, http::Method, response::Response};
use retain_core::{JsonMap, Window};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Api,
    body::ok,
    operation::Operation,
    path::{AppPath, SessionPath, UserPath},
    problem::Problem,
    query::{INTEGER_MAX, Kind, Param, Params},
    sessions::read,
    shapes::FreeObject,
};
use crate::{guard::Scope, routes::Access, services::Shared};

const AT: Param = Param::new(
    "at",
    Kind::Integer(0, INTEGER_MAX),
    "Return the state after this position (0: the initial state). `app:` and `user:` keys have their current values.",
);
const OF_SESSION: &[Param] = &[AT];

pub(super) fn routes(api: Api) -> Api {
    const SESSION: &str = "/api/v1/apps/{app}/users/{user}/sessions/{session}/state";
    const USER: &str = "/api/v1/apps/{app}/users/{user}/state";
    const APP: &str = "/api/v1/apps/{app}/state";
    let access = Access::Path(Scope::SessionsRead);
    let session = Operation::new(
        Method::GET,
        SESSION,
        "getSessionState",
        "Read the state of a session",
    );
    let user = Operation::new(
        Method::GET,
        USER,
        "getUserState",
        "Read the state keys of a user, without prefix",
    );
    let app = Operation::new(
        Method::GET,
        APP,
        "getAppState",
        "Read the state keys of an app, without prefix",
    );
    api.add(
        session
            .query(OF_SESSION)
            .answers::<SessionState>(200)
            .fails(&[404]),
        access,
        session_state,
    )
    .add(user.answers::<SharedState>(200), access, user_state)
    .add(app.answers::<SharedState>(200), access, app_state)
}

/// The state of a session at a position.
#[derive(Debug, Serialize, JsonSchema)]
struct SessionState {
    /// Its own state keys, and the shared ones with the prefixes `app:` and `user:`.
    #[schemars(with = "FreeObject")]
    state: JsonMap,
    /// The position.
    position: u64,
}

/// State keys that sessions share.
#[derive(Debug, Serialize, JsonSchema)]
struct SharedState {
    /// The state keys without prefix.
    #[schemars(with = "FreeObject")]
    state: JsonMap,
}

async fn session_state(
    State(server): State<Shared>,
    SessionPath(key): SessionPath,
    params: Params,
) -> Result<Response, Problem> {
    let params = params.only(OF_SESSION)?;
    let (state, position) = match params.integer(&AT)? {
        Some(at) => (server.services.sessions.state_at(&key, at).await?, at),
        None => {
            let session = read(&server, &key, Window::NONE).await?;
            (session.state, session.position)
        }
    };
    ok(&SessionState {
        state: state.into(),
        position,
    })
}

async fn user_state(
    State(server): State<Shared>,
    UserPath { app, user }: UserPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let state = server.services.sessions.get_user_state(&app, &user).await?;
    ok(&SharedState { state })
}

async fn app_state(
    State(server): State<Shared>,
    AppPath(app): AppPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let state = server.services.sessions.get_app_state(&app).await?;
    ok(&SharedState { state })
}
