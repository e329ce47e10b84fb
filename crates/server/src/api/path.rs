//! The app, user and session of a path, validated in the same way on every route.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::{StatusCode, request::Parts},
};
use retain_core::{Limits, RunToken, SessionKey};

use super::problem::Problem;
use crate::services::Shared;

/// The app in a path.
pub(super) struct AppPath(pub(super) String);

/// The user in a path, with its app.
pub(super) struct UserPath {
    pub(super) app: String,
    pub(super) user: String,
}

/// The session in a path.
pub(super) struct SessionPath(pub(super) SessionKey);

/// The run in a path, with its session.
pub(super) struct RunPath(pub(super) SessionKey, pub(super) RunToken);

/// The memory in a path, with its user.
pub(super) struct MemoryPath {
    pub(super) of: UserPath,
    pub(super) id: String,
}

/// The decoded parameters of a path.
struct PathParams<'a> {
    params: RawPathParams,
    limits: &'a Limits,
}

impl<'a> PathParams<'a> {
    async fn read(parts: &mut Parts, server: &'a Shared) -> Result<PathParams<'a>, Problem> {
        static DEFAULT: std::sync::LazyLock<Limits> = std::sync::LazyLock::new(Limits::default);
        let params = RawPathParams::from_request_parts(parts, &()).await;
        Ok(PathParams {
            params: params.map_err(|error| {
                Problem::new(StatusCode::BAD_REQUEST, "invalid", error.body_text())
            })?,
            limits: server.services.sessions.limits().unwrap_or(&DEFAULT),
        })
    }

    /// Returns a parameter as an id, after checking it against the limits of the store.
    fn id(&self, name: &str, what: &'static str) -> Result<String, Problem> {
        let found = self.params.iter().find(|(key, _)| *key == name);
        let id = found.map_or("", |(_, value)| value);
        self.limits.check_id(what, id)?;
        Ok(id.to_owned())
    }

    fn app(&self) -> Result<String, Problem> {
        self.id("app", "app name")
    }

    fn user(&self) -> Result<UserPath, Problem> {
        Ok(UserPath {
            app: self.app()?,
            user: self.id("user", "user id")?,
        })
    }

    fn session(&self) -> Result<SessionKey, Problem> {
        let UserPath { app, user } = self.user()?;
        Ok(SessionKey::new(
            app,
            user,
            self.id("session", "session id")?,
        ))
    }
}

/// Parses a run token written by [`token_text`].
pub(super) fn run_token(text: &str) -> Result<RunToken, Problem> {
    // Every `u64` is a valid token: stores count runs without an upper limit.
    let number = text.parse::<u64>().map_err(|_| {
        let detail =
            format!("run token {text:?} is invalid; expected the `run` that an append returned");
        Problem::new(StatusCode::BAD_REQUEST, "invalid", detail)
    })?;
    Ok(RunToken(number))
}

/// Writes a token as text, because some JSON readers lose precision in large numbers.
pub(super) fn token_text(token: RunToken) -> String {
    token.0.to_string()
}

impl FromRequestParts<Shared> for AppPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<AppPath, Problem> {
        Ok(AppPath(PathParams::read(parts, server).await?.app()?))
    }
}

impl FromRequestParts<Shared> for UserPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<UserPath, Problem> {
        PathParams::read(parts, server).await?.user()
    }
}

impl FromRequestParts<Shared> for SessionPath {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        server: &Shared,
    ) -> Result<SessionPath, Problem> {
        Ok(SessionPath(
            PathParams::read(parts, server).await?.session()?,
        ))
    }
}

impl FromRequestParts<Shared> for RunPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<RunPath, Problem> {
        let params = PathParams::read(parts, server).await?;
        let key = params.session()?;
        let token = run_token(&params.id("token", "run token")?)?;
        Ok(RunPath(key, token))
    }
}

impl FromRequestParts<Shared> for MemoryPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<MemoryPath, Problem> {
        let params = PathParams::read(parts, server).await?;
        Ok(MemoryPath {
            of: params.user()?,
            id: params.id("memory", "memory id")?,
        })
    }
}
