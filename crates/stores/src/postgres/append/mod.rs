//! Appends a batch: in one round trip if the head is cached, otherwise in two with the head locked
//! in between.

mod one_trip;
mod two_trips;

use std::{collections::HashMap, sync::Arc};

use retain_core::{
    AppendOutcome, Batch, Event, LeaseUse, NewEvent, PendingWork, Plan, Result, SessionKey,
    plan_append,
};
use tokio_postgres::{Error, Row};

use super::{
    PostgresStore,
    pool::{Failure, Param, Retry, Transaction, statements},
    rows::{CachedHead, by_key, clock_us, head_columns, number_by_key, signed},
};
use crate::sql::{
    SessionRow,
    pending::{add_pending_work, kinds},
};

/// Inserts events, given as columns.
pub(super) const INSERT_EVENTS: &str = "INSERT INTO retain_events \
    (log, position, event_id, invocation, timestamp, body) \
    SELECT $1::int8, new.* FROM unnest($2::int8[], $3::text[], $4::text[], $5::float8[], \
    $6::bytea[]) AS new";

statements! {
    /// Statements of an append in two round trips.
    AppendStatements {
        lock_head: concat!(
            "SELECT ", head_columns!(), " FROM retain_sessions WHERE ", by_key!(), " FOR NO KEY UPDATE"
        ),
        clock: concat!("SELECT ", clock_us!()),
        events_by_id: concat!(
            "SELECT event_id, position, body FROM retain_events \
             WHERE event_id = ANY($4) AND log = ",
            number_by_key!()
        ),
        insert_events: INSERT_EVENTS,
        // The new revision tells other processes that their cached head is outdated.
        set_head: concat!(
            "UPDATE retain_sessions SET revision = revision + 1, position = $2, \
             last_update = $3, touched_us = $4, lease_token = $5, lease_until_us = $6, \
             in_order = $7, state_bytes = $8, ",
            add_pending_work!("$9::int8", "$2::int8"),
            ", log_bytes = $10, sized_to = $11 WHERE number = $1"
        ),
    }
}

/// Appends a batch. The caller holds the process-local locks of the rows.
pub(super) async fn append(
    store: &PostgresStore,
    key: &SessionKey,
    batch: &Batch,
) -> Result<AppendOutcome> {
    let mut sent = None;
    let mut failed = None;
    if let Some(head) = store.heads.take(key) {
        let now_us = store.now_us();
        let appended = one_trip::append(&store.database, key, batch, head, now_us, &mut sent);
        match appended.await {
            Ok(Some((written, head))) => {
                store.heads.insert(key, head);
                return Ok(written);
            }
            Ok(None) => {}
            Err(failure) => failed = Some(failure),
        }
    }
    let mut retry = Retry::new(&store.database);
    loop {
        if let Some(failure) = failed.take() {
            let waited = retry.wait_or_fail(failure).await;
            waited.map_err(|failure| failure.into_session_error("append events"))?;
        }
        let now_us = store.now_us();
        match two_trips::append(&store.database, key, batch, now_us, &mut sent).await {
            Ok((written, head)) => {
                if let Some(head) = head {
                    store.heads.insert(key, head);
                }
                return Ok(written);
            }
            Err(failure) => failed = Some(failure),
        }
    }
}

/// The rows that an append writes, and its outcome.
struct AppendPlan<'a> {
    /// The head after the append.
    head: CachedHead,
    events: EventColumns<'a>,
    /// The new events: (position, index in the batch).
    fresh: Vec<(u64, usize)>,
    /// The work that must follow the new events.
    work: PendingWork,
    outcome: AppendOutcome,
}

/// Whether a batch is written or must wait for the lease.
enum AppendDecision<'a> {
    Busy { until_us: i64 },
    Write(Box<AppendPlan<'a>>),
}

/// Plans a batch on `head` at `now_us` with [`plan_append`]. `stored` holds the stored events whose
/// ids are in the batch.
fn plan<'a>(
    key: &SessionKey,
    batch: &'a Batch,
    mut head: CachedHead,
    stored: &StoredEvents,
    first_ticket: Option<&str>,
    now_us: i64,
) -> Result<AppendDecision<'a>> {
    let status = head.row.status(key, first_ticket, now_us);
    let planned = plan_append(status, batch, |id| Ok(stored.get(id).cloned()))?;
    let (events, fresh, lease, token, touched_us) = match planned {
        Plan::Busy { until_us } => return Ok(AppendDecision::Busy { until_us }),
        Plan::Write {
            events,
            fresh,
            lease,
            token,
            touched_us,
        } => (events, fresh, lease, token, touched_us),
    };
    head.row.lease = lease;
    head.revision += 1;
    let lifetime = &mut head.row.lifetime;
    lifetime.touched_us = touched_us.unwrap_or(lifetime.touched_us);
    let mut plan = AppendPlan {
        head,
        events: EventColumns::default(),
        work: match fresh.is_empty() {
            true => PendingWork::NONE,
            false => batch.pending_work,
        },
        fresh: Vec::with_capacity(fresh.len()),
        outcome: AppendOutcome::Done { events, token },
    };
    for index in fresh {
        let new = &batch.events[index];
        let position = plan.head.row.advance(new)?;
        plan.events.push(position, new);
        plan.fresh.push((position, index));
    }
    Ok(AppendDecision::Write(Box::new(plan)))
}

