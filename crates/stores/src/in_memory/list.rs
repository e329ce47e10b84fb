//! Lists sessions in order of their last update.

use std::ops::Range;

use retain_core::{
    ListFields, ListQuery, Listing, Result, SessionError, SessionKey, SessionMeta, SessionRows,
    store_rules,
};

use super::schema::{SessionLog, SessionTables};

pub(super) fn list(tables: &SessionTables, query: &ListQuery, now_us: i64) -> Result<Listing> {
    let sessions = read_page(tables, query, now_us);
    let mut listing = Listing::default();
    match query.fields {
        ListFields::EncodedState if query.user.is_some() => listing.rows = encode_rows(&sessions)?,
        _ => listing.sessions = build_metas(query, &sessions),
    }
    if query.fields.have_state() {
        listing.app = tables.shared.app(&query.app);
        let users = sessions.iter().map(|(key, _)| &*key.user);
        let users = store_rules::listed_users(query, users);
        let keys = |user: &str| (user.to_owned(), tables.shared.user(&query.app, user));
        listing.users = users.into_iter().map(keys).collect();
    }
    Ok(listing)
}

fn build_metas(query: &ListQuery, sessions: &[(&SessionKey, &SessionLog)]) -> Vec<SessionMeta> {
    let meta = |(key, log): &(&SessionKey, &SessionLog)| {
        let has_state = query.fields.have_state();
        let state = has_state.then(|| log.state.values_at(u64::MAX).into());
        log.meta(&query.app, &key.user, &key.id, state)
    };
    sessions.iter().map(meta).collect()
}

fn encode_rows(sessions: &[(&SessionKey, &SessionLog)]) -> Result<SessionRows> {
    let mut rows = SessionRows::default();
    for (key, log) in sessions {
        let state = log.state.text();
        let state = state.map_err(|(k, e)| SessionError::corrupt_state(key, &k, e))?;
        rows.push(&key.id, log.last_update_time, &state);
    }
    Ok(rows)
}

/// Returns the sessions of a page, in order.
fn read_page<'a>(
    tables: &'a SessionTables,
    query: &ListQuery,
    now_us: i64,
) -> Vec<(&'a SessionKey, &'a SessionLog)> {
    let in_range = tables.logs.range(key_range(query));
    let alive = in_range.filter(|(_, log)| log.is_alive(now_us));
    // Sort copies of the times: following the reference to a log costs more than the comparison.
    let sessions = alive.map(|(key, log)| (log.last_update_time, key, log));
    let mut sessions: Vec<_> = sessions.collect();
    store_rules::sort_and_page(
        &mut sessions,
        query,
        |(time, ..)| *time,
        |(_, key, _)| (&key.user, &key.id),
    );
    let page = sessions.into_iter().map(|(_, key, log)| (key, log));
    page.collect()
}

/// Returns the range of the app's or the user's session keys. No text sorts between a text and the
/// same text with a NUL appended, so the range contains no other keys.
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
