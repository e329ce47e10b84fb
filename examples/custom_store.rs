//! Your own session service that wraps another one and records who wrote what.
//!
//! A service needs no more than these methods to be run on. One that also gives the log of the one
//! inside (`SessionService::log`) has runs that take turns between processes; then what is written
//! goes through the log. To store sessions elsewhere, write a `SessionStore` instead, as
//! `examples/external_store` does: then all rules are Retain's, and its promises test the store.
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

/// Writes down what passes through it.
#[derive(Debug)]
struct Audited<S> {
    inner: S,
    account: Mutex<Vec<String>>,
}

impl<S> Audited<S> {
    fn new(inner: S) -> Audited<S> {
        Audited {
            inner,
            account: Mutex::default(),
        }
    }

    fn note(&self, line: String) {
        let mut account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        account.push(line);
    }

    fn account(&self) -> Vec<String> {
        let account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        account.clone()
    }
}

#[async_trait]
impl<S: SessionService> SessionService for Audited<S> {
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
        self.note(format!("{user_id} began {}", session.id));
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
        self.note(format!("{user_id} deleted {session_id}"));
        self.inner
            .delete_session(app_name, user_id, session_id)
            .await
    }

    async fn append_event(&self, session: &mut Session, event: Event) -> Result<Event> {
        let stored = self.inner.append_event(session, event).await?;
        self.note(format!("{} wrote in {}", stored.author, session.id));
        Ok(stored)
    }

    async fn append_event_locked(&self, session: &SharedSession, event: Event) -> Result<Event> {
        let stored = self.inner.append_event_locked(session, event).await?;
        self.note(format!(
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
    let sessions = Arc::new(Audited::new(InMemorySessionService::new()));
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
    for line in sessions.account() {
        println!("{line}");
    }
    let expected = ["ada began s1", "user wrote in s1", "assistant wrote in s1"];
    assert_eq!(sessions.account(), expected);
    Ok(())
}
