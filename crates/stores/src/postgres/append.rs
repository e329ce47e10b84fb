//! An append in two round trips: everything that decides about it, then everything it writes.
//!
//! The head is locked in between, so what was decided still holds when it is written. An append whose
//! end was not heard of is looked for here before it is made again.

use std::{collections::HashMap, sync::Arc};

use retain_core::{
    Batch, Changes, Event, LeaseUse, Limited, Plan, Result, SessionError, SessionKey, Written,
    check_growth, plan_append,
};
use tokio::join;
use tokio_postgres::{Error, Row};

use super::{
    pool::{Database, Failure, Param, Transaction, if_some, statements},
    rows::{self, CachedHead, by_key, clock_us, head_columns, number_by_key, signed, unsigned},
    state::{OwnKeys, OwnerKeys, StateStatements},
};
use crate::rules::TICKET_TTL_US;

/// Writes events, given as columns.
pub(super) const INSERT_EVENTS: &str = "INSERT INTO retain_events \
    (log, position, event_id, invocation, timestamp, body) \
    SELECT $1::int8, new.* FROM unnest($2::int8[], $3::text[], $4::text[], $5::float8[], \
    $6::bytea[]) AS new";

statements! {
    /// What an append says to the database.
    Statements {
        lock_head: concat!(
            "SELECT ", head_columns!(), " FROM retain_sessions WHERE ", by_key!(), " FOR NO KEY UPDATE"
        ),
        clock: concat!("SELECT ", clock_us!()),
        tickets: concat!(
            "SELECT ticket, until_us FROM retain_tickets WHERE session = ",
            number_by_key!(),
            " ORDER BY place"
        ),
        events_by_id: concat!(
            "SELECT event_id, position, body FROM retain_events \
             WHERE event_id = ANY($4) AND log = ",
            number_by_key!()
        ),
        insert_events: INSERT_EVENTS,
        set_head: "UPDATE retain_sessions SET revision = revision + 1, position = $2, \
                   last_update = $3, touched_us = $4, lease_token = $5, lease_until_us = $6, \
                   in_order = $7, state_bytes = $8 WHERE number = $1",
        old_tickets: "DELETE FROM retain_tickets \
                      WHERE session = $1 AND until_us <= $2 AND ticket <> $3",
        // A ticket that is still good for half its time is left alone, so that looking again
        // writes nothing.
        queue: "INSERT INTO retain_tickets AS old (session, ticket, until_us) VALUES ($1, $2, $3) \
                ON CONFLICT (session, ticket) DO UPDATE SET until_us = excluded.until_us \
                WHERE excluded.until_us - old.until_us > $4",
        leave_queue: "DELETE FROM retain_tickets WHERE session = $1 AND ticket = $2",
    }
}

/// An append that was sent, until its end is known.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) number: i64,
    /// The events that were new, by position.
    pub(super) fresh: Vec<(u64, Arc<Event>)>,
    /// The head as it is afterwards, if nobody has come since.
    pub(super) head: Option<CachedHead>,
    /// Whether the lease tells it from others: it takes the lease, with an event whose id was given.
    /// Who comes at the same time with the same event, as a client does that tries again elsewhere,
    /// takes another one. An id that was made here is in nobody else's hands.
    pub(super) is_told_by_lease: bool,
    pub(super) answer: Written,
}

impl Sent {
    /// Whether it is in the log that stands there now.
    fn is_stored(&self, known: &CachedHead, stored: &Stored) -> bool {
        if known.row.number != self.number {
            return false;
        }
        let has_lease = |head: &CachedHead| head.row.lease == known.row.lease;
        if self.fresh.is_empty() {
            return self.head.as_ref().is_some_and(has_lease);
        }
        if self.is_told_by_lease && !self.head.as_ref().is_some_and(has_lease) {
            return false;
        }
        let is_there = |(position, event): &(u64, Arc<Event>)| {
            let found = stored.get(event.id.as_str());
            found.is_some_and(|(at, stored)| at == position && stored == event)
        };
        self.fresh.iter().all(is_there)
    }
}

