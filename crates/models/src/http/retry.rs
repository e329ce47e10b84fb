//! When a call that failed is made again, and how long is waited before.

use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use retain_core::Clock;
use retain_runtime::ModelError;
use tokio::time::Instant;

use crate::provider::Failure;

/// How often and how long a call is tried again.
///
/// A call is never made again after the first piece of its answer was handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// How many times a call is made at most; `1` never tries again.
    pub attempts: u32,
    /// The wait after the first failure. It doubles each time, and part of it is left to chance.
    pub first_wait: Duration,
    /// The longest wait that we choose ourselves.
    pub longest_wait: Duration,
    /// All waits of a call together. A provider that asks for more (`Retry-After`) is not waited
    /// for: the call fails at once.
    pub budget: Duration,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries {
            attempts: 4,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(15),
            budget: Duration::from_secs(60),
        }
    }
}

impl Retries {
    /// Every call is made once.
    pub fn none() -> Retries {
        Retries {
            attempts: 1,
            ..Retries::default()
        }
    }
}

/// Why one attempt failed.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) error: ModelError,
    /// Whether another attempt may go better.
    pub(crate) may_pass: bool,
    /// How long the provider wants to be left alone.
    pub(crate) after: Option<Duration>,
}

impl Trouble {
    /// Nothing that passes.
    pub(crate) fn lasting(error: ModelError) -> Trouble {
        Trouble {
            error,
            may_pass: false,
            after: None,
        }
    }

    /// Something between us and the provider.
    pub(crate) fn passing(error: ModelError) -> Trouble {
        Trouble {
            may_pass: true,
            ..Trouble::lasting(error)
        }
    }

    /// An answer that is a refusal.
    pub(crate) fn refused(
        status: u16,
        headers: &HeaderMap,
        failure: Failure,
        clock: &dyn Clock,
    ) -> Trouble {
        let may_pass = match headers.get("x-should-retry").map(|value| value.as_bytes()) {
            Some(b"true") => true,
            Some(b"false") => false,
            _ => !failure.is_final && status_may_pass(status),
        };
        let after = retry_after(headers, clock).or(failure.retry_after);
        Trouble {
            error: failure.into(),
            may_pass,
            after,
        }
    }
}

/// Statuses that say «not now» rather than «not so».
fn status_may_pass(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529)
}

/// What the headers say about when to come back: milliseconds, seconds or a date.
fn retry_after(headers: &HeaderMap, clock: &dyn Clock) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    if let Some(millis) = millis {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let text = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    let now = Duration::from_micros(clock.now_us().try_into().ok()?);
    // A date that is past means «now».
    Some(since.saturating_sub(now))
}

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts {
    retries: Retries,
    made: u32,
    waited: Duration,
    deadline: Instant,
}

impl Attempts {
    pub(crate) fn new(retries: Retries, deadline: Instant) -> Attempts {
        Attempts {
            retries,
            made: 0,
            waited: Duration::ZERO,
            deadline,
        }
    }

    /// When the call has to be over, with all its attempts.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How long to wait before the next attempt; the error, if there is to be none. `chance` is
    /// between 0 and 1.
    pub(crate) fn next_wait(
        &mut self,
        trouble: Trouble,
        chance: f64,
    ) -> Result<Duration, ModelError> {
        self.made += 1;
        if !trouble.may_pass || self.made >= self.retries.attempts {
            return Err(trouble.error);
        }
        let wait = self.wait(trouble.after, chance);
        let left = self.deadline.saturating_duration_since(Instant::now());
        if self.waited.saturating_add(wait) > self.retries.budget || wait >= left {
            return Err(trouble.error);
        }
        self.waited += wait;
        Ok(wait)
    }

    /// Waits grow, and are spread so that callers who failed together do not come back together.
    fn wait(&self, asked: Option<Duration>, chance: f64) -> Duration {
        let doubled = 2u32.saturating_pow(self.made - 1);
        let own = self.retries.first_wait.saturating_mul(doubled);
        let own = own.min(self.retries.longest_wait);
        match asked {
            // Never earlier than asked for.
            Some(asked) => asked.saturating_add(self.retries.first_wait.mul_f64(chance)),
            None => own.mul_f64(0.5 + chance / 2.0),
        }
    }
}
