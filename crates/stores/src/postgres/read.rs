//! Reads sessions, state and event positions, each in one snapshot and one round trip.

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

/// Events with their positions.
type PositionedEvents = Vec<(u64, Arc<Event>)>;

/// Selects the head and the current time.
pub(super) const HEAD: &str = concat!(
    "SELECT ",
    head_columns!(),
    ", coalesce($4::int8, ",
    clock_us!(),
    ") FROM retain_sessions WHERE ",
    by_key!()
);

/// Selects the events in a range of positions.
const RANGE: &str = "
SELECT e.position, e.body FROM retain_sessions s JOIN retain_events e ON e.log = s.number
WHERE s.app = $1 AND s.user_id = $2 AND s.id = $3
  AND e.position <= least($5::int8, s.position)
  AND e.position >= CASE WHEN $6::int8 IS NULL THEN $4::int8
                    ELSE greatest($4::int8, least($5::int8, s.position) - $6::int8 + 1) END
ORDER BY e.position LIMIT $7::int8";

/// Like [`RANGE`], but stops before an event with which the page exceeds $8 bytes.
const PAGE: &str = "
SELECT position, body FROM (
  SELECT e.position, e.body,
    sum(octet_length(e.body)) OVER (ORDER BY e.position) AS bytes,
    row_number() OVER (ORDER BY e.position) AS number
  FROM retain_sessions s JOIN retain_events e ON e.log = s.number
  WHERE s.app = $1 AND s.user_id = $2 AND s.id = $3
    AND e.position <= least($5::int8, s.position)
    AND e.position >= CASE WHEN $6::int8 IS NULL THEN $4::int8
                      ELSE greatest($4::int8, least($5::int8, s.position) - $6::int8 + 1) END
  ORDER BY e.position LIMIT $7::int8
) page WHERE bytes <= $8::int8 OR number = 1 ORDER BY position";

/// Selects the events that are not older than $4. In a log whose timestamps never decrease, a
/// binary search finds the first of them.
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

/// Selects the current state of a session.
const STATE: &str = concat!(
    "SELECT key, value FROM retain_state WHERE value IS NOT NULL AND log = ",
    number_by_key!()
);

/// Selects the state of a session after position $4. If a key was written after $4, its earlier
/// values are in `retain_state_past`.
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

/// Selects the shared state of an app and of one of its users.
pub(super) const SHARED: &str = "SELECT key, value, user_id FROM retain_shared_state \
                                 WHERE app = $1 AND user_id IN ('', $2)";

/// The rows that one snapshot returned.
struct SnapshotRows {
    head: Vec<Row>,
    events: Option<Vec<Row>>,
    state: Option<Vec<Row>>,
    shared: Option<Vec<Row>>,
}

/// Reads a session with the events of `window`. Also returns its head for the cache.
pub(super) async fn read_session(
    database: &Database,
    key: &SessionKey,
    window: Window,
    detail: ReadDetail,
    now_us: Option<i64>,
) -> Result<Option<(Snapshot, CachedHead)>, Failure> {
    let rows = query_snapshot(database, key, window, detail, now_us).await?;
    let Some(cached) = decode_alive_head(&rows.head)? else {
        return Ok(None);
    };
    let events = decode_events(key, &cached, window, rows.events.as_deref())?;
    let state = match (&rows.state, &rows.shared) {
        (Some(own), Some(shared)) => decode_state(key, own, shared)?,
        _ => ScopedState::default(),
    };
    let head = cached.row.head(key.clone());
    let snapshot = Snapshot {
        head,
        state,
        events,
    };
    Ok(Some((snapshot, cached)))
}

