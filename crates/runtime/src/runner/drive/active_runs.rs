//! Number of active runs, including queued ones.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A counter of runs. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct GoingOn(Arc<AtomicUsize>);

/// Counts as one run until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(GoingOn);

impl GoingOn {
    pub(crate) fn enter(&self) -> Counted {
        self.0.fetch_add(1, Ordering::AcqRel);
        Counted(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
