//! Lists sessions with their times and state, from one snapshot.
//!
//! A user may have 10,000 sessions, so the cost per session matters here.

use std::{ops::Range, sync::Arc};

use retain_core::{
    Json, JsonMap, ListFields, ListQuery, Listing, Origin, Result, SessionError, SessionKey,
    SessionMeta, SessionRowParts, SessionRows, State, StateText, budget::charge, seconds,
    store_rules,
};
use rusqlite::{Connection, Row, params, types::Value};

use super::{
    failed,
    read::{STATE, shared_state},
    rows,
    state_text_cache::{StateTextCache, StateTexts},
};
use crate::sql::SessionLifetime;

/// The operation's name in errors.
const LIST: &str = "list sessions";

/// Memory of a listed session besides its ids and its state, including its part of a response.
const ROW_BYTES: usize = 256;

/// The length from which a list uses the cache and may read all states with one statement.
const BULK_MIN: usize = 64;

/// Lists sessions, ordered by (last update, user, id).
pub(super) fn list(
    connection: &Connection,
    query: &ListQuery,
    now_us: i64,
    cache: &StateTextCache,
) -> Result<Listing> {
    let mut listing = Listing::default();
    match &query.user {
        Some(user) if query.fields == ListFields::EncodedState => {
            listing.rows = list_encoded(connection, query, user, now_us, cache)?;
        }
        _ => listing.sessions = list_metas(connection, query, now_us)?,
    }
    if query.fields.have_state() {
        // Read each shared state once, not once per session.
        listing.app = shared_state(connection, &query.app, "")?;
        let users = listing.sessions.iter().map(|session| &*session.user_id);
        for user in store_rules::listed_users(query, users) {
            let keys = shared_state(connection, &query.app, user)?;
            listing.users.insert(user.to_owned(), keys);
        }
    }
    Ok(listing)
}

/// Lists the sessions of one user with encoded states. All ids are in one text and all states in
/// another, so that a session needs no allocation of its own.
fn list_encoded(
    connection: &Connection,
    query: &ListQuery,
    user: &str,
    now_us: i64,
    cache: &StateTextCache,
) -> Result<SessionRows> {
    let mut logs = UserLogs::read(connection, query, now_us)?;
    logs.sort_and_page(query, user);
    // Reading a few states is as fast as finding them in the cache.
    let use_cache = logs.rows.len() >= BULK_MIN;
    let cached = if use_cache {
        cache.get(&query.app, user)
    } else {
        Arc::default()
    };
    let parts: Vec<_> = logs
        .rows
        .iter()
        .map(|log| cached.part(log.number, log.position))
        .collect();
    // If the lengths differ, the cache also has deleted sessions.
    let is_complete = parts.iter().all(Option::is_some) && cached.len() == parts.len();
    if is_complete {
        let parts = parts.into_iter().flatten().collect();
        return Ok(logs.into_rows(Arc::clone(&cached.text), parts));
    }
    let key = |log: &LogRow| SessionKey::new(&query.app, user, &logs.ids[log.id.clone()]);
    let (text, parts) = read_states(connection, &logs, &key, &cached.text, parts)?;
    if use_cache {
        let rows = logs.rows.iter().zip(&parts);
        let rows = rows.map(|(log, part)| (log.number, log.position, part.clone()));
        let states = Arc::new(StateTexts::new(Arc::clone(&text), rows));
        cache.put(&query.app, user, states);
    }
    Ok(logs.into_rows(text, parts))
}

/// The logs of one user's sessions. All ids share one text, which saves an allocation per session.
#[derive(Default)]
struct UserLogs {
    ids: String,
    rows: Vec<LogRow>,
}

struct LogRow {
    last_update: f64,
    number: i64,
    position: u64,
    id: Range<usize>,
}

