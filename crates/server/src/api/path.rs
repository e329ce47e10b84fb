//! The app, user and session of a path, validated in the same way on every route.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::{StatusCode, request::Parts},
};
use retain_core::{Limits, RunToken, SessionKey};

use super::problem::Problem;
use crate::services::Shared;

/// An app.
pub(super) struct OfApp(pub(super) String);

/// A user of an app.
pub(super) struct OfUser {
    pub(super) app: String,
    pub(super) user: String,
}

/// A session.
pub(super) struct OfSession(pub(super) SessionKey);

/// A run of a session.
pub(super) struct OfRun(pub(super) SessionKey, pub(super) RunToken);

/// A memory of a user.
pub(super) struct OfMemory {
    pub(super) of: OfUser,
    pub(super) id: String,
}

/// The decoded parameters of a path.
struct Names<'a> {
    params: RawPathParams,
    limits: &'a Limits,
}

impl<'a> Names<'a> {
    async fn read(parts: &mut Parts, server: &'a Shared) -> Result<Names<'a>, Problem> {
        static DEFAULT: std::sync::LazyLock<Limits> = std::sync::LazyLock::new(Limits::default);
        let params = RawPathParams::from_request_parts(parts, &()).await;
        Ok(Names {
            params: params.map_err(|error| {
                Problem::new(StatusCode::BAD_REQUEST, "invalid", error.body_text())
            })?,
            limits: server.services.sessions.limits().unwrap_or(&DEFAULT),
        })
    }

    /// Return a parameter as an id that every store can keep exactly.
    fn id(&self, name: &str, what: &'static str) -> Result<String, Problem> {
        let found = self.params.iter().find(|(key, _)| *key == name);
        let id = found.map_or("", |(_, value)| value);
        self.limits.check_id(what, id)?;
        Ok(id.to_owned())
    }

    fn app(&self) -> Result<String, Problem> {
        self.id("app", "app name")
    }

    fn user(&self) -> Result<OfUser, Problem> {
        Ok(OfUser {
            app: self.app()?,
            user: self.id("user", "user id")?,
        })
    }

    fn session(&self) -> Result<SessionKey, Problem> {
        let OfUser { app, user } = self.user()?;
        Ok(SessionKey::new(
            app,
            user,
            self.id("session", "session id")?,
        ))
    }
}

/// Parse a run token written by [`token_text`].
pub(super) fn run_token(text: &str) -> Result<RunToken, Problem> {
    // Any number may be a token: stores count without an upper limit.
    let number = text.parse().ok();
    let reason = "run token is invalid: expected a token returned by a run";
    let number = number.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "invalid", reason))?;
    Ok(RunToken(number))
}

/// Write a token as text, because some JSON readers lose precision in large numbers.
pub(super) fn token_text(token: RunToken) -> String {
    token.0.to_string()
}

impl FromRequestParts<Shared> for OfApp {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<OfApp, Problem> {
        Ok(OfApp(Names::read(parts, server).await?.app()?))
    }
}

impl FromRequestParts<Shared> for OfUser {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<OfUser, Problem> {
        Names::read(parts, server).await?.user()
    }
}

impl FromRequestParts<Shared> for OfSession {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<OfSession, Problem> {
        Ok(OfSession(Names::read(parts, server).await?.session()?))
    }
}

impl FromRequestParts<Shared> for OfRun {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<OfRun, Problem> {
        let names = Names::read(parts, server).await?;
        let key = names.session()?;
        let token = run_token(&names.id("token", "run token")?)?;
        Ok(OfRun(key, token))
    }
}

impl FromRequestParts<Shared> for OfMemory {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<OfMemory, Problem> {
        let names = Names::read(parts, server).await?;
        Ok(OfMemory {
            of: names.user()?,
            id: names.id("memory", "memory id")?,
        })
    }
}
