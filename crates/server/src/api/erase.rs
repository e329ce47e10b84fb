//! Erasing a user: sessions, state, artifacts and memories, wherever each of them is kept.

use axum::{extract::State, http::Method, response::Response};
use retain_core::{ArtifactKey, Forget, ListSessions, MemoryFilter};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Api, body::ok, operation::Operation, path::OfUser, problem::Problem, query::Params};
use crate::{guard::Scope, routes::Access, services::Shared};

/// Sessions that are gone through at a time.
const PAGE: usize = 500;

pub(super) fn routes(api: Api) -> Api {
    const USER: &str = "/api/v1/apps/{app}/users/{user}";
    let erase_it = Operation::new(
        Method::DELETE,
        USER,
        "eraseUser",
        "Remove everything of a user, and say how much that was",
    );
    api.add(
        erase_it.answers::<Erased>(200),
        Access::Path(Scope::Admin),
        erase,
    )
}

/// What was removed.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Erased {
    /// Sessions.
    sessions: u64,
    /// Events.
    events: u64,
    /// State keys of the sessions and of the user.
    state_keys: u64,
    /// Versions of artifacts.
    artifacts: u64,
    /// Memories; null where the memory service cannot forget, and what it has stays.
    memories: Option<u64>,
}

/// Sessions go last: as long as they are there, what was broken off can be done again.
async fn erase(
    State(server): State<Shared>,
    of: OfUser,
    params: Params,
) -> Result<Response, Problem> {
    params.only(&[])?;
    let artifacts = erase_artifacts(&server, &of).await?;
    let memories = match &server.services.long_term_memory {
        Some(memory) => {
            let everything = Forget::Matching(MemoryFilter::default());
            Some(memory.forget(&of.app, &of.user, everything).await?.memories)
        }
        None => None,
    };
    let sessions = &server.services.sessions;
    let erased = sessions.erase_user(&of.app, &of.user).await?;
    server.apps.forget_user(&of.app, &of.user);
    ok(&Erased {
        sessions: erased.sessions,
        events: erased.events,
        state_keys: erased.state_keys,
        artifacts: artifacts + erased.artifacts,
        memories: memories.map(|memories| memories + erased.memories),
    })
}

/// Removes the artifacts of the user and of all sessions, and says how many versions that was.
async fn erase_artifacts(server: &Shared, of: &OfUser) -> Result<u64, Problem> {
    let mut erased = erase_artifacts_of(server, of, None).await?;
    let mut query = ListSessions {
        app_name: of.app.clone(),
        user_id: Some(of.user.clone()),
        limit: Some(PAGE),
        ..ListSessions::default()
    };
    loop {
        let page = server.services.sessions.list(query.clone()).await?;
        for session in &page.sessions {
            erased += erase_artifacts_of(server, of, Some(&session.id)).await?;
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(erased),
        }
    }
}

async fn erase_artifacts_of(
    server: &Shared,
    of: &OfUser,
    session: Option<&str>,
) -> Result<u64, Problem> {
    let artifacts = &server.services.artifacts;
    let names = artifacts.list_artifact_keys(&of.app, &of.user, session);
    let mut erased = 0;
    for filename in names.await? {
        let key = ArtifactKey {
            app_name: of.app.clone(),
            user_id: of.user.clone(),
            session_id: session.map(str::to_owned),
            filename,
        };
        erased += artifacts.list_versions(&key).await?.len() as u64;
        artifacts.delete_artifact(&key).await?;
    }
    Ok(erased)
}
