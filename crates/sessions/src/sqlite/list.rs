//! Lists of sessions: who, when, and the state of each, from one snapshot.
//!
//! Ten thousand sessions are an ordinary list, so what is done for each of them counts here.

use retain_core::{JsonMap, ListQuery, Listing, Origin, Result, SessionMeta, State, seconds};
use rusqlite::{Connection, Row, types::Value};

use super::{
    failed,
    read::{STATE, shared_state},
    rows::{self, Life},
};
use crate::window::{self, ListPlace};

/// What is being done, for errors.
const LIST: &str = "list";

/// From so many sessions on their states may be read in one go.
const MANY: usize = 64;

/// A session found, and the number of its log.
type Found = (SessionMeta, i64);

/// Sessions ordered by (last update, user, id).
pub(super) fn list(connection: &Connection, query: &ListQuery, now_us: i64) -> Result<Listing> {
    let found = sessions(connection, query, now_us).map_err(|e| failed(LIST, e))?;
    let mut found = in_order(found, query);
    let mut listing = Listing::default();
    if query.with_state {
        add_states(connection, &mut found)?;
        // What sessions share is read once, not once a session.
        listing.app = shared_state(connection, &query.app, "")?;
        let users = found.iter().map(|(session, _)| &*session.user_id);
        for user in window::users(query, users) {
            let keys = shared_state(connection, &query.app, user)?;
            listing.users.insert(user.to_owned(), keys);
        }
    }
    listing.sessions = found.into_iter().map(|(session, _)| session).collect();
    Ok(listing)
}

fn add_states(connection: &Connection, found: &mut [Found]) -> Result<()> {
    let states = match lie_together(found) {
        Some((first, last)) => states_between(connection, found, first, last)?,
        None => states_one_by_one(connection, found)?,
    };
    for ((session, _), state) in found.iter_mut().zip(states) {
        session.state = Some(State::from(state));
    }
    Ok(())
}

fn sessions(
    connection: &Connection,
    query: &ListQuery,
    now_us: i64,
) -> rusqlite::Result<Vec<Found>> {
    // The second column of the index is skipped over when all users are asked for.
    let sql = "SELECT number, position, last_update, create_time, touched_us, ttl_us, \
               origin_id, origin_position, id, user \
               FROM sessions WHERE app = ?1 AND user >= ?2 AND user <= ?3";
    // No text sorts behind a blob, so without a user the range has no end.
    let (from, to) = match &query.user {
        Some(user) => (user.as_str(), Value::Text(user.clone())),
        None => ("", Value::Blob(Vec::new())),
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query((&query.app, from, to))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let life = Life {
            touched_us: row.get(4)?,
            ttl_us: row.get(5)?,
        };
        if life.is_alive(now_us) {
            found.push(session(row, query, life)?);
        }
    }
    Ok(found)
}

fn session(row: &Row<'_>, query: &ListQuery, life: Life) -> rusqlite::Result<Found> {
    let number: i64 = row.get(0)?;
    let user = match &query.user {
        Some(user) => user.clone(),
        None => row.get(9)?,
    };
    let origin: Option<String> = row.get(6)?;
    let session = SessionMeta {
        id: row.get(8)?,
        app_name: query.app.clone(),
        user_id: user,
        last_update_time: row.get(2)?,
        create_time: row.get(3)?,
        position: row.get(1)?,
        state: None,
        origin: match origin {
            Some(session_id) => Some(Origin {
                session_id,
                position: row.get(7)?,
            }),
            None => None,
        },
        expire_time: life.expires_us().map(seconds),
    };
    Ok((session, number))
}

/// The page that was asked for. Places are sorted, for they are small.
fn in_order(found: Vec<Found>, query: &ListQuery) -> Vec<Found> {
    let mut order: Vec<usize> = (0..found.len()).collect();
    window::sort_and_page(&mut order, query, |at| {
        let (session, _) = &found[*at];
        ListPlace::new(session.last_update_time, &session.user_id, &session.id)
    });
    let mut found: Vec<Option<Found>> = found.into_iter().map(Some).collect();
    let ordered = order.into_iter().filter_map(|at| found[at].take());
    ordered.collect()
}

/// The first and last number of many logs with few others between them: reading a table from one
/// place to another costs a fraction of finding each place.
fn lie_together(found: &[Found]) -> Option<(i64, i64)> {
    let numbers = || found.iter().map(|(_, number)| *number);
    let (first, last) = (numbers().min()?, numbers().max()?);
    let few_between = (last - first) as u64 / 4 < found.len() as u64;
    (found.len() >= MANY && few_between).then_some((first, last))
}

fn states_between(
    connection: &Connection,
    found: &[Found],
    first: i64,
    last: i64,
) -> Result<Vec<JsonMap>> {
    let mut states = vec![JsonMap::new(); found.len()];
    let mut places: Vec<(i64, usize)> = found.iter().map(|(_, n)| *n).zip(0..).collect();
    places.sort_unstable();
    let mut places = places.into_iter().peekable();
    let sql = "SELECT log, key, value FROM state \
               WHERE log BETWEEN ?1 AND ?2 AND value IS NOT NULL";
    let statement = connection.prepare_cached(sql);
    let mut statement = statement.map_err(|e| failed(LIST, e))?;
    let mut rows = statement
        .query([first, last])
        .map_err(|e| failed(LIST, e))?;
    // Both sides are in the order of the logs' numbers.
    while let Some(row) = rows.next().map_err(|e| failed(LIST, e))? {
        let log: i64 = row.get(0).map_err(|e| failed(LIST, e))?;
        while places.next_if(|(number, _)| *number < log).is_some() {}
        let Some((_, place)) = places.peek().filter(|(number, _)| *number == log) else {
            continue;
        };
        let (key, value) = rows::state_entry(&|| found[*place].0.key(), LIST, row, 1)?;
        states[*place].insert(key, value);
    }
    Ok(states)
}

fn states_one_by_one(connection: &Connection, found: &[Found]) -> Result<Vec<JsonMap>> {
    let statement = connection.prepare_cached(STATE);
    let mut statement = statement.map_err(|e| failed(LIST, e))?;
    let states = found
        .iter()
        .map(|(session, number)| rows::state(&|| session.key(), LIST, statement.query([number])));
    states.collect()
}
