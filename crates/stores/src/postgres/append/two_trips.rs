//! Appends in two round trips: the first locks and reads, the second writes.
//!
//! The head stays locked in between, so the decision still holds at the write. A retry first checks
//! whether an earlier, unconfirmed attempt was committed.

use retain_core::{
    AppendOutcome, Batch, Changes, LeaseUse, LimitKind, Result, SessionError, SessionKey,
    check_growth,
};
use tokio::join;
use tokio_postgres::Row;

use super::{
    AppendDecision, AppendPlan, AppendStatements, StoredEvents, UnconfirmedAppend, plan,
    resolve_now, set_head,
};
use crate::postgres::{
    lease::{self, QueueStatements, first_ticket, queued_ticket},
    pool::{Database, Failure, Transaction, if_some},
    rows::{self, CachedHead, unsigned},
    state::{OwnStateChanges, OwnerKeys, StateStatements},
    usage,
};

/// The rows that the first round trip returns.
struct AppendRows {
    app: Option<OwnerKeys>,
    user: Option<OwnerKeys>,
    head: Option<CachedHead>,
    now_us: i64,
    tickets: Vec<Row>,
    events: Vec<Row>,
    own: Vec<Row>,
}

/// The changes that the second round trip writes.
struct AppendWrites<'a> {
    plan: AppendPlan<'a>,
    app: Option<OwnerKeys>,
    user: Option<OwnerKeys>,
    own: OwnStateChanges,
}

/// The decision after the first round trip.
enum NextStep<'a> {
    /// Write nothing.
    Return(AppendOutcome),
    /// Write only the caller's ticket.
    Queue {
        number: i64,
        until_us: i64,
        now_us: i64,
    },
    Write(Box<AppendWrites<'a>>),
}

/// Appends a batch and returns the head for the cache. `sent` holds the append whose commit is not
/// confirmed: that of an earlier attempt, or of this one while it commits.
pub(super) async fn append(
    database: &Database,
    key: &SessionKey,
    batch: &Batch,
    now_us: Option<i64>,
    sent: &mut Option<UnconfirmedAppend>,
) -> Result<(AppendOutcome, Option<CachedHead>), Failure> {
    let transaction = database.transaction().await?;
    let (statements, state, queue) = join!(
        biased;
        AppendStatements::prepare(&transaction),
        StateStatements::prepare(&transaction),
        QueueStatements::prepare(&transaction),
    );
    let (statements, state, queue) = (statements?, state?, queue?);
    let (is_repeated, tx) = (sent.is_some(), &transaction);
    let rows = read(
        tx,
        &statements,
        &state,
        &queue,
        key,
        batch,
        now_us,
        is_repeated,
    );
    let decided = async {
        let mut rows = rows.await?;
        if let Some(head) = &mut rows.head {
            usage::complete_size(tx, &mut head.row).await?;
        }
        decide(key, batch, rows, sent.as_ref())
    };
    let decided = decided.await;
    match decided {
        Ok(NextStep::Write(writes)) => {
            *sent = Some(writes.plan.to_unconfirmed(batch));
            let written = write(&transaction, &statements, &state, &queue, batch, &writes);
            written.await?;
            transaction.release();
            *sent = None;
            Ok((writes.plan.outcome, Some(writes.plan.head)))
        }
        Ok(NextStep::Queue {
            number,
            until_us,
            now_us,
        }) => {
            lease::queue(transaction, &queue, number, &batch.lease, now_us).await?;
            Ok((AppendOutcome::Busy { until_us, now_us }, None))
        }
        Ok(NextStep::Return(outcome)) => {
            transaction.roll_back().await?;
            Ok((outcome, None))
        }
        Err(failure) => {
            // If the rollback fails, the connection is closed, which has the same effect.
            let _ = transaction.roll_back().await;
            Err(failure)
        }
    }
}

/// Begins the transaction, locks the rows that may change, and reads what the decision needs, in
/// one round trip.
#[allow(
    clippy::too_many_arguments,
    reason = "three sets of statements, used once"
)]
async fn read(
    transaction: &Transaction,
    statements: &AppendStatements,
    state: &StateStatements,
    queue: &QueueStatements,
    key: &SessionKey,
    batch: &Batch,
    now_us: Option<i64>,
    is_repeated: bool,
) -> Result<AppendRows, Failure> {
    let (app, user, id) = (&key.app, &key.user, &key.id);
    let app_keys = changed_keys(batch, |changes| changes.app.keys());
    let user_keys = changed_keys(batch, |changes| changes.user.keys());
    let own_keys = changed_keys(batch, |changes| {
        changes.session.iter().map(|(key, _)| key.as_str())
    });
    // An id that this process generated is not stored, unless an earlier attempt sent the event.
    let events = batch.events.iter();
    let events = events.filter(|new| new.id_given || is_repeated);
    let event_ids: Vec<&str> = events.map(|new| new.event.id.as_str()).collect();
    let takes = matches!(batch.lease, LeaseUse::Take { .. });
    let lock_app = OwnerKeys::lock(transaction, state, app, "", &app_keys);
    let lock_user = OwnerKeys::lock(transaction, state, app, user, &user_keys);
    let clock = transaction.query(&statements.clock, []);
    let tickets = transaction.query(&queue.tickets, [app, user, id]);
    let events = transaction.query(&statements.events_by_id, [app, user, id, &event_ids]);
    let own = transaction.query(&state.own_keys, [app, user, id, &own_keys]);
    // All writers lock in this order, which prevents deadlocks: app, user, session.
    let (begun, locked_app, locked_user, head, clock, tickets, events, own) = join!(
        biased;
        transaction.begin(),
        if_some((!app_keys.is_empty()).then_some(lock_app)),
        if_some((!user_keys.is_empty()).then_some(lock_user)),
        transaction.query(&statements.lock_head, [app, user, id]),
        if_some(now_us.is_none().then_some(clock)),
        if_some(takes.then_some(tickets)),
        if_some((!event_ids.is_empty()).then_some(events)),
        if_some((!own_keys.is_empty()).then_some(own)),
    );
    begun?;
    let owner = |user: &str, found: Option<_>| {
        let owner = found.map(|found| OwnerKeys::new(app, user, found));
        owner.transpose()
    };
    Ok(AppendRows {
        app: owner("", locked_app?)?,
        user: owner(user, locked_user?)?,
        head: head?.first().map(CachedHead::read).transpose()?,
        now_us: resolve_now(now_us, clock?)?,
        tickets: tickets?.unwrap_or_default(),
        events: events?.unwrap_or_default(),
        own: own?.unwrap_or_default(),
    })
}

