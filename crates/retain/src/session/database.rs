//! `DatabaseSessionService`: sessions in the store that a URI names.

use std::{ops::Deref, sync::Arc};

use async_trait::async_trait;
use retain_core::{
    Event, GetSessionConfig, JsonMap, Limits, ListSessionsResponse, Result, Session, SessionError,
    SessionLog, SessionService, SharedSession, State,
};
use retain_stores::InMemorySessionService;

/// Sessions in the store that a URI names.
///
/// | URI | store | feature |
/// |---|---|---|
/// | `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite::memory:` | SQLite | `sqlite` |
/// | `postgresql://user@host/database` | PostgreSQL | `postgres` |
/// | `memory://` | the memory of this process | |
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// # #[tokio::main] async fn main() -> retain::Result<()> {
/// use retain::{DatabaseSessionService, SessionService as _};
/// let sessions = DatabaseSessionService::connect("sqlite::memory:").await?;
/// let session = sessions.create_session("travel", "ada", None, Some("monday")).await?;
/// assert_eq!(session.id, "monday");
/// # Ok(()) }
/// # main().unwrap(); }
/// ```
#[derive(Debug, Clone)]
pub struct DatabaseSessionService {
    log: Arc<dyn SessionLog>,
}

/// The name of this type in other Rust ADK crates.
pub type SqlSessionService = DatabaseSessionService;

impl DatabaseSessionService {
    /// Opens the store at `uri` and brings its schema up to date.
    pub async fn connect(uri: &str) -> Result<DatabaseSessionService> {
        let scheme = uri.split(':').next().unwrap_or_default();
        // ADK's URIs may name a driver: `sqlite+aiosqlite`.
        let log = match scheme.split('+').next().unwrap_or_default() {
            "sqlite" => open_sqlite(uri).await?,
            "postgres" | "postgresql" => open_postgres(uri).await?,
            "memory" => Arc::new(InMemorySessionService::new()),
            _ => {
                let reason = "unsupported store URI; expected sqlite:, postgresql: or memory:";
                return Err(cannot_open(scheme, reason));
            }
        };
        Ok(DatabaseSessionService { log })
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(uri: &str) -> Result<Arc<dyn SessionLog>> {
    Ok(Arc::new(
        retain_stores::SqliteSessionService::connect(uri).await?,
    ))
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_: &str) -> Result<Arc<dyn SessionLog>> {
    let reason = "this build has no SQLite support; enable the cargo feature `sqlite`";
    Err(cannot_open("sqlite", reason))
}

#[cfg(feature = "postgres")]
async fn open_postgres(uri: &str) -> Result<Arc<dyn SessionLog>> {
    Ok(Arc::new(
        retain_stores::PostgresSessionService::connect(uri).await?,
    ))
}

#[cfg(not(feature = "postgres"))]
async fn open_postgres(_: &str) -> Result<Arc<dyn SessionLog>> {
    let reason = "this build has no PostgreSQL support; enable the cargo feature `postgres`";
    Err(cannot_open("postgresql", reason))
}

/// Builds the error for a failed connection. It shows only the scheme, because the rest of the URI
/// may contain a password.
fn cannot_open(scheme: &str, reason: &str) -> SessionError {
    SessionError::Open {
        uri: format!("{scheme}:…"),
        reason: reason.to_owned(),
        source: None,
    }
}

/// Gives access to the log: positions, runs, rewind, fork, tail, export.
impl Deref for DatabaseSessionService {
    type Target = dyn SessionLog;

    fn deref(&self) -> &(dyn SessionLog + 'static) {
        &*self.log
    }
}

#[async_trait]
impl SessionService for DatabaseSessionService {
    async fn create_session(
        &self,
        app_name: &str,
        user_id: &str,
        state: Option<State>,
        session_id: Option<&str>,
    ) -> Result<Session> {
        let log = &self.log;
        log.create_session(app_name, user_id, state, session_id)
            .await
    }

    async fn get_session(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: &str,
        config: GetSessionConfig,
    ) -> Result<Option<Session>> {
        let log = &self.log;
        log.get_session(app_name, user_id, session_id, config).await
    }

    async fn list_sessions(
        &self,
        app_name: &str,
        user_id: Option<&str>,
    ) -> Result<ListSessionsResponse> {
        self.log.list_sessions(app_name, user_id).await
    }

    async fn delete_session(&self, app_name: &str, user_id: &str, session_id: &str) -> Result<()> {
        self.log.delete_session(app_name, user_id, session_id).await
    }

    async fn append_event(&self, session: &mut Session, event: Event) -> Result<Event> {
        self.log.append_event(session, event).await
    }

    async fn append_event_locked(&self, session: &SharedSession, event: Event) -> Result<Event> {
        self.log.append_event_locked(session, event).await
    }

    async fn get_user_state(&self, app_name: &str, user_id: &str) -> Result<JsonMap> {
        self.log.get_user_state(app_name, user_id).await
    }

    async fn get_app_state(&self, app_name: &str) -> Result<JsonMap> {
        self.log.get_app_state(app_name).await
    }

    async fn flush(&self) -> Result<()> {
        self.log.flush().await
    }

    fn limits(&self) -> Option<&Limits> {
        self.log.limits()
    }

    fn log(self: Arc<Self>) -> Option<Arc<dyn SessionLog>> {
        Some(Arc::clone(&self.log))
    }
}
