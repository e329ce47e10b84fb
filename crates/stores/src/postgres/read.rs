//! Reads: each in one snapshot and one round trip, each costing what it returns.

use std::sync::Arc;

use retain_core::{
    Event, EventLookup, Json, JsonMap, LogHeader, ReadDetail, Result, ScopedState, SessionError,
    SessionKey, Snapshot, Window,
};
use tokio::join;
use tokio_postgres::{Row, Statement};

use super::{
    pool::{Database, Failure, Param, Transaction, if_some},
    rows::{
        self, CachedHead, by_key, clock_us, count, head_columns, number_by_key, signed, unsigned,
    },
};
use crate::sql::{self, check_next};

/// Events by position.
type Found = Vec<(u64, Arc<Event>)>;

/// The head, and what time it is.
pub(super) const HEAD: &str = concat!(
    "SELECT ",
    head_columns!(),
    ", coalesce($4::int8, ",
    clock_us!(),
    ") FROM retain_sessions WHERE ",
    by_key!()
);

/// Events by their positions.
const RANGE: &str = "
SELECT e.position, e.body FROM retain_sessions s JOIN retain_events e ON e.log = s.number
WHERE s.app = $1 AND s.user_id = $2 AND s.id = $3
  AND e.position <= least($5::int8, s.position)
  AND e.position >= CASE WHEN $6::int8 IS NULL THEN $4::int8
                    ELSE greatest($4::int8, least($5::int8, s.position) - $6::int8 + 1) END
ORDER BY e.position LIMIT $7::int8";

/// Events that are not older than $4. In a log whose times never go back the first of them is found
/// by halving.
const SINCE: &str = "
WITH RECURSIVE s AS (
  SELECT number, position, in_order FROM retain_sessions
  WHERE app = $1 AND user_id = $2 AND id = $3
), search (low, high) AS (
  SELECT 1::int8, position + 1 FROM s WHERE in_order
  UNION ALL
  SELECT CASE WHEN e.timestamp < $4 THEN e.position + 1 ELSE low END,
         CASE WHEN e.timestamp < $4 THEN high ELSE e.position END
  FROM search, s, retain_events e
  WHERE low < high AND e.log = s.number AND e.position = low + (high - low) / 2
), since AS (
  SELECT coalesce((SELECT low FROM search WHERE low >= high), 1) AS position
)
SELECT position, body FROM (
  SELECT e.position, e.body FROM s, since, retain_events e
  WHERE e.log = s.number AND e.timestamp >= $4
    AND e.position >= greatest($5::int8, since.position)
    AND e.position <= least($6::int8, s.position)
  ORDER BY e.position DESC LIMIT $7::int8
) found ORDER BY position LIMIT $8::int8";

/// The keys that a session has now.
const STATE: &str = concat!(
    "SELECT key, value FROM retain_state WHERE value IS NOT NULL AND log = ",
    number_by_key!()
);

/// The keys that a session had after $4. A key that was written since has its earlier value, if it
/// had one, in the past.
const STATE_AT: &str = concat!(
    "SELECT key, value FROM (
       SELECT key, CASE WHEN position <= $4 THEN value ELSE (
         SELECT past.value FROM retain_state_past past
         WHERE past.log = state.log AND past.key = state.key AND past.position <= $4
         ORDER BY past.position DESC LIMIT 1
       ) END AS value
       FROM retain_state state WHERE log = ",
    number_by_key!(),
    ") AS found WHERE value IS NOT NULL ORDER BY key"
);

/// The keys of an app, and of a user of it.
pub(super) const SHARED: &str = "SELECT key, value, user_id FROM retain_shared_state \
                                 WHERE app = $1 AND user_id IN ('', $2)";

/// What one snapshot holds, as it came.
struct Answers {
    head: Vec<Row>,
    events: Option<Vec<Row>>,
    state: Option<Vec<Row>>,
    shared: Option<Vec<Row>>,
}

/// A session with the events of `window`; and its head, to be remembered.
pub(super) async fn session(
    database: &Database,
    key: &SessionKey,
    window: Window,
    scope: ReadDetail,
    now_us: Option<i64>,
) -> Result<Option<(Snapshot, CachedHead)>, Failure> {
    let answers = ask(database, key, window, scope, now_us).await?;
    let Some(known) = alive(&answers.head)? else {
        return Ok(None);
    };
    let events = events(key, &known, window, answers.events.as_deref())?;
    let state = match (&answers.state, &answers.shared) {
        (Some(own), Some(shared)) => scoped_state(key, own, shared)?,
        _ => ScopedState::default(),
    };
    let head = known.row.head(key.clone());
    let snapshot = Snapshot {
        head,
        state,
        events,
    };
    Ok(Some((snapshot, known)))
}

