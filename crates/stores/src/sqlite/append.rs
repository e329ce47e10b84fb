//! Appends a batch: writes events, state, head and lease in the writer's transaction.

use std::sync::Arc;

use retain_core::{
    AppendOutcome, Batch, Event, LeaseUse, LimitKind, NewEvent, PendingWork, Plan, Result,
    SessionKey, check_growth, plan_append,
};
use rusqlite::{Connection, params};

use super::{
    failed,
    lease::{first_ticket, leave_queue, queue},
    read,
    rows::event_key,
    state::{set_session_keys, set_shared_keys},
    usage,
};
use crate::sql::{
    self, SessionRow,
    pending::{add_pending_work, kinds},
};

/// The operation's name in errors.
const APPEND: &str = "append events";

/// Appends a batch according to the plan of [`plan_append`].
pub(super) fn append(
    connection: &Connection,
    key: &SessionKey,
    batch: &Batch,
    now_us: i64,
) -> Result<AppendOutcome> {
    let row = SessionRow::get(connection, APPEND, key, now_us)?;
    let first_ticket = match batch.lease {
        LeaseUse::Take { .. } => first_ticket(connection, row.number, now_us)?,
        LeaseUse::Outside | LeaseUse::Hold { .. } => None,
    };
    let status = row.status(key, first_ticket.as_deref(), now_us);
    let plan = plan_append(status, batch, |id| find_event(connection, key, &row, id))?;
    match plan {
        Plan::Busy { until_us } => {
            queue(connection, row.number, &batch.lease, now_us)?;
            Ok(AppendOutcome::Busy { until_us, now_us })
        }
        Plan::Write {
            events,
            fresh,
            lease,
            token,
            touched_us,
        } => {
            let before = row.state_bytes;
            let mut row = row;
            row.lease = lease;
            row.lifetime.touched_us = touched_us.unwrap_or(row.lifetime.touched_us);
            if !fresh.is_empty() {
                usage::complete_size(connection, &mut row).map_err(|e| failed(APPEND, e))?;
            }
            for &index in &fresh {
                write_event(
                    connection,
                    key,
                    &mut row,
                    &batch.events[index],
                    batch.state_bytes_max,
                )?;
            }
            let limit = batch.state_bytes_max;
            check_growth(LimitKind::SessionState, before, row.state_bytes, limit)?;
            let work = match fresh.is_empty() {
                true => PendingWork::NONE,
                false => batch.pending_work,
            };
            update(connection, &row, work)?;
            leave_queue(connection, row.number, &batch.lease)?;
            Ok(AppendOutcome::Done { events, token })
        }
    }
}

fn find_event(
    connection: &Connection,
    key: &SessionKey,
    row: &SessionRow,
    id: &str,
) -> Result<Option<(u64, Arc<Event>)>> {
    let position = read::position_by_id(connection, row.number, id);
    let Some(position) = position.map_err(|e| failed(APPEND, e))? else {
        return Ok(None);
    };
    let body: rusqlite::Result<String> = connection
        .prepare_cached("SELECT body FROM events WHERE key = ?1")
        .and_then(|mut sql| sql.query_row([event_key(row.number, position)], |row| row.get(0)));
    let body = body.map_err(|e| failed(APPEND, e))?;
    Ok(Some((position, sql::event(key, position, &body)?)))
}

/// Writes one event and its state changes, and advances `row`. The caller writes the row.
fn write_event(
    connection: &Connection,
    key: &SessionKey,
    row: &mut SessionRow,
    new: &NewEvent,
    bytes_max: usize,
) -> Result<()> {
    let event = &new.event;
    let position = row.advance(new)?;
    let event_key = event_key(row.number, position);
    let (id, invocation) = (&event.id, &event.invocation_id);
    insert_event(
        connection,
        event_key,
        id,
        invocation,
        event.timestamp,
        &new.body,
    )
    .map_err(|e| failed(APPEND, e))?;
    row.state_bytes = set_session_keys(
        connection,
        row.number,
        position,
        row.state_bytes,
        &new.changes,
    )?;
    set_shared_keys(connection, key, &new.changes, bytes_max)
}

pub(super) fn insert_event(
    connection: &Connection,
    key: i64,
    id: &str,
    invocation: &str,
    timestamp: f64,
    body: &str,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO events (key, event_id, invocation, timestamp, body) \
               VALUES (?1, ?2, ?3, ?4, ?5)";
    let row = params![key, id, invocation, timestamp, body];
    connection.prepare_cached(sql)?.execute(row).map(drop)
}

/// Writes the head, and records the work that must follow its last event.
pub(super) fn update(connection: &Connection, row: &SessionRow, work: PendingWork) -> Result<()> {
    let updated = || {
        let sql = concat!(
            "UPDATE sessions SET position = ?2, last_update = ?3, touched_us = ?4, \
             lease_token = ?5, lease_until_us = ?6, in_order = ?7, state_bytes = ?8, ",
            add_pending_work!("?9", "?2"),
            ", log_bytes = ?10, sized_to = ?11 WHERE number = ?1"
        );
        connection.prepare_cached(sql)?.execute(params![
            row.number,
            row.position,
            row.last_update,
            row.lifetime.touched_us,
            row.lease.token,
            row.lease.until_us,
            row.in_order,
            row.state_bytes,
            kinds(work),
            row.log_bytes,
            row.sized_to,
        ])
    };
    updated().map(drop).map_err(|e| failed(APPEND, e))
}