/// Events of the session that have ids of the batch.
type Stored = HashMap<String, (u64, Arc<Event>)>;

/// What the first round trip brings.
struct Answers {
    app: Option<OwnerKeys>,
    user: Option<OwnerKeys>,
    head: Option<CachedHead>,
    now_us: i64,
    tickets: Vec<Row>,
    events: Vec<Row>,
    own: Vec<Row>,
}

/// What is to be written.
struct Writes {
    app: Option<OwnerKeys>,
    user: Option<OwnerKeys>,
    own: OwnKeys,
    head: CachedHead,
    /// The new events: (position, place in the batch).
    fresh: Vec<(u64, usize)>,
}

/// What is decided about a batch.
enum Decision {
    /// Nothing is to be written; this is the answer.
    Nothing(Written),
    /// Only the caller's ticket is.
    Queue {
        number: i64,
        until_us: i64,
        now_us: i64,
    },
    Write(Box<Writes>, Written),
}

/// Appends a batch, as [`plan_append`] decides. `sent` is what an attempt before this one has sent;
/// and what this one sends, until its end is known. Gives back the head, to be remembered.
pub(super) async fn append(
    database: &Database,
    key: &SessionKey,
    batch: &Batch,
    now_us: Option<i64>,
    sent: &mut Option<Sent>,
) -> Result<(Written, Option<CachedHead>), Failure> {
    let transaction = database.transaction().await?;
    let (statements, state) = join!(
        biased; Statements::prepare(&transaction), StateStatements::prepare(&transaction)
    );
    let (statements, state) = (statements?, state?);
    let asked = ask(&transaction, &statements, &state, key, batch, now_us, sent);
    let decided = match asked.await {
        Ok(answers) => decide(key, batch, answers, sent.as_ref()),
        Err(failure) => Err(failure),
    };
    match decided {
        Ok(Decision::Write(writes, answer)) => {
            *sent = Some(writes.sent(batch, &answer));
            let written = write(&transaction, &statements, &state, batch, &writes);
            written.await?;
            transaction.ended();
            *sent = None;
            Ok((answer, Some(writes.head)))
        }
        Ok(Decision::Queue {
            number,
            until_us,
            now_us,
        }) => {
            queue(transaction, &statements, number, &batch.lease, now_us).await?;
            Ok((Written::Busy { until_us, now_us }, None))
        }
        Ok(Decision::Nothing(answer)) => {
            transaction.roll_back().await?;
            Ok((answer, None))
        }
        Err(failure) => {
            // Whether that is heard makes no difference: without it, the connection is closed.
            let _ = transaction.roll_back().await;
            Err(failure)
        }
    }
}

