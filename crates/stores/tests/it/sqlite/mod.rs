//! Promises of the SQLite store alone: its file, its transactions, its maintenance.
//!
//! - `opening`: URIs, foreign files, schemas, and errors that say what to do
//! - `committing`: group commit, waiting for other processes, failing alone
//! - `listing`: long lists
//! - `maintaining`: purge, erase without a trace, backup, check, corruption
//! - `migrating`: the whole content of one file to another
//! - `remembering`: corrupt memories
//! - `waiting`: for appends by another process

mod committing;
mod listing;
mod maintaining;
mod migrating;
mod opening;
mod remembering;
mod waiting;

use std::path::Path;

use retain_core::{Event, Session, SessionService as _};
use retain_stores::{SqliteOptions, SqliteSessionService, SqliteStore};

/// Open a service on the file at `path`.
async fn open(path: &Path) -> SqliteSessionService {
    let store = SqliteStore::open(SqliteOptions::file(path)).await.unwrap();
    SqliteSessionService::over(store)
}

/// Create session `id` with `events` events, each with a text and a state key.
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
