//! Sessions that exist only during a nested run, for agents that are called as tools.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use retain_core::{
    Event, GetSessionConfig, JsonMap, LimitKind, Limits, ListSessionsResponse, Result, Session,
    SessionError, SessionKey, SessionService, SharedSession, State, apply_event_to_session,
    check_limit,
};

/// Stores sessions in a map and applies events to them by the core's rules.
#[derive(Debug, Default)]
pub(crate) struct EphemeralSessions {
    sessions: Mutex<HashMap<SessionKey, Session>>,
    /// The limits of the caller's session service, which must be able to store the answer.
    limits: Option<Limits>,
}

impl EphemeralSessions {
    pub(crate) fn new(limits: Option<Limits>) -> EphemeralSessions {
        EphemeralSessions {
            limits,
            ..EphemeralSessions::default()
        }
    }

    fn check(&self, event: &Event) -> Result<()> {
        let Some(limits) = &self.limits else {
            return Ok(());
        };
        let json = event.to_json();
        let json = json.map_err(|error| SessionError::invalid("event", error.to_string()))?;
        check_limit(LimitKind::Event, json.len(), limits.event_bytes)
    }

    fn replace(&self, session: Session) -> Result<()> {
        let key = session.key();
        match self.lock().get_mut(&key) {
            Some(stored) => {
                *stored = session;
                Ok(())
            }
            None => Err(SessionError::NotFound { key }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SessionService for EphemeralSessions {
    async fn create_session(
        &self,
        app_name: &str,
        user_id: &str,
        state: Option<State>,
        session_id: Option<&str>,
    ) -> Result<Session> {
        let mut session = Session::new(app_name, user_id, session_id.unwrap_or("nested"));
        session.state = State::trim_temp_keys(&state.unwrap_or_default().to_delta()).into();
        self.lock().insert(session.key(), session.clone());
        Ok(session)
    }

    async fn get_session(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: &str,
        _config: GetSessionConfig,
    ) -> Result<Option<Session>> {
        let key = SessionKey::new(app_name, user_id, session_id);
        Ok(self.lock().get(&key).cloned())
    }

    async fn list_sessions(&self, _: &str, _: Option<&str>) -> Result<ListSessionsResponse> {
        Ok(ListSessionsResponse::default())
    }

    async fn delete_session(&self, app_name: &str, user_id: &str, session_id: &str) -> Result<()> {
        let key = SessionKey::new(app_name, user_id, session_id);
        self.lock().remove(&key);
        Ok(())
    }

    async fn append_event(&self, session: &mut Session, event: Event) -> Result<Event> {
        self.check(&event)?;
        let event = apply_event_to_session(session, event);
        self.replace(session.clone())?;
        Ok(event)
    }

    async fn append_event_locked(&self, session: &SharedSession, event: Event) -> Result<Event> {
        self.check(&event)?;
        // Apply the event in one step, because other tasks write to the live state meanwhile.
        let event = session.update(|session| apply_event_to_session(session, event));
        self.replace(session.snapshot())?;
        Ok(event)
    }

    async fn get_user_state(&self, _: &str, _: &str) -> Result<JsonMap> {
        Ok(JsonMap::default())
    }

    async fn get_app_state(&self, _: &str) -> Result<JsonMap> {
        Ok(JsonMap::default())
    }

    fn limits(&self) -> Option<&Limits> {
        self.limits.as_ref()
    }

    async fn flush(&self) -> Result<()> {
        Ok(())
    }
}