/// Sends all queries of a read together, in one round trip.
async fn query_snapshot(
    database: &Database,
    key: &SessionKey,
    window: Window,
    detail: ReadDetail,
    now_us: Option<i64>,
) -> Result<SnapshotRows, Failure> {
    let (app, user, id) = (&key.app, &key.user, &key.id);
    let (first, last) = (signed(window.first.max(1)), signed(window.last));
    let (newest, oldest) = (count(window.newest), count(window.oldest));
    let since = window.after_timestamp;
    // Events selected by time are not read in pages.
    let bytes = count(window.bytes).filter(|_| since.is_none());
    let wants_events = newest != Some(0) && oldest != Some(0);
    if detail == ReadDetail::EventsOnly && !wants_events {
        // A single statement reads from one snapshot, so it needs no transaction.
        let client = database.connection().await?;
        let statement = client.prepare_cached(HEAD).await?;
        let head = client.query(&statement, &[app, user, id, &now_us]).await?;
        return Ok(SnapshotRows {
            head,
            events: None,
            state: None,
            shared: None,
        });
    }
    let transaction = database.transaction().await?;
    let past = match detail {
        ReadDetail::StateAt(position) => Some(signed(position)),
        _ => None,
    };
    let events = match (since, bytes) {
        (Some(_), _) => SINCE,
        (None, Some(_)) => PAGE,
        (None, None) => RANGE,
    };
    let prepared = prepare(&transaction, events, past.is_some()).await?;
    let mut event_params: Vec<Param<'_>> = vec![app, user, id];
    event_params.extend(since.iter().map(|since| since as Param<'_>));
    event_params.extend([&first as Param<'_>, &last, &newest, &oldest]);
    event_params.extend(bytes.iter().map(|bytes| bytes as Param<'_>));
    let events = transaction.query_all(&prepared[1], &event_params);
    let mut state_params: Vec<Param<'_>> = vec![app, user, id];
    state_params.extend(past.iter().map(|past| past as Param<'_>));
    let state = transaction.query_all(&prepared[2], &state_params);
    let shared = transaction.query(&prepared[3], [app, user]);
    let wants_state = detail != ReadDetail::EventsOnly;
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
    let rows = SnapshotRows {
        head: head?,
        events: events?,
        state: state?,
        shared: shared?,
    };
    ended?;
    transaction.release();
    Ok(rows)
}

async fn prepare(
    transaction: &Transaction,
    events: &'static str,
    at_position: bool,
) -> Result<[Statement; 4], tokio_postgres::Error> {
    let state = if at_position { STATE_AT } else { STATE };
    let (head, events, state, shared) = join!(
        biased;
        transaction.prepare(HEAD),
        transaction.prepare(events),
        transaction.prepare(state),
        transaction.prepare(SHARED),
    );
    Ok([head?, events?, state?, shared?])
}

/// Decodes the head of a session; `None` if it has expired. The current time follows the columns of
/// the head.
fn decode_alive_head(rows: &[Row]) -> Result<Option<CachedHead>, Failure> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let (head, now_us) = CachedHead::read_with_time(row)?;
    Ok(Some(head).filter(|head| head.row.is_alive(now_us)))
}

/// Decodes the events and checks that no position is missing.
fn decode_events(
    key: &SessionKey,
    head: &CachedHead,
    window: Window,
    rows: Option<&[Row]>,
) -> Result<PositionedEvents, Failure> {
    let mut found = PositionedEvents::new();
    let rows = rows.unwrap_or_default();
    for row in rows {
        let position = unsigned(row, 0)?;
        found.push((position, rows::event(key, position, row, 1)?));
    }
    if window.after_timestamp.is_none() {
        let bounds = sql::bounds(window, 1, head.row.position);
        let (first, last) = bounds.unwrap_or((1, 0));
        for (expected, (position, _)) in (first..).zip(&found) {
            check_next(key, expected, *position)?;
        }
        if window.bytes.is_none() || found.is_empty() {
            check_next(key, first + found.len() as u64, last + 1)?;
        }
    } else if head.row.in_order {
        for pair in found.windows(2) {
            check_next(key, pair[0].0 + 1, pair[1].0)?;
        }
    }
    Ok(found)
}

fn decode_state(key: &SessionKey, own: &[Row], shared: &[Row]) -> Result<ScopedState, Failure> {
    let mut state = ScopedState {
        session: rows::state(&|| key.clone(), own)?,
        ..ScopedState::default()
    };
    for row in shared {
        let owner: &str = row.try_get(2)?;
        let owner_key = || SessionKey::new(&key.app, owner, "");
        let (name, value) = rows::state_entry(&owner_key, row, 0)?;
        let scope = if owner.is_empty() {
            &mut state.app
        } else {
            &mut state.user
        };
        scope.insert(name, value);
    }
    Ok(state)
}

/// Reads the shared state of an app (empty `user`) or of one of its users.
pub(super) async fn shared_state(
    database: &Database,
    app: &str,
    user: &str,
) -> Result<JsonMap, Failure> {
    let client = database.connection().await?;
    let sql = "SELECT key, value FROM retain_shared_state WHERE app = $1 AND user_id = $2";
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &[&app, &user]).await?;
    // The key is only for error messages.
    rows::state(&|| SessionKey::new(app, user, ""), &rows)
}

/// Finds the positions of the events that `lookup` names.
pub(super) async fn find_events(
    database: &Database,
    key: &SessionKey,
    lookup: &EventLookup,
    now_us: Option<i64>,
) -> Result<Vec<Option<u64>>, Failure> {
    match lookup {
        EventLookup::Ids(ids) => find_ids(database, key, ids, now_us).await,
        EventLookup::Invocation(invocation) => {
            let first = find_invocation(database, key, invocation, now_us).await?;
            Ok(vec![first])
        }
    }
}

async fn find_ids(
    database: &Database,
    key: &SessionKey,
    ids: &[String],
    now_us: Option<i64>,
) -> Result<Vec<Option<u64>>, Failure> {
    const BY_ID: &str = concat!(
        "SELECT event_id, position FROM retain_events WHERE event_id = ANY($4) AND log = ",
        number_by_key!()
    );
    let (_, rows) = query_with_head(database, key, now_us, BY_ID, &[&ids]).await?;
    let mut positions = std::collections::HashMap::new();
    for row in &rows {
        positions.insert(row.try_get::<_, &str>(0)?, unsigned(row, 1)?);
    }
    let found = ids.iter().map(|id| positions.get(id.as_str()).copied());
    Ok(found.collect())
}

/// Finds the first position of an invocation.
async fn find_invocation(
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
    // The server rejects NUL characters, and no stored invocation id contains one. Send NULL
    // instead, which matches nothing.
    let invocation = Some(invocation).filter(|invocation| !invocation.contains('\0'));
    let (_, rows) = query_with_head(database, key, now_us, FIRST, &[&invocation]).await?;
    let first = rows.first().map(|row| unsigned(row, 0)).transpose();
    Ok(first?)
}

/// Reads the session's head and the state that it was created with.
pub(super) async fn log_header(
    database: &Database,
    key: &SessionKey,
    now_us: Option<i64>,
) -> Result<Option<LogHeader>, Failure> {
    const INITIAL: &str = concat!(
        "SELECT body FROM retain_events WHERE position = 0 AND log = ",
        number_by_key!()
    );
    let (head, rows) = match query_with_head(database, key, now_us, INITIAL, &[]).await {
        Err(Failure::Rejected(SessionError::NotFound { .. })) => return Ok(None),
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
        head: head.row.head(key.clone()),
    }))
}

/// Runs a query on a session; `NotFound` if it does not exist. The first three parameters of `sql`
/// are the session's key.
async fn query_with_head(
    database: &Database,
    key: &SessionKey,
    now_us: Option<i64>,
    sql: &str,
    params: &[Param<'_>],
) -> Result<(CachedHead, Vec<Row>), Failure> {
    let transaction = database.transaction().await?;
    let (head, query) = join!(biased; transaction.prepare(HEAD), transaction.prepare(sql));
    let (head, query) = (head?, query?);
    let (app, user, id) = (&key.app, &key.user, &key.id);
    let mut all: Vec<Param<'_>> = vec![app, user, id];
    all.extend(params);
    let (begun, head, rows, ended) = join!(
        biased;
        transaction.begin_snapshot(),
        transaction.query(&head, [app, user, id, &now_us]),
        transaction.query_all(&query, &all),
        transaction.commit(),
    );
    begun?;
    let (head, rows) = (head?, rows?);
    ended?;
    transaction.release();
    match decode_alive_head(&head)? {
        Some(head) => Ok((head, rows)),
        None => Err(SessionError::NotFound { key: key.clone() }.into()),
    }
}

/// Identifies the database: its OID, its schema and the start time of its server.
pub(super) async fn identity(database: &Database) -> Result<String, Failure> {
    const SQL: &str = "SELECT concat('postgresql:', oid, ':', \
                       extract(epoch FROM pg_postmaster_start_time()), ':', current_schema()) \
                       FROM pg_database WHERE datname = current_database()";
    let client = database.connection().await?;
    let statement = client.prepare_cached(SQL).await?;
    Ok(client.query_one(&statement, &[]).await?.try_get(0)?)
}