/// Asks for everything at once.
async fn ask(
    database: &Database,
    key: &SessionKey,
    window: Window,
    scope: ReadDetail,
    now_us: Option<i64>,
) -> Result<Answers, Failure> {
    let (app, user, id) = (&key.app, &key.user, &key.id);
    let (first, last) = (signed(window.first.max(1)), signed(window.last));
    let (newest, oldest) = (count(window.newest), count(window.oldest));
    let since = window.after_timestamp;
    let wants_events = newest != Some(0) && oldest != Some(0);
    if scope == ReadDetail::EventsOnly && !wants_events {
        // One statement is a snapshot by itself.
        let client = database.connection().await?;
        let statement = client.prepare_cached(HEAD).await?;
        let head = client.query(&statement, &[app, user, id, &now_us]).await?;
        return Ok(Answers {
            head,
            events: None,
            state: None,
            shared: None,
        });
    }
    let transaction = database.transaction().await?;
    let past = match scope {
        ReadDetail::StateAt(position) => Some(signed(position)),
        _ => None,
    };
    let prepared = prepare(&transaction, since.is_some(), past.is_some()).await?;
    let mut which: Vec<Param<'_>> = vec![app, user, id];
    which.extend(since.iter().map(|since| since as Param<'_>));
    which.extend([&first as Param<'_>, &last, &newest, &oldest]);
    let events = transaction.query_all(&prepared[1], &which);
    let mut whose: Vec<Param<'_>> = vec![app, user, id];
    whose.extend(past.iter().map(|past| past as Param<'_>));
    let state = transaction.query_all(&prepared[2], &whose);
    let shared = transaction.query(&prepared[3], [app, user]);
    let wants_state = scope != ReadDetail::EventsOnly;
    let (begun, head, events, state, shared, ended) = join!(
        biased;
        transaction.begin_snapshot(),
        transaction.query(&prepared[0], [app, user, id, &now_us]),
        if_some(wants_events.then_some(events)),
        if_some(wants_state.then_some(state)),
        if_some(wants_state.then_some(shared)),
        transaction.commit(),
    );
    begun?;
    let answers = Answers {
        head: head?,
        events: events?,
        state: state?,
        shared: shared?,
    };
    ended?;
    transaction.ended();
    Ok(answers)
}

async fn prepare(
    transaction: &Transaction,
    by_time: bool,
    of_past: bool,
) -> Result<[Statement; 4], tokio_postgres::Error> {
    let events = if by_time { SINCE } else { RANGE };
    let state = if of_past { STATE_AT } else { STATE };
    let (head, events, state, shared) = join!(
        biased;
        transaction.prepare(HEAD),
        transaction.prepare(events),
        transaction.prepare(state),
        transaction.prepare(SHARED),
    );
    Ok([head?, events?, state?, shared?])
}

/// The head of a session that has not expired. The time stands behind its columns.
fn alive(rows: &[Row]) -> Result<Option<CachedHead>, Failure> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let (known, now_us): (CachedHead, i64) = (CachedHead::read(row)?, row.try_get(13)?);
    Ok(Some(known).filter(|known| known.row.is_alive(now_us)))
}

/// The events asked for, all of which must be there.
fn events(
    key: &SessionKey,
    known: &CachedHead,
    window: Window,
    rows: Option<&[Row]>,
) -> Result<Found, Failure> {
    let mut found = Found::new();
    let rows = rows.unwrap_or_default();
    for row in rows {
        let position = unsigned(row, 0)?;
        found.push((position, rows::event(key, position, row, 1)?));
    }
    if window.after_timestamp.is_none() {
        let bounds = sql::bounds(window, 1, known.row.position);
        let (first, last) = bounds.unwrap_or((1, 0));
        for (expected, (position, _)) in (first..).zip(&found) {
            check_next(key, expected, *position)?;
        }
        check_next(key, first + found.len() as u64, last + 1)?;
    } else if known.row.in_order {
        for pair in found.windows(2) {
            check_next(key, pair[0].0 + 1, pair[1].0)?;
        }
    }
    Ok(found)
}

fn scoped_state(key: &SessionKey, own: &[Row], shared: &[Row]) -> Result<ScopedState, Failure> {
    let mut state = ScopedState {
        session: rows::state(&|| key.clone(), own)?,
        ..ScopedState::default()
    };
    for row in shared {
        let owner: &str = row.try_get(2)?;
        let named = || SessionKey::new(&key.app, owner, "");
        let (name, value) = rows::state_entry(&named, row, 0)?;
        match owner.is_empty() {
            true => state.app.insert(name, value),
            false => state.user.insert(name, value),
        };
    }
    Ok(state)
}

/// The keys of an app (`user` empty), or of a user of it.
pub(super) async fn shared_state(
    database: &Database,
    app: &str,
    user: &str,
) -> Result<JsonMap, Failure> {
    let client = database.connection().await?;
    let sql = "SELECT key, value FROM retain_shared_state WHERE app = $1 AND user_id = $2";
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &[&app, &user]).await?;
    // Only names the owner in errors; there is no session here.
    rows::state(&|| SessionKey::new(app, user, ""), &rows)
}

/// The positions of the events that `lookup` names.
pub(super) async fn find_events(
    database: &Database,
    key: &SessionKey,
    lookup: &EventLookup,
    now_us: Option<i64>,
) -> Result<Vec<Option<u64>>, Failure> {
    match lookup {
        EventLookup::Ids(ids) => positions_of(database, key, ids, now_us).await,
        EventLookup::Invocation(invocation) => {
            let first = first_of_invocation(database, key, invocation, now_us).await?;
            Ok(vec![first])
        }
    }
}

/// The positions of the events with these ids.
async fn positions_of(
    database: &Database,
    key: &SessionKey,
    ids: &[String],
    now_us: Option<i64>,
) -> Result<Vec<Option<u64>>, Failure> {
    const BY_ID: &str = concat!(
        "SELECT event_id, position FROM retain_events WHERE event_id = ANY($4) AND log = ",
        number_by_key!()
    );
    let (_, rows) = with_head(database, key, now_us, BY_ID, &[&ids]).await?;
    let mut positions = std::collections::HashMap::new();
    for row in &rows {
        positions.insert(row.try_get::<_, &str>(0)?, unsigned(row, 1)?);
    }
    let found = ids.iter().map(|id| positions.get(id.as_str()).copied());
    Ok(found.collect())
}

/// The first position whose event belongs to the invocation.
async fn first_of_invocation(
    database: &Database,
    key: &SessionKey,
    invocation: &str,
    now_us: Option<i64>,
) -> Result<Option<u64>, Failure> {
    const FIRST: &str = concat!(
        "SELECT position FROM retain_events WHERE invocation = $4 AND position > 0 AND log = ",
        number_by_key!(),
        " ORDER BY position LIMIT 1"
    );
    // No event's has a NUL character, which the server does not take either. Nothing equals NULL.
    let invocation = Some(invocation).filter(|invocation| !invocation.contains('\0'));
    let (_, rows) = with_head(database, key, now_us, FIRST, &[&invocation]).await?;
    let first = rows.first().map(|row| unsigned(row, 0)).transpose();
    Ok(first?)
}

/// The session and the state it was created with.
pub(super) async fn log_header(
    database: &Database,
    key: &SessionKey,
    now_us: Option<i64>,
) -> Result<Option<LogHeader>, Failure> {
    const INITIAL: &str = concat!(
        "SELECT body FROM retain_events WHERE position = 0 AND log = ",
        number_by_key!()
    );
    let (known, rows) = match with_head(database, key, now_us, INITIAL, &[]).await {
        Err(Failure::Decided(SessionError::NotFound { .. })) => return Ok(None),
        found => found?,
    };
    let Some(row) = rows.first() else {
        check_next(key, 0, 1)?;
        return Ok(None);
    };
    let body = rows::text(row, 0, || (key.clone(), "event 0".to_owned()))?;
    let initial = Json::parse(body).map_err(|e| SessionError::corrupt_event(key, 0, e))?;
    let Some(initial) = initial.as_object() else {
        check_next(key, 0, 1)?;
        return Ok(None);
    };
    Ok(Some(LogHeader {
        initial: initial.clone(),
        head: known.row.head(key.clone()),
    }))
}

/// Asks something about a session that must be there. The first three parameters of `sql` are its
/// address.
async fn with_head(
    database: &Database,
    key: &SessionKey,
    now_us: Option<i64>,
    sql: &str,
    params: &[Param<'_>],
) -> Result<(CachedHead, Vec<Row>), Failure> {
    let transaction = database.transaction().await?;
    let (head, asked) = join!(biased; transaction.prepare(HEAD), transaction.prepare(sql));
    let (head, asked) = (head?, asked?);
    let (app, user, id) = (&key.app, &key.user, &key.id);
    let mut all: Vec<Param<'_>> = vec![app, user, id];
    all.extend(params);
    let (begun, head, rows, ended) = join!(
        biased;
        transaction.begin_snapshot(),
        transaction.query(&head, [app, user, id, &now_us]),
        transaction.query_all(&asked, &all),
        transaction.commit(),
    );
    begun?;
    let (head, rows) = (head?, rows?);
    ended?;
    transaction.ended();
    match alive(&head)? {
        Some(known) => Ok((known, rows)),
        None => Err(SessionError::NotFound { key: key.clone() }.into()),
    }
}

/// What tells this database from every other: which it is on a server that was started then.
pub(super) async fn identity(database: &Database) -> Result<String, Failure> {
    const SQL: &str = "SELECT concat('postgresql:', oid, ':', \
                       extract(epoch FROM pg_postmaster_start_time()), ':', current_schema()) \
                       FROM pg_database WHERE datname = current_database()";
    let client = database.connection().await?;
    let statement = client.prepare_cached(SQL).await?;
    Ok(client.query_one(&statement, &[]).await?.try_get(0)?)
}
