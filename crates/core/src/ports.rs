//! The sources of time and ids. All of Retain takes them from here, so that tests can repeat whole
//! runs exactly.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A source of time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the time in microseconds since 1970.
    fn now_us(&self) -> i64;

    /// Returns the time as ADK stores it: float seconds since 1970.
    fn now(&self) -> f64 {
        seconds(self.now_us())
    }
}

/// A source of ids.
pub trait Ids: fmt::Debug + Send + Sync + 'static {
    /// Returns a new id: in production a random UUID (version 4) as text.
    fn new_id(&self) -> String;
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the port itself")]
    fn now_us(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => duration_us(since),
            // A clock before 1970 is wrong but not an error, because no order depends on it.
            Err(before) => -duration_us(before.duration()),
        }
    }
}

/// Random UUIDs.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    #[allow(clippy::disallowed_methods, reason = "this is the port itself")]
    fn new_id(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }
}

/// Converts microseconds to float seconds.
pub fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// Converts a duration to whole microseconds, saturating at the maximum.
pub fn duration_us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Converts float seconds to microseconds, rounded and saturating.
pub fn micros(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}
