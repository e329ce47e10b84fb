//! An append in one round trip: planned on a head that is remembered, and done only if the head is
//! still so.
//!
//! Nothing is refused here. What does not fit, and what is out of date, goes the way of `append`,
//! which looks.

use std::collections::HashSet;

use retain_core::{Batch, Json, Lease, LeaseUse, Plan, Result, SessionKey, Written, plan_append};
use tokio_postgres::error::SqlState;

use super::{
    append::{EventColumns, Sent},
    pool::{Database, Failure, Param},
    rows::{CachedHead, clock_us, signed},
};

/// A ttl beyond this would run over the end of time.
const TTL_MAX_US: i64 = i64::MAX / 4;

/// Writes the head, if it is as it was, and then the events. A queue of waiting runs, or an event
/// with an id of these, is in the way as well. That it is as it was, the revision says; position and
/// token say it again, for the day when a server has lost the last commits and counts anew.
///
/// Each id is looked up by itself, for the planner would rather read a whole log whose length it does
/// not know. Arrays stand in subqueries: what they hold is then nothing that a plan could be made for,
/// so that one plan is kept instead of one being made for every append.
const APPEND: &str = concat!(
    "WITH now AS MATERIALIZED (SELECT coalesce($9::int8, ",
    clock_us!(),
    ") AS us),
head AS (
  UPDATE retain_sessions SET revision = revision + 1, position = $3, last_update = $4,
    touched_us = now.us, lease_token = $5, in_order = $8,
    lease_until_us = CASE WHEN $7::bool THEN now.us + $6::int8 ELSE $6::int8 END
  FROM now
  WHERE number = $1 AND revision = $2 AND position = $17 AND lease_token = $18
    AND (ttl_us IS NULL OR touched_us > now.us - ttl_us)
    AND NOT ((SELECT $10::bool) AND EXISTS
      (SELECT 1 FROM retain_tickets WHERE session = $1 AND until_us > now.us))
    AND NOT EXISTS (SELECT 1 FROM unnest((SELECT $11::text[])) AS given(id) CROSS JOIN LATERAL
      (SELECT 1 FROM retain_events WHERE log = $1 AND event_id = given.id LIMIT 1) AS found)
  RETURNING number, touched_us, lease_until_us, state_bytes
), log AS (
  INSERT INTO retain_events (log, position, event_id, invocation, timestamp, body)
  SELECT head.number, new.* FROM head, unnest((SELECT $12::int8[]),
    (SELECT $13::text[]), (SELECT $14::text[]), (SELECT $15::float8[]),
    (SELECT $16::bytea[])) AS new
)
SELECT touched_us, lease_until_us, state_bytes FROM head"
);

/// The same, with keys of the session.
const APPEND_WITH_STATE: &str = concat!(
    "WITH now AS MATERIALIZED (SELECT coalesce($9::int8, ",
    clock_us!(),
    ") AS us),
old AS MATERIALIZED (
  SELECT found.* FROM unnest((SELECT $17::text[])) AS wanted(key) CROSS JOIN LATERAL (
    SELECT key, position, value FROM retain_state WHERE log = $1 AND key = wanted.key LIMIT 1
  ) AS found
), growth AS (
  SELECT $20::int8 - coalesce(sum(octet_length(key) + octet_length(value)), 0) AS bytes
  FROM old WHERE value IS NOT NULL
), head AS (
  UPDATE retain_sessions SET revision = revision + 1, position = $3, last_update = $4,
    touched_us = now.us, lease_token = $5, in_order = $8,
    lease_until_us = CASE WHEN $7::bool THEN now.us + $6::int8 ELSE $6::int8 END,
    state_bytes = greatest(0, state_bytes + growth.bytes)
  FROM now, growth
  WHERE number = $1 AND revision = $2 AND position = $22 AND lease_token = $23
    AND (ttl_us IS NULL OR touched_us > now.us - ttl_us)
    AND NOT ((SELECT $10::bool) AND EXISTS
      (SELECT 1 FROM retain_tickets WHERE session = $1 AND until_us > now.us))
    AND NOT EXISTS (SELECT 1 FROM unnest((SELECT $11::text[])) AS given(id) CROSS JOIN LATERAL
      (SELECT 1 FROM retain_events WHERE log = $1 AND event_id = given.id LIMIT 1) AS found)
    AND (growth.bytes <= 0 OR state_bytes + growth.bytes <= $21::int8)
  RETURNING number, touched_us, lease_until_us, state_bytes
), log AS (
  INSERT INTO retain_events (log, position, event_id, invocation, timestamp, body)
  SELECT head.number, new.* FROM head, unnest((SELECT $12::int8[]),
    (SELECT $13::text[]), (SELECT $14::text[]), (SELECT $15::float8[]),
    (SELECT $16::bytea[])) AS new
), past AS (
  INSERT INTO retain_state_past (log, key, position, value)
  SELECT head.number, old.key, old.position, old.value FROM head, old
), own AS (
  INSERT INTO retain_state (log, key, position, value)
  SELECT head.number, new.* FROM head,
    unnest((SELECT $17::text[]), (SELECT $18::int8[]), (SELECT $19::bytea[])) AS new
  ON CONFLICT (log, key) DO UPDATE SET position = excluded.position, value = excluded.value
)
SELECT touched_us, lease_until_us, state_bytes FROM head"
);

/// What is to be written.
struct Planned<'a> {
    head: CachedHead,
    /// Whether the lease ends so long from now, rather than at that time.
    until_is_relative: bool,
    events: EventColumns<'a>,
    given_ids: Vec<&'a str>,
    keys: KeyColumns<'a>,
    answer: Written,
}

/// Keys of the session as columns.
#[derive(Default)]
struct KeyColumns<'a> {
    keys: Vec<&'a str>,
    positions: Vec<i64>,
    values: Vec<Option<Vec<u8>>>,
    bytes: i64,
}

