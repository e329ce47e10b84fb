//! Appends in one round trip: plans on a cached head and writes only if that head is still current.
//!
//! This path never returns a rejection. A batch that does not qualify, or whose cached head is
//! outdated, falls back to two round trips.

use std::collections::HashSet;

use retain_core::{AppendOutcome, Batch, Json, Lease, LeaseUse, Result, SessionKey};
use tokio_postgres::{Error, Row, error::SqlState};

use super::{AppendDecision, AppendPlan, EventColumns, StoredEvents, UnconfirmedAppend, plan};
use crate::{
    postgres::{
        named_sql::NamedSql,
        pool::{Database, Failure},
        rows::{CachedHead, clock_us, signed},
    },
    sql::pending::{add_pending_work, kinds},
};

/// Maximum TTL: a longer one added to the current time would overflow.
const TTL_MAX_US: i64 = i64::MAX / 4;

const NOW: &str = concat!(
    "WITH now AS MATERIALIZED (SELECT coalesce({now_us}::int8, ",
    clock_us!(),
    ") AS us)"
);

/// Reads the stored values of the session's state keys that the batch sets, and computes the growth
/// in bytes.
const OLD_STATE: &str = ", old AS MATERIALIZED (
  SELECT found.* FROM unnest((SELECT {state_keys}::text[])) AS wanted(key) CROSS JOIN LATERAL (
    SELECT key, position, value FROM retain_state WHERE log = {number} AND key = wanted.key LIMIT 1
  ) AS found
), growth AS (
  SELECT {new_bytes}::int8 - coalesce(sum(octet_length(key) + octet_length(value)), 0) AS bytes
  FROM old WHERE value IS NOT NULL
)";

const SET_HEAD: &str = concat!(
    ", head AS (
  UPDATE retain_sessions SET revision = revision + 1, position = {position},
    last_update = {last_update}, touched_us = now.us, lease_token = {lease_token},
    log_bytes = {log_bytes}, sized_to = {position}, in_order = {in_order}, lease_until_us =
      CASE WHEN {until_is_relative}::bool THEN now.us + {until_us}::int8 ELSE {until_us}::int8 END, ",
    add_pending_work!("{pending_kinds}::int8", "{position}::int8")
);

/// Matches only an unchanged head. Compares position and token too, because PostgreSQL may reuse
/// revisions if it loses its last commits. Matches nothing if runs queue for the lease that the
/// batch takes, or if the log already has an event with an id that the caller chose for the batch.
// A lateral join looks up each id by itself; otherwise the planner may read the whole log. Arrays are
// in subqueries so that one generic plan serves every append.
const IF_UNCHANGED: &str = "
  WHERE number = {number} AND revision = {old_revision} AND position = {old_position}
    AND lease_token = {old_token} AND (ttl_us IS NULL OR touched_us > now.us - ttl_us)
    AND NOT ((SELECT {takes_lease}::bool) AND EXISTS
      (SELECT 1 FROM retain_tickets WHERE session = {number} AND until_us > now.us))
    AND NOT EXISTS (SELECT 1 FROM unnest((SELECT {given_ids}::text[])) AS given(id)
      CROSS JOIN LATERAL (SELECT 1 FROM retain_events
        WHERE log = {number} AND event_id = given.id LIMIT 1) AS found)";

const RETURNING: &str = "
  RETURNING number, touched_us, lease_until_us, state_bytes
), log AS (
  INSERT INTO retain_events (log, position, event_id, invocation, timestamp, body)
  SELECT head.number, new.* FROM head, unnest((SELECT {event_positions}::int8[]),
    (SELECT {event_ids}::text[]), (SELECT {event_invocations}::text[]),
    (SELECT {event_times}::float8[]), (SELECT {event_bodies}::bytea[])) AS new
)";

const NEW_STATE: &str = ", past AS (
  INSERT INTO retain_state_past (log, key, position, value)
  SELECT head.number, old.key, old.position, old.value FROM head, old
), own AS (
  INSERT INTO retain_state (log, key, position, value)
  SELECT head.number, new.* FROM head, unnest((SELECT {state_keys}::text[]),
    (SELECT {state_positions}::int8[]), (SELECT {state_values}::bytea[])) AS new
  ON CONFLICT (log, key) DO UPDATE SET position = excluded.position, value = excluded.value
)";

