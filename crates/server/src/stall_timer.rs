//! A timer for slow clients: a fixed budget that transferred bytes extend.

use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// The time budget of one client. Only time spent waiting for it counts.
#[derive(Debug)]
pub(crate) struct StallTimer {
    /// The initial and maximum budget.
    most: Duration,
    bytes_per_second: u64,
    /// The remaining budget.
    left: Duration,
    /// When the current wait started.
    since: Option<Instant>,
    /// Created on the first wait, because most clients never need it.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl StallTimer {
    pub(crate) fn new(most: Duration, bytes_per_second: u64) -> StallTimer {
        StallTimer {
            most,
            bytes_per_second: bytes_per_second.max(1),
            left: most,
            since: None,
            alarm: None,
        }
    }

    /// Record progress. Bytes extend the budget, but never beyond the initial one, so that a fast
    /// client cannot stall for hours later.
    pub(crate) fn note(&mut self, bytes: usize) {
        let earned = bytes as f64 / self.bytes_per_second as f64;
        let earned = Duration::try_from_secs_f64(earned).unwrap_or(Duration::MAX);
        let waited = self.since.take().map(|since| since.elapsed());
        let left = self.left.saturating_sub(waited.unwrap_or_default());
        self.left = left.saturating_add(earned).min(self.most);
    }

    /// Poll during a wait; ready when the budget is used up.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_new = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = self.left;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(left)));
        if is_new {
            alarm.as_mut().reset(since + left);
        }
        alarm.as_mut().poll(cx)
    }
}
