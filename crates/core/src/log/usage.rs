//! Quotas of sessions and events: reserves room for a write, and counts what it has stored.

use std::sync::Arc;

use super::StoreSessionService;
use crate::{
    error::{Result, SessionError},
    event::Event,
    quota::{QuotaExceeded, QuotaKind, QuotaMeter, QuotaReservation, Quotas, Usage},
    session::SessionKey,
    store::{AppendOutcome, Batch, SessionStore},
};

/// The kinds that a session service counts.
const KINDS: [QuotaKind; 3] = [
    QuotaKind::Sessions,
    QuotaKind::Events,
    QuotaKind::EventBytes,
];

impl<S: SessionStore> StoreSessionService<S> {
    /// Limits how many sessions, events and bytes of events a user and an app may store. By
    /// default there is no limit, and counting costs nothing.
    ///
    /// An append that does not fit stores nothing. Writes of other processes on the same store are
    /// seen after at most two seconds, so several processes together may exceed a quota by what
    /// they write in that time.
    pub fn with_quotas(mut self, quotas: Quotas) -> Self {
        Arc::make_mut(&mut self.settings).quotas = QuotaMeter::new(&quotas, &KINDS);
        self
    }

    /// Reserves room for `wanted`, or as much as is left; `None` without quotas.
    async fn reserve(&self, key: &SessionKey, wanted: Usage) -> Result<Option<QuotaReservation>> {
        let Some(meter) = &self.settings.quotas else {
            return Ok(None);
        };
        let load = |user| self.store.usage(&key.app, user);
        let clock = &*self.settings.clock;
        let reserved = meter.reserve(clock, &key.app, &key.user, wanted, load);
        reserved.await.map(Some)
    }

    /// Reserves room for `wanted`, or fails.
    pub(super) async fn reserve_all(
        &self,
        key: &SessionKey,
        wanted: Usage,
    ) -> Result<RoomForWrite> {
        let reservation = self.reserve(key, wanted).await?;
        if let Some(reserved) = &reservation
            && let Err(error) = reserved.require_all()
        {
            return Err(self.reject(error));
        }
        Ok(RoomForWrite {
            reservation,
            wanted,
        })
    }

    /// Whether bytes of events have a quota, so that they must be counted before a fork.
    pub(super) fn limits_event_bytes(&self) -> bool {
        let meter = self.settings.quotas.as_ref();
        meter.is_some_and(|meter| !meter.quotas().are_unlimited(&[QuotaKind::EventBytes]))
    }

    /// Passes a batch to the store. Every append goes through here.
    pub(super) async fn append_within_quotas(
        &self,
        key: &SessionKey,
        batch: &mut Arc<Batch>,
    ) -> Result<AppendOutcome> {
        let wanted = Usage::of_events(&batch.events);
        let Some(mut reservation) = self.reserve(key, wanted).await? else {
            return self.store.append(key, batch).await;
        };
        // Only the store knows which events are new, so it decides if not all of them would fit.
        if batch.rooms != reservation.rooms() {
            Arc::make_mut(batch).rooms = reservation.rooms().to_vec();
        }
        reservation.begin_write();
        let written = self.store.append(key, batch).await;
        match &written {
            Ok(AppendOutcome::Done { events, .. }) => reservation.settle(new_events(batch, events)),
            // The outcome is unknown; the next load tells it.
            Err(SessionError::Store { .. }) => drop(reservation),
            Ok(AppendOutcome::Busy { .. }) | Err(_) => reservation.settle(Usage::default()),
        }
        match written {
            Err(SessionError::QuotaExceeded(error)) => Err(self.reject(error)),
            written => written,
        }
    }

    /// Records that data of a user was deleted.
    pub(super) fn record_deletion(&self, app: &str, user: &str) {
        if let Some(meter) = &self.settings.quotas {
            meter.record_deletion(app, user);
        }
    }

    /// Records that expired sessions were deleted.
    pub(super) fn record_sweep(&self) {
        if let Some(meter) = &self.settings.quotas {
            meter.record_deletions();
        }
    }

    fn reject(&self, error: QuotaExceeded) -> SessionError {
        if let Some(meter) = &self.settings.quotas {
            meter.quotas().count_rejection(&error);
        }
        error.into()
    }
}

/// Returns what the new events of a batch add. A store returns a new event as the batch's own.
fn new_events(batch: &Batch, stored: &[(u64, Arc<Event>)]) -> Usage {
    let pairs = batch.events.iter().zip(stored);
    let new = pairs.filter(|(new, (_, stored))| Arc::ptr_eq(&new.event, stored));
    Usage::of_events(new.map(|(new, _)| new))
}

/// Room for a write of known size. Dropping it gives the room back.
#[derive(Debug)]
pub(super) struct RoomForWrite {
    reservation: Option<QuotaReservation>,
    wanted: Usage,
}

impl RoomForWrite {
    /// Counts what was written.
    pub(super) fn settle(self) {
        if let Some(reservation) = self.reservation {
            reservation.settle(self.wanted);
        }
    }
}
