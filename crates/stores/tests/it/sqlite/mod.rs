//! Tests of the SQLite store alone.
//!
//! - `backup`: copies of a database under load
//! - `corruption`: errors and check results that name corrupt records
//! - `draft`: abandoned drafts
//! - `erase`: bytes in the files after an erasure
//! - `free_space`: writes while the disk is nearly full
//! - `list`: session lists with a warm cache
//! - `memory`: corrupt memories
//! - `migration`: copies of a whole database
//! - `open`: URIs, foreign files, schemas, and error messages
//! - `tail`: appends by another process
//! - `usage`: sizes of logs that an older program has extended
//! - `writer`: group commit, locks of other processes, cancelled appends

mod backup;
mod corruption;
mod draft;
mod erase;
mod free_space;
mod list;
mod memory;
pub(crate) mod migration;
mod open;
mod tail;
mod usage;
mod writer;

use std::path::Path;

use retain_core::{Event, Session, SessionService as _};
use retain_stores::{SqliteOptions, SqliteSessionService, SqliteStore};

/// Opens a service on the file at `path`.
async fn open_service(path: &Path) -> SqliteSessionService {
    let store = SqliteStore::open(SqliteOptions::file(path)).await.unwrap();
    SqliteSessionService::over(store)
}

/// Creates session `id` with `events` events, each with a text and a state key.
async fn fill(sessions: &SqliteSessionService, user: &str, id: &str, events: usize) -> Session {
    let created = sessions.create_session("app", user, None, Some(id)).await;
    let mut session = created.unwrap();
    for n in 0..events {
        let mut event = Event::user_text(format!("text {n} of {user}"));
        event
            .actions
            .state_delta
            .insert(format!("key{}", n % 7), format!("value {n} of {user}"));
        sessions.append_event(&mut session, event).await.unwrap();
    }
    session
}