/// Returns the state keys that a batch sets, without duplicates.
fn changed_keys<'a, K>(batch: &'a Batch, keys: impl Fn(&'a Changes) -> K) -> Vec<&'a str>
where
    K: Iterator<Item = &'a str>,
{
    let mut found: Vec<&str> = Vec::new();
    for new in &batch.events {
        found.extend(keys(&new.changes));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn decide<'a>(
    key: &SessionKey,
    batch: &'a Batch,
    rows: AppendRows,
    sent: Option<&UnconfirmedAppend>,
) -> Result<NextStep<'a>, Failure> {
    let now_us = rows.now_us;
    let head = rows.head.filter(|head| head.row.is_alive(now_us));
    let head = head.ok_or_else(|| SessionError::NotFound { key: key.clone() })?;
    let stored = stored_events(key, &rows.events)?;
    if let Some(sent) = sent.filter(|sent| sent.is_stored(&head, &stored)) {
        return Ok(NextStep::Return(sent.outcome.clone()));
    }
    let (number, old_lease) = (head.row.number, head.row.lease);
    let old_bytes = head.row.state_bytes;
    let first_ticket = first_ticket(&rows.tickets, now_us)?;
    let planned = match plan(key, batch, head, &stored, first_ticket.as_deref(), now_us)? {
        AppendDecision::Write(planned) => *planned,
        AppendDecision::Busy { until_us } => {
            return Ok(NextStep::Queue {
                number,
                until_us,
                now_us,
            });
        }
    };
    let keeps_lease = planned.head.row.lease == old_lease;
    if planned.fresh.is_empty() && keeps_lease && queued_ticket(&batch.lease).is_none() {
        return Ok(NextStep::Return(planned.outcome));
    }
    let mut writes = AppendWrites {
        own: OwnStateChanges::new(old_bytes, &rows.own)?,
        app: rows.app,
        user: rows.user,
        plan: planned,
    };
    writes.set_state(batch, old_bytes)?;
    Ok(NextStep::Write(Box::new(writes)))
}

fn stored_events(key: &SessionKey, rows: &[Row]) -> Result<StoredEvents, Failure> {
    let mut stored = StoredEvents::new();
    for row in rows {
        let position = unsigned(row, 1)?;
        let event = rows::event(key, position, row, 2)?;
        stored.insert(row.try_get(0)?, (position, event));
    }
    Ok(stored)
}

impl AppendWrites<'_> {
    /// Applies the state changes of the new events.
    fn set_state(&mut self, batch: &Batch, old_bytes: usize) -> Result<()> {
        let limit = batch.state_bytes_max;
        for (position, index) in &self.plan.fresh {
            let changes = &batch.events[*index].changes;
            self.own.set(*position, changes);
            if let Some(app) = self.app.as_mut().filter(|_| !changes.app.is_empty()) {
                app.set(&changes.app, limit)?;
            }
            if let Some(user) = self.user.as_mut().filter(|_| !changes.user.is_empty()) {
                user.set(&changes.user, limit)?;
            }
        }
        let bytes = self.own.bytes;
        self.plan.head.row.state_bytes = bytes;
        check_growth(LimitKind::SessionState, old_bytes, bytes, limit)
    }
}

/// Writes all changes and commits, in one round trip.
async fn write(
    transaction: &Transaction,
    statements: &AppendStatements,
    state: &StateStatements,
    queue: &QueueStatements,
    batch: &Batch,
    writes: &AppendWrites<'_>,
) -> Result<(), Failure> {
    let (row, new) = (&writes.plan.head.row, &writes.plan.events);
    let work = writes.plan.work;
    let number = row.number;
    let events = new.insert(transaction, &statements.insert_events, number);
    let app = writes.app.as_ref().map(|app| app.write(transaction, state));
    let user = writes
        .user
        .as_ref()
        .map(|user| user.write(transaction, state));
    let ticket = queued_ticket(&batch.lease);
    let leave = transaction.execute(&queue.leave, [&number, &ticket]);
    let (app, user, events, own, head, left, ended) = join!(
        biased;
        if_some(app),
        if_some(user),
        if_some((!writes.plan.fresh.is_empty()).then_some(events)),
        writes.own.write(transaction, state, number),
        set_head(transaction, statements, row, work),
        if_some(ticket.is_some().then_some(leave)),
        transaction.commit(),
    );
    app?;
    user?;
    events?;
    own?;
    head?;
    left?;
    Ok(ended?)
}
