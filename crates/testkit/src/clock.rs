//! A clock that stands still until a test advances it, and ids that count up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use retain_core::{Clock, Ids};

/// When a [`TestClock`] starts: 14 November 2023, in microseconds since 1970.
pub const START_US: i64 = 1_700_000_000_000_000;

/// A clock that advances only in `tick`. Clones share the time.
///
/// ```
/// use std::time::Duration;
/// use retain_core::Clock as _;
/// use retain_testkit::TestClock;
/// let clock = TestClock::default();
/// let before = clock.now_us();
/// clock.clone().tick(Duration::from_secs(1));
/// assert_eq!(clock.now_us() - before, 1_000_000);
/// ```
#[derive(Debug, Clone)]
pub struct TestClock(Arc<AtomicI64>);

impl Default for TestClock {
    fn default() -> TestClock {
        TestClock(Arc::new(AtomicI64::new(START_US)))
    }
}

impl TestClock {
    /// Advances the clock.
    pub fn tick(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Ids that count up: `id-1`, `id-2`… Clones share the counter.
#[derive(Debug, Clone)]
pub struct TestIds {
    prefix: Arc<str>,
    count: Arc<AtomicU64>,
}

impl TestIds {
    /// Creates ids that begin with `prefix`.
    pub fn new(prefix: &str) -> TestIds {
        TestIds {
            prefix: prefix.into(),
            count: Arc::default(),
        }
    }
}

impl Default for TestIds {
    fn default() -> TestIds {
        TestIds::new("id-")
    }
}

impl Ids for TestIds {
    fn new_id(&self) -> String {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        format!("{}{number}", self.prefix)
    }
}
