//! Where time and ids come from. Nothing else in Retain asks for them, so that whole runs can be
//! repeated exactly.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Tells the time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Microseconds since 1970.
    fn now_us(&self) -> i64;

    /// Seconds since 1970, as ADK writes them.
    fn now(&self) -> f64 {
        seconds(self.now_us())
    }
}

/// Makes ids.
pub trait Ids: fmt::Debug + Send + Sync + 'static {
    /// A new id: in production a random UUID (version 4) as text.
    fn new_id(&self) -> String;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the port itself")]
    fn now_us(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => duration_us(since),
            // A clock before 1970 is wrong, but no reason to fail: order never comes from it.
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

/// Microseconds as float seconds.
pub fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// A duration in whole microseconds; a longer one than fits is the longest there is.
pub fn duration_us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Float seconds as microseconds, rounded; far-off values become the nearest end.
pub fn micros(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}