/// Begins, locks what will change, and asks everything that decides. One round trip.
async fn ask(
    transaction: &Transaction,
    statements: &Statements,
    state: &StateStatements,
    key: &SessionKey,
    batch: &Batch,
    now_us: Option<i64>,
    sent: &Option<Sent>,
) -> Result<Answers, Failure> {
    let (app, user, id) = (&key.app, &key.user, &key.id);
    let app_keys = keys_of(batch, |changes| changes.app.keys());
    let user_keys = keys_of(batch, |changes| changes.user.keys());
    let own_keys = keys_of(batch, |changes| {
        changes.session.iter().map(|(key, _)| key.as_str())
    });
    // An id that was made just now is nobody's yet, unless it was sent before.
    let known_ids = batch.events.iter();
    let known_ids = known_ids.filter(|new| new.id_given || sent.is_some());
    let known_ids: Vec<&str> = known_ids.map(|new| new.event.id.as_str()).collect();
    let takes = matches!(batch.lease, LeaseUse::Take { .. });
    let lock_app = OwnerKeys::lock(transaction, state, app, "", &app_keys);
    let lock_user = OwnerKeys::lock(transaction, state, app, user, &user_keys);
    let clock = transaction.query(&statements.clock, []);
    let tickets = transaction.query(&statements.tickets, [app, user, id]);
    let events = transaction.query(&statements.events_by_id, [app, user, id, &known_ids]);
    let own = transaction.query(&state.own_keys, [app, user, id, &own_keys]);
    // In the order in which everybody locks.
    let (begun, locked_app, locked_user, head, clock, tickets, events, own) = join!(
        biased;
        transaction.begin(),
        if_some((!app_keys.is_empty()).then_some(lock_app)),
        if_some((!user_keys.is_empty()).then_some(lock_user)),
        transaction.query(&statements.lock_head, [app, user, id]),
        if_some(now_us.is_none().then_some(clock)),
        if_some(takes.then_some(tickets)),
        if_some((!known_ids.is_empty()).then_some(events)),
        if_some((!own_keys.is_empty()).then_some(own)),
    );
    begun?;
    let owner = |user: &str, found: Option<_>| {
        let owner = found.map(|found| OwnerKeys::new(app, user, found));
        owner.transpose()
    };
    Ok(Answers {
        app: owner("", locked_app?)?,
        user: owner(user, locked_user?)?,
        head: head?.first().map(CachedHead::read).transpose()?,
        now_us: now(now_us, clock?)?,
        tickets: tickets?.unwrap_or_default(),
        events: events?.unwrap_or_default(),
        own: own?.unwrap_or_default(),
    })
}

