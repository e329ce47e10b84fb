//! Lists sessions with their times and state, from one snapshot.
//!
//! A list of 10,000 sessions is common, so the cost per session matters here.

use std::{ops::Range, sync::Arc};

use retain_core::{
    Json, JsonMap, ListQuery, ListText, ListedSession, Listing, Origin, Result, SessionError,
    SessionKey, SessionMeta, SessionStateText, State, seconds,
};
use rusqlite::{Connection, Row, types::Value};

use super::{
    failed,
    listed_states::{CachedStates, ListedStates},
    read::{STATE, shared_state},
    rows,
};
use crate::{rules, sql::Life};

/// What is being done, for errors.
const LIST: &str = "list";

/// From this number of sessions on, one statement may read all their states.
const MANY: usize = 64;

/// Sessions ordered by (last update, user, id).
pub(super) fn list(connection: &Connection, query: &ListQuery, now_us: i64) -> Result<Listing> {
    let found = metas(connection, query, now_us).map_err(|e| failed(LIST, e))?;
    let mut found = in_order(found, query);
    let mut listing = Listing::default();
    if query.with_state {
        add_states(connection, &mut found)?;
        // What sessions share is read once, not once a session.
        listing.app = shared_state(connection, &query.app, "")?;
        let users = found.iter().map(|(session, _)| &*session.user_id);
        for user in rules::users(query, users) {
            let keys = shared_state(connection, &query.app, user)?;
            listing.users.insert(user.to_owned(), keys);
        }
    }
    listing.sessions = found.into_iter().map(|(session, _)| session).collect();
    Ok(listing)
}

/// The same, with states, written as it is read: no session has a place of its own in memory.
pub(super) fn list_text(
    connection: &Connection,
    query: &ListQuery,
    now_us: i64,
    listed: &ListedStates,
    mut text: ListText,
) -> Result<ListText> {
    let mut found = Places::read(connection, query, now_us).map_err(|e| failed(LIST, e))?;
    found.sort_and_page(query);
    let app = shared_state(connection, &query.app, "")?;
    let users = found.places.iter().map(|place| found.user(place, query));
    for user in rules::users(query, users) {
        text.share(user, &app, &shared_state(connection, &query.app, user)?)?;
    }
    let known = state_text(connection, query, &found, listed)?;
    text.reserve(found.places.len());
    for (at, place) in found.places.iter().enumerate() {
        let state_text = known.keys_of(place.number, place.position);
        text.add(ListedSession {
            id: &found.names[place.id.clone()],
            user: found.user(place, query),
            // No session is shown without the keys that it has.
            state_text: state_text.ok_or_else(|| unread(found.key(at, query)))?,
            last_update_time: place.last_update,
        })?;
    }
    Ok(text)
}

fn unread(key: SessionKey) -> SessionError {
    SessionError::Corrupt {
        key,
        place: "state".to_owned(),
        source: "it was not read for the list".into(),
    }
}

/// The sessions of a list. All their names are one text, so that ten thousand need no ten thousand
/// pieces of memory.
#[derive(Default)]
struct Places {
    names: String,
    places: Vec<Place>,
}

struct Place {
    last_update: f64,
    number: i64,
    position: u64,
    id: Range<usize>,
    /// Empty where the list is of one user.
    user: Range<usize>,
}

impl Places {
    fn read(connection: &Connection, query: &ListQuery, now_us: i64) -> rusqlite::Result<Places> {
        let mut found = Places::default();
        each_session(
            connection,
            "number, last_update, id, user, position",
            query,
            now_us,
            |row| {
                let place = Place {
                    number: row.get(0)?,
                    last_update: row.get(1)?,
                    position: row.get(4)?,
                    id: found.name(row, 2)?,
                    user: match query.user {
                        Some(_) => 0..0,
                        None => found.name(row, 3)?,
                    },
                };
                found.places.push(place);
                Ok(())
            },
        )?;
        Ok(found)
    }

    fn name(&mut self, row: &Row<'_>, column: usize) -> rusqlite::Result<Range<usize>> {
        let start = self.names.len();
        self.names.push_str(row.get_ref(column)?.as_str()?);
        Ok(start..self.names.len())
    }

