//! Rules that every store applies in the same way.

use std::{collections::BTreeSet, time::Duration};

use retain_core::{
    ArtifactAddress, ArtifactKey, ArtifactReference, Head, JsonMap, ListQuery, Result, ScopedDelta,
    SessionError, SessionKey, Window, duration_us,
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

/// Orders sessions by (last update, user, id) and keeps the page that was asked for. Two times are
/// rarely the same, so names are seldom looked up.
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
    // Times and places are sorted, for they are small, and compared without a look at the items.
    let mut order: Vec<(u64, usize)> = found
        .iter()
        .map(|item| sortable(time(item)))
        .zip(0..)
        .collect();
    order.sort_unstable_by(|(a, at_a), (b, at_b)| {
        let names = || names(&found[*at_a]).cmp(&names(&found[*at_b]));
        a.cmp(b).then_with(names)
    });
    order.truncate(query.limit);
    let mut items: Vec<Option<T>> = std::mem::take(found).into_iter().map(Some).collect();
    found.extend(order.into_iter().filter_map(|(_, at)| items[at].take()));
}

/// A number that is larger than another one exactly if the time is, as `total_cmp` has it.
fn sortable(time: f64) -> u64 {
    let bits = time.to_bits();
    match time.is_sign_negative() {
        true => !bits,
        false => bits | 1 << 63,
    }
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

/// The address of an artifact's version.
pub(crate) fn artifact_address(place: &ArtifactAddress, version: u64) -> ArtifactReference {
    let key = ArtifactKey {
        app_name: place.app.clone(),
        user_id: place.user.clone(),
        session_id: place.session.clone(),
        filename: place.filename.clone(),
    };
    ArtifactReference { key, version }
}

/// How many touched memories of a scope are recorded. A reader that is further behind rebuilds.
pub(crate) const TOUCHED_MAX: usize = 4096;

/// How memories are removed, which decides what tombstone is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// By id: the id is never ingested again.
    ById,
    /// By a filter: the entry is never ingested again from its session.
    ByAddress,
    /// Expired: turns are not ingested again from their session; direct memories may be added again.
    Expiry,
}

/// A draft that was finished or has vanished.
pub(crate) fn draft_gone() -> SessionError {
    SessionError::invalid("draft", "is gone; start the import again")
}

#[cfg(test)]
mod tests {
    use retain_core::ListFields;

    use super::*;

    #[test]
    fn times_are_sorted_as_they_are_compared() {
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
                assert_eq!(sortable(a).cmp(&sortable(b)), a.total_cmp(&b), "{a} {b}");
            }
        }
    }

    #[test]
    fn sessions_are_in_order_of_time_and_then_of_names() {
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
        let after = retain_core::ListCursor {
            last_update_time: 1.0,
            user: "u".to_owned(),
            id: "a".to_owned(),
        };
        assert_eq!(page(&query(Some(after), 2)), sorted[2..4]);
    }
}
