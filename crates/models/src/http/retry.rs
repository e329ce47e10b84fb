//! Retries of failed calls and the delays between them.

use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use retain_core::Clock;
use retain_runtime::ModelError;
use tokio::time::Instant;

use crate::provider::Failure;

/// The retry policy for calls.
///
/// A call is never retried once the caller has received the first chunk of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retries {
    /// Maximum number of attempts; `1` disables retries.
    pub attempts: u32,
    /// The delay after the first failure. It doubles each time, with random jitter.
    pub first_wait: Duration,
    /// The maximum delay, unless the provider requests a longer one.
    pub longest_wait: Duration,
    /// The maximum sum of a call's delays. If a provider requests a longer delay (`Retry-After`),
    /// the call fails immediately.
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
    /// Makes every call once, without retries.
    pub fn none() -> Retries {
        Retries {
            attempts: 1,
            ..Retries::default()
        }
    }

    /// Sets the maximum number of attempts.
    pub fn with_attempts(mut self, attempts: u32) -> Retries {
        self.attempts = attempts;
        self
    }

    /// Sets the delay after the first failure.
    pub fn with_first_wait(mut self, first_wait: Duration) -> Retries {
        self.first_wait = first_wait;
        self
    }

    /// Sets the maximum delay.
    pub fn with_longest_wait(mut self, longest_wait: Duration) -> Retries {
        self.longest_wait = longest_wait;
        self
    }

    /// Sets the maximum sum of a call's delays.
    pub fn with_budget(mut self, budget: Duration) -> Retries {
        self.budget = budget;
        self
    }
}

/// The reason why an attempt failed.
#[derive(Debug)]
pub(crate) struct AttemptError {
    pub(crate) error: ModelError,
    /// Whether a retry may succeed.
    pub(crate) is_transient: bool,
    /// The retry delay that the provider requests.
    pub(crate) after: Option<Duration>,
    /// Whether the provider states that a retry cannot succeed.
    pub(crate) is_final: bool,
}

/// Not retried: after a malformed response or an invalid request, a retry would most likely fail
/// too.
impl From<ModelError> for AttemptError {
    fn from(error: ModelError) -> AttemptError {
        AttemptError::permanent(error)
    }
}

/// A failure that a response body reports despite a successful status. It is permanent unless
/// `Provider::is_transient` accepts its code.
impl From<Failure> for AttemptError {
    fn from(failure: Failure) -> AttemptError {
        AttemptError {
            after: failure.retry_after,
            is_final: failure.is_final,
            ..AttemptError::permanent(failure.into())
        }
    }
}

impl From<AttemptError> for ModelError {
    fn from(error: AttemptError) -> ModelError {
        error.error
    }
}

impl AttemptError {
    /// Creates a permanent error.
    pub(crate) fn permanent(error: ModelError) -> AttemptError {
        AttemptError {
            error,
            is_transient: false,
            after: None,
            is_final: false,
        }
    }

    /// Creates a transient error, such as a network error.
    pub(crate) fn transient(error: ModelError) -> AttemptError {
        AttemptError {
            is_transient: true,
            ..AttemptError::permanent(error)
        }
    }

    /// Creates an error from a response with an error status.
    pub(crate) fn from_response(
        status: u16,
        headers: &HeaderMap,
        failure: Failure,
        clock: &dyn Clock,
    ) -> AttemptError {
        let is_transient = match headers.get("x-should-retry").map(|value| value.as_bytes()) {
            Some(b"true") => true,
            Some(b"false") => false,
            _ => !failure.is_final && is_transient_status(status),
        };
        let after = retry_after(headers, clock).or(failure.retry_after);
        AttemptError {
            is_transient,
            after,
            ..AttemptError::from(failure)
        }
    }
}

/// Whether a failure with this HTTP status is transient.
fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529)
}

/// Returns the retry delay from the headers: milliseconds, seconds or a date.
fn retry_after(headers: &HeaderMap, clock: &dyn Clock) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    if let Some(wait) = millis.and_then(|millis| delay_from_secs(millis / 1000.0)) {
        return Some(wait);
    }
    let text = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = text.parse() {
        return delay_from_secs(seconds);
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    let now = Duration::from_micros(clock.now_us().try_into().ok()?);
    // A past date means now.
    Some(since.saturating_sub(now))
}

/// Converts `seconds` to a delay; `None` if they are invalid. A number that overflows becomes the
/// longest possible delay, because the provider must not be called again immediately.
pub(crate) fn delay_from_secs(seconds: f64) -> Option<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(wait) => Some(wait),
        Err(_) => (seconds > 0.0).then_some(Duration::MAX),
    }
}

/// A call's retry state: the attempts and delays so far, and the deadline.
#[derive(Debug)]
pub(crate) struct RetryState {
    retries: Retries,
    attempts_made: u32,
    waited: Duration,
    deadline: Instant,
}

impl RetryState {
    pub(crate) fn new(retries: Retries, deadline: Instant) -> RetryState {
        RetryState {
            retries,
            attempts_made: 0,
            waited: Duration::ZERO,
            deadline,
        }
    }

    /// Returns the deadline of the call with all its attempts.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the delay before the next attempt, or the error if the call must not be retried.
    /// `jitter` is between 0 and 1.
    pub(crate) fn next_delay(
        &mut self,
        error: AttemptError,
        jitter: f64,
    ) -> Result<Duration, ModelError> {
        self.attempts_made += 1;
        if !error.is_transient || self.attempts_made >= self.retries.attempts {
            return Err(error.error);
        }
        let wait = self.delay(error.after, jitter);
        let left = self.deadline.saturating_duration_since(Instant::now());
        if self.waited.saturating_add(wait) > self.retries.budget || wait >= left {
            return Err(error.error);
        }
        self.waited += wait;
        Ok(wait)
    }

    /// Computes the delay: exponential with jitter, so that callers that failed together do not
    /// retry at the same time.
    fn delay(&self, requested: Option<Duration>, jitter: f64) -> Duration {
        // Clamp the settings, because large ones would overflow.
        const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        let first = self.retries.first_wait.min(A_YEAR);
        let doubled = 2u32.saturating_pow(self.attempts_made - 1);
        let own = first.saturating_mul(doubled).min(A_YEAR);
        let own = own.min(self.retries.longest_wait);
        match requested {
            // Never retry earlier than requested.
            Some(requested) => requested.saturating_add(first.mul_f64(jitter)),
            None => own.mul_f64(0.5 + jitter / 2.0),
        }
    }
}
