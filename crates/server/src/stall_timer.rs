//! A timer for slow clients: a time budget that transferred bytes refill.

use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// The time budget of one client. Only time spent waiting for the client counts.
#[derive(Debug)]
pub(crate) struct StallTimer {
    /// The initial and maximum time.
    budget: Duration,
    bytes_per_second: u64,
    /// The time that is left.
    remaining: Duration,
    /// When the current wait started.
    since: Option<Instant>,
    /// Created on the first wait, because most clients never need it.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl StallTimer {
    pub(crate) fn new(budget: Duration, bytes_per_second: u64) -> StallTimer {
        StallTimer {
            budget,
            bytes_per_second: bytes_per_second.max(1),
            remaining: budget,
            since: None,
            alarm: None,
        }
    }

    /// Records transferred bytes. They add time, but never beyond the initial budget, so that a
    /// client cannot earn hours of waiting by sending fast.
    pub(crate) fn record_progress(&mut self, bytes: usize) {
        let earned = bytes as f64 / self.bytes_per_second as f64;
        let earned = Duration::try_from_secs_f64(earned).unwrap_or(Duration::MAX);
        let waited = self.since.take().map(|since| since.elapsed());
        let remaining = self.remaining.saturating_sub(waited.unwrap_or_default());
        self.remaining = remaining.saturating_add(earned).min(self.budget);
    }

    /// Polls while waiting for the client. Ready when no time is left.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_new = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        let remaining = self.remaining;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(remaining)));
        if is_new {
            alarm.as_mut().reset(since + remaining);
        }
        alarm.as_mut().poll(cx)
    }
}
