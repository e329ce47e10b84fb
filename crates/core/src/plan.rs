//! Decides what a store does with a batch. Every store calls this inside its transaction, so that
//! all stores behave alike.

use std::{collections::HashMap, sync::Arc};

use crate::{
    error::{Conflict, Result, SessionError},
    event::Event,
    lease::{Admission, Lease, LeaseUse},
    quota::{Usage, check_rooms},
    session::SessionKey,
    store::Batch,
};

/// The stored facts about a session that determine the plan for a batch.
#[derive(Debug, Clone, Copy)]
pub struct SessionStatus<'a> {
    /// The session.
    pub key: &'a SessionKey,
    /// A number that distinguishes this session from earlier ones with the same address.
    pub incarnation: u64,
    /// The last position of its log.
    pub position: u64,
    /// Its lease.
    pub lease: Lease,
    /// The oldest live ticket in the queue for the lease.
    pub first_ticket: Option<&'a str>,
    /// The current time by the store's clock, in microseconds.
    pub now_us: i64,
}

/// The decision about a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Write the events listed in `fresh` at their positions, and write the lease.
    Write {
        /// The events of the batch as the log will hold them, with their positions. For a repeated
        /// event, the one that was stored first.
        events: Vec<(u64, Arc<Event>)>,
        /// Indexes of the new events in the batch.
        fresh: Vec<usize>,
        /// The lease after the write.
        lease: Lease,
        /// The run token to return to the caller.
        token: Option<u64>,
        /// The time from which the session's TTL now counts, in microseconds. `None` if it does not
        /// change, because the batch has no new events.
        touched_us: Option<i64>,
    },
    /// Write only the caller's ticket, if it has one.
    Busy {
        /// When the holder's lease expires.
        until_us: i64,
    },
}

/// Plans the append of `batch`. `stored` looks up an event of the session by its id.
pub fn plan_append(
    status: SessionStatus<'_>,
    batch: &Batch,
    mut stored: impl FnMut(&str) -> Result<Option<(u64, Arc<Event>)>>,
) -> Result<Plan> {
    if batch
        .incarnation
        .is_some_and(|incarnation| incarnation != status.incarnation)
    {
        return Err(SessionError::not_found(status.key));
    }
    let mut events: Vec<(u64, Arc<Event>)> = Vec::with_capacity(batch.events.len());
    let mut fresh = Vec::new();
    let mut in_batch: HashMap<&str, usize> = HashMap::new();
    for (index, new) in batch.events.iter().enumerate() {
        let id = new.event.id.as_str();
        if let Some(&earlier) = in_batch.get(id) {
            let (position, event) = events[earlier].clone();
            new.check_repeat(status.key, position, &event)?;
            events.push((position, event));
        } else if let Some((position, event)) = match new.id_given {
            true => stored(id)?,
            // A generated id cannot be in the log yet, so skip the lookup.
            false => None,
        } {
            new.check_repeat(status.key, position, &event)?;
            events.push((position, event));
        } else {
            let position = status.position + 1 + fresh.len() as u64;
            events.push((position, Arc::clone(&new.event)));
            fresh.push(index);
        }
        // Most batches hold one event and need no map.
        if batch.events.len() > 1 {
            in_batch.entry(id).or_insert(index);
        }
    }
    let is_repeat = fresh.is_empty() && !batch.events.is_empty();
    // A repeated append that begins a run needs a token, so it waits for the lease like any other.
    let begins = matches!(batch.lease, LeaseUse::Take { ttl: Some(_), .. });
    let admission = status
        .lease
        .admit(&batch.lease, status.first_ticket, status.now_us);
    match admission {
        Admission::Granted { lease, token } => {
            if !is_repeat {
                check_expected(status, batch)?;
                let new = fresh.iter().map(|&index| &batch.events[index]);
                check_rooms(&batch.rooms, Usage::of_events(new))?;
            }
            let touched_us = (!fresh.is_empty()).then_some(status.now_us);
            Ok(Plan::Write {
                events,
                fresh,
                lease,
                token,
                touched_us,
            })
        }
        // Every event is in the log already, so losing the lease does not make the append fail.
        Admission::Busy { .. } | Admission::Lost if is_repeat && !begins => Ok(Plan::Write {
            events,
            fresh,
            lease: status.lease,
            token: None,
            touched_us: None,
        }),
        Admission::Busy { until_us } => Ok(Plan::Busy { until_us }),
        Admission::Lost => Err(lost(status.key, &batch.lease)),
    }
}

/// Decides whether a lease may be renewed or released without an append.
pub fn plan_renewal(status: SessionStatus<'_>, wanted: &LeaseUse) -> Result<Lease> {
    match (status.lease.admit(wanted, None, status.now_us), wanted) {
        (Admission::Granted { lease, .. }, _) => Ok(lease),
        // Releasing a lease twice succeeds if no other run has taken it since.
        (Admission::Lost, LeaseUse::Hold { token, ttl: None })
            if Some(status.lease.token) == token.checked_add(1) && status.lease.until_us == 0 =>
        {
            Ok(status.lease)
        }
        (Admission::Busy { .. } | Admission::Lost, _) => Err(lost(status.key, wanted)),
    }
}

fn check_expected(status: SessionStatus<'_>, batch: &Batch) -> Result<()> {
    match batch.expected {
        Some(expected) if expected != status.position => Err(SessionError::Conflict {
            key: status.key.clone(),
            conflict: Conflict::Position {
                expected,
                found: status.position,
            },
        }),
        _ => Ok(()),
    }
}

fn lost(key: &SessionKey, wanted: &LeaseUse) -> SessionError {
    let token = match wanted {
        LeaseUse::Hold { token, .. } => *token,
        LeaseUse::Outside | LeaseUse::Take { .. } => 0,
    };
    SessionError::RunLost {
        key: key.clone(),
        token,
    }
}
