//! Reads sessions, their state and their events.

use std::sync::Arc;

use retain_core::{
    Event, EventLookup, JsonMap, LogHeader, ReadDetail, Result, ScopedState, SessionKey, Snapshot,
    Window, store_rules,
};

use super::schema::{SessionLog, SessionTables};

/// Reads a session with the events of `window`.
pub(super) fn session(
    tables: &SessionTables,
    key: &SessionKey,
    window: Window,
    detail: ReadDetail,
    now_us: i64,
) -> Option<Snapshot> {
    tables.log(key, now_us).map(|log| Snapshot {
        head: log.head(key),
        state: match detail {
            ReadDetail::State => tables.state(key, log, u64::MAX),
            ReadDetail::StateAt(position) => tables.state(key, log, position),
            ReadDetail::EventsOnly => ScopedState::default(),
        },
        events: read_window(log, window),
    })
}

fn read_window(log: &SessionLog, window: Window) -> Vec<(u64, Arc<Event>)> {
    let last = window.last.min(log.position());
    let in_range = (window.first.max(1)..=last).map(|p| (p, &log.events[p as usize - 1]));
    let since = window.after_timestamp.unwrap_or(f64::NEG_INFINITY);
    let in_time = in_range.filter(|(_, event)| event.timestamp >= since);
    let all = in_time.map(|(position, event)| (position, Arc::clone(event)));
    // Positions are dense, so without a time filter the newest and oldest are found by counting.
    if window.after_timestamp.is_none() {
        let len = (last + 1).saturating_sub(window.first.max(1)) as usize;
        let skip = window.newest.map_or(0, |newest| len.saturating_sub(newest));
        let take = window.oldest.unwrap_or(usize::MAX);
        let mut events: Vec<_> = all.skip(skip).take(take).collect();
        store_rules::trim_to_bytes(&mut events, window.bytes);
        return events;
    }
    let mut events: Vec<_> = all.collect();
    store_rules::trim_to_window(&mut events, window);
    events
}

/// Reads the state keys of an app or of one of its users.
pub(super) fn shared_state(tables: &SessionTables, app: &str, user: Option<&str>) -> JsonMap {
    match user {
        Some(user) => tables.shared.user(app, user),
        None => tables.shared.app(app),
    }
}

/// Finds the positions of the events that `lookup` names.
pub(super) fn find_events(
    tables: &mut SessionTables,
    key: &SessionKey,
    lookup: &EventLookup,
    now_us: i64,
) -> Result<Vec<Option<u64>>> {
    let log = tables.log_mut(key, now_us)?;
    Ok(match lookup {
        EventLookup::Ids(ids) => ids.iter().map(|id| log.ids.get(id).copied()).collect(),
        EventLookup::Invocation(invocation) => {
            let mut events = log.events.iter();
            let index = events.position(|event| event.invocation_id == *invocation);
            vec![index.map(|index| index as u64 + 1)]
        }
    })
}

/// Reads a session's head and the state it was created with.
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