impl UserLogs {
    fn read(connection: &Connection, query: &ListQuery, now_us: i64) -> Result<UserLogs> {
        let mut logs = UserLogs::default();
        let columns = "number, last_update, position, id";
        for_each_session(connection, columns, query, now_us, |row| {
            let added = logs.add(row).map_err(|e| failed(LIST, e))?;
            Ok(charge(ROW_BYTES + 2 * added)?)
        })?;
        Ok(logs)
    }

    /// Adds a session and returns the length of its id.
    fn add(&mut self, row: &Row<'_>) -> rusqlite::Result<usize> {
        let start = self.ids.len();
        self.ids.push_str(row.get_ref(3)?.as_str()?);
        self.rows.push(LogRow {
            number: row.get(0)?,
            last_update: row.get(1)?,
            position: row.get(2)?,
            id: start..self.ids.len(),
        });
        Ok(self.ids.len() - start)
    }

    fn sort_and_page(&mut self, query: &ListQuery, user: &str) {
        let names = |log: &LogRow| (user, &self.ids[log.id.clone()]);
        store_rules::sort_and_page(&mut self.rows, query, |log| log.last_update, names);
    }

    fn into_rows(self, states: Arc<String>, parts: Vec<Range<usize>>) -> SessionRows {
        let rows = self.rows.into_iter().zip(parts);
        let rows = rows.map(|(log, state)| SessionRowParts {
            id: log.id,
            last_update_time: log.last_update,
            state,
        });
        SessionRows::from_texts(self.ids, states, rows.collect())
    }
}

/// Encodes the states of logs that have no cached part, copies the others from `cached`, and
/// returns all states as one text.
fn read_states(
    connection: &Connection,
    logs: &UserLogs,
    key: &dyn Fn(&LogRow) -> SessionKey,
    cached: &str,
    parts: Vec<Option<Range<usize>>>,
) -> Result<(Arc<String>, Vec<Range<usize>>)> {
    let is_missing = |at: &usize| parts[*at].is_none();
    let missing: Vec<usize> = (0..parts.len()).filter(is_missing).collect();
    let numbers: Vec<i64> = missing.iter().map(|at| logs.rows[*at].number).collect();
    let key = |at: usize| key(&logs.rows[missing[at]]);
    let mut text = StateText::default();
    let mut read = vec![0..0; missing.len()];
    for_each_state_key(connection, &numbers, &key, |at, name, value| {
        let start = text.as_str().len();
        let pushed = text.push(name, &value);
        pushed.map_err(|e| SessionError::corrupt_state(&key(at), name, e))?;
        // The state keys of one session are adjacent.
        let part: &mut Range<usize> = &mut read[at];
        if part.start == part.end {
            part.start = start;
        }
        part.end = text.as_str().len();
        Ok(())
    })?;
    let mut text = String::from(text);
    let mut read = read.into_iter();
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        all.push(match part {
            Some(part) => {
                let start = text.len();
                text.push_str(&cached[part]);
                start..text.len()
            }
            None => read.next().unwrap_or_default(),
        });
    }
    // The cache counts the text's capacity, not its length, against its budget.
    text.shrink_to_fit();
    Ok((Arc::new(text), all))
}

/// A session and the number of its log.
type NumberedMeta = (SessionMeta, i64);

fn add_states(connection: &Connection, sessions: &mut [NumberedMeta]) -> Result<()> {
    let numbers: Vec<i64> = sessions.iter().map(|(_, number)| *number).collect();
    let mut states = vec![JsonMap::new(); sessions.len()];
    for_each_state_key(
        connection,
        &numbers,
        &|at| sessions[at].0.key(),
        |at, key, value| {
            states[at].insert(key, value);
            Ok(())
        },
    )?;
    for ((session, _), state) in sessions.iter_mut().zip(states) {
        session.state = Some(State::from(state));
    }
    Ok(())
}

