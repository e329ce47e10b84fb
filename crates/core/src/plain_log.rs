//! `PlainSessionLog`: a session log over a service with only ADK's methods. With it, a runner has
//! one code path for all services.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::stream;

use crate::{
    check::Problem,
    erase::EraseReceipt,
    error::{Conflict, Result, SessionError},
    event::Event,
    json::JsonMap,
    limits::Limits,
    list::EncodedSessions,
    log::{Sweep, SweepReceipt},
    quota::Usage,
    service::{
        Append, AppendReceipt, CreateSession, EventStream, ExportScope, ImportReceipt, LineStream,
        ListSessions, Rewind, RunToken, SessionLog, SessionService, SharedSession,
    },
    session::{GetSessionConfig, ListSessionsResponse, Session, SessionKey, Window},
    state::State,
};

/// Reads and appends through ADK's methods. There are no leases, so runs of one session may
/// interleave, and renewing or ending a run does nothing. A batch is appended event by event. The
/// other methods of [`SessionLog`] fail with [`SessionError::Unsupported`].
#[derive(Debug)]
pub struct PlainSessionLog(Arc<dyn SessionService>);

impl PlainSessionLog {
    /// Creates a log over `service`.
    pub fn new(service: Arc<dyn SessionService>) -> PlainSessionLog {
        PlainSessionLog(service)
    }

    async fn load(&self, key: &SessionKey, config: GetSessionConfig) -> Result<Session> {
        let read = self.0.get_session(&key.app, &key.user, &key.id, config);
        read.await?.ok_or_else(|| SessionError::not_found(key))
    }
}

fn unsupported(operation: &'static str) -> SessionError {
    SessionError::Unsupported {
        store: "a session service without a log",
        operation,
    }
}

#[async_trait]
impl SessionService for PlainSessionLog {
    async fn create_session(
        &self,
        app_name: &str,
        user_id: &str,
        state: Option<State>,
        session_id: Option<&str>,
    ) -> Result<Session> {
        let created = self.0.create_session(app_name, user_id, state, session_id);
        created.await
    }

    async fn get_session(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: &str,
        config: GetSessionConfig,
    ) -> Result<Option<Session>> {
        let read = self.0.get_session(app_name, user_id, session_id, config);
        read.await
    }

    async fn list_sessions(
        &self,
        app_name: &str,
        user_id: Option<&str>,
    ) -> Result<ListSessionsResponse> {
        self.0.list_sessions(app_name, user_id).await
    }

    async fn delete_session(&self, app_name: &str, user_id: &str, session_id: &str) -> Result<()> {
        self.0.delete_session(app_name, user_id, session_id).await
    }

    async fn append_event(&self, session: &mut Session, event: Event) -> Result<Event> {
        self.0.append_event(session, event).await
    }

    async fn append_event_locked(&self, session: &SharedSession, event: Event) -> Result<Event> {
        self.0.append_event_locked(session, event).await
    }

    async fn get_user_state(&self, app_name: &str, user_id: &str) -> Result<JsonMap> {
        self.0.get_user_state(app_name, user_id).await
    }

    async fn get_app_state(&self, app_name: &str) -> Result<JsonMap> {
        self.0.get_app_state(app_name).await
    }

    async fn flush(&self) -> Result<()> {
        self.0.flush().await
    }

    fn limits(&self) -> Option<&Limits> {
        self.0.limits()
    }
}

#[async_trait]
impl SessionLog for PlainSessionLog {
    async fn read(&self, key: &SessionKey, window: Window) -> Result<Option<Session>> {
        let config = GetSessionConfig {
            num_recent_events: window.newest,
            after_timestamp: window.after_timestamp,
        };
        if Window::from(config) != window {
            return Err(unsupported("reading a range of positions"));
        }
        let read = self.0.get_session(&key.app, &key.user, &key.id, config);
        read.await
    }

    /// Reads the whole session again.
    async fn refresh(&self, session: &mut Session) -> Result<()> {
        let temp = session.state.clear_temp_keys();
        *session = self.load(&session.key(), Default::default()).await?;
        session.state.apply(&temp);
        Ok(())
    }

    async fn append(&self, key: &SessionKey, append: Append) -> Result<AppendReceipt> {
        let config = GetSessionConfig {
            // To check the position, read all events: a service may count the position from the
            // events that it returns.
            num_recent_events: append.expected.is_none().then_some(0),
            ..GetSessionConfig::default()
        };
        let session = self.load(key, config).await?;
        if let Some(expected) = append.expected.filter(|it| *it != session.position) {
            return Err(SessionError::Conflict {
                key: key.clone(),
                conflict: Conflict::Position {
                    expected,
                    found: session.position,
                },
            });
        }
        self.append_live(&SharedSession::new(session), append).await
    }

    async fn append_live(&self, session: &SharedSession, append: Append) -> Result<AppendReceipt> {
        let mut receipt = AppendReceipt::default();
        for event in append.events {
            if event.is_partial() {
                continue;
            }
            let stored = self.0.append_event_locked(session, event).await?;
            let position = session.update(|session| session.position);
            receipt.events.push((position, Arc::new(stored)));
        }
        Ok(receipt)
    }

    async fn renew_run(&self, _: &SessionKey, _: RunToken) -> Result<()> {
        Ok(())
    }

    fn run_ttl(&self) -> Duration {
        Duration::MAX
    }

    async fn end_run(&self, _: &SessionKey, _: RunToken) -> Result<()> {
        Ok(())
    }

    async fn create(&self, _: CreateSession) -> Result<Session> {
        Err(unsupported("creating a session with options"))
    }

    async fn create_with_events(&self, _: CreateSession, _: Vec<Event>) -> Result<Session> {
        Err(unsupported("creating a session with events"))
    }

    async fn list(&self, _: ListSessions) -> Result<ListSessionsResponse> {
        Err(unsupported("paginated listing"))
    }

    async fn list_encoded(&self, _: &str, _: &str) -> Result<EncodedSessions> {
        Err(unsupported("listing with encoded states"))
    }

    async fn state_at(&self, _: &SessionKey, _: u64) -> Result<State> {
        Err(unsupported("reading an earlier state"))
    }

    async fn rewind_with(&self, _: &SessionKey, _: Rewind) -> Result<AppendReceipt> {
        Err(unsupported("rewinding"))
    }

    async fn fork(&self, _: &SessionKey, _: Option<u64>, _: Option<&str>) -> Result<Session> {
        Err(unsupported("forking"))
    }

    fn tail(&self, _: &SessionKey, _: u64) -> EventStream {
        Box::pin(stream::iter([Err(unsupported("following a log"))]))
    }

    fn export(&self, _: ExportScope) -> LineStream {
        Box::pin(stream::iter([Err(unsupported("exporting"))]))
    }

    async fn import(&self, _: LineStream) -> Result<ImportReceipt> {
        Err(unsupported("importing"))
    }

    async fn usage(&self, _: &str, _: Option<&str>) -> Result<Usage> {
        Err(unsupported("reporting usage"))
    }

    async fn erase_user(&self, _: &str, _: &str) -> Result<EraseReceipt> {
        Err(unsupported("erasing a user"))
    }

    async fn sweep_with(&self, _: Sweep) -> Result<SweepReceipt> {
        Err(unsupported("sweeping"))
    }

    async fn check(&self) -> Result<Vec<Problem>> {
        Err(unsupported("checking"))
    }

    async fn ready(&self) -> Result<()> {
        Ok(())
    }
}
