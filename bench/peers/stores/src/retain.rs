//! Retain: `PostgresSessionService` with defaults, through `append_event` on a live session.

use crate::windows::Service;
use bench_common::{APP, COUNTER, Failure, Res, USER, new_id, text};
use retain_core::{Event, GetSessionConfig, Session, SessionService, State};
use retain_stores::PostgresSessionService;

#[derive(Clone)]
pub struct Retain(PostgresSessionService);

impl Retain {
    pub async fn connect(url: &str) -> Res<Retain> {
        Ok(Retain(PostgresSessionService::connect(url).await?))
    }

    async fn get(&self, id: &str, newest: Option<u64>) -> Res<Session> {
        let config = GetSessionConfig {
            num_recent_events: newest.map(|n| n as usize),
            ..GetSessionConfig::default()
        };
        let found = self.0.get_session(APP, USER, id, config).await?;
        found.ok_or_else(|| Failure::Error(format!("session {id:?} not found")))
    }
}

fn counter(session: &Session) -> u64 {
    let value = session.state.get(COUNTER);
    value.and_then(|value| value.as_u64()).unwrap_or(0)
}

impl Service for Retain {
    type Live = Session;

    async fn create(&self, id: &str) -> Res<()> {
        let zero = State::from([(COUNTER, 0)]);
        self.0
            .create_session(APP, USER, Some(zero), Some(id))
            .await?;
        Ok(())
    }

    async fn live(&self, id: &str) -> Res<Session> {
        self.get(id, None).await
    }

    async fn append(&self, live: &mut Session) -> Res<()> {
        let n = counter(live) + 1;
        // Retain creates the id and the time.
        let mut event = Event::model_text("agent", text(n));
        event.invocation_id = format!("e-{}", new_id());
        event.actions.state_delta.insert(COUNTER, n);
        self.0.append_event(live, event).await?;
        Ok(())
    }

    async fn read(&self, id: &str, newest: Option<u64>) -> Res<(u64, u64)> {
        let session = self.get(id, newest).await?;
        Ok((session.events.len() as u64, counter(&session)))
    }

    async fn list(&self) -> Res<u64> {
        let sessions = self.0.list_sessions(APP, Some(USER)).await?;
        Ok(std::hint::black_box(sessions).sessions.len() as u64)
    }
}