/// Calls `each` with the columns of every listed session that has not expired.
fn for_each_session(
    connection: &Connection,
    columns: &str,
    query: &ListQuery,
    now_us: i64,
    mut each: impl FnMut(&Row<'_>) -> Result<()>,
) -> Result<()> {
    let failed = |error| failed(LIST, error);
    // The condition on `ttl_us` repeats `SessionLifetime::is_alive`: filtering in SQL is cheaper
    // than returning both columns.
    let sql = format!(
        "SELECT {columns} FROM sessions WHERE app = ?1 AND user >= ?2 AND user <= ?3 \
         AND (ttl_us IS NULL OR ttl_us > ?4 - touched_us){}",
        if is_page(query) { PAGE } else { "" }
    );
    // SQLite sorts every text before a blob, so without a user the range has no upper end.
    let (from, to) = match &query.user {
        Some(user) => (user.as_str(), Value::Text(user.clone())),
        None => ("", Value::Blob(Vec::new())),
    };
    let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
    let mut rows = match (is_page(query), &query.after) {
        (false, _) => statement.query((&query.app, from, to, now_us)),
        (true, None) => {
            let none = (None::<f64>, "", "");
            let params = params![
                query.app,
                from,
                to,
                now_us,
                none.0,
                none.1,
                none.2,
                limit(query)
            ];
            statement.query(params)
        }
        (true, Some(after)) => {
            let (time, user, id) = (after.last_update_time, &after.user, &after.id);
            let params = params![query.app, from, to, now_us, time, user, id, limit(query)];
            statement.query(params)
        }
    }
    .map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        each(row)?;
    }
    Ok(())
}

/// Selects one page of a list, in order. SQLite keeps only the rows of the page while it scans the
/// owner's sessions; an index by time would cost every append.
const PAGE: &str = " AND (?5 IS NULL OR (last_update, user, id) > (?5, ?6, ?7)) \
                    ORDER BY last_update, user, id LIMIT ?8";

/// Whether the list is a page, and not all sessions.
fn is_page(query: &ListQuery) -> bool {
    query.fields != ListFields::EncodedState && query.limit < usize::MAX
}

fn limit(query: &ListQuery) -> i64 {
    i64::try_from(query.limit).unwrap_or(i64::MAX)
}

/// Lists sessions as objects, with their states if the query includes them.
fn list_metas(connection: &Connection, query: &ListQuery, now_us: i64) -> Result<Vec<SessionMeta>> {
    let all = read_metas(connection, query, now_us)?;
    let mut page = if is_page(query) {
        all
    } else {
        sort_and_page(all, query)
    };
    if query.fields.have_state() {
        add_states(connection, &mut page)?;
    }
    Ok(page.into_iter().map(|(session, _)| session).collect())
}

fn read_metas(
    connection: &Connection,
    query: &ListQuery,
    now_us: i64,
) -> Result<Vec<NumberedMeta>> {
    let columns = "number, position, last_update, create_time, origin_id, origin_position, id, user, \
         touched_us, ttl_us";
    let mut sessions = Vec::new();
    for_each_session(connection, columns, query, now_us, |row| {
        let meta = read_meta(row, query).map_err(|e| failed(LIST, e))?;
        let ids = meta.0.app_name.len() + meta.0.user_id.len() + meta.0.id.len();
        charge(ROW_BYTES + size_of::<NumberedMeta>() + 2 * ids)?;
        sessions.push(meta);
        Ok(())
    })?;
    Ok(sessions)
}

fn read_meta(row: &Row<'_>, query: &ListQuery) -> rusqlite::Result<NumberedMeta> {
    let user = match &query.user {
        Some(user) => user.clone(),
        None => row.get(7)?,
    };
    let origin: Option<String> = row.get(4)?;
    let lifetime = SessionLifetime {
        touched_us: row.get(8)?,
        ttl_us: row.get(9)?,
    };
    let session = SessionMeta {
        id: row.get(6)?,
        app_name: query.app.clone(),
        user_id: user,
        last_update_time: row.get(2)?,
        create_time: row.get(3)?,
        position: row.get(1)?,
        state: None,
        origin: match origin {
            Some(session_id) => Some(Origin {
                session_id,
                position: row.get(5)?,
            }),
            None => None,
        },
        expire_time: lifetime.expires_us().map(seconds),
    };
    Ok((session, row.get(0)?))
}

