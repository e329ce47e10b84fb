//! For how long a client may be waited for: a while, and longer only as it sends or takes enough.

use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

/// Patience with one client. Only the time counts in which it is waited for.
#[derive(Debug)]
pub(crate) struct Patience {
    /// For how long may be waited where nothing was earned, and the most that can be.
    most: Duration,
    bytes_per_second: u64,
    /// For how long may still be waited.
    left: Duration,
    /// Since when it is waited.
    since: Option<Instant>,
    /// Made when it is waited for the first time: most clients are never waited for.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(crate) fn new(most: Duration, bytes_per_second: u64) -> Patience {
        Patience {
            most,
            bytes_per_second: bytes_per_second.max(1),
            left: most,
            since: None,
            alarm: None,
        }
    }

    /// The client has done something. Bytes buy time, but never more than there was at the
    /// beginning: who has moved much may not sit on it for hours.
    pub(crate) fn note(&mut self, bytes: usize) {
        let earned = bytes as f64 / self.bytes_per_second as f64;
        let earned = Duration::try_from_secs_f64(earned).unwrap_or(Duration::MAX);
        let waited = self.since.take().map(|since| since.elapsed());
        let left = self.left.saturating_sub(waited.unwrap_or_default());
        self.left = left.saturating_add(earned).min(self.most);
    }

    /// The client is waited for; ready when there is no patience left.
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
