//! Rules that every store applies in the same way, inside its transactions.
//!
//! The rules for appends are in [`plan_append`](crate::plan_append) and [`Lease`](crate::Lease).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    artifacts::{ArtifactAddress, ArtifactKey, ArtifactReference},
    error::{Result, SessionError},
    event::Event,
    json::JsonMap,
    memory::{Forget, MemoryScope, Tombstone},
    ports::duration_us,
    session::{SessionKey, Window},
    state::ScopedDelta,
    store::{Head, ListQuery},
};

/// How long a ticket stays in the queue for a lease unless its owner asks for the lease again, in
/// microseconds.
pub const TICKET_TTL_US: i64 = 1_000_000;

/// How long an unfinished draft exists after its last change, in microseconds.
pub const DRAFT_TTL_US: i64 = 10 * 60 * 1_000_000;

/// How long a wait for changes lasts before the store looks for changes by other processes.
pub const CHANGE_POLL: Duration = Duration::from_millis(200);

/// Returns when a session that was last written at `touched_us` expires.
pub fn expires_us(touched_us: i64, ttl: Duration) -> i64 {
    touched_us.saturating_add(duration_us(ttl))
}

/// Returns the time of the last write to record for an imported session, so that it expires when
/// its header says. Without an expiry in the header, returns the current time.
pub fn imported_touched_us(head: &Head, now_us: i64) -> i64 {
    match (head.expires_us, head.ttl) {
        (Some(expires_us), Some(ttl)) => expires_us.saturating_sub(duration_us(ttl)),
        _ => now_us,
    }
}

/// Trims `events`, which lie in the range and time of `window`, to its limits `newest` and
/// `oldest`.
pub fn trim_to_window<T>(events: &mut Vec<T>, window: Window) {
    if let Some(newest) = window.newest {
        events.drain(..events.len().saturating_sub(newest));
    }
    if let Some(oldest) = window.oldest {
        events.truncate(oldest);
    }
}

/// Drops the events with which a page exceeds `bytes`, except the first one.
pub fn trim_to_bytes(events: &mut Vec<(u64, Arc<Event>)>, bytes: Option<usize>) {
    let Some(mut left) = bytes else {
        return;
    };
    let mut fits = |(_, event): &(u64, Arc<Event>)| {
        let size = event.to_json().map_or(0, |text| text.len());
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    };
    let count = events.iter().take_while(|event| fits(event)).count();
    events.truncate(count.max(1));
}

/// Orders sessions by (last update, user, id) and returns the requested page in `found`. Equal
/// times are rare, so `names` is seldom called.
pub fn sort_and_page<'a, T>(
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
    // Sort small pairs of time and index, which compare without looking at the items.
    let mut order: Vec<(u64, usize)> = found
        .iter()
        .map(|item| sort_key(time(item)))
        .zip(0..)
        .collect();
    let compare = |(a, at_a): &(u64, usize), (b, at_b): &(u64, usize)| {
        let names = || names(&found[*at_a]).cmp(&names(&found[*at_b]));
        a.cmp(b).then_with(names)
    };
    if query.limit < order.len() {
        // Sort only the page.
        order.select_nth_unstable_by(query.limit, compare);
        order.truncate(query.limit);
    }
    order.sort_unstable_by(compare);
    let mut items: Vec<Option<T>> = std::mem::take(found).into_iter().map(Some).collect();
    found.extend(order.into_iter().filter_map(|(_, at)| items[at].take()));
}

/// Maps a time to an integer that sorts like `f64::total_cmp`.
fn sort_key(time: f64) -> u64 {
    let bits = time.to_bits();
    match time.is_sign_negative() {
        true => !bits,
        false => bits | 1 << 63,
    }
}

/// Returns the users whose shared state belongs to a list, each once. `found` yields the users of
/// the listed sessions.
pub fn listed_users<'a>(
    query: &'a ListQuery,
    found: impl Iterator<Item = &'a str>,
) -> BTreeSet<&'a str> {
    match &query.user {
        Some(user) => BTreeSet::from([user.as_str()]),
        None => found.collect(),
    }
}

/// Fails if the log ends before `position`.
pub fn check_position(key: &SessionKey, position: u64, last: u64) -> Result<()> {
    if position <= last {
        return Ok(());
    }
    Err(SessionError::PositionNotFound {
        key: key.clone(),
        position,
        last,
    })
}

