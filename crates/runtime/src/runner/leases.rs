//! Keeps the leases of runs that go on: one task renews them all, as long as there are any.
//!
//! A run makes progress only while its caller asks for events; its lease must not depend on that.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use retain_core::{RunToken, SessionKey, SessionService};

/// The leases that are held.
#[derive(Debug)]
pub(super) struct Leases {
    sessions: Arc<dyn SessionService>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    tokens: HashMap<SessionKey, RunToken>,
    is_kept: bool,
}

/// The lease of one run. Dropping it lets it run out; give it back before.
#[derive(Debug)]
pub(super) struct HeldLease {
    leases: Arc<Leases>,
    key: SessionKey,
    pub(super) token: RunToken,
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        let mut held = self.leases.lock();
        if held.tokens.get(&self.key) == Some(&self.token) {
            held.tokens.remove(&self.key);
        }
    }
}

/// Notes that the task is gone, whatever ended it.
struct Keeping(Weak<Leases>);

impl Drop for Keeping {
    fn drop(&mut self) {
        if let Some(leases) = self.0.upgrade() {
            leases.lock().is_kept = false;
        }
    }
}

impl Leases {
    pub(super) fn new(sessions: Arc<dyn SessionService>) -> Arc<Leases> {
        Arc::new(Leases {
            sessions,
            held: Mutex::default(),
        })
    }

    /// Holds the lease of a run until it is dropped.
    pub(super) fn hold(self: &Arc<Leases>, key: &SessionKey, token: RunToken) -> HeldLease {
        let was_kept = {
            let mut held = self.lock();
            held.tokens.insert(key.clone(), token);
            std::mem::replace(&mut held.is_kept, true)
        };
        if !was_kept {
            // A runtime that shuts down drops the task at once, so the lock must be free here.
            tokio::spawn(keep(Keeping(Arc::downgrade(self)), self.period()));
        }
        HeldLease {
            leases: Arc::clone(self),
            key: key.clone(),
            token,
        }
    }

    fn period(&self) -> Duration {
        let ttl = self.sessions.log().map(|log| log.run_ttl());
        ttl.unwrap_or(Duration::from_secs(30)) / 3
    }

    async fn renew_all(&self) {
        let Some(log) = self.sessions.log() else {
            return;
        };
        let held: Vec<_> = self.lock().tokens.clone().into_iter().collect();
        for (key, token) in held {
            if let Err(error) = log.renew_run(&key, token).await {
                // The run's next write will say so if it matters.
                tracing::warn!(session = %key, %error, "a run could not be prolonged");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews until nothing is held.
async fn keep(keeping: Keeping, period: Duration) {
    loop {
        tokio::time::sleep(period).await;
        let Some(leases) = keeping.0.upgrade() else {
            return;
        };
        if leases.lock().tokens.is_empty() {
            return;
        }
        leases.renew_all().await;
    }
}