/// The head that the row must still have.
struct ExpectedHead {
    revision: i64,
    position: i64,
    token: i64,
}

/// State keys of the session as columns.
#[derive(Default)]
struct KeyColumns<'a> {
    keys: Vec<&'a str>,
    positions: Vec<i64>,
    values: Vec<Option<Vec<u8>>>,
    bytes: i64,
}

/// Appends a batch on `head`; `None` if it needs two round trips. `sent` holds the append until its
/// commit is confirmed.
pub(super) async fn append(
    database: &Database,
    key: &SessionKey,
    batch: &Batch,
    head: CachedHead,
    now_us: Option<i64>,
    sent: &mut Option<UnconfirmedAppend>,
) -> Result<Option<(AppendOutcome, CachedHead)>, Failure> {
    let expected = ExpectedHead {
        revision: head.revision,
        position: signed(head.row.position),
        token: head.row.lease.token as i64,
    };
    // An older program has appended events without counting their bytes.
    if head.row.sized_to != head.row.position {
        return Ok(None);
    }
    let Some((until_is_relative, planned)) = plan_on_head(key, batch, head) else {
        return Ok(None);
    };
    let Some(keys) = key_columns(batch, &planned) else {
        return Ok(None);
    };
    let given = batch.events.iter().filter(|new| new.id_given);
    let given_ids: Vec<&str> = given.map(|new| new.event.id.as_str()).collect();
    let (row, events) = (&planned.head.row, &planned.events);
    let (position, token) = (signed(row.position), row.lease.token as i64);
    let log_bytes = signed(row.log_bytes);
    let takes_lease = matches!(batch.lease, LeaseUse::Take { .. });
    let bytes_max = signed(batch.state_bytes_max as u64);
    let pending_kinds = kinds(planned.work);
    let mut sql = NamedSql::default();
    sql.bind("now_us", &now_us);
    sql.bind("number", &row.number);
    sql.bind("old_revision", &expected.revision);
    sql.bind("old_position", &expected.position);
    sql.bind("old_token", &expected.token);
    sql.bind("position", &position);
    sql.bind("log_bytes", &log_bytes);
    sql.bind("last_update", &row.last_update);
    sql.bind("lease_token", &token);
    sql.bind("until_us", &row.lease.until_us);
    sql.bind("until_is_relative", &until_is_relative);
    sql.bind("in_order", &row.in_order);
    sql.bind("pending_kinds", &pending_kinds);
    sql.bind("takes_lease", &takes_lease);
    sql.bind("given_ids", &given_ids);
    bind_events(&mut sql, events);
    let has_keys = !keys.keys.is_empty();
    if has_keys {
        bind_keys(&mut sql, &keys, &bytes_max);
    }
    push_text(&mut sql, has_keys);
    let client = database.connection().await?;
    let statement = client.prepare_cached(sql.text()).await?;
    *sent = Some(planned.to_unconfirmed(batch));
    let written = unless_event_exists(client.query_opt(&statement, sql.params()).await)?;
    *sent = None;
    let Some(written) = written else {
        return Ok(None);
    };
    let (mut head, outcome) = (planned.head, planned.outcome);
    head.row.lifetime.touched_us = written.try_get(0)?;
    head.row.lease.until_us = written.try_get(1)?;
    head.row.state_bytes = written.try_get::<_, i64>(2)? as usize;
    Ok(Some((outcome, head)))
}

fn bind_events<'p>(sql: &mut NamedSql<'p>, events: &'p EventColumns<'_>) {
    sql.bind("event_positions", &events.positions);
    sql.bind("event_ids", &events.ids);
    sql.bind("event_invocations", &events.invocations);
    sql.bind("event_times", &events.times);
    sql.bind("event_bodies", &events.bodies);
}

