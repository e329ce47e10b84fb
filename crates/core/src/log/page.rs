//! Reads a log page by page, with a limit on the bytes of a page, and counts each page against the
//! budget of the request that reads it.

use std::sync::Arc;

use crate::{
    budget::{BudgetUse, Meter},
    error::{Result, SessionError},
    event::Event,
    session::{SessionKey, Window},
    store::{ReadDetail, SessionStore},
};

/// Maximum number of events in a page.
const EVENTS: usize = 256;

/// Size of a page as JSON. An event that is larger has a page for itself.
const BYTES: usize = 64 * 1024;

/// Estimated memory of a page, reserved before it is read.
const COST: usize = 4 * BYTES;

/// Reads pages of one log.
pub(super) struct Pager<S> {
    store: Arc<S>,
    key: SessionKey,
    /// The last position that was read.
    position: u64,
    /// The incarnation of the session. A later session with the same id has another one.
    incarnation: Option<u64>,
    /// Counts the last page, until the next one is read.
    meter: Meter,
}

impl<S: SessionStore> Pager<S> {
    /// Pages after `position`. They count against the budget of the current request.
    pub(super) fn new(store: Arc<S>, key: SessionKey, position: u64) -> Pager<S> {
        Pager {
            store,
            key,
            position,
            incarnation: None,
            meter: Meter::part(BudgetUse::Streams),
        }
    }

    /// Fails if the session is not the one of this incarnation.
    pub(super) fn with_incarnation(mut self, incarnation: u64) -> Pager<S> {
        self.incarnation = Some(incarnation);
        self
    }

    /// Reads the next page. It is empty at the end of the log. Waits while the budget is used up,
    /// because a stream that has begun must not fail.
    pub(super) async fn next(&mut self) -> Result<Vec<(u64, Arc<Event>)>> {
        self.meter = self.meter.renew();
        while let Err(error) = self.meter.prepay(COST).await
            && error.needed <= error.limit
        {}
        // One event may be larger than a page.
        self.meter.admit();
        let window = Window::page(self.position, EVENTS, BYTES);
        let read = self.store.read(&self.key, window, ReadDetail::EventsOnly);
        let read = self.meter.scope(read).await?;
        self.meter.settle();
        let read = read.filter(|read| {
            self.incarnation.get_or_insert(read.head.incarnation) == &read.head.incarnation
        });
        let read = read.ok_or_else(|| SessionError::not_found(&self.key))?;
        if let Some((last, _)) = read.events.last() {
            self.position = *last;
        }
        Ok(read.events)
    }

    /// Releases the last page and waits until the session changes.
    pub(super) async fn wait(&mut self) {
        self.meter = self.meter.renew();
        self.store.changed(&self.key, self.position).await;
    }
}
