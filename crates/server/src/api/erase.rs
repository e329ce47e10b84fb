//! Erase a user: sessions, state, artifacts and memories, in every store that has them.

use axum::{extract::State, http::Method, response::Response};
use retain_core::{Forget, MemoryFilter};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Api, body::ok, operation::Operation, path::UserPath, problem::Problem, query::Params};
use crate::{guard::Scope, routes::Access, services::Shared};

pub(super) fn routes(api: Api) -> Api {
    const USER: &str = "/api/v1/apps/{app}/users/{user}";
    let erase_it = Operation::new(
        Method::DELETE,
        USER,
        "eraseUser",
        "Erase a user and report what was deleted",
    );
    api.add(
        erase_it.answers::<EraseReceiptBody>(200),
        Access::Path(Scope::Admin),
        erase,
    )
}

/// What was deleted.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EraseReceipt")]
struct EraseReceiptBody {
    /// Number of sessions.
    sessions: u64,
    /// Number of events.
    events: u64,
    /// Number of state keys of the sessions and of the user.
    state_keys: u64,
    /// Number of artifact versions.
    artifacts: u64,
    /// Number of memories; null if the memory service cannot delete them, in which case they stay.
    memories: Option<u64>,
}

/// Erases a user. Sessions are deleted last: while one is left, an interrupted erase is visible and
/// can be repeated.
async fn erase(
    State(server): State<Shared>,
    of: UserPath,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let artifacts = &server.services.artifacts;
    let artifacts = artifacts.erase_user(&of.app, &of.user).await?;
    let memories = match &server.services.long_term_memory {
        Some(memory) => {
            let everything = Forget::Matching(MemoryFilter::default());
            Some(memory.forget(&of.app, &of.user, everything).await?.memories)
        }
        None => None,
    };
    let sessions = &server.services.sessions;
    let erased = sessions.erase_user(&of.app, &of.user).await?;
    server.apps.delete_traces_of_user(&of.app, &of.user);
    ok(&EraseReceiptBody {
        sessions: erased.sessions,
        events: erased.events,
        state_keys: erased.state_keys,
        artifacts: artifacts + erased.artifacts,
        memories: memories.map(|memories| memories + erased.memories),
    })
}
