//! The active runs, including queued ones.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use retain_core::SessionKey;

use super::stop::StopSignal;

/// The runs of a runner. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveRuns(Arc<Mutex<RunTable>>);

#[derive(Debug, Default)]
struct RunTable {
    runs: HashMap<u64, (SessionKey, StopSignal)>,
    /// The number of the next run.
    next: u64,
}

/// Removes its run when it is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRunGuard {
    runs: ActiveRuns,
    number: u64,
}

impl ActiveRuns {
    pub(crate) fn enter(&self, key: &SessionKey, stop: &StopSignal) -> ActiveRunGuard {
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        table.runs.insert(number, (key.clone(), stop.clone()));
        ActiveRunGuard {
            runs: self.clone(),
            number,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().runs.len()
    }

    /// Cancels the runs of a user.
    pub(crate) fn cancel_user(&self, user: &str) {
        let table = self.lock();
        let of_user = table.runs.values().filter(|(key, _)| key.user == user);
        let stops: Vec<StopSignal> = of_user.map(|(_, stop)| stop.clone()).collect();
        // A cancellation may wake tasks, so release the lock before.
        drop(table);
        stops.iter().for_each(StopSignal::cancel);
    }

    fn lock(&self) -> MutexGuard<'_, RunTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveRunGuard {
    fn drop(&mut self) {
        self.runs.lock().runs.remove(&self.number);
    }
}
