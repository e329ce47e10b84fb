//! Lists sessions with their times and state, from one snapshot.

use std::collections::HashMap;

use retain_core::{
    JsonMap, ListQuery, Listing, Origin, Result, SessionError, SessionKey, SessionMeta, State,
    budget::charge, seconds, store_rules,
};
use tokio::join;
use tokio_postgres::Row;

use super::{
    pool::{Database, Failure, Transaction, if_some},
    rows::{self, clock_us, count, unsigned},
};
use crate::sql::SessionLifetime;

/// Selects a page of sessions that have not expired. Compares text byte by byte, as Rust does.
const PAGE: &str = concat!(
    "SELECT number, position, last_update, create_time, touched_us, ttl_us, origin_id, \
     origin_position, id, user_id FROM retain_sessions \
     WHERE app = $1 AND ($2::text IS NULL OR user_id = $2) \
     AND ($3::float8 IS NULL OR (last_update, user_id, id) > ($3, $4::text, $5::text)) \
     AND (ttl_us IS NULL OR touched_us > coalesce($6::int8, ",
    clock_us!(),
    ") - ttl_us) ORDER BY last_update, user_id, id LIMIT $7::int8"
);

const STATES: &str = "SELECT key, value, log FROM retain_state \
                      WHERE log = ANY($1) AND value IS NOT NULL";

const SHARED: &str = "SELECT key, value, user_id FROM retain_shared_state \
                      WHERE app = $1 AND user_id = ANY($2)";

/// Memory of a listed session besides its ids and its state, including its part of a response.
const ROW_BYTES: usize = 256;

/// Lists sessions ordered by (last update, user, id).
pub(super) async fn list(
    database: &Database,
    query: &ListQuery,
    now_us: Option<i64>,
) -> Result<Listing, Failure> {
    let transaction = database.transaction().await?;
    let page = transaction.prepare(PAGE).await?;
    let after = query.after.as_ref();
    let time = after.map(|after| after.last_update_time);
    let (user, id) = (after.map(|after| &after.user), after.map(|after| &after.id));
    let limit = count(Some(query.limit));
    // A list without states needs no further query, so it can commit immediately.
    let is_complete = !query.fields.have_state();
    let (begun, found, ended) = join!(
        biased;
        transaction.begin_snapshot(),
        transaction.query(&page, [&query.app, &query.user, &time, &user, &id, &now_us, &limit]),
        if_some(is_complete.then(|| transaction.commit())),
    );
    begun?;
    let found = found?;
    ended?;
    let mut listing = Listing::default();
    for row in &found {
        let session = decode_session(row, query)?;
        let ids = session.app_name.len() + session.user_id.len() + session.id.len();
        charge(ROW_BYTES + size_of::<SessionMeta>() + 2 * ids).map_err(SessionError::from)?;
        listing.sessions.push(session);
    }
    if query.fields.have_state() {
        add_states(&transaction, query, &found, &mut listing).await?;
    }
    transaction.release();
    Ok(listing)
}

fn decode_session(row: &Row, query: &ListQuery) -> Result<SessionMeta, Failure> {
    let life = SessionLifetime {
        touched_us: row.try_get(4)?,
        ttl_us: row.try_get(5)?,
    };
    let origin: Option<String> = row.try_get(6)?;
    Ok(SessionMeta {
        id: row.try_get(8)?,
        app_name: query.app.clone(),
        user_id: row.try_get(9)?,
        last_update_time: row.try_get(2)?,
        create_time: row.try_get(3)?,
        position: unsigned(row, 1)?,
        state: None,
        origin: match origin {
            Some(session_id) => Some(Origin {
                session_id,
                position: unsigned(row, 7)?,
            }),
            None => None,
        },
        expire_time: life.expires_us().map(seconds),
    })
}

/// Adds the states of the listed sessions, and each shared state once.
async fn add_states(
    transaction: &Transaction,
    query: &ListQuery,
    found: &[Row],
    listing: &mut Listing,
) -> Result<(), Failure> {
    let numbers = found.iter().map(|row| row.try_get(0));
    let numbers = numbers.collect::<Result<Vec<i64>, _>>()?;
    let users = listing.sessions.iter().map(|session| &*session.user_id);
    let users = store_rules::listed_users(query, users);
    let users: Vec<String> = users.into_iter().map(str::to_owned).collect();
    let mut owners: Vec<&str> = users.iter().map(String::as_str).collect();
    // The shared state of the app itself has an empty user id.
    owners.push("");
    let (states, shared) = join!(
        biased; transaction.prepare(STATES), transaction.prepare(SHARED)
    );
    let (states, shared) = (states?, shared?);
    let (states, shared, ended) = join!(
        biased;
        transaction.query(&states, [&numbers]),
        transaction.query(&shared, [&query.app, &owners]),
        transaction.commit(),
    );
    let (states, shared) = (states?, shared?);
    ended?;
    let mut indexes = HashMap::with_capacity(numbers.len());
    for (index, number) in numbers.iter().enumerate() {
        indexes.insert(*number, index);
    }
    let mut own = vec![JsonMap::new(); numbers.len()];
    for row in &states {
        let Some(&index) = indexes.get(&row.try_get(2)?) else {
            continue;
        };
        let (key, value) = rows::state_entry(&|| listing.sessions[index].key(), row, 0)?;
        own[index].insert(key, value);
    }
    for (session, state) in listing.sessions.iter_mut().zip(own) {
        session.state = Some(State::from(state));
    }
    listing.users = users
        .into_iter()
        .map(|user| (user, JsonMap::new()))
        .collect();
    add_shared(query, &shared, listing)
}

fn add_shared(query: &ListQuery, shared: &[Row], listing: &mut Listing) -> Result<(), Failure> {
    for row in shared {
        let owner: &str = row.try_get(2)?;
        let owner_key = || SessionKey::new(&query.app, owner, "");
        let (key, value) = rows::state_entry(&owner_key, row, 0)?;
        match listing.users.get_mut(owner) {
            Some(keys) => keys.insert(key, value),
            None => listing.app.insert(key, value),
        };
    }
    Ok(())
}
