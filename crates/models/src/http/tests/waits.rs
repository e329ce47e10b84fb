//! The delay between two attempts, and the conditions for another attempt.

use proptest::prelude::*;
use tokio::time::Instant;

use super::*;
use crate::http::retry::{AttemptError, RetryState};

const FAR: Duration = Duration::from_secs(3600);

fn error(after: Option<Duration>) -> AttemptError {
    AttemptError {
        after,
        ..AttemptError::transient(ModelError::new("not now"))
    }
}

fn delays(retries: Retries, jitter: f64, after: Option<Duration>) -> Vec<Duration> {
    let mut retry_state = RetryState::new(retries, Instant::now() + FAR);
    let next = || retry_state.next_delay(error(after), jitter).ok();
    std::iter::from_fn(next).collect()
}

#[tokio::test]
async fn retry_delays_double_up_to_the_limit() {
    let retries = Retries {
        attempts: 6,
        first_wait: Duration::from_secs(1),
        longest_wait: Duration::from_secs(4),
        budget: FAR,
    };
    let seconds =
        |delays: Vec<Duration>| -> Vec<f64> { delays.iter().map(Duration::as_secs_f64).collect() };
    assert_eq!(
        seconds(delays(retries, 1.0, None)),
        [1.0, 2.0, 4.0, 4.0, 4.0]
    );
    assert_eq!(
        seconds(delays(retries, 0.0, None)),
        [0.5, 1.0, 2.0, 2.0, 2.0]
    );
    let requested = Some(Duration::from_secs(7));
    assert_eq!(seconds(delays(retries, 0.0, requested)), [7.0; 5]);
    assert_eq!(seconds(delays(retries, 0.5, requested)), [7.5; 5]);
}

/// Durations that no clock can represent are accepted.
#[tokio::test]
async fn maximum_retry_durations_do_not_overflow() {
    let settings = HttpSettings {
        connect_timeout: Duration::from_secs(9),
        idle_timeout: Duration::MAX,
        total_timeout: Duration::MAX,
        retries: Retries {
            attempts: 2,
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::MAX,
            budget: Duration::MAX,
        },
    };
    let refused = crate::testing::answer_with_status("503 Service Unavailable", &[], "");
    let server = Server::playing([refused, good_stream()]).await;
    let output = ask(&model(&server, settings), true).await;
    assert_eq!(output, ["Hel", "lo", "Hello"]);
    let requested = Some(Duration::MAX);
    let retries = settings.retries;
    assert!(delays(retries, 1.0, requested).is_empty());
    let first_wait = Duration::MAX;
    let retries = Retries {
        first_wait,
        ..retries
    };
    assert!(delays(retries, 1.0, None).is_empty());
    assert!(delays(retries, 1.0, Some(Duration::ZERO)).is_empty());
}

#[tokio::test]
async fn disabled_retries_allow_one_attempt_only() {
    assert!(delays(Retries::none(), 0.5, None).is_empty());
}

#[tokio::test]
async fn permanent_failures_are_not_retried() {
    let mut retry_state = RetryState::new(Retries::default(), Instant::now() + FAR);
    let permanent = AttemptError::permanent(ModelError::new("no"));
    assert!(retry_state.next_delay(permanent, 0.5).is_err());
}

#[tokio::test]
async fn retry_does_not_wait_past_the_total_timeout() {
    let retries = Retries {
        budget: FAR,
        ..Retries::default()
    };
    let mut retry_state = RetryState::new(retries, Instant::now() + Duration::from_secs(5));
    let requested = error(Some(Duration::from_secs(6)));
    assert!(retry_state.next_delay(requested, 0.0).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn retry_delays_stay_within_the_budget(
        attempts in 1u32..40,
        first in 0u64..5_000,
        longest in 0u64..60_000,
        budget in 0u64..120_000,
        jitter in 0.0f64..=1.0,
        after in proptest::option::of(0u64..100_000),
    ) {
        let retries = Retries {
            attempts,
            first_wait: Duration::from_millis(first),
            longest_wait: Duration::from_millis(longest),
            budget: Duration::from_millis(budget),
        };
        let after = after.map(Duration::from_millis);
        let delays = delays(retries, jitter, after);
        prop_assert!(delays.len() < attempts as usize);
        prop_assert!(delays.iter().sum::<Duration>() <= retries.budget);
        for wait in delays {
            match after {
                Some(after) => prop_assert!(wait >= after),
                None => prop_assert!(wait <= retries.longest_wait),
            }
        }
    }
}