/// Appends a batch on `known`. `None` if it must be done the longer way. `sent` is what was sent, if
/// its end is not known.
pub(super) async fn append(
    database: &Database,
    key: &SessionKey,
    batch: &Batch,
    known: CachedHead,
    now_us: Option<i64>,
    sent: &mut Option<Sent>,
) -> Result<Option<(Written, CachedHead)>, Failure> {
    let revision = known.revision;
    let old_position = signed(known.row.position);
    let old_token = known.row.lease.token as i64;
    let Some(planned) = plan(key, batch, known) else {
        return Ok(None);
    };
    let has_keys = !planned.keys.keys.is_empty();
    let client = database.connection().await?;
    let sql = if has_keys { APPEND_WITH_STATE } else { APPEND };
    let statement = client.prepare_cached(sql).await?;
    *sent = Some(planned.sent(batch));
    let (row, events, keys) = (&planned.head.row, &planned.events, &planned.keys);
    let (position, token) = (signed(row.position), row.lease.token as i64);
    let takes = matches!(batch.lease, LeaseUse::Take { .. });
    let bytes_max = signed(batch.state_bytes_max as u64);
    let mut params: Vec<Param<'_>> = vec![
        &row.number,
        &revision,
        &position,
        &row.last_update,
        &token,
        &row.lease.until_us,
        &planned.until_is_relative,
        &row.in_order,
        &now_us,
        &takes,
        &planned.given_ids,
        &events.positions,
        &events.ids,
        &events.invocations,
        &events.times,
        &events.bodies,
    ];
    if has_keys {
        params.extend([
            &keys.keys as Param<'_>,
            &keys.positions,
            &keys.values,
            &keys.bytes,
            &bytes_max,
        ]);
    }
    params.extend([&old_position as Param<'_>, &old_token]);
    let written = match client.query_opt(&statement, &params).await {
        Ok(written) => written,
        // The event is there already: that is for the longer way to see.
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => None,
        Err(error) => return Err(error.into()),
    };
    *sent = None;
    let Some(written) = written else {
        return Ok(None);
    };
    let (mut head, answer) = (planned.head, planned.answer);
    head.row.life.touched_us = written.try_get(0)?;
    head.row.lease.until_us = written.try_get(1)?;
    head.row.state_bytes = written.try_get::<_, i64>(2)? as usize;
    Ok(Some((answer, head)))
}

/// What the batch comes to if the head is as it was; `None` if that needs a look.
fn plan<'a>(key: &SessionKey, batch: &'a Batch, known: CachedHead) -> Option<Planned<'a>> {
    let mut head = known;
    let is_relative = match &batch.lease {
        LeaseUse::Outside => false,
        LeaseUse::Hold { ttl, .. } => ttl.is_some(),
        // Free, and nobody has waited for it that we know of.
        LeaseUse::Take { ticket, ttl } if ticket.is_empty() && head.row.lease.until_us == 0 => {
            ttl.is_some()
        }
        LeaseUse::Take { .. } => return None,
    };
    // Who is asked for the same run again must be told from the one that was first, which takes a
    // look at the lease.
    let is_taken = matches!(batch.lease, LeaseUse::Take { .. });
    if is_taken && batch.events.iter().any(|new| new.id_given) {
        return None;
    }
    // At time 0, so that a lease comes out as how long it is from now.
    let standing = head.row.standing(key, None, 0);
    let plan = plan_append(standing, batch, |_| Ok(None)).ok()?;
    let Plan::Write {
        events,
        fresh,
        lease,
        token,
    } = plan
    else {
        return None;
    };
    // Repeats are looked at.
    if fresh.is_empty() || fresh.len() < batch.events.len() {
        return None;
    }
    head.row.lease = Lease {
        token: lease.token,
        until_us: match is_relative {
            true => lease.until_us.min(TTL_MAX_US),
            false => lease.until_us,
        },
    };
    head.revision += 1;
    let mut planned = Planned {
        head,
        until_is_relative: is_relative,
        events: EventColumns::default(),
        given_ids: Vec::new(),
        keys: KeyColumns::default(),
        answer: Written::Done { events, token },
    };
    planned.take_up(batch)?;
    Some(planned)
}

impl<'a> Planned<'a> {
    fn take_up(&mut self, batch: &'a Batch) -> Option<()> {
        let mut seen = HashSet::new();
        for new in &batch.events {
            let changes = &new.changes;
            // Shared keys are locked, in their order.
            if !changes.app.is_empty() || !changes.user.is_empty() {
                return None;
            }
            let position = self.head.row.go_on(&new.event).ok()?;
            self.events.push(position, new);
            if new.id_given {
                self.given_ids.push(&new.event.id);
            }
            for (key, value) in &changes.session {
                // What was between two events of the batch would be past.
                if !seen.insert(key.as_str()) {
                    return None;
                }
                let value = value.as_ref().map(Json::to_string);
                let length = value.as_ref().map_or(0, |value| key.len() + value.len());
                self.keys.bytes += signed(length as u64);
                self.keys.keys.push(key);
                self.keys.positions.push(signed(position));
                self.keys.values.push(value.map(String::into_bytes));
            }
        }
        Some(())
    }

    fn sent(&self, batch: &Batch) -> Sent {
        let positions = self
            .events
            .positions
            .iter()
            .map(|position| *position as u64);
        let events = batch.events.iter();
        let events = events.map(|new| std::sync::Arc::clone(&new.event));
        Sent {
            number: self.head.row.number,
            fresh: positions.zip(events).collect(),
            head: None,
            // Such a batch is not sent from here.
            is_told_by_lease: false,
            answer: self.answer.clone(),
        }
    }
}
