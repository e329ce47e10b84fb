//! Helpers of all sections: pairs of stores, pages of long lists, and adaptive batch sizes.

use std::sync::Arc;

use futures_util::{StreamExt as _, future::BoxFuture, stream, stream::BoxStream};

use super::{
    Side,
    outcome::{MigrationObserver, Result},
};

/// Number of addresses per page.
pub(super) const PAGE: usize = 256;

/// The source store, the target store, and the observer that receives progress reports.
#[derive(Debug)]
pub(super) struct StorePair<S: ?Sized> {
    pub(super) from: Arc<S>,
    pub(super) to: Arc<S>,
    pub(super) observer: Arc<dyn MigrationObserver>,
}

impl<S: ?Sized> Clone for StorePair<S> {
    fn clone(&self) -> StorePair<S> {
        StorePair {
            from: Arc::clone(&self.from),
            to: Arc::clone(&self.to),
            observer: Arc::clone(&self.observer),
        }
    }
}

impl<S: ?Sized> StorePair<S> {
    /// Pairs the stores of both sides. If the target has no such store, `to` is the source, which
    /// is then only surveyed.
    pub(super) fn new(
        from: &Arc<S>,
        to: Option<&Arc<S>>,
        observer: &Arc<dyn MigrationObserver>,
    ) -> StorePair<S> {
        StorePair {
            from: Arc::clone(from),
            to: Arc::clone(to.unwrap_or(from)),
            observer: Arc::clone(observer),
        }
    }

    pub(super) fn at(&self, side: Side) -> &Arc<S> {
        match side {
            Side::Source => &self.from,
            Side::Target => &self.to,
        }
    }
}

/// Streams the pages of a list. Each page starts after the last entry of the page before.
pub(super) fn pages<'a, T: Clone + Send + 'a>(
    next: impl Fn(Option<T>) -> BoxFuture<'a, Result<Vec<T>>> + Send + 'a,
) -> BoxStream<'a, Result<Vec<T>>> {
    let pages = stream::try_unfold((None, next), |(after, next)| async move {
        let page = next(after).await?;
        let last = page.last().cloned();
        Ok(last.map(|last| (page, (Some(last), next))))
    });
    pages.boxed()
}

/// An adaptive batch size that keeps batches fast and small in memory.
#[derive(Debug)]
pub(crate) struct BatchSize {
    step: usize,
}

impl BatchSize {
    /// Approximate target size of a batch in bytes.
    const BYTES: usize = 4 * 1024 * 1024;
    const STEP_MAX: usize = 512;

    /// Starts small, because the record size is unknown.
    pub(crate) fn new() -> BatchSize {
        BatchSize { step: 8 }
    }

    pub(crate) fn step(&self) -> usize {
        self.step
    }

    /// Adapts to the size of the last batch.
    pub(crate) fn adapt(&mut self, records: usize, bytes: usize) {
        if let Some(size) = bytes.checked_div(records) {
            let fitting = BatchSize::BYTES / size.max(1);
            let max = (self.step * 4).min(BatchSize::STEP_MAX);
            self.step = fitting.clamp(1, max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_size_adapts_to_the_size_of_records() {
        let mut batch_size = BatchSize::new();
        for _ in 0..5 {
            batch_size.adapt(batch_size.step(), 100 * batch_size.step());
        }
        assert_eq!(batch_size.step(), BatchSize::STEP_MAX);
        batch_size.adapt(2, 4 * BatchSize::BYTES);
        assert_eq!(batch_size.step(), 1);
        batch_size.adapt(0, 0);
        assert_eq!(batch_size.step(), 1);
        batch_size.adapt(1, 10);
        assert_eq!(batch_size.step(), 4);
    }
}
