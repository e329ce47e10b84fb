//! adk-rs: its `PostgresSessionService`, through `append_event` on a live session.

use crate::windows::Service;
use adk_rs::core::{Event, GetSessionConfig, Session, SessionService, State};
use adk_rs::services::sql::PostgresSessionService;
use bench_common::{APP, COUNTER, Failure, Res, USER, new_id, text};
use std::sync::Arc;

#[derive(Clone)]
pub struct AdkRs(Arc<PostgresSessionService>);

impl AdkRs {
    pub async fn connect(url: &str) -> Res<AdkRs> {
        Ok(AdkRs(Arc::new(PostgresSessionService::connect(url).await?)))
    }

    async fn get(&self, id: &str, newest: Option<u64>) -> Res<Session> {
        let config = GetSessionConfig {
            num_recent_events: newest.map(|n| n as usize),
            ..Default::default()
        };
        let found = self.0.get_session(APP, USER, id, config).await?;
        found.ok_or_else(|| Failure::Error(format!("session {id:?} not found")))
    }
}

fn counter(state: &State) -> u64 {
    state.get(COUNTER).and_then(|v| v.as_u64()).unwrap_or(0)
}

impl Service for AdkRs {
    type Live = Session;

    async fn create(&self, id: &str) -> Res<()> {
        let zero = State::from_iter([(COUNTER.to_string(), 0.into())]);
        self.0
            .create_session(APP, USER, Some(zero), Some(id))
            .await?;
        Ok(())
    }

    async fn live(&self, id: &str) -> Res<Session> {
        self.get(id, None).await
    }

    async fn append(&self, live: &mut Session) -> Res<()> {
        let n = counter(&live.state) + 1;
        let mut event = Event::model_text("agent", text(n));
        event.invocation_id = format!("e-{}", new_id());
        event.actions.state_delta.insert(COUNTER.into(), n.into());
        self.0.append_event(live, event).await?;
        Ok(())
    }

    async fn read(&self, id: &str, newest: Option<u64>) -> Res<(u64, u64)> {
        let session = self.get(id, newest).await?;
        Ok((session.events.len() as u64, counter(&session.state)))
    }

    async fn list(&self) -> Res<u64> {
        Ok(self.0.list_sessions(APP, USER).await?.sessions.len() as u64)
    }
}
