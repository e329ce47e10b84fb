//! Renews leases and maintains the queue for them. Also stores the leases of tasks.

use retain_core::{
    LeaseUpdate, LeaseUse, PendingWork, Result, SessionKey, TaskLease, duration_us, plan_renewal,
    store_rules::TICKET_TTL_US,
};
use rusqlite::{Connection, OptionalExtension as _};

use super::{append, failed};
use crate::sql::SessionRow;

/// The operations' names in errors.
const QUEUE: &str = "queue for a lease";
const RENEW: &str = "renew a lease";
pub(super) const TASK: &str = "take the lease of a task";

/// Returns the update's name in errors.
pub(super) fn operation(update: &LeaseUpdate) -> &'static str {
    match update {
        LeaseUpdate::Renew { .. } => RENEW,
        LeaseUpdate::Withdraw { .. } => QUEUE,
    }
}

/// Renews or releases a lease, or removes a ticket from its queue.
pub(super) fn update(
    connection: &Connection,
    key: &SessionKey,
    update: &LeaseUpdate,
    now_us: i64,
) -> Result<()> {
    match update {
        LeaseUpdate::Renew { token, ttl } => {
            let mut row = SessionRow::get(connection, RENEW, key, now_us)?;
            let (token, ttl) = (*token, *ttl);
            let status = row.status(key, None, now_us);
            row.lease = plan_renewal(status, &LeaseUse::Hold { token, ttl })?;
            append::update(connection, &row, PendingWork::NONE)
        }
        LeaseUpdate::Withdraw { ticket } => {
            let row = SessionRow::find(connection, key, now_us).map_err(|e| failed(QUEUE, e))?;
            row.map_or(Ok(()), |row| delete_ticket(connection, row.number, ticket))
        }
    }
}

/// Takes, renews or releases the lease of a task; false if another process holds it.
pub(super) fn update_task(connection: &Connection, lease: &TaskLease, now_us: i64) -> Result<bool> {
    let sql = "INSERT INTO task_leases (task, holder, until_us) VALUES (?1, ?2, ?3) \
               ON CONFLICT (task) DO UPDATE SET holder = excluded.holder, \
               until_us = excluded.until_us \
               WHERE task_leases.holder = excluded.holder OR task_leases.until_us <= ?4";
    let until_us = match lease.ttl {
        Some(ttl) => now_us.saturating_add(duration_us(ttl)),
        // An expired lease is as good as none.
        None => now_us,
    };
    let written = connection
        .prepare_cached(sql)
        .and_then(|mut upsert| upsert.execute((&lease.task, &lease.holder, until_us, now_us)));
    let written = written.map_err(|e| failed(TASK, e))?;
    Ok(written > 0)
}

/// Finds the first ticket in the queue that has not expired.
pub(super) fn first_ticket(
    connection: &Connection,
    session: i64,
    now_us: i64,
) -> Result<Option<String>> {
    let first = || {
        let sql = "SELECT ticket FROM tickets WHERE session = ?1 AND until_us > ?2 \
                   ORDER BY place LIMIT 1";
        let mut statement = connection.prepare_cached(sql)?;
        statement
            .query_row((session, now_us), |row| row.get(0))
            .optional()
    };
    first().map_err(|e: rusqlite::Error| failed(QUEUE, e))
}

/// Adds the caller's ticket to the queue for the lease, or extends the ticket's TTL.
pub(super) fn queue(
    connection: &Connection,
    session: i64,
    lease: &LeaseUse,
    now_us: i64,
) -> Result<()> {
    let LeaseUse::Take { ticket, .. } = lease else {
        return Ok(());
    };
    if ticket.is_empty() {
        return Ok(());
    }
    let queued = || -> rusqlite::Result<()> {
        let sql = "DELETE FROM tickets WHERE session = ?1 AND until_us <= ?2 AND ticket <> ?3";
        connection
            .prepare_cached(sql)?
            .execute((session, now_us, ticket))?;
        let sql = "INSERT INTO tickets (session, ticket, until_us) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (session, ticket) DO UPDATE SET until_us = excluded.until_us \
                   WHERE excluded.until_us - until_us > ?4";
        // Extend a ticket only in the second half of its TTL, so that most polls write nothing.
        let until_us = now_us + TICKET_TTL_US;
        connection
            .prepare_cached(sql)?
            .execute((session, ticket, until_us, TICKET_TTL_US / 2))?;
        Ok(())
    };
    queued().map_err(|e| failed(QUEUE, e))
}

pub(super) fn leave_queue(connection: &Connection, session: i64, lease: &LeaseUse) -> Result<()> {
    match lease {
        LeaseUse::Take { ticket, .. } if !ticket.is_empty() => {
            delete_ticket(connection, session, ticket)
        }
        _ => Ok(()),
    }
}

fn delete_ticket(connection: &Connection, session: i64, ticket: &str) -> Result<()> {
    let sql = "DELETE FROM tickets WHERE session = ?1 AND ticket = ?2";
    let deleted = connection
        .prepare_cached(sql)
        .and_then(|mut s| s.execute((session, ticket)));
    deleted.map(drop).map_err(|e| failed(QUEUE, e))
}
