//! Decides what a store does with a batch. Every store calls this inside its transaction, so that
//! all stores behave alike.

use std::{collections::HashMap, sync::Arc};

use crate::{
    error::{Conflict, Result, SessionError},
    event::Event,
    lease::{Admission, Lease, LeaseUse},
    session::SessionKey,
    store::Batch,
};

/// The stored facts about a session that determine the plan for a batch.
#[derive(Debug, Clone, Copy)]
pub struct SessionStatus<'a> {
    /// The session.
    pub key: &'a SessionKey,
    /// Tells this session from earlier ones with the same address.
    pub incarnation: u64,
    /// The last position of its log.
    pub position: u64,
    /// Its lease.
    pub lease: Lease,
    /// The oldest live ticket in the queue for the lease.
    pub first_ticket: Option<&'a str>,
    /// The store's clock.
    pub now_us: i64,
}

/// The decision about a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Write the events listed in `fresh` at their positions, and write the lease.
    Write {
        /// Each event of the batch as the log will hold it, with its position. A repeated event is
        /// the one that was stored first.
        events: Vec<(u64, Arc<Event>)>,
        /// Indexes of the new events in the batch.
        fresh: Vec<usize>,
        /// The lease after the write.
        lease: Lease,
        /// The run token to return to the caller.
        token: Option<u64>,
    },
    /// Write nothing but the caller's ticket, if it has one.
    Busy {
        /// When the holder's lease expires.
        until_us: i64,
    },
}

/// Plans the append of `batch`. `stored` looks up an event of the session by its id.
pub fn plan_append(
    standing: SessionStatus<'_>,
    batch: &Batch,
    mut stored: impl FnMut(&str) -> Result<Option<(u64, Arc<Event>)>>,
) -> Result<Plan> {
    if batch
        .incarnation
        .is_some_and(|meant| meant != standing.incarnation)
    {
        return Err(SessionError::not_found(standing.key));
    }
    let mut events: Vec<(u64, Arc<Event>)> = Vec::with_capacity(batch.events.len());
    let mut fresh = Vec::new();
    let mut in_batch: HashMap<&str, usize> = HashMap::new();
    for (place, new) in batch.events.iter().enumerate() {
        let id = new.event.id.as_str();
        if let Some(&earlier) = in_batch.get(id) {
            let (position, event) = events[earlier].clone();
            new.check_repeat(standing.key, position, &event)?;
            events.push((position, event));
        } else if let Some((position, event)) = match new.id_given {
            true => stored(id)?,
            // A generated id cannot be in the log yet, so skip the lookup.
            false => None,
        } {
            new.check_repeat(standing.key, position, &event)?;
            events.push((position, event));
        } else {
            let position = standing.position + 1 + fresh.len() as u64;
            events.push((position, Arc::clone(&new.event)));
            fresh.push(place);
        }
        // Most batches hold one event and need no map.
        if batch.events.len() > 1 {
            in_batch.entry(id).or_insert(place);
        }
    }
    let is_repeat = fresh.is_empty() && !batch.events.is_empty();
    // A repeated append that begins a run needs a token, so it waits for the lease like any other.
    let begins = matches!(batch.lease, LeaseUse::Take { ttl: Some(_), .. });
    let admission = standing
        .lease
        .admit(&batch.lease, standing.first_ticket, standing.now_us);
    match admission {
        Admission::Granted { lease, token } => {
            if !is_repeat {
                check_expected(standing, batch)?;
            }
            Ok(Plan::Write {
                events,
                fresh,
                lease,
                token,
            })
        }
        // Every event is in the log already, so losing the lease does not make the append fail.
        Admission::Busy { .. } | Admission::Lost if is_repeat && !begins => Ok(Plan::Write {
            events,
            fresh,
            lease: standing.lease,
            token: None,
        }),
        Admission::Busy { until_us } => Ok(Plan::Busy { until_us }),
        Admission::Lost => Err(lost(standing.key, &batch.lease)),
    }
}

/// Decides whether a lease may be renewed or released without an append.
pub fn plan_renewal(standing: SessionStatus<'_>, wanted: &LeaseUse) -> Result<Lease> {
    match (standing.lease.admit(wanted, None, standing.now_us), wanted) {
        (Admission::Granted { lease, .. }, _) => Ok(lease),
        // Releasing a lease twice succeeds if no other run has taken it since.
        (Admission::Lost, LeaseUse::Hold { token, ttl: None })
            if Some(standing.lease.token) == token.checked_add(1)
                && standing.lease.until_us == 0 =>
        {
            Ok(standing.lease)
        }
        (Admission::Busy { .. } | Admission::Lost, _) => Err(lost(standing.key, wanted)),
    }
}

fn check_expected(standing: SessionStatus<'_>, batch: &Batch) -> Result<()> {
    match batch.expected {
        Some(expected) if expected != standing.position => Err(SessionError::Conflict {
            key: standing.key.clone(),
            conflict: Conflict::Position {
                expected,
                found: standing.position,
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
