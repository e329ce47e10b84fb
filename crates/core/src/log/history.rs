//! Creates a session together with its history, completely or not at all.
//!
//! The service checks everything first. It then writes the events to a draft that no reader sees,
//! and turns the draft into the session. The events do not change the state of the app or the user.

use std::collections::HashMap;

use super::{StoreSessionService, fold::Fold};
use crate::{
    error::{Conflict, Result, SessionError},
    event::Event,
    json::JsonMap,
    limits::{self, LimitKind},
    quota::Usage,
    service::CreateSession,
    session::{Session, SessionKey, Window},
    store::{Head, NewEvent, NewSession, ScopedState, SessionStore},
    transfer_store::LogHeader,
};

/// Number of events written at a time.
const STEP: usize = 256;

impl<S: SessionStore> StoreSessionService<S> {
    pub(super) async fn create_with_history(
        &self,
        new: CreateSession,
        events: Vec<Event>,
    ) -> Result<Session> {
        let new = self.validate_new(new)?;
        let events = self.prepare_history(&new, events)?;
        let shared = ScopedState {
            app: new.changes.app.clone(),
            user: new.changes.user.clone(),
            ..ScopedState::default()
        };
        self.check_shared(&new.key, &shared).await?;
        let header = new_header(new, &events);
        let key = &header.head.key;
        let size = Usage::of_events(events.iter().map(|(_, new)| new)).with_sessions(1);
        let room = self.reserve_all(key, size).await?;
        let store = self.store.transfer()?;
        let draft = store.begin_draft(key).await?;
        for chunk in events.chunks(STEP) {
            store.extend_draft(draft, chunk).await?;
        }
        store.finish_draft(draft, &header, &shared).await?;
        room.settle();
        self.count_appended(events.len());
        let created = self.read_session(key, Window::ALL).await?;
        created.ok_or_else(|| SessionError::not_found(key))
    }

    /// Prepares the events for writing and numbers them.
    fn prepare_history(
        &self,
        new: &NewSession,
        events: Vec<Event>,
    ) -> Result<Vec<(u64, NewEvent)>> {
        let mut fold = Fold::new(&new.initial);
        let mut positions: HashMap<String, u64> = HashMap::new();
        let stored = events.into_iter().filter(|event| !event.is_partial());
        let ready = stored.zip(1..).map(|(event, position)| {
            let (mut ready, _) = self.prepare(event)?;
            let earlier = positions.insert(ready.event.id.clone(), position);
            if let Some(position) = earlier {
                let id = ready.event.id.clone();
                return Err(SessionError::Conflict {
                    key: new.key.clone(),
                    conflict: Conflict::EventId { id, position },
                });
            }
            ready.changes.session = fold.step(position, &ready.event);
            Ok((position, ready))
        });
        let ready = ready.collect::<Result<Vec<_>>>()?;
        let bytes = state_bytes(fold.state());
        limits::check(LimitKind::SessionState, bytes, new.state_bytes_max)?;
        Ok(ready)
    }

    /// Fails if new state keys would make the app's or the user's state too large.
    async fn check_shared(&self, key: &SessionKey, shared: &ScopedState) -> Result<()> {
        let limit = self.settings.limits.state_bytes;
        let scopes = [
            (LimitKind::AppState, None, &shared.app),
            (LimitKind::UserState, Some(key.user.as_str()), &shared.user),
        ];
        for (what, user, given) in scopes.into_iter().filter(|(_, _, given)| !given.is_empty()) {
            let before = self.store.shared_state(&key.app, user).await?;
            let mut after = before.clone();
            for (key, value) in given {
                if !before.contains_key(key) {
                    after.insert(key, value.clone());
                }
            }
            limits::check_growth(what, state_bytes(&before), state_bytes(&after), limit)?;
        }
        Ok(())
    }
}

fn new_header(new: NewSession, events: &[(u64, NewEvent)]) -> LogHeader {
    let last = events.last();
    LogHeader {
        head: Head {
            key: new.key,
            incarnation: 0,
            position: last.map_or(0, |(position, _)| *position),
            create_time: new.create_time,
            last_update_time: last.map_or(new.create_time, |(_, new)| new.event.timestamp),
            ttl: new.ttl,
            expires_us: None,
            origin: None,
        },
        initial: new.initial,
    }
}

fn state_bytes(state: &JsonMap) -> usize {
    let bytes = state
        .iter()
        .map(|(key, value)| key.len() + value.to_string().len());
    bytes.sum()
}
