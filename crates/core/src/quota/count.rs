//! Counts what a store keeps by reading it, for stores that do not count it themselves.

use super::Usage;
use crate::{
    error::{Result, SessionError},
    session::{SessionKey, SessionMeta, Window},
    store::{ListFields, ListQuery, ReadDetail, SessionStore},
    store_rules::check_position,
};

/// Number of events read at a time.
const PAGE: u64 = 256;

/// Counts the sessions and events of an app or a user. Reads every event.
pub(crate) async fn count_usage<S: SessionStore + ?Sized>(
    store: &S,
    app: &str,
    user: Option<&str>,
) -> Result<Usage> {
    let mut query = ListQuery::new(app, ListFields::Metadata);
    query.user = user.map(str::to_owned);
    let listed = store.list(&query).await?;
    let mut usage = Usage::default();
    for session in &listed.sessions {
        let key = SessionMeta::key(session);
        match count_log_bytes(store, &key, session.position).await {
            Ok(bytes) => usage.event_bytes += bytes,
            // It was deleted after the list.
            Err(SessionError::NotFound { .. } | SessionError::PositionNotFound { .. }) => continue,
            Err(error) => return Err(error),
        }
        usage.sessions += 1;
        usage.events += session.position;
    }
    Ok(usage)
}

/// Sums the bytes of the events up to `position`. Reads them.
pub(crate) async fn count_log_bytes<S: SessionStore + ?Sized>(
    store: &S,
    key: &SessionKey,
    position: u64,
) -> Result<u64> {
    let (mut bytes, mut first) = (0, 1);
    loop {
        let page = Window::range(first, position.min(first + PAGE - 1));
        let read = store.read(key, page, ReadDetail::EventsOnly).await?;
        let read = read.ok_or_else(|| SessionError::not_found(key))?;
        check_position(key, position, read.head.position)?;
        for (position, event) in &read.events {
            let body = event.to_json();
            let body = body.map_err(|e| SessionError::corrupt_event(key, *position, e))?;
            bytes += body.len() as u64;
        }
        first += PAGE;
        if first > position {
            return Ok(bytes);
        }
    }
}
