//! Lists sessions in order of their last update.

use std::ops::Range;

use retain_core::{
    ListFields, ListQuery, Listing, Result, SessionError, SessionKey, SessionMeta, SessionRows,
    store_rules,
};

use super::schema::{SessionLog, SessionTables};

pub(super) fn list(tables: &SessionTables, query: &ListQuery, now_us: i64) -> Result<Listing> {
    let found = page(tables, query, now_us);
    let mut listing = Listing::default();
    match query.fields {
        ListFields::EncodedState if query.user.is_some() => listing.rows = rows(&found)?,
        _ => listing.sessions = metas(query, &found),
    }
    if query.fields.have_state() {
        listing.app = tables.shared.app(&query.app);
        let users = store_rules::listed_users(query, found.iter().map(|(key, _)| &*key.user));
        let keys = |user: &str| (user.to_owned(), tables.shared.user(&query.app, user));
        listing.users = users.into_iter().map(keys).collect();
    }
    Ok(listing)
}

fn metas(query: &ListQuery, found: &[(&SessionKey, &SessionLog)]) -> Vec<SessionMeta> {
    let meta = |(key, log): &(&SessionKey, &SessionLog)| {
        let state = query.fields.have_state();
        let state = state.then(|| log.state.at(u64::MAX).into());
        log.meta(&query.app, &key.user, &key.id, state)
    };
    found.iter().map(meta).collect()
}

fn rows(found: &[(&SessionKey, &SessionLog)]) -> Result<SessionRows> {
    let mut rows = SessionRows::default();
    for (key, log) in found {
        let state = log.state.text();
        let state = state.map_err(|(k, e)| SessionError::corrupt_state(key, &k, e))?;
        rows.push(&key.id, log.last_update_time, &state);
    }
    Ok(rows)
}

/// The sessions of a page, in order.
fn page<'a>(
    tables: &'a SessionTables,
    query: &ListQuery,
    now_us: i64,
) -> Vec<(&'a SessionKey, &'a SessionLog)> {
    let in_range = tables.logs.range(key_range(query));
    let alive = in_range.filter(|(_, log)| log.is_alive(now_us));
    // The time is copied beside each item: looking it up costs more than comparing it.
    let found = alive.map(|(key, log)| (log.last_update_time, key, log));
    let mut found: Vec<_> = found.collect();
    store_rules::sort_and_page(
        &mut found,
        query,
        |(time, ..)| *time,
        |(_, key, _)| (&key.user, &key.id),
    );
    found.into_iter().map(|(_, key, log)| (key, log)).collect()
}

/// The keys of the app's or the user's sessions. No text sorts between a text and the same text
/// with a NUL appended, so the range holds nothing else.
fn key_range(query: &ListQuery) -> Range<SessionKey> {
    let successor = |text: &str| format!("{text}\0");
    match &query.user {
        Some(user) => {
            let first = SessionKey::new(&query.app, user, "");
            first..SessionKey::new(&query.app, successor(user), "")
        }
        None => {
            let first = SessionKey::new(&query.app, "", "");
            first..SessionKey::new(successor(&query.app), "", "")
        }
    }
}