    fn user<'a>(&'a self, place: &Place, query: &'a ListQuery) -> &'a str {
        let read = || &self.names[place.user.clone()];
        query.user.as_deref().unwrap_or_else(read)
    }

    fn sort_and_page(&mut self, query: &ListQuery) {
        let mut places = std::mem::take(&mut self.places);
        let names = |place: &Place| (self.user(place, query), &self.names[place.id.clone()]);
        rules::sort_and_page(&mut places, query, |place| place.last_update, names);
        self.places = places;
    }

    fn key(&self, at: usize, query: &ListQuery) -> SessionKey {
        let place = &self.places[at];
        SessionKey::new(
            &query.app,
            self.user(place, query),
            &self.names[place.id.clone()],
        )
    }
}

/// The own keys of all sessions as one text. Only those are read that have changed since the last
/// list, where there was one.
fn state_text(
    connection: &Connection,
    query: &ListQuery,
    found: &Places,
    listed: &ListedStates,
) -> Result<Arc<CachedStates>> {
    let places = &found.places;
    // Few are read as quickly as they are found in a map, and need not be kept.
    let owner = query.user.as_deref().filter(|_| places.len() >= MANY);
    let known = owner.map(|user| listed.of(&query.app, user));
    let known = known.unwrap_or_default();
    let is_new = |at: &usize| {
        let place = &places[*at];
        known.keys_of(place.number, place.position).is_none()
    };
    let new: Vec<usize> = (0..places.len()).filter(is_new).collect();
    // Those that were deleted are forgotten too.
    if new.is_empty() && known.len() == places.len() {
        return Ok(known);
    }
    let updated = Arc::new(read_own_keys(connection, query, found, &known, &new)?);
    if let Some(user) = owner {
        listed.keep(&query.app, user, Arc::clone(&updated));
    }
    Ok(updated)
}

/// The cached states, with those of new sessions read from the database.
fn read_own_keys(
    connection: &Connection,
    query: &ListQuery,
    found: &Places,
    known: &CachedStates,
    new: &[usize],
) -> Result<CachedStates> {
    let mut all = CachedStates::with_capacity(found.places.len());
    let mut own = SessionStateText::default();
    let mut ranges = vec![0..0; new.len()];
    let key = |at: usize| found.key(new[at], query);
    let numbers: Vec<i64> = new.iter().map(|at| found.places[*at].number).collect();
    each_state(connection, &numbers, &key, |at, name, value| {
        let start = own.as_str().len();
        let pushed = own.push(name, &value);
        pushed.map_err(|e| SessionError::corrupt_state(&key(at), name, e))?;
        // The keys of one session come one after the other.
        let range: &mut Range<usize> = &mut ranges[at];
        if range.start == range.end {
            range.start = start;
        }
        range.end = own.as_str().len();
        Ok(())
    })?;
    all.text = own.into();
    for (at, range) in new.iter().zip(ranges) {
        let place = &found.places[*at];
        all.add(place.number, place.position, range);
    }
    for place in &found.places {
        let Some(keys) = known.keys_of(place.number, place.position) else {
            continue;
        };
        let start = all.text.len();
        all.text.push_str(keys);
        all.add(place.number, place.position, start..all.text.len());
    }
    Ok(all)
}

/// A session found, and the number of its log.
type Found = (SessionMeta, i64);

fn add_states(connection: &Connection, found: &mut [Found]) -> Result<()> {
    let numbers: Vec<i64> = found.iter().map(|(_, number)| *number).collect();
    let mut states = vec![JsonMap::new(); found.len()];
    each_state(
        connection,
        &numbers,
        &|at| found[at].0.key(),
        |at, key, value| {
            states[at].insert(key, value);
            Ok(())
        },
    )?;
    for ((session, _), state) in found.iter_mut().zip(states) {
        session.state = Some(State::from(state));
    }
    Ok(())
}

