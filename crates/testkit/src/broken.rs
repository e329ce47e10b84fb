//! Stores that are broken on purpose, to prove that the checkers detect each fault.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use retain_core::{AppendOutcome, Batch, Snapshot};

use crate::wrapper::StoreInterceptor;

/// The fault that a broken store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An append is acknowledged but an event is not stored.
    DropsAnEvent,
    /// Two events of a batch are stored in the wrong order.
    SwapsTwoEvents,
    /// A read returns an event twice.
    DoublesAnEvent,
    /// A session state key that an event sets is not stored.
    ForgetsAStateKey,
    /// A user state key that an event sets is not stored.
    ForgetsASharedKey,
    /// A read returns an earlier snapshot.
    ShowsThePast,
    /// The state of a read is older than its events.
    TearsReads,
    /// The expected position is not compared.
    IgnoresThePosition,
    /// The caller gets a position that differs from the stored one.
    TellsAnotherPosition,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 9] = [
        Fault::DropsAnEvent,
        Fault::SwapsTwoEvents,
        Fault::DoublesAnEvent,
        Fault::ForgetsAStateKey,
        Fault::ForgetsASharedKey,
        Fault::ShowsThePast,
        Fault::TearsReads,
        Fault::IgnoresThePosition,
        Fault::TellsAnotherPosition,
    ];
}

/// Injects a fault at regular intervals.
#[derive(Debug)]
pub struct FaultInjector {
    fault: Fault,
    every: u64,
    opportunities: AtomicU64,
    past: Mutex<Option<Snapshot>>,
}

impl FaultInjector {
    /// Injects `fault` at every `every`th opportunity.
    pub fn new(fault: Fault, every: u64) -> FaultInjector {
        FaultInjector {
            fault,
            every,
            opportunities: AtomicU64::new(0),
            past: Mutex::new(None),
        }
    }

    /// Whether to inject `fault` now; counts the opportunity if it is one.
    fn should_inject(&self, fault: Fault, is_opportunity: bool) -> bool {
        let is_opportunity = self.fault == fault && is_opportunity;
        is_opportunity
            && self.opportunities.fetch_add(1, Ordering::SeqCst) % self.every == self.every - 1
    }

    /// Returns the snapshot recorded for this session. If there is none, records `snapshot`.
    fn earlier_snapshot(&self, snapshot: &Snapshot) -> Option<Snapshot> {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let known = past
            .clone()
            .filter(|past| past.head.key == snapshot.head.key);
        if known.is_none() {
            *past = Some(snapshot.clone());
        }
        known
    }
}

impl StoreInterceptor for FaultInjector {
    fn before_append(&self, batch: &Batch) -> Option<Batch> {
        let mut broken = batch.clone();
        let last = broken.events.len().checked_sub(1)?;
        let changes = &batch.events[last].changes;
        if self.should_inject(Fault::DropsAnEvent, last > 0) {
            broken.events.pop();
        } else if self.should_inject(Fault::SwapsTwoEvents, last > 0) {
            broken.events.swap(0, last);
        } else if self.should_inject(Fault::ForgetsAStateKey, !changes.session.is_empty()) {
            broken.events[last].changes.session.clear();
        } else if self.should_inject(Fault::ForgetsASharedKey, !changes.user.is_empty()) {
            broken.events[last].changes.user = Default::default();
        } else if self.should_inject(Fault::IgnoresThePosition, batch.expected.is_some()) {
            broken.expected = None;
        } else {
            return None;
        }
        Some(broken)
    }

    fn after_append(&self, batch: &Batch, mut written: AppendOutcome) -> AppendOutcome {
        let AppendOutcome::Done { events, .. } = &mut written else {
            return written;
        };
        while events.len() < batch.events.len() {
            // Acknowledge a dropped event with the next position.
            let position = events.last().map_or(1, |(last, _)| last + 1);
            events.push((position, batch.events[events.len()].event.clone()));
        }
        if self.should_inject(Fault::TellsAnotherPosition, !events.is_empty()) {
            events[0].0 += 1;
        }
        written
    }

    fn after_read(&self, mut snapshot: Snapshot) -> Snapshot {
        let len = snapshot.events.len();
        let first = snapshot.events.first().map_or(0, |(position, _)| *position);
        if self.should_inject(Fault::DoublesAnEvent, len > 3 && first == 1) {
            let twice = snapshot.events[2].1.clone();
            snapshot.events.insert(2, (3, twice));
            for (place, (position, _)) in snapshot.events.iter_mut().enumerate() {
                *position = place as u64 + 1;
            }
            snapshot.head.position += 1;
        }
        let old = matches!(self.fault, Fault::ShowsThePast | Fault::TearsReads)
            && len > 3
            && first == 1
            && !snapshot.state.session.is_empty();
        if let Some(past) = old.then(|| self.earlier_snapshot(&snapshot)).flatten() {
            if self.should_inject(Fault::ShowsThePast, true) {
                return past;
            }
            if self.should_inject(Fault::TearsReads, true) {
                snapshot.state = past.state;
            }
        }
        snapshot
    }
}
