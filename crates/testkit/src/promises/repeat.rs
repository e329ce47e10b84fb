//! Promises about appending the same event again: it is stored once, with the same answer.

use std::time::Duration;

use retain_core::{Append, Conflict, Event, Session, SessionError, SessionKey, Window};

use super::common::*;
use crate::harness::Harness;

async fn assert_one_copy(log: &Log, key: &SessionKey) -> Session {
    let stored = read(log, key).await;
    let mut seen = ids(&stored);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), stored.events.len(), "{:?}", ids(&stored));
    stored
}

/// The same event twice has one position and one copy, alone or in a batch.
pub async fn repeated_event_changes_nothing(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let first = state_event("a", r#"{"k":1,"user:k":1}"#);
    assert_eq!(append(&log, &key, first.clone()).await, 1);
    append(&log, &key, state_event("b", r#"{"k":2,"user:k":2}"#)).await;
    let before = read(&log, &key).await;
    assert_eq!(append(&log, &key, first.clone()).await, 1);
    let both = vec![first, state_event("b", r#"{"k":2,"user:k":2}"#)];
    assert_eq!(append_all(&log, &key, both).await, [1, 2]);
    // The state does not go back to what the repeated event set.
    assert_eq!(read(&log, &key).await, before);
}

/// A batch of old and new events stores the new ones.
pub async fn batch_of_old_and_new_events_stores_the_new_ones(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 2)).await;
    let batch = vec![event("e2"), event("e3"), event("e1"), event("e4")];
    assert_eq!(append_all(&log, &key, batch).await, [2, 3, 1, 4]);
    assert_eq!(ids(&read(&log, &key).await), ["e1", "e2", "e3", "e4"]);
}

/// An event twice in one batch is stored once; two different events with one id are rejected.
pub async fn repeated_id_in_a_batch_is_one_event_or_a_conflict(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let batch = vec![event("a"), event("b"), event("a")];
    assert_eq!(append_all(&log, &key, batch).await, [1, 2, 1]);
    let batch = vec![event("c"), state_event("c", r#"{"other":1}"#)];
    let refused = log.append(&key, batch.into()).await;
    assert_fails!(
        refused,
        SessionError::Conflict { conflict: Conflict::EventId { id, .. }, .. } if id == "c"
    );
    assert_eq!(ids(&read(&log, &key).await), ["a", "b"]);
}

/// Concurrent appends of one event, as after a lost connection, store one copy and return its
/// position.
pub async fn concurrent_repeats_are_stored_once(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    for round in 0..5 {
        let answers = run_concurrently(8, |number| {
            let (log, key) = ([&log, &second][number % 2].clone(), key.clone());
            let event = state_event(&format!("e{round}"), &format!(r#"{{"k":{round}}}"#));
            async move { append(&log, &key, event).await }
        });
        assert_eq!(answers.await, [round + 1; 8]);
    }
    assert_one_copy(&log, &key).await;
}

/// Another instance recognizes an event that the first one stored.
pub async fn second_instance_recognizes_a_repeat(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 3)).await;
    assert_eq!(append(&second, &key, event("e2")).await, 2);
    assert_one_copy(&second, &key).await;
}

/// A repeat is recognized after closing and reopening the store.
pub async fn repeat_is_recognized_after_reopening(mut harness: Harness) {
    if !harness.is_durable() {
        return;
    }
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 3)).await;
    drop(log);
    let log = harness.reopen().await;
    assert_eq!(append(&log, &key, event("e2")).await, 2);
    assert_one_copy(&log, &key).await;
}

/// A run whose lease was taken over may still learn that its last append was stored.
pub async fn superseded_run_may_repeat_an_append_that_was_stored(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let lost = begin(&log, &key, event("e1")).await.unwrap();
    let within = |id: &str| Append::from(event(id)).within_run(lost);
    log.append(&key, within("e2")).await.unwrap();
    harness.clock.tick(Duration::from_secs(3600));
    let holder = begin(&log, &key, event("e3")).await.unwrap();
    let again = log.append(&key, within("e2")).await.unwrap();
    assert_eq!(positions(&again), [2]);
    assert_eq!(again.run, None, "the run no longer holds the lease");
    let more = log.append(&key, within("e4")).await;
    assert_fails!(more, SessionError::RunLost { .. });
    let next = Append::from(event("e5")).within_run(holder);
    log.append(&key, next).await.unwrap();
    assert_eq!(
        ids(&assert_one_copy(&log, &key).await),
        ["e1", "e2", "e3", "e5"]
    );
}

/// A repeat succeeds even if the log has grown beyond its expected position.
pub async fn repeat_ignores_an_outdated_expected_position(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let first = Append::from(event("e1")).expecting(0);
    log.append(&key, first.clone()).await.unwrap();
    append(&log, &key, event("e2")).await;
    let again = log.append(&key, first).await.unwrap();
    assert_eq!(positions(&again), [1]);
    assert_one_copy(&log, &key).await;
}

/// Maps are equal regardless of the order of their keys.
pub async fn repeat_with_another_key_order_is_recognized(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let one = state_event("e", r#"{"a":{"x":1,"y":2},"b":2,"user:c":1.50}"#);
    let other = state_event("e", r#"{"user:c":1.5,"b":2,"a":{"y":2,"x":1}}"#);
    append(&log, &key, one.clone()).await;
    assert_eq!(append(&log, &key, other).await, 1);
    let stored = assert_one_copy(&log, &key).await;
    assert_eq!(event_texts(&stored), [one.to_json().unwrap()]);
}

/// A repeat of an event without a time is recognized at a later time.
pub async fn repeat_without_a_time_is_recognized_later(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let timeless = event_at("e", 0.0);
    append(&log, &key, timeless.clone()).await;
    let before = read(&log, &key).await;
    harness.clock.tick(Duration::from_secs(60));
    assert_eq!(append(&log, &key, timeless).await, 1);
    assert_eq!(read(&log, &key).await, before);
}

/// A repeat returns the stored event, with the time of its first append.
pub async fn repeat_returns_the_stored_event(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let mut timeless = state_event("e", r#"{"a":1,"b":2}"#);
    timeless.timestamp = 0.0;
    append(&log, &key, timeless.clone()).await;
    let stored = read(&log, &key).await;
    harness.clock.tick(Duration::from_secs(60));
    let again = log.append(&key, timeless.clone().into()).await.unwrap();
    assert_eq!(
        again.events[0].1.to_json().unwrap(),
        event_texts(&stored)[0]
    );
    // A live session without the event receives the stored one.
    let mut live = Session {
        events: Default::default(),
        position: 0,
        ..stored.clone()
    };
    let given = log.append_event(&mut live, timeless).await.unwrap();
    assert_eq!(given, stored.events[0]);
    assert_eq!(live, stored);
}

/// A live session receives a repeated event once.
pub async fn live_session_receives_a_repeated_event_once(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let mut live = read(&log, &key).await;
    for id in ["e1", "e2", "e1", "e2", "e3", "e1"] {
        log.append_event(&mut live, event(id)).await.unwrap();
    }
    assert_eq!(ids(&live), ["e1", "e2", "e3"]);
    assert_eq!(live, read(&log, &key).await);
}

/// Appending another event with a used id is a conflict, which names the position of the stored
/// event.
pub async fn another_event_with_a_known_id_is_a_conflict(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 3)).await;
    let before = read(&log, &key).await;
    let mut other_text = Event::user_text("other");
    other_text.id = "e2".into();
    other_text.timestamp = event("e2").timestamp;
    let other_time = event_at("e2", 77.0);
    let other_delta = state_event("e2", r#"{"a":1}"#);
    for other in [other_text, other_time, other_delta] {
        let refused = log.append(&key, other.into()).await;
        assert_fails!(
            refused,
            SessionError::Conflict { key: found, conflict: Conflict::EventId { id, position: 2 } }
                if found == key && id == "e2"
        );
    }
    assert_eq!(read(&log, &key).await, before);
}

/// `1` and `1.0` are different values, so they make different events.
pub async fn integer_and_float_make_different_events(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append(&log, &key, state_event("e", r#"{"a":1}"#)).await;
    let refused = log
        .append(&key, state_event("e", r#"{"a":1.0}"#).into())
        .await;
    assert_fails!(refused, SessionError::Conflict { .. });
}

/// `temp:` keys are not stored, so they do not make an event different.
pub async fn temp_keys_do_not_make_a_different_event(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append(&log, &key, state_event("e", r#"{"a":1,"temp:t":1}"#)).await;
    assert_eq!(append(&log, &key, state_event("e", r#"{"a":1}"#)).await, 1);
    let other = state_event("e", r#"{"temp:t":2,"a":1}"#);
    assert_eq!(append(&log, &key, other).await, 1);
}

/// Event ids are unique in a session, not among sessions.
pub async fn same_event_id_in_two_sessions_is_allowed(harness: Harness) {
    let log = harness.service();
    let (one, two) = (create(&log, "one").await, create(&log, "two").await);
    let neighbor = SessionKey::new(APP, "grace", "one");
    create_at(&log, &neighbor, "{}").await;
    for (key, delta) in [
        (&one, r#"{"a":1}"#),
        (&two, r#"{"a":2}"#),
        (&neighbor, r#"{"a":3}"#),
    ] {
        assert_eq!(append(&log, key, state_event("e", delta)).await, 1);
        assert_eq!(read(&log, key).await.state, state(delta));
    }
}

/// Repeating an old event does not change a live session that has only the newest events.
pub async fn repeat_of_an_unloaded_event_leaves_the_live_session_unchanged(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for n in 1..=20 {
        append(
            &log,
            &key,
            state_event(&format!("e{n}"), &format!(r#"{{"k":{n}}}"#)),
        )
        .await;
    }
    for newest in [0, 5] {
        let mut live = read_window(&log, &key, Window::newest(newest)).await;
        let before = live.clone();
        let repeat = state_event("e3", r#"{"k":3}"#);
        log.append_event(&mut live, repeat).await.unwrap();
        assert_eq!(live, before);
    }
}
