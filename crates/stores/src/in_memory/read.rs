//! Reads sessions, their state and their events.

use std::sync::Arc;

use retain_core::{
    Event, JsonMap, LogHeader, ReadDetail, Result, ScopedState, SessionKey, Snapshot, Window,
    store_rules,
};

use super::schema::{SessionLog, SessionTables};

/// A session with the events of `window`.
pub(super) fn session(
    tables: &SessionTables,
    key: &SessionKey,
    window: Window,
    want: ReadDetail,
    now_us: i64,
) -> Option<Snapshot> {
    tables.log(key, now_us).map(|log| Snapshot {
        head: log.head(key),
        state: match want {
            ReadDetail::State => tables.state(key, log),
            ReadDetail::EventsOnly => ScopedState::default(),
        },
        events: events(log, window),
    })
}

fn events(log: &SessionLog, window: Window) -> Vec<(u64, Arc<Event>)> {
    let last = window.last.min(log.position());
    let in_range = (window.first.max(1)..=last).map(|p| (p, &log.events[p as usize - 1]));
    let since = window.after_timestamp.unwrap_or(f64::NEG_INFINITY);
    let in_time = in_range.filter(|(_, event)| event.timestamp >= since);
    let all = in_time.map(|(position, event)| (position, Arc::clone(event)));
    // Without a time filter the positions are known, so the ends are found by counting.
    if window.after_timestamp.is_none() {
        let len = (last + 1).saturating_sub(window.first.max(1)) as usize;
        let skip = window.newest.map_or(0, |newest| len.saturating_sub(newest));
        let take = window.oldest.unwrap_or(usize::MAX);
        return all.skip(skip).take(take).collect();
    }
    let mut events: Vec<_> = all.collect();
    store_rules::trim_to_window(&mut events, window);
    events
}

/// The keys of an app, or of a user of it.
pub(super) fn shared_state(tables: &SessionTables, app: &str, user: Option<&str>) -> JsonMap {
    match user {
        Some(user) => tables.shared.user(app, user),
        None => tables.shared.app(app),
    }
}

/// The session's own keys as they were after `position`.
pub(super) fn state_at(
    tables: &mut SessionTables,
    key: &SessionKey,
    position: u64,
    now_us: i64,
) -> Result<JsonMap> {
    let log = tables.log_mut(key, now_us)?;
    store_rules::check_position(key, position, log.position())?;
    Ok(log.state.at(position))
}

pub(super) fn positions_of(
    tables: &mut SessionTables,
    key: &SessionKey,
    ids: &[String],
    now_us: i64,
) -> Result<Vec<Option<u64>>> {
    let log = tables.log_mut(key, now_us)?;
    Ok(ids.iter().map(|id| log.ids.get(id).copied()).collect())
}

pub(super) fn first_of_invocation(
    tables: &mut SessionTables,
    key: &SessionKey,
    invocation: &str,
    now_us: i64,
) -> Result<Option<u64>> {
    let log = tables.log_mut(key, now_us)?;
    let mut events = log.events.iter();
    let index = events.position(|event| event.invocation_id == invocation);
    Ok(index.map(|index| index as u64 + 1))
}

/// The session and the state it was created with.
pub(super) fn log_header(
    tables: &SessionTables,
    key: &SessionKey,
    now_us: i64,
) -> Option<LogHeader> {
    tables.log(key, now_us).map(|log| LogHeader {
        head: log.head(key),
        initial: log.initial.clone(),
    })
}
