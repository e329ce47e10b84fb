//! Renews the leases of active runs: one task renews all of them as long as there are any.
//!
//! A run makes progress only while its caller asks for events, and its lease must not depend on
//! that. If a run makes no progress for too long, its lease expires.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use retain_core::{RunToken, SessionKey, SessionLog};

use crate::error::error_kind;

/// The leases that runs hold.
#[derive(Debug)]
pub(crate) struct Leases {
    log: Arc<dyn SessionLog>,
    idle_limit: Duration,
    held: Mutex<LeaseTable>,
}

#[derive(Debug, Default)]
struct LeaseTable {
    leases: HashMap<SessionKey, (RunToken, Arc<IdleSince>)>,
    is_renewing: bool,
}

/// The time since which a run has made no progress: its caller has not asked for the next event, or
/// something in it blocks its thread.
#[derive(Debug, Default)]
pub(crate) struct IdleSince(Mutex<Option<Instant>>);

impl IdleSince {
    /// Starts the idle time, because the caller has received an event or the run is about to be
    /// polled.
    pub(crate) fn begin(&self) {
        *self.lock() = Some(Instant::now());
    }

    /// Ends the idle time, because the caller has asked for an event or the poll has returned.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    fn is_longer_than(&self, limit: Duration) -> bool {
        self.lock().is_some_and(|since| since.elapsed() > limit)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run's lease. Release it before dropping it, or it blocks the session until it expires.
#[derive(Debug)]
pub(crate) struct HeldLease {
    leases: Arc<Leases>,
    key: SessionKey,
    pub(crate) token: RunToken,
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        let mut held = self.leases.lock();
        let is_this = |(token, _): &(RunToken, Arc<IdleSince>)| *token == self.token;
        if held.leases.get(&self.key).is_some_and(is_this) {
            held.leases.remove(&self.key);
        }
    }
}

impl Leases {
    pub(crate) fn new(log: Arc<dyn SessionLog>, idle_limit: Duration) -> Arc<Leases> {
        Arc::new(Leases {
            log,
            idle_limit,
            held: Mutex::default(),
        })
    }

    /// Renews a run's lease until the returned guard is dropped.
    pub(crate) fn hold(
        self: &Arc<Leases>,
        key: &SessionKey,
        token: RunToken,
        idle: &Arc<IdleSince>,
    ) -> HeldLease {
        let was_renewing = {
            let mut held = self.lock();
            held.leases.insert(key.clone(), (token, Arc::clone(idle)));
            std::mem::replace(&mut held.is_renewing, true)
        };
        if !was_renewing {
            let renewal = renew_until_empty(RenewalTask::new(self), self.period());
            // Spawn on the runner's own threads, so that a tool that blocks its thread does not
            // stop the renewals. Do not hold the lock here: a runtime that shuts down drops the
            // task immediately, and dropping the task takes the lock.
            match crate::runner::own_runtime() {
                Ok(runtime) => drop(runtime.spawn(renewal)),
                Err(_) => drop(tokio::spawn(renewal)),
            }
        }
        HeldLease {
            leases: Arc::clone(self),
            key: key.clone(),
            token,
        }
    }

    /// Returns the number of leases.
    pub(crate) fn count(&self) -> usize {
        self.lock().leases.len()
    }

    fn period(&self) -> Duration {
        self.log.run_ttl() / 3
    }

    async fn renew_all(&self) {
        let held: Vec<_> = self.lock().leases.clone().into_iter().collect();
        for (key, (token, idle)) in held {
            if idle.is_longer_than(self.idle_limit) {
                continue;
            }
            if let Err(error) = self.log.renew_run(&key, token).await {
                // If the lease is lost, the run's next append fails.
                tracing::warn!(kind = error_kind(&error), "failed to renew a run's lease");
                let error = error.to_string();
                tracing::debug!(session = ?key, ?error, "failed to renew a run's lease");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LeaseTable> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of the renewal task. Dropping it before the task is done starts a new task.
struct RenewalTask {
    leases: Weak<Leases>,
    is_done: bool,
}

impl RenewalTask {
    fn new(leases: &Arc<Leases>) -> RenewalTask {
        RenewalTask {
            leases: Arc::downgrade(leases),
            is_done: false,
        }
    }

    /// Whether no lease is left. If so, the next lease starts a new task.
    fn is_done(&mut self, leases: &Leases) -> bool {
        let mut held = leases.lock();
        self.is_done = held.leases.is_empty();
        held.is_renewing = !self.is_done;
        self.is_done
    }
}

impl Drop for RenewalTask {
    fn drop(&mut self) {
        let Some(leases) = self.leases.upgrade().filter(|_| !self.is_done) else {
            return;
        };
        // The task's runtime has shut down, but runs on other runtimes continue.
        match crate::runner::own_runtime() {
            Ok(runtime) => drop(runtime.spawn(renew_until_empty(
                RenewalTask::new(&leases),
                leases.period(),
            ))),
            Err(_) => leases.lock().is_renewing = false,
        }
    }
}

/// Renews until no lease is left.
async fn renew_until_empty(mut task: RenewalTask, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let Some(leases) = task.leases.upgrade() else {
            return;
        };
        if task.is_done(&leases) {
            return;
        }
        leases.renew_all().await;
    }
}
