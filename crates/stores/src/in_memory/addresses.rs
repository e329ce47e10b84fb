//! Lists the addresses of all sessions and owners of shared state, in pages.

use std::ops::Bound;

use retain_core::{SessionKey, StateOwner};

use super::schema::SessionTables;

pub(super) fn sessions(
    tables: &SessionTables,
    after: Option<&SessionKey>,
    limit: usize,
    now_us: i64,
) -> Vec<SessionKey> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let rest = tables.logs.range((from, Bound::Unbounded));
    let alive = rest.filter(|(_, log)| log.is_alive(now_us));
    alive.map(|(key, _)| key.clone()).take(limit).collect()
}

pub(super) fn state_owners(
    tables: &SessionTables,
    after: Option<&StateOwner>,
    limit: usize,
) -> Vec<StateOwner> {
    let shared = &tables.shared;
    let apps = shared.apps.iter().filter(|(_, keys)| !keys.is_empty());
    let users = shared.users.iter().filter(|(_, keys)| !keys.is_empty());
    let apps = apps.map(|(app, _)| StateOwner::app(app));
    let users = users.map(|((app, user), _)| StateOwner::user(app, user));
    let is_after = |owner: &StateOwner| after.is_none_or(|after| owner > after);
    let mut owners: Vec<StateOwner> = apps.chain(users).filter(is_after).collect();
    owners.sort_unstable();
    owners.truncate(limit);
    owners
}
