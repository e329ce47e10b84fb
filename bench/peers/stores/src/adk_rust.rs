//! adk-rust: the `PostgresSessionService` of its session crate. An append names the session
//! (`append_event_for_identity`) and there is no live session, so this file keeps the counter.

use crate::windows::Service;
use adk_core::identity::{AdkIdentity, AppName, SessionId, UserId};
use adk_core::{Content, Event};
use adk_session::{
    AppendEventRequest, CreateRequest, GetRequest, ListRequest, PostgresSessionService,
    SessionService,
};
use bench_common::{APP, COUNTER, Res, USER, new_id, text};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone)]
pub struct AdkRust(Arc<PostgresSessionService>);

impl AdkRust {
    pub async fn connect(url: &str) -> Res<AdkRust> {
        let service = PostgresSessionService::new(url).await?;
        service.migrate().await?;
        Ok(AdkRust(Arc::new(service)))
    }
}

/// The session to append to, and its last counter.
pub struct Live {
    identity: AdkIdentity,
    counter: u64,
}

impl Service for AdkRust {
    type Live = Live;

    async fn create(&self, id: &str) -> Res<()> {
        let request = CreateRequest {
            app_name: APP.into(),
            user_id: USER.into(),
            session_id: Some(id.into()),
            state: HashMap::from([(COUNTER.to_string(), 0.into())]),
        };
        self.0.create(request).await?;
        Ok(())
    }

    async fn live(&self, id: &str) -> Res<Live> {
        let (_, counter) = self.read(id, Some(1)).await?;
        let identity =
            AdkIdentity::new(AppName::new(APP)?, UserId::new(USER)?, SessionId::new(id)?);
        Ok(Live { identity, counter })
    }

    async fn append(&self, live: &mut Live) -> Res<()> {
        let n = live.counter + 1;
        let mut event = Event::new(format!("e-{}", new_id()));
        event.author = "agent".into();
        event.llm_response.content = Some(Content::new("model").with_text(text(n)));
        event.actions.state_delta.insert(COUNTER.into(), n.into());
        let request = AppendEventRequest {
            identity: live.identity.clone(),
            event,
        };
        self.0.append_event_for_identity(request).await?;
        live.counter = n;
        Ok(())
    }

    async fn read(&self, id: &str, newest: Option<u64>) -> Res<(u64, u64)> {
        let request = GetRequest {
            app_name: APP.into(),
            user_id: USER.into(),
            session_id: id.into(),
            num_recent_events: newest.map(|n| n as usize),
            after: None,
        };
        let session = self.0.get(request).await?;
        let counter = session.state().get(COUNTER);
        let counter = counter.and_then(|v| v.as_u64()).unwrap_or(0);
        Ok((session.events().len() as u64, counter))
    }

    async fn list(&self) -> Res<u64> {
        let request = ListRequest {
            app_name: APP.into(),
            user_id: USER.into(),
            limit: None,
            offset: None,
        };
        Ok(self.0.list(request).await?.len() as u64)
    }
}
