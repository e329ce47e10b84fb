//! Renews leases and maintains the queue of runs that wait for one. Also stores the leases of
//! tasks.

use std::time::Duration;

use retain_core::{
    LeaseUse, PendingWork, Result, SessionError, SessionKey, TaskLease, duration_us, plan_renewal,
    store_rules::TICKET_TTL_US,
};
use tokio::join;
use tokio_postgres::{Error, Row};

use super::{
    append::{self, AppendStatements, resolve_now},
    pool::{Database, Failure, Param, Transaction, if_some, statements},
    rows::{CachedHead, clock_us, number_by_key},
};

statements! {
    /// Statements of the queue for a lease.
    QueueStatements {
        tickets: concat!(
            "SELECT ticket, until_us FROM retain_tickets WHERE session = ",
            number_by_key!(),
            " ORDER BY place"
        ),
        delete_expired: "DELETE FROM retain_tickets \
                         WHERE session = $1 AND until_us <= $2 AND ticket <> $3",
        // A ticket with at least half of its TTL left is not updated, so that most polls write
        // nothing.
        add: "INSERT INTO retain_tickets AS old (session, ticket, until_us) VALUES ($1, $2, $3) \
              ON CONFLICT (session, ticket) DO UPDATE SET until_us = excluded.until_us \
              WHERE excluded.until_us - old.until_us > $4",
        leave: "DELETE FROM retain_tickets WHERE session = $1 AND ticket = $2",
    }
}

/// Renews a lease for `ttl`, or releases it if `ttl` is `None`. Returns the head for the cache.
pub(super) async fn renew(
    database: &Database,
    key: &SessionKey,
    token: u64,
    ttl: Option<Duration>,
    now_us: Option<i64>,
) -> Result<CachedHead, Failure> {
    let transaction = database.transaction().await?;
    let statements = AppendStatements::prepare(&transaction).await?;
    let clock = transaction.query(&statements.clock, []);
    let (begun, head, clock) = join!(
        biased;
        transaction.begin(),
        transaction.query(&statements.lock_head, [&key.app, &key.user, &key.id]),
        if_some(now_us.is_none().then_some(clock)),
    );
    begun?;
    let head = head?.first().map(CachedHead::read).transpose()?;
    let now_us = resolve_now(now_us, clock?)?;
    let decide = || -> Result<CachedHead> {
        let head = head.filter(|head| head.row.is_alive(now_us));
        let mut head = head.ok_or_else(|| SessionError::NotFound { key: key.clone() })?;
        let status = head.row.status(key, None, now_us);
        head.row.lease = plan_renewal(status, &LeaseUse::Hold { token, ttl })?;
        head.revision += 1;
        Ok(head)
    };
    let head = match decide() {
        Ok(head) => head,
        Err(error) => {
            let _ = transaction.roll_back().await;
            return Err(error.into());
        }
    };
    let (set, ended) = join!(
        biased;
        append::set_head(&transaction, &statements, &head.row, PendingWork::NONE),
        transaction.commit(),
    );
    set?;
    ended?;
    transaction.release();
    Ok(head)
}

/// Removes a ticket from the queue.
pub(super) async fn withdraw(
    database: &Database,
    key: &SessionKey,
    ticket: &str,
) -> Result<(), Failure> {
    const WITHDRAW: &str = concat!(
        "DELETE FROM retain_tickets WHERE ticket = $4 AND session = ",
        number_by_key!()
    );
    let client = database.connection().await?;
    let statement = client.prepare_cached(WITHDRAW).await?;
    let params: [Param<'_>; _] = [&key.app, &key.user, &key.id, &ticket];
    client.execute(&statement, &params).await?;
    Ok(())
}

/// Takes, renews or releases the lease of a task; false if another process holds it.
pub(super) async fn update_task(
    database: &Database,
    lease: &TaskLease,
    now_us: Option<i64>,
) -> Result<bool, Failure> {
    const UPDATE: &str = concat!(
        "WITH now AS (SELECT coalesce($4::int8, ",
        clock_us!(),
        ") AS us) INSERT INTO retain_task_leases AS held (task, holder, until_us) \
         SELECT $1, $2, now.us + $3::int8 FROM now \
         ON CONFLICT (task) DO UPDATE SET holder = excluded.holder, until_us = excluded.until_us \
         WHERE held.holder = excluded.holder OR held.until_us <= (SELECT us FROM now)"
    );
    // A TTL of 0 releases the lease: an expired lease is as good as none.
    let ttl_us = lease.ttl.map_or(0, duration_us).min(i64::MAX / 4);
    let client = database.connection().await?;
    let statement = client.prepare_cached(UPDATE).await?;
    let params: [Param<'_>; _] = [&lease.task, &lease.holder, &ttl_us, &now_us];
    Ok(client.execute(&statement, &params).await? > 0)
}

/// Returns the first ticket in the queue that has not expired.
pub(super) fn first_ticket(rows: &[Row], now_us: i64) -> Result<Option<String>, Error> {
    for row in rows {
        if row.try_get::<_, i64>(1)? > now_us {
            return row.try_get(0).map(Some);
        }
    }
    Ok(None)
}

/// Returns the caller's ticket; `None` if the caller cannot be in the queue.
pub(super) fn queued_ticket(lease: &LeaseUse) -> Option<&str> {
    match lease {
        LeaseUse::Take { ticket, .. } if !ticket.is_empty() => Some(ticket),
        _ => None,
    }
}

/// Adds the caller's ticket to the queue for the lease, or extends the ticket's TTL.
pub(super) async fn queue(
    transaction: Transaction,
    statements: &QueueStatements,
    number: i64,
    lease: &LeaseUse,
    now_us: i64,
) -> Result<(), Failure> {
    let Some(ticket) = queued_ticket(lease) else {
        return Ok(transaction.roll_back().await?);
    };
    let (until_us, half) = (now_us + TICKET_TTL_US, TICKET_TTL_US / 2);
    let (swept, queued, ended) = join!(
        biased;
        transaction.execute(&statements.delete_expired, [&number, &now_us, &ticket]),
        transaction.execute(&statements.add, [&number, &ticket, &until_us, &half]),
        transaction.commit(),
    );
    swept?;
    queued?;
    ended?;
    transaction.release();
    Ok(())
}
