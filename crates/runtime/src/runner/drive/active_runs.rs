//! The number of active runs, including queued ones.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A counter of runs. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveRuns(Arc<AtomicUsize>);

/// Counts as one run until it is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRunGuard(ActiveRuns);

impl ActiveRuns {
    pub(crate) fn enter(&self) -> ActiveRunGuard {
        self.0.fetch_add(1, Ordering::AcqRel);
        ActiveRunGuard(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for ActiveRunGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
