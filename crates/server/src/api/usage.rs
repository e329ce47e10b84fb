//! What a user or an app has stored, and how much it may store.

use axum::{extract::State, http::Method, response::Response};
use retain_core::{MemoryLimits, QuotaKind, QuotaScope};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Api,
    body::ok,
    operation::Operation,
    path::{AppPath, UserPath},
    problem::Problem,
    query::Params,
};
use crate::{guard::Scope, routes::Access, services::Server, services::Shared};

pub(super) fn routes(api: Api) -> Api {
    const USER: &str = "/api/v1/apps/{app}/users/{user}/usage";
    const APP: &str = "/api/v1/apps/{app}/usage";
    let access = Access::Path(Scope::SessionsRead);
    let user = Operation::new(
        Method::GET,
        USER,
        "getUserUsage",
        "Read what a user has stored, with the quotas of a user",
    );
    let app = Operation::new(
        Method::GET,
        APP,
        "getAppUsage",
        "Read what all users of an app have stored, with the quotas of an app",
    );
    api.add(user.answers::<UsageBody>(200), access, user_usage)
        .add(app.answers::<UsageBody>(200), access, app_usage)
}

/// What is stored, by kind.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Usage")]
struct UsageBody {
    /// Sessions that have not expired.
    sessions: AmountBody,
    /// Events of these sessions.
    events: AmountBody,
    /// Bytes of these events as JSON.
    event_bytes: AmountBody,
    /// Bytes of all versions of artifacts.
    artifact_bytes: AmountBody,
    /// Memories.
    memories: AmountBody,
}

/// An amount and its quota.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "UsageAmount")]
struct AmountBody {
    /// What is stored; null if the service behind this server does not count it.
    used: Option<u64>,
    /// The quota; null if there is none.
    limit: Option<u64>,
}

async fn user_usage(
    State(server): State<Shared>,
    UserPath { app, user }: UserPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    ok(&count(&server, &app, Some(&user)).await?)
}

async fn app_usage(
    State(server): State<Shared>,
    AppPath(app): AppPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    ok(&count(&server, &app, None).await?)
}

async fn count(server: &Server, app: &str, user: Option<&str>) -> Result<UsageBody, Problem> {
    let services = &server.services;
    let sessions = services.sessions.usage(app, user).await?;
    let artifact_bytes = services.artifacts.usage(app, user).await?;
    let memories = match &services.long_term_memory {
        Some(memory) => Some(memory.usage(app, user).await?),
        None => None,
    };
    let scope = match user {
        Some(_) => QuotaScope::User,
        None => QuotaScope::App,
    };
    let limits = services.quotas.limits(scope);
    let amount = |kind: QuotaKind, used: Option<u64>| AmountBody {
        used,
        limit: Some(limits.get(kind)).filter(|limit| ![0, u64::MAX].contains(limit)),
    };
    let mut memories = amount(QuotaKind::Memories, memories);
    // Without a quota, the default limit of the memory service applies.
    if user.is_some() && memories.used.is_some() && limits.memories == 0 {
        memories.limit = Some(MemoryLimits::default().entries);
    }
    Ok(UsageBody {
        sessions: amount(QuotaKind::Sessions, Some(sessions.sessions)),
        events: amount(QuotaKind::Events, Some(sessions.events)),
        event_bytes: amount(QuotaKind::EventBytes, Some(sessions.event_bytes)),
        artifact_bytes: amount(QuotaKind::ArtifactBytes, artifact_bytes),
        memories,
    })
}