/// Gives the columns of every session of a list that is alive to `each`.
fn each_session(
    connection: &Connection,
    columns: &str,
    query: &ListQuery,
    now_us: i64,
    mut each: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    // The second column of the index is skipped over when all users are asked for. Whether a session
    // is alive is asked here as `Life` tells it, for a column that is not given out costs less.
    let sql = format!(
        "SELECT {columns} FROM sessions WHERE app = ?1 AND user >= ?2 AND user <= ?3 \
         AND (ttl_us IS NULL OR ttl_us > ?4 - touched_us)"
    );
    // No text sorts behind a blob, so without a user the range has no end.
    let (from, to) = match &query.user {
        Some(user) => (user.as_str(), Value::Text(user.clone())),
        None => ("", Value::Blob(Vec::new())),
    };
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query((&query.app, from, to, now_us))?;
    while let Some(row) = rows.next()? {
        each(row)?;
    }
    Ok(())
}

fn metas(connection: &Connection, query: &ListQuery, now_us: i64) -> rusqlite::Result<Vec<Found>> {
    let columns = "number, position, last_update, create_time, origin_id, origin_position, id, user, \
         touched_us, ttl_us";
    let mut found = Vec::new();
    each_session(connection, columns, query, now_us, |row| {
        found.push(meta(row, query)?);
        Ok(())
    })?;
    Ok(found)
}

fn meta(row: &Row<'_>, query: &ListQuery) -> rusqlite::Result<Found> {
    let user = match &query.user {
        Some(user) => user.clone(),
        None => row.get(7)?,
    };
    let origin: Option<String> = row.get(4)?;
    let life = Life {
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
        expire_time: life.expires_us().map(seconds),
    };
    Ok((session, row.get(0)?))
}

/// The page that was asked for. Places are sorted, so that names can be looked up meanwhile.
fn in_order(found: Vec<Found>, query: &ListQuery) -> Vec<Found> {
    let mut order: Vec<usize> = (0..found.len()).collect();
    let time = |at: &usize| found[*at].0.last_update_time;
    let names = |at: &usize| (&*found[*at].0.user_id, &*found[*at].0.id);
    rules::sort_and_page(&mut order, query, time, names);
    let mut found: Vec<Option<Found>> = found.into_iter().map(Some).collect();
    let ordered = order.into_iter().filter_map(|at| found[at].take());
    ordered.collect()
}

/// Gives every key of the logs with these numbers to `each`, with the place of its log among them.
/// `owner` says whose they are, for errors.
fn each_state(
    connection: &Connection,
    numbers: &[i64],
    owner: &dyn Fn(usize) -> SessionKey,
    each: impl FnMut(usize, &str, Json) -> Result<()>,
) -> Result<()> {
    match lie_together(numbers) {
        Some((first, last)) => states_between(connection, numbers, (first, last), owner, each),
        None => states_one_by_one(connection, numbers, owner, each),
    }
}

/// The first and last number of many logs with few others between them: reading a table from one
/// place to another costs a fraction of finding each place.
fn lie_together(numbers: &[i64]) -> Option<(i64, i64)> {
    let (first, last) = (*numbers.iter().min()?, *numbers.iter().max()?);
    let few_between = (last - first) as u64 / 4 < numbers.len() as u64;
    (numbers.len() >= MANY && few_between).then_some((first, last))
}

fn states_between(
    connection: &Connection,
    numbers: &[i64],
    (first, last): (i64, i64),
    owner: &dyn Fn(usize) -> SessionKey,
    mut each: impl FnMut(usize, &str, Json) -> Result<()>,
) -> Result<()> {
    // They lie close together, so where one has its place is looked up and not searched for.
    let mut places = vec![None; (last - first) as usize + 1];
    for (at, number) in (0_u32..).zip(numbers) {
        places[(number - first) as usize] = Some(at);
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
        // There are logs of other lists between them.
        let Some(Some(at)) = places.get((log - first) as usize) else {
            continue;
        };
        let at = *at as usize;
        let (key, value) = rows::state_entry(&|| owner(at), LIST, row, 1)?;
        each(at, key, value)?;
    }
    Ok(())
}

fn states_one_by_one(
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
