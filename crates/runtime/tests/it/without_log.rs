//! A session service without a log, like a remote server's.

use async_trait::async_trait;
use retain_core::{
    Event, GetSessionConfig, JsonMap, ListSessionsResponse, Result, Session, SessionService,
    SharedSession, State,
};
use retain_stores::InMemorySessionService;

/// An in-memory session service with only ADK's methods.
#[derive(Debug, Default)]
pub(crate) struct WithoutLog(InMemorySessionService);

#[async_trait]
impl SessionService for WithoutLog {
    async fn create_session(
        &self,
        app: &str,
        user: &str,
        state: Option<State>,
        id: Option<&str>,
    ) -> Result<Session> {
        self.0.create_session(app, user, state, id).await
    }

    async fn get_session(
        &self,
        app: &str,
        user: &str,
        id: &str,
        config: GetSessionConfig,
    ) -> Result<Option<Session>> {
        self.0.get_session(app, user, id, config).await
    }

    async fn list_sessions(&self, app: &str, user: Option<&str>) -> Result<ListSessionsResponse> {
        self.0.list_sessions(app, user).await
    }

    async fn delete_session(&self, app: &str, user: &str, id: &str) -> Result<()> {
        self.0.delete_session(app, user, id).await
    }

    async fn append_event(&self, session: &mut Session, event: Event) -> Result<Event> {
        self.0.append_event(session, event).await
    }

    async fn append_event_locked(&self, session: &SharedSession, event: Event) -> Result<Event> {
        self.0.append_event_locked(session, event).await
    }

    async fn get_user_state(&self, app: &str, user: &str) -> Result<JsonMap> {
        self.0.get_user_state(app, user).await
    }

    async fn get_app_state(&self, app: &str) -> Result<JsonMap> {
        self.0.get_app_state(app).await
    }

    async fn flush(&self) -> Result<()> {
        self.0.flush().await
    }
}
