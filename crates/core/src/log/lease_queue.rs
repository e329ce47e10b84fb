//! The queue for the lease of a session: an append that begins a run waits here.
//!
//! Waiters of one process queue in memory, in order. The first of them asks the store for the
//! lease, and leaves a ticket there if another process is ahead. The append of the run's first
//! events takes the lease, so a run without contention costs no extra write.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};

use super::StoreSessionService;
use crate::{
    error::{Result, SessionError},
    lease::LeaseUse,
    maintenance::PendingWork,
    service::{RunOptions, RunToken},
    session::SessionKey,
    store::{AppendOutcome, Batch, LeaseUpdate, SessionStore},
};

/// Interval at which a waiter asks the store again. A change by another process might not wake it.
const POLL: Duration = Duration::from_millis(50);

/// Longest possible wait, so that deadlines do not overflow.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// The queues of this process: one for each session with runs that wait for its lease.
#[derive(Debug, Default)]
pub(super) struct LeaseQueues(Mutex<HashMap<SessionKey, Arc<Semaphore>>>);

/// The head of a queue. Dropping it admits the next waiter.
struct QueueHead<'a> {
    queues: &'a LeaseQueues,
    key: SessionKey,
    permit: Option<OwnedSemaphorePermit>,
}

impl LeaseQueues {
    /// Waits until this caller is first in the queue of its process.
    async fn reach_head(&self, key: &SessionKey) -> QueueHead<'_> {
        // Tokio's semaphore is fair: it grants permits in the order of the requests.
        let new_queue = || Arc::new(Semaphore::new(1));
        let queue = Arc::clone(self.lock().entry(key.clone()).or_insert_with(new_queue));
        let mut head = QueueHead {
            queues: self,
            key: key.clone(),
            permit: None,
        };
        // The semaphore is never closed.
        head.permit = queue.acquire_owned().await.ok();
        head
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Arc<Semaphore>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueueHead<'_> {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut queues = self.queues.lock();
        // Only the map refers to the queue, so no caller waits in it.
        if queues
            .get(&self.key)
            .is_some_and(|queue| Arc::strong_count(queue) == 1)
        {
            queues.remove(&self.key);
        }
    }
}

/// A waiter's ticket in the store's queue. Dropping it withdraws the ticket.
struct Ticket<S: SessionStore> {
    store: Arc<S>,
    key: SessionKey,
    id: String,
    /// Whether the store may hold the ticket, so that it must be withdrawn.
    is_queued: bool,
}

impl<S: SessionStore> Ticket<S> {
    async fn withdraw(mut self) -> Result<()> {
        if !std::mem::take(&mut self.is_queued) {
            return Ok(());
        }
        let ticket = std::mem::take(&mut self.id);
        let update = LeaseUpdate::Withdraw { ticket };
        self.store.update_lease(&self.key, &update).await
    }
}

impl<S: SessionStore> Drop for Ticket<S> {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Handle::try_current();
        if let Ok(runtime) = runtime
            && self.is_queued
        {
            let (store, key) = (Arc::clone(&self.store), self.key.clone());
            let ticket = std::mem::take(&mut self.id);
            let update = LeaseUpdate::Withdraw { ticket };
            // If this fails, the ticket expires.
            runtime.spawn(async move { store.update_lease(&key, &update).await });
        }
    }
}