/// Returns the keys of an initial state that belong to the session itself.
pub fn session_keys(initial: &JsonMap) -> JsonMap {
    ScopedDelta::from_delta(initial).session
}

/// Sets the keys that `map` does not have yet.
pub fn set_absent(map: &mut JsonMap, keys: &JsonMap) {
    for (key, value) in keys {
        if !map.contains_key(key) {
            map.insert(key, value.clone());
        }
    }
}

/// Returns the reference to a version of an artifact.
pub fn artifact_reference(address: &ArtifactAddress, version: u64) -> ArtifactReference {
    let key = ArtifactKey {
        app_name: address.app.clone(),
        user_id: address.user.clone(),
        session_id: address.session.clone(),
        filename: address.filename.clone(),
    };
    ArtifactReference { key, version }
}

/// Maximum number of recorded changes of a memory scope. A reader that is further behind reads the
/// whole scope.
pub const MEMORY_CHANGES_MAX: usize = 4096;

/// Why memories are removed, which determines their tombstones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRemoval {
    /// Forgotten by id: the id is never ingested again.
    ById,
    /// Forgotten by a filter: the memory is never ingested again from its session.
    ByAddress,
    /// Its session has expired, and cannot be ingested again.
    WithSession,
    /// Expired: a memory from a session is not ingested again from it; a direct memory may be added
    /// again.
    Expiry,
}

impl MemoryRemoval {
    /// Returns how `what` removes memories.
    pub fn from_forget(what: &Forget) -> MemoryRemoval {
        match what {
            Forget::Ids(_) => MemoryRemoval::ById,
            Forget::Matching(_) => MemoryRemoval::ByAddress,
            Forget::ExpiredSessions(_) => MemoryRemoval::WithSession,
        }
    }

    /// Returns the tombstone that the removal of a memory leaves, if any.
    pub fn tombstone(
        self,
        scope: &MemoryScope,
        session: Option<&str>,
        id: &str,
        is_direct: bool,
    ) -> Option<Tombstone> {
        match self {
            MemoryRemoval::ById => Some(Tombstone::of_id(scope, id)),
            MemoryRemoval::WithSession => None,
            MemoryRemoval::Expiry if is_direct => None,
            MemoryRemoval::ByAddress | MemoryRemoval::Expiry => {
                Some(Tombstone::of_entry(scope, session, id))
            }
        }
    }
}

/// Creates the error for a draft that was finished or has expired.
pub fn draft_gone() -> SessionError {
    SessionError::invalid(
        "draft",
        "no longer exists: it was finished or has expired; start the import again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ListCursor, ListFields};

    #[test]
    fn sort_key_orders_times_like_total_cmp() {
        let nan = f64::NAN;
        let times = [
            -nan,
            f64::NEG_INFINITY,
            -1.5,
            -0.0,
            0.0,
            1e-300,
            1.5,
            1.8e9,
            f64::INFINITY,
            nan,
        ];
        for a in times {
            for b in times {
                assert_eq!(sort_key(a).cmp(&sort_key(b)), a.total_cmp(&b), "{a} {b}");
            }
        }
    }

    #[test]
    fn page_is_ordered_by_time_then_user_then_id() {
        let query = |after, limit| ListQuery {
            app: "a".to_owned(),
            user: None,
            after,
            limit,
            fields: ListFields::Metadata,
        };
        let all = [
            (2.0, "u", "b"),
            (1.0, "v", "a"),
            (1.0, "u", "c"),
            (1.0, "u", "a"),
            (0.5, "z", "z"),
        ];
        let page = |query: &ListQuery| {
            let mut found = all.to_vec();
            sort_and_page(&mut found, query, |item| item.0, |item| (item.1, item.2));
            found
        };
        let sorted = [
            (0.5, "z", "z"),
            (1.0, "u", "a"),
            (1.0, "u", "c"),
            (1.0, "v", "a"),
            (2.0, "u", "b"),
        ];
        assert_eq!(page(&query(None, usize::MAX)), sorted);
        let after = ListCursor {
            last_update_time: 1.0,
            user: "u".to_owned(),
            id: "a".to_owned(),
        };
        assert_eq!(page(&query(Some(after), 2)), sorted[2..4]);
    }
}
