//! Small rules that every store applies alike.

use std::{collections::BTreeSet, time::Duration};

use retain_core::{
    Head, JsonMap, ListQuery, Result, ScopedDelta, SessionError, SessionKey, Window, duration_us,
};

/// How long a ticket in the queue for a lease counts without a sign of life, in microseconds.
pub(crate) const TICKET_TTL_US: i64 = 1_000_000;

/// An import that shows no sign of life for so long is given up, in microseconds.
pub(crate) const DRAFT_TTL_US: i64 = 10 * 60 * 1_000_000;

/// How long a listener sleeps before it looks for what no bell tells it.
pub(crate) const POLL: Duration = Duration::from_millis(200);

/// When something that was touched at `touched_us` and lives for `ttl` expires.
pub(crate) fn expiry(touched_us: i64, ttl: Duration) -> i64 {
    touched_us.saturating_add(duration_us(ttl))
}

/// When a session that comes from elsewhere was last touched, so that it expires when its header says;
/// now if that says nothing.
pub(crate) fn touched_us(head: &Head, now_us: i64) -> i64 {
    match (head.expires_us, head.ttl) {
        (Some(expires_us), Some(ttl)) => expires_us.saturating_sub(duration_us(ttl)),
        _ => now_us,
    }
}

/// Cuts what lies in range and time to the newest or oldest that were asked for.
pub(crate) fn cut<T>(events: &mut Vec<T>, window: Window) {
    if let Some(newest) = window.newest {
        events.drain(..events.len().saturating_sub(newest));
    }
    if let Some(oldest) = window.oldest {
        events.truncate(oldest);
    }
}

/// Orders sessions by (last update, user, id) and keeps the page that was asked for. Items are moved
/// about, so they should be small; two times are rarely the same, so names are seldom looked up.
pub(crate) fn sort_and_page<'a, T>(
    found: &mut Vec<T>,
    query: &ListQuery,
    time: impl Fn(&T) -> f64,
    names: impl Fn(&T) -> (&'a str, &'a str),
) {
    if let Some(after) = &query.after {
        found.retain(|item| {
            let order = time(item).total_cmp(&after.last_update_time);
            let order = order.then_with(|| names(item).cmp(&(&after.user, &after.id)));
            order.is_gt()
        });
    }
    found.sort_unstable_by(|a, b| {
        let order = time(a).total_cmp(&time(b));
        order.then_with(|| names(a).cmp(&names(b)))
    });
    found.truncate(query.limit);
}

/// Whose sessions a list holds, each user once. `found` are the users of its sessions.
pub(crate) fn users<'a>(
    query: &'a ListQuery,
    found: impl Iterator<Item = &'a str>,
) -> BTreeSet<&'a str> {
    match &query.user {
        Some(user) => BTreeSet::from([user.as_str()]),
        None => found.collect(),
    }
}

/// Fails if the log ends before `position`.
pub(crate) fn check_position(key: &SessionKey, position: u64, last: u64) -> Result<()> {
    if position <= last {
        return Ok(());
    }
    Err(SessionError::PositionNotFound {
        key: key.clone(),
        position,
        last,
    })
}

/// The keys of a state that belong to the session itself.
pub(crate) fn session_keys(initial: &JsonMap) -> JsonMap {
    ScopedDelta::of(initial).session
}

/// Sets the keys that `map` does not have yet.
pub(crate) fn set_absent(map: &mut JsonMap, keys: &JsonMap) {
    for (key, value) in keys {
        if !map.contains_key(key) {
            map.insert(key, value.clone());
        }
    }
}

/// A draft that was finished or has vanished.
pub(crate) fn draft_gone() -> SessionError {
    SessionError::invalid("draft", "is gone; start the import again")
}