impl<S: SessionStore> StoreSessionService<S> {
    /// Waits until the session is free, then writes the batch and takes the lease for `ttl`.
    /// Without a `ttl` the same write releases the lease again.
    pub(super) async fn write_with_lease(
        &self,
        key: &SessionKey,
        batch: &mut Arc<Batch>,
        ttl: Option<Duration>,
        options: &RunOptions,
    ) -> Result<AppendOutcome> {
        options.check_not_nested(key)?;
        let started = Instant::now();
        let deadline = started + options.wait.min(WAIT_MAX);
        let busy = || SessionError::RunBusy {
            key: key.clone(),
            waited: started.elapsed(),
        };
        // The first attempt has no ticket, so that the store writes nothing if the session is busy.
        Arc::make_mut(batch).lease = LeaseUse::Take {
            ticket: String::new(),
            ttl,
        };
        if options.wait.is_zero() {
            return match self.append_within_quotas(key, batch).await? {
                AppendOutcome::Busy { .. } => Err(busy()),
                done => Ok(done),
            };
        }
        let head = pin!(timeout_at(deadline, self.lease_queues.reach_head(key)));
        // Poll the cancellation first: a run that is both cancelled and admitted must not begin.
        let _head = match select(pin!(options.cancel.cancelled()), head).await {
            Either::Left(_) => return Err(SessionError::Cancelled { key: key.clone() }),
            Either::Right((head, _)) => head.map_err(|_| busy())?,
        };
        let written = self.poll_for_lease(key, batch, ttl, options, deadline);
        written.await?.ok_or_else(busy)
    }

    /// Repeats the write until the store grants the lease. Returns `None` at the deadline.
    async fn poll_for_lease(
        &self,
        key: &SessionKey,
        batch: &mut Arc<Batch>,
        ttl: Option<Duration>,
        options: &RunOptions,
        deadline: Instant,
    ) -> Result<Option<AppendOutcome>> {
        let mut ticket = Ticket {
            store: Arc::clone(&self.store),
            key: key.clone(),
            id: self.settings.ids.new_id(),
            is_queued: false,
        };
        loop {
            if let Err(cancelled) = options.check_not_cancelled(key) {
                ticket.withdraw().await?;
                return Err(cancelled);
            }
            let (until_us, now_us) = match self.append_within_quotas(key, batch).await {
                Ok(AppendOutcome::Busy { until_us, now_us }) => (until_us, now_us),
                Ok(done) => {
                    ticket.is_queued = false;
                    return Ok(Some(done));
                }
                Err(error) => {
                    // A caller that retries must not queue behind its own ticket.
                    let _ = ticket.withdraw().await;
                    return Err(error);
                }
            };
            if Instant::now() >= deadline {
                ticket.withdraw().await?;
                return Ok(None);
            }
            Arc::make_mut(batch).lease = LeaseUse::Take {
                ticket: ticket.id.clone(),
                ttl,
            };
            ticket.is_queued = true;
            let until_free = match until_us.saturating_sub(now_us) {
                // The lease is free, but another caller's ticket is older.
                ..=0 => POLL,
                us => Duration::from_micros(us.unsigned_abs()).min(POLL),
            };
            let pause = until_free.min(deadline - Instant::now());
            self.wait_for_change(key, options, pause).await;
        }
    }

    /// Waits until the session changes, the run is cancelled or the pause is over.
    async fn wait_for_change(&self, key: &SessionKey, options: &RunOptions, pause: Duration) {
        let changed = pin!(self.store.changed(key, u64::MAX));
        let cancelled = pin!(options.cancel.cancelled());
        let _ = timeout(pause, select(cancelled, changed)).await;
    }

    /// Takes the lease for a run that has nothing to write yet.
    pub(super) async fn take_lease(
        &self,
        key: &SessionKey,
        options: &RunOptions,
    ) -> Result<RunToken> {
        let mut batch = Arc::new(Batch {
            events: Vec::new(),
            incarnation: None,
            expected: None,
            lease: LeaseUse::Outside,
            pending_work: PendingWork::NONE,
            state_bytes_max: self.settings.limits.state_bytes,
            rooms: Vec::new(),
        });
        let ttl = Some(self.settings.run_ttl);
        match self.write_with_lease(key, &mut batch, ttl, options).await? {
            AppendOutcome::Done {
                token: Some(token), ..
            } => Ok(RunToken(token)),
            _ => Err(SessionError::not_found(key)),
        }
    }
}
