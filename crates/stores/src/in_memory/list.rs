//! Lists sessions in order of their last update.

use std::ops::Range;

use retain_core::{ListQuery, ListText, ListedSession, Listing, Result, SessionError, SessionKey};

use super::schema::{SessionLog, SessionTables};
use crate::rules;

pub(super) fn list(tables: &SessionTables, query: &ListQuery, now_us: i64) -> Listing {
    let found = page(tables, query, now_us);
    let metas = found.iter().map(|(key, log)| {
        let user = query.user.as_ref().unwrap_or(&key.user);
        let state = query.with_state.then(|| log.state.at(u64::MAX).into());
        log.meta(&query.app, user, &key.id, state)
    });
    let mut listing = Listing {
        sessions: metas.collect(),
        ..Listing::default()
    };
    if query.with_state {
        listing.app = tables.shared.app(&query.app);
        let users = rules::users(query, found.iter().map(|(key, _)| &*key.user));
        let keys = |user: &str| (user.to_owned(), tables.shared.user(&query.app, user));
        listing.users = users.into_iter().map(keys).collect();
    }
    listing
}

pub(super) fn list_text(
    tables: &SessionTables,
    query: &ListQuery,
    mut text: ListText,
    now_us: i64,
) -> Result<ListText> {
    let found = page(tables, query, now_us);
    let app = tables.shared.app(&query.app);
    for user in rules::users(query, found.iter().map(|(key, _)| &*key.user)) {
        text.share(user, &app, &tables.shared.user(&query.app, user))?;
    }
    text.reserve(found.len());
    for (key, log) in found {
        let state_text = log.state.listed();
        let state_text = state_text.map_err(|(k, e)| SessionError::corrupt_state(key, &k, e))?;
        text.add(ListedSession {
            id: &key.id,
            user: query.user.as_ref().unwrap_or(&key.user),
            state_text: &state_text,
            last_update_time: log.last_update_time,
        })?;
    }
    Ok(text)
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
    rules::sort_and_page(
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