/// Returns the sessions of the page, in order. Sorts indexes, because the comparison borrows the
/// names from the sessions.
fn sort_and_page(sessions: Vec<NumberedMeta>, query: &ListQuery) -> Vec<NumberedMeta> {
    let mut order: Vec<usize> = (0..sessions.len()).collect();
    let time = |at: &usize| sessions[*at].0.last_update_time;
    let names = |at: &usize| (&*sessions[*at].0.user_id, &*sessions[*at].0.id);
    store_rules::sort_and_page(&mut order, query, time, names);
    let mut sessions: Vec<Option<NumberedMeta>> = sessions.into_iter().map(Some).collect();
    let ordered = order.into_iter().filter_map(|at| sessions[at].take());
    ordered.collect()
}

/// Calls `each` with every state key of the logs `numbers`, and with the index of its log in
/// `numbers`. `owner` returns the session of an index, for errors.
fn for_each_state_key(
    connection: &Connection,
    numbers: &[i64],
    owner: &dyn Fn(usize) -> SessionKey,
    each: impl FnMut(usize, &str, Json) -> Result<()>,
) -> Result<()> {
    match find_dense_range(numbers) {
        Some(range) => read_state_range(connection, numbers, range, owner, each),
        None => read_states_one_by_one(connection, numbers, owner, each),
    }
}

/// Returns the first and last of the numbers if they are many and dense. Scanning such a range
/// costs a fraction of looking up each log.
fn find_dense_range(numbers: &[i64]) -> Option<(i64, i64)> {
    let (first, last) = (*numbers.iter().min()?, *numbers.iter().max()?);
    let is_dense = (last - first) as u64 / 4 < numbers.len() as u64;
    (numbers.len() >= BULK_MIN && is_dense).then_some((first, last))
}

fn read_state_range(
    connection: &Connection,
    numbers: &[i64],
    (first, last): (i64, i64),
    owner: &dyn Fn(usize) -> SessionKey,
    mut each: impl FnMut(usize, &str, Json) -> Result<()>,
) -> Result<()> {
    // The range is dense, so a vector maps numbers to indexes.
    let mut indexes = vec![None; (last - first) as usize + 1];
    for (at, number) in (0_u32..).zip(numbers) {
        indexes[(number - first) as usize] = Some(at);
    }
    let sql = "SELECT log, key, value FROM state \
               WHERE log BETWEEN ?1 AND ?2 AND value IS NOT NULL";
    let statement = connection.prepare_cached(sql);
    let mut statement = statement.map_err(|e| failed(LIST, e))?;
    let mut rows = statement
        .query([first, last])
        .map_err(|e| failed(LIST, e))?;
    while let Some(row) = rows.next().map_err(|e| failed(LIST, e))? {
        let log: i64 = row.get(0).map_err(|e| failed(LIST, e))?;
        // The range may contain logs that are not in `numbers`.
        let Some(Some(at)) = indexes.get((log - first) as usize) else {
            continue;
        };
        let at = *at as usize;
        let (key, value) = rows::state_entry(&|| owner(at), LIST, row, 1)?;
        each(at, key, value)?;
    }
    Ok(())
}

fn read_states_one_by_one(
    connection: &Connection,
    numbers: &[i64],
    owner: &dyn Fn(usize) -> SessionKey,
    mut each: impl FnMut(usize, &str, Json) -> Result<()>,
) -> Result<()> {
    let statement = connection.prepare_cached(STATE);
    let mut statement = statement.map_err(|e| failed(LIST, e))?;
    for (at, number) in numbers.iter().enumerate() {
        let mut rows = statement.query([number]).map_err(|e| failed(LIST, e))?;
        while let Some(row) = rows.next().map_err(|e| failed(LIST, e))? {
            let (key, value) = rows::state_entry(&|| owner(at), LIST, row, 0)?;
            each(at, key, value)?;
        }
    }
    Ok(())
}
