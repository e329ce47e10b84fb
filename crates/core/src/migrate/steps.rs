//! Helpers of all sections: both sides, pages of a long list, and adaptive batch sizes.

use std::sync::Arc;

use futures_util::{StreamExt as _, future::BoxFuture, stream, stream::BoxStream};

use super::{
    End,
    outcome::{MigrationWatch, Result},
};

/// Number of addresses per page.
pub(super) const PAGE: usize = 256;

/// The stores of both sides, and the receiver of the progress.
#[derive(Debug)]
pub(super) struct Ends<S: ?Sized> {
    pub(super) from: Arc<S>,
    pub(super) to: Arc<S>,
    pub(super) watch: Arc<dyn MigrationWatch>,
}

impl<S: ?Sized> Clone for Ends<S> {
    fn clone(&self) -> Ends<S> {
        Ends {
            from: Arc::clone(&self.from),
            to: Arc::clone(&self.to),
            watch: Arc::clone(&self.watch),
        }
    }
}

impl<S: ?Sized> Ends<S> {
    /// Without a target only the source is read.
    pub(super) fn of(
        from: &Arc<S>,
        to: Option<&Arc<S>>,
        watch: &Arc<dyn MigrationWatch>,
    ) -> Ends<S> {
        Ends {
            from: Arc::clone(from),
            to: Arc::clone(to.unwrap_or(from)),
            watch: Arc::clone(watch),
        }
    }

    pub(super) fn at(&self, end: End) -> &Arc<S> {
        match end {
            End::Source => &self.from,
            End::Target => &self.to,
        }
    }
}

/// Pages of a list; each starts after the last entry of the one before.
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
pub(super) struct Pace {
    step: usize,
}

impl Pace {
    /// Approximate target size of a batch in bytes.
    const BYTES: usize = 4 * 1024 * 1024;
    const STEP_MAX: usize = 512;

    /// Starts small, because the record size is unknown.
    pub(super) fn new() -> Pace {
        Pace { step: 8 }
    }

    pub(super) fn step(&self) -> usize {
        self.step
    }

    /// Adapts to the size of the last batch.
    pub(super) fn learn(&mut self, things: usize, bytes: usize) {
        if let Some(size) = bytes.checked_div(things) {
            let fitting = Pace::BYTES / size.max(1);
            let most = (self.step * 4).min(Pace::STEP_MAX);
            self.step = fitting.clamp(1, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_size() {
        let mut pace = Pace::new();
        for _ in 0..5 {
            pace.learn(pace.step(), 100 * pace.step());
        }
        assert_eq!(pace.step(), Pace::STEP_MAX);
        pace.learn(2, 4 * Pace::BYTES);
        assert_eq!(pace.step(), 1);
        pace.learn(0, 0);
        assert_eq!(pace.step(), 1);
        pace.learn(1, 10);
        assert_eq!(pace.step(), 4);
    }
}
