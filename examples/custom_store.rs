//! A custom session service that wraps another one and records each write with its author.
//!
//! A runner needs only these methods. A service that also returns the log of the inner service
//! (`SessionService::log`) gets leases, so that runs of several processes wait for each other; its
//! writes then go through the log and not through these methods. To store sessions elsewhere,
//! implement `SessionStore` as `examples/external_store` does: Retain then applies all rules, and
//! its contract tests check the store.
//!
//! Run it with `cargo run --example custom_store`.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use retain::{
    Event, GetSessionConfig, InMemorySessionService, LlmAgent, Result, Runner, Session,
    SessionService, State,
    session::{ListSessionsResponse, SharedSession},
    state::JsonMap,
};

/// A session service that records the writes that pass through it.
#[derive(Debug)]
struct AuditedService<S> {
    inner: S,
    records: Mutex<Vec<String>>,
}

impl<S> AuditedService<S> {
    fn new(inner: S) -> AuditedService<S> {
        AuditedService {
            inner,
            records: Mutex::default(),
        }
    }

    fn record(&self, line: String) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.push(line);
    }

    fn records(&self) -> Vec<String> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.clone()
    }
}

#[async_trait]
impl<S: SessionService> SessionService for AuditedService<S> {
    async fn create_session(
        &self,
        app_name: &str,
        user_id: &str,
        state: Option<State>,
        session_id: Option<&str>,
    ) -> Result<Session> {
        let created = self
            .inner
            .create_session(app_name, user_id, state, session_id);
        let session = created.await?;
        self.record(format!("{user_id} began {}", session.id));
        Ok(session)
    }

    async fn get_session(
        &self,
        app_name: &str,
        user_id: &str,
        session_id: &str,
        config: GetSessionConfig,
    ) -> Result<Option<Session>> {
        self.inner
            .get_session(app_name, user_id, session_id, config)
            .await
    }

    async fn list_sessions(
        &self,
        app_name: &str,
        user_id: Option<&str>,
    ) -> Result<ListSessionsResponse> {
        self.inner.list_sessions(app_name, user_id).await
    }

    async fn delete_session(&self, app_name: &str, user_id: &str, session_id: &str) -> Result<()> {
        self.record(format!("{user_id} deleted {session_id}"));
        self.inner
            .delete_session(app_name, user_id, session_id)
            .await
    }

    async fn append_event(&self, session: &mut Session, event: Event) -> Result<Event> {
        let stored = self.inner.append_event(session, event).await?;
        self.record(format!("{} wrote in {}", stored.author, session.id));
        Ok(stored)
    }

    async fn append_event_locked(&self, session: &SharedSession, event: Event) -> Result<Event> {
        let stored = self.inner.append_event_locked(session, event).await?;
        self.record(format!(
            "{} wrote in {}",
            stored.author,
            session.snapshot().id
        ));
        Ok(stored)
    }

    async fn get_user_state(&self, app_name: &str, user_id: &str) -> Result<JsonMap> {
        self.inner.get_user_state(app_name, user_id).await
    }

    async fn get_app_state(&self, app_name: &str) -> Result<JsonMap> {
        self.inner.get_app_state(app_name).await
    }

    async fn flush(&self) -> Result<()> {
        self.inner.flush().await
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let sessions = Arc::new(AuditedService::new(InMemorySessionService::new()));
    let runner = Runner::builder()
        .app_name("app")
        .agent(LlmAgent::builder("assistant").model("offline").build()?)
        .session_service(sessions.clone())
        .auto_create_session(true)
        .build()?;
    runner
        .run("ada", Some("s1"), "I live in Oslo.")
        .await?
        .answer()
        .await?;
    for line in sessions.records() {
        println!("{line}");
    }
    let expected = ["ada began s1", "user wrote in s1", "assistant wrote in s1"];
    assert_eq!(sessions.records(), expected);
    Ok(())
}