fn bind_keys<'p>(sql: &mut NamedSql<'p>, keys: &'p KeyColumns<'_>, bytes_max: &'p i64) {
    sql.bind("state_keys", &keys.keys);
    sql.bind("state_positions", &keys.positions);
    sql.bind("state_values", &keys.values);
    sql.bind("new_bytes", &keys.bytes);
    sql.bind("bytes_max", bytes_max);
}

/// Returns no row if an event with one of the ids exists. The append in two round trips then decides
/// whether this is a repeated append or a conflict.
fn unless_event_exists(written: Result<Option<Row>, Error>) -> Result<Option<Row>, Error> {
    match written {
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(None),
        written => written,
    }
}

/// Builds the text of the statement, with or without changes of session state.
fn push_text(sql: &mut NamedSql<'_>, has_keys: bool) {
    sql.push(NOW);
    if has_keys {
        sql.push(OLD_STATE);
    }
    sql.push(SET_HEAD);
    if has_keys {
        sql.push(", state_bytes = greatest(0, state_bytes + growth.bytes) FROM now, growth");
    } else {
        sql.push(" FROM now");
    }
    sql.push(IF_UNCHANGED);
    if has_keys {
        sql.push(" AND (growth.bytes <= 0 OR state_bytes + growth.bytes <= {bytes_max}::int8)");
    }
    sql.push(RETURNING);
    if has_keys {
        sql.push(NEW_STATE);
    }
    sql.push(" SELECT touched_us, lease_until_us, state_bytes FROM head");
}

/// Plans the batch on the cached head; `None` if the decision needs more than the head. Also
/// returns whether the end of the lease is relative to the current time.
fn plan_on_head<'a>(
    key: &SessionKey,
    batch: &'a Batch,
    head: CachedHead,
) -> Option<(bool, AppendPlan<'a>)> {
    let is_relative = match &batch.lease {
        LeaseUse::Outside => false,
        LeaseUse::Hold { ttl, .. } => ttl.is_some(),
        // The lease is free, and the caller has no ticket in the queue.
        LeaseUse::Take { ticket, ttl } if ticket.is_empty() && head.row.lease.until_us == 0 => {
            ttl.is_some()
        }
        LeaseUse::Take { .. } => return None,
    };
    // A client may send the same event to two replicas concurrently. Only the lease tells the two
    // requests apart, so decide with the row locked.
    let takes = matches!(batch.lease, LeaseUse::Take { .. });
    if takes && batch.events.iter().any(|new| new.id_given) {
        return None;
    }
    // Plan at time 0, so that the end of the lease is relative to the current time.
    let decision = plan(key, batch, head, &StoredEvents::new(), None, 0);
    let Ok(AppendDecision::Write(mut planned)) = decision else {
        return None;
    };
    // A batch with a repeated event takes two round trips.
    if planned.fresh.is_empty() || planned.fresh.len() < batch.events.len() {
        return None;
    }
    let lease = planned.head.row.lease;
    planned.head.row.lease = Lease {
        until_us: if is_relative {
            lease.until_us.min(TTL_MAX_US)
        } else {
            lease.until_us
        },
        ..lease
    };
    Some((is_relative, *planned))
}

/// Returns the session state keys that the batch sets. `None` if it sets shared keys, which need a
/// lock, or sets a key twice: the first value must be stored as a past value.
fn key_columns<'a>(batch: &'a Batch, planned: &AppendPlan<'_>) -> Option<KeyColumns<'a>> {
    let mut columns = KeyColumns::default();
    let mut seen = HashSet::new();
    for (position, index) in &planned.fresh {
        let changes = &batch.events[*index].changes;
        if !changes.app.is_empty() || !changes.user.is_empty() {
            return None;
        }
        for (key, value) in &changes.session {
            if !seen.insert(key.as_str()) {
                return None;
            }
            let value = value.as_ref().map(Json::to_string);
            let length = value.as_ref().map_or(0, |value| key.len() + value.len());
            columns.bytes += signed(length as u64);
            columns.keys.push(key);
            columns.positions.push(signed(*position));
            columns.values.push(value.map(String::into_bytes));
        }
    }
    Some(columns)
}