impl AppendPlan<'_> {
    /// Describes the append, so that a retry can find it in the log if its commit is not confirmed.
    fn to_unconfirmed(&self, batch: &Batch) -> UnconfirmedAppend {
        let event = |index: usize| Arc::clone(&batch.events[index].event);
        let fresh = self.fresh.iter();
        let fresh = fresh.map(|(position, index)| (*position, event(*index)));
        let takes = matches!(batch.lease, LeaseUse::Take { .. });
        let mut indexes = self.fresh.iter().map(|(_, index)| *index);
        UnconfirmedAppend {
            number: self.head.row.number,
            fresh: fresh.collect(),
            head: self.head.clone(),
            needs_same_lease: takes && indexes.any(|index| batch.events[index].id_given),
            outcome: self.outcome.clone(),
        }
    }
}

/// An append that was sent but whose commit is not confirmed.
#[derive(Debug)]
struct UnconfirmedAppend {
    number: i64,
    /// The events that were new, by position.
    fresh: Vec<(u64, Arc<Event>)>,
    /// The head after the append, if no other writer followed.
    head: CachedHead,
    /// Whether the lease must match too. True if the append takes the lease and the caller chose an
    /// event id: a client that retries on another replica may send the same event concurrently.
    needs_same_lease: bool,
    outcome: AppendOutcome,
}

impl UnconfirmedAppend {
    /// Whether the log with this head contains the append.
    fn is_stored(&self, head: &CachedHead, stored: &StoredEvents) -> bool {
        if head.row.number != self.number {
            return false;
        }
        let has_lease = self.head.row.lease == head.row.lease;
        if self.fresh.is_empty() {
            return has_lease;
        }
        if self.needs_same_lease && !has_lease {
            return false;
        }
        let is_there = |(position, event): &(u64, Arc<Event>)| {
            let found = stored.get(event.id.as_str());
            found.is_some_and(|(at, stored)| at == position && stored == event)
        };
        self.fresh.iter().all(is_there)
    }
}

/// The stored events whose ids are in the batch: (position, event) by id.
type StoredEvents = HashMap<String, (u64, Arc<Event>)>;

/// Events as columns, for `unnest`.
#[derive(Debug, Default)]
pub(super) struct EventColumns<'a> {
    positions: Vec<i64>,
    ids: Vec<&'a str>,
    invocations: Vec<&'a str>,
    times: Vec<f64>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> EventColumns<'a> {
    pub(super) fn push(&mut self, position: u64, new: &'a NewEvent) {
        let event = &new.event;
        self.positions.push(signed(position));
        self.ids.push(&event.id);
        self.invocations.push(&event.invocation_id);
        self.times.push(event.timestamp);
        self.bodies.push(new.body.as_bytes());
    }

    /// Inserts the events with the prepared [`INSERT_EVENTS`].
    pub(super) async fn insert(
        &self,
        transaction: &Transaction,
        statement: &tokio_postgres::Statement,
        log: i64,
    ) -> Result<u64, Error> {
        let (positions, ids) = (&self.positions, &self.ids);
        let (invocations, times, bodies) = (&self.invocations, &self.times, &self.bodies);
        let params: [Param<'_>; _] = [&log, positions, ids, invocations, times, bodies];
        transaction.execute(statement, params).await
    }
}

/// Updates the head, and records the work that must follow its last event.
pub(super) async fn set_head(
    transaction: &Transaction,
    statements: &AppendStatements,
    row: &SessionRow,
    work: PendingWork,
) -> Result<(), Error> {
    let (position, token) = (signed(row.position), row.lease.token as i64);
    let bytes = signed(row.state_bytes as u64);
    let kinds = kinds(work);
    let (log_bytes, sized_to) = (signed(row.log_bytes), signed(row.sized_to));
    let params: [Param<'_>; _] = [
        &row.number,
        &position,
        &row.last_update,
        &row.lifetime.touched_us,
        &token,
        &row.lease.until_us,
        &row.in_order,
        &bytes,
        &kinds,
        &log_bytes,
        &sized_to,
    ];
    let set = transaction.execute(&statements.set_head, params);
    set.await.map(drop)
}

/// Returns the time of the configured clock, or else the time that the database returned.
pub(super) fn resolve_now(given: Option<i64>, clock: Option<Vec<Row>>) -> Result<i64, Failure> {
    match (given, clock.as_deref().and_then(<[Row]>::first)) {
        (Some(now_us), _) => Ok(now_us),
        (None, Some(row)) => Ok(row.try_get(0)?),
        (None, None) => Err(Failure::Transient("PostgreSQL did not return its time")),
    }
}

#[cfg(test)]
mod tests {
    use retain_core::Lease;

    use super::*;
    use crate::sql::SessionLifetime;

    fn head(token: u64) -> CachedHead {
        let row = SessionRow {
            number: 7,
            position: 1,
            last_update: 0.0,
            create_time: 0.0,
            lifetime: SessionLifetime {
                touched_us: 0,
                ttl_us: None,
            },
            lease: Lease { token, until_us: 0 },
            in_order: true,
            state_bytes: 0,
            origin: None,
            log_bytes: 0,
            sized_to: 0,
        };
        CachedHead { row, revision: 1 }
    }

    /// An event id that this process generated identifies the append, even if another run holds the
    /// lease by now.
    #[test]
    fn unconfirmed_append_is_found_by_its_generated_id_or_by_its_lease() {
        let event = Arc::new(Event {
            id: "e".to_owned(),
            ..Event::default()
        });
        let stored = StoredEvents::from([("e".to_owned(), (1, Arc::clone(&event)))]);
        let mut sent = UnconfirmedAppend {
            number: 7,
            fresh: vec![(1, event)],
            head: head(3),
            needs_same_lease: false,
            outcome: AppendOutcome::Busy {
                until_us: 0,
                now_us: 0,
            },
        };
        assert!(sent.is_stored(&head(4), &stored));
        sent.needs_same_lease = true;
        assert!(!sent.is_stored(&head(4), &stored));
        assert!(sent.is_stored(&head(3), &stored));
        assert!(!sent.is_stored(&head(3), &StoredEvents::new()));
    }
}