/// The keys that a batch sets, each once.
fn keys_of<'a, K>(batch: &'a Batch, keys: impl Fn(&'a Changes) -> K) -> Vec<&'a str>
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

/// The time: the given one, or what the database says.
pub(super) fn now(given: Option<i64>, clock: Option<Vec<Row>>) -> Result<i64, Error> {
    match (given, clock.as_deref().and_then(<[Row]>::first)) {
        (Some(now_us), _) => Ok(now_us),
        (None, Some(row)) => row.try_get(0),
        (None, None) => Ok(0),
    }
}

fn decide(
    key: &SessionKey,
    batch: &Batch,
    answers: Answers,
    sent: Option<&Sent>,
) -> Result<Decision, Failure> {
    let now_us = answers.now_us;
    let known = answers.head.filter(|known| known.row.is_alive(now_us));
    let known = known.ok_or_else(|| SessionError::NotFound { key: key.clone() })?;
    let stored = stored(key, &answers.events)?;
    if let Some(sent) = sent.filter(|sent| sent.is_stored(&known, &stored)) {
        return Ok(Decision::Nothing(sent.answer.clone()));
    }
    let first_ticket = first_ticket(&answers.tickets, now_us)?;
    let standing = known.row.standing(key, first_ticket.as_deref(), now_us);
    let plan = plan_append(standing, batch, |id| Ok(stored.get(id).cloned()))?;
    let (events, fresh, lease, token) = match plan {
        Plan::Busy { until_us } => {
            return Ok(Decision::Queue {
                number: known.row.number,
                until_us,
                now_us,
            });
        }
        Plan::Write {
            events,
            fresh,
            lease,
            token,
        } => (events, fresh, lease, token),
    };
    let answer = Written::Done { events, token };
    if fresh.is_empty() && lease == known.row.lease && queued(&batch.lease).is_none() {
        return Ok(Decision::Nothing(answer));
    }
    let mut writes = Writes {
        own: OwnKeys::new(known.row.state_bytes, &answers.own)?,
        app: answers.app,
        user: answers.user,
        head: known,
        fresh: Vec::with_capacity(fresh.len()),
    };
    writes.head.row.lease = lease;
    writes.take_up(batch, &fresh, now_us)?;
    Ok(Decision::Write(Box::new(writes), answer))
}

fn stored(key: &SessionKey, rows: &[Row]) -> Result<Stored, Failure> {
    let mut stored = Stored::new();
    for row in rows {
        let position = unsigned(row, 1)?;
        let event = rows::event(key, position, row, 2)?;
        stored.insert(row.try_get(0)?, (position, event));
    }
    Ok(stored)
}

/// The caller that has waited longest for the lease and still does.
fn first_ticket(rows: &[Row], now_us: i64) -> Result<Option<String>, Error> {
    for row in rows {
        if row.try_get::<_, i64>(1)? > now_us {
            return row.try_get(0).map(Some);
        }
    }
    Ok(None)
}

impl Writes {
    /// Goes through the new events.
    fn take_up(&mut self, batch: &Batch, fresh: &[usize], now_us: i64) -> Result<()> {
        let (row, limit) = (&mut self.head.row, batch.state_bytes_max);
        let before = row.state_bytes;
        // A session lives on by what is written to it.
        if !fresh.is_empty() {
            row.life.touched_us = now_us;
        }
        for &place in fresh {
            let new = &batch.events[place];
            let position = row.go_on(&new.event)?;
            self.fresh.push((position, place));
            self.own.set(position, &new.changes);
            if let Some(app) = self.app.as_mut().filter(|_| !new.changes.app.is_empty()) {
                app.set(&new.changes.app, limit)?;
            }
            if let Some(user) = self.user.as_mut().filter(|_| !new.changes.user.is_empty()) {
                user.set(&new.changes.user, limit)?;
            }
        }
        row.state_bytes = self.own.bytes;
        check_growth(Limited::SessionState, before, row.state_bytes, limit)?;
        self.head.revision += 1;
        Ok(())
    }

    fn sent(&self, batch: &Batch, answer: &Written) -> Sent {
        let fresh = self.fresh.iter();
        let fresh =
            fresh.map(|(position, place)| (*position, Arc::clone(&batch.events[*place].event)));
        Sent {
            number: self.head.row.number,
            fresh: fresh.collect(),
            head: Some(self.head.clone()),
            is_told_by_lease: matches!(batch.lease, LeaseUse::Take { .. })
                && self
                    .fresh
                    .iter()
                    .any(|(_, place)| batch.events[*place].id_given),
            answer: answer.clone(),
        }
    }
}

/// Writes everything and commits. One round trip.
async fn write(
    transaction: &Transaction,
    statements: &Statements,
    state: &StateStatements,
    batch: &Batch,
    writes: &Writes,
) -> Result<(), Failure> {
    let (row, number) = (&writes.head.row, writes.head.row.number);
    let new = EventColumns::new(batch, &writes.fresh);
    let events = new.insert(transaction, statements, number);
    let app = writes.app.as_ref().map(|app| app.write(transaction, state));
    let user = writes
        .user
        .as_ref()
        .map(|user| user.write(transaction, state));
    let ticket = queued(&batch.lease);
    let leave = transaction.execute(&statements.leave_queue, [&number, &ticket]);
    let (app, user, events, own, head, left, ended) = join!(
        biased;
        if_some(app),
        if_some(user),
        if_some((!writes.fresh.is_empty()).then_some(events)),
        writes.own.write(transaction, state, number),
        set_head(transaction, statements, row),
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

/// Rewrites the head.
pub(super) async fn set_head(
    transaction: &Transaction,
    statements: &Statements,
    row: &crate::sql::SessionRow,
) -> Result<(), Error> {
    let (position, token) = (signed(row.position), row.lease.token as i64);
    let bytes = signed(row.state_bytes as u64);
    let params: [Param<'_>; _] = [
        &row.number,
        &position,
        &row.last_update,
        &row.life.touched_us,
        &token,
        &row.lease.until_us,
        &row.in_order,
        &bytes,
    ];
    let set = transaction.execute(&statements.set_head, params);
    set.await.map(drop)
}

/// New events as columns, as `unnest` takes them.
#[derive(Debug, Default)]
pub(super) struct EventColumns<'a> {
    pub(super) positions: Vec<i64>,
    pub(super) ids: Vec<&'a str>,
    pub(super) invocations: Vec<&'a str>,
    pub(super) times: Vec<f64>,
    pub(super) bodies: Vec<&'a [u8]>,
}

impl<'a> EventColumns<'a> {
    /// The events of the batch at (position, place).
    pub(super) fn new(batch: &'a Batch, fresh: &[(u64, usize)]) -> EventColumns<'a> {
        let mut columns = EventColumns::default();
        for (position, place) in fresh {
            columns.push(*position, &batch.events[*place]);
        }
        columns
    }

    pub(super) fn push(&mut self, position: u64, new: &'a retain_core::NewEvent) {
        let event = &new.event;
        self.positions.push(signed(position));
        self.ids.push(&event.id);
        self.invocations.push(&event.invocation_id);
        self.times.push(event.timestamp);
        self.bodies.push(new.body.as_bytes());
    }

    pub(super) async fn insert(
        &self,
        transaction: &Transaction,
        statements: &Statements,
        log: i64,
    ) -> Result<u64, Error> {
        let (positions, ids) = (&self.positions, &self.ids);
        let (invocations, times, bodies) = (&self.invocations, &self.times, &self.bodies);
        let params: [Param<'_>; _] = [&log, positions, ids, invocations, times, bodies];
        transaction.execute(&statements.insert_events, params).await
    }
}

/// The ticket of a caller that stands in the queue.
fn queued(lease: &LeaseUse) -> Option<&str> {
    match lease {
        LeaseUse::Take { ticket, .. } if !ticket.is_empty() => Some(ticket),
        _ => None,
    }
}

/// Puts the caller into the queue for the lease, or keeps its place.
async fn queue(
    transaction: Transaction,
    statements: &Statements,
    number: i64,
    lease: &LeaseUse,
    now_us: i64,
) -> Result<(), Failure> {
    let Some(ticket) = queued(lease) else {
        return Ok(transaction.roll_back().await?);
    };
    let (until_us, half) = (now_us + TICKET_TTL_US, TICKET_TTL_US / 2);
    let (swept, queued, ended) = join!(
        biased;
        transaction.execute(&statements.old_tickets, [&number, &now_us, &ticket]),
        transaction.execute(&statements.queue, [&number, &ticket, &until_us, &half]),
        transaction.commit(),
    );
    swept?;
    queued?;
    ended?;
    transaction.ended();
    Ok(())
}

#[cfg(test)]
mod tests {
    use retain_core::Lease;

    use super::*;
    use crate::sql::{Life, SessionRow};

    fn known(token: u64) -> CachedHead {
        let row = SessionRow {
            number: 7,
            position: 1,
            last_update: 0.0,
            create_time: 0.0,
            life: Life {
                touched_us: 0,
                ttl_us: None,
            },
            lease: Lease { token, until_us: 0 },
            in_order: true,
            state_bytes: 0,
            origin: None,
        };
        CachedHead { row, revision: 1 }
    }

    /// A run that was begun unheard, and taken over from since, was begun all the same. Whose beginning
    /// it is needs to be asked only where two may have sent the same event.
    #[test]
    fn what_was_sent_is_known_by_an_id_of_our_own_whoever_has_the_lease() {
        let event = Arc::new(Event {
            id: "e".to_owned(),
            ..Event::default()
        });
        let stored = Stored::from([("e".to_owned(), (1, Arc::clone(&event)))]);
        let mut sent = Sent {
            number: 7,
            fresh: vec![(1, event)],
            head: Some(known(3)),
            is_told_by_lease: false,
            answer: Written::Busy {
                until_us: 0,
                now_us: 0,
            },
        };
        assert!(sent.is_stored(&known(4), &stored));
        sent.is_told_by_lease = true;
        assert!(!sent.is_stored(&known(4), &stored));
        assert!(sent.is_stored(&known(3), &stored));
        assert!(!sent.is_stored(&known(3), &Stored::new()));
    }
}
