//! Promises about state: scopes, `temp:`, nulls, and past states.

use std::time::Duration;

use retain_core::{Json, SessionError, SessionKey};

use super::common::*;
use crate::{fold::states_by_position, harness::Harness};

/// Only the live session sees `temp:` keys; they are never stored.
pub async fn temp_keys_are_visible_in_the_live_session_only(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let mut live = read(&log, &key).await;
    let given = state_event("e", r#"{"temp:t":1,"a":1}"#);
    let stored = log.append_event(&mut live, given).await.unwrap();
    assert_eq!(stored.actions.state_delta, map(r#"{"a":1}"#));
    assert_eq!(live.state, state(r#"{"temp:t":1,"a":1}"#));
    let fresh = read(&log, &key).await;
    assert_eq!(fresh.state, state(r#"{"a":1}"#));
    assert_eq!(fresh.events[0].actions.state_delta, map(r#"{"a":1}"#));
    assert_eq!(log.state_at(&key, 1).await.unwrap(), fresh.state);
    assert!(!event_texts(&fresh)[0].contains("temp:"));
}

/// Other sessions see `app:` and `user:` keys with their next read.
pub async fn shared_keys_are_visible_in_other_sessions_at_once(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let (one, sister) = (create(&log, "one").await, create(&log, "two").await);
    let neighbor = SessionKey::new(APP, "grace", "one");
    let elsewhere = SessionKey::new("other", USER, "one");
    create_at(&log, &neighbor, "{}").await;
    create_at(&log, &elsewhere, "{}").await;
    append(
        &log,
        &one,
        state_event("e", r#"{"own":1,"user:u":2,"app:a":3}"#),
    )
    .await;
    for log in [&log, &second] {
        let sister = read(log, &sister).await.state;
        assert_eq!(sister, state(r#"{"user:u":2,"app:a":3}"#));
        assert_eq!(read(log, &neighbor).await.state, state(r#"{"app:a":3}"#));
        assert!(read(log, &elsewhere).await.state.is_empty());
    }
}

/// The stored event keeps its `app:` and `user:` keys, so the log records every change.
pub async fn stored_events_keep_their_shared_keys(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append(
        &log,
        &key,
        state_event("e", r#"{"user:u":1,"k":2,"app:a":3}"#),
    )
    .await;
    let stored = read(&log, &key).await;
    let delta = &stored.events[0].actions.state_delta;
    assert_eq!(*delta, map(r#"{"user:u":1,"k":2,"app:a":3}"#));
    assert_eq!(delta.keys().collect::<Vec<_>>(), ["user:u", "k", "app:a"]);
}

/// Null is a value in every scope: the key exists and its value is null.
pub async fn null_is_stored_as_null(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"k":1,"user:k":1,"app:k":1}"#).await;
    let nulls = r#"{"k":null,"user:k":null,"app:k":null,"new":null}"#;
    append(&log, &key, state_event("e", nulls)).await;
    assert_eq!(read(&log, &key).await.state, state(nulls));
    let app = log.get_app_state(APP).await.unwrap();
    assert_eq!(app.get("k"), Some(&Json::Null));
    let user = log.get_user_state(APP, USER).await.unwrap();
    assert_eq!(user.get("k"), Some(&Json::Null));
}

/// A map in a delta replaces the whole value.
pub async fn nested_maps_are_replaced_not_merged(harness: Harness) {
    let log = harness.service();
    let initial = r#"{"m":{"a":1,"b":{"c":2}},"user:m":{"a":1},"app:m":{"a":1}}"#;
    let key = create_with(&log, "s", initial).await;
    let delta = r#"{"m":{"b":{"d":null}},"user:m":{"b":2},"app:m":{}}"#;
    append(&log, &key, state_event("e", delta)).await;
    assert_eq!(read(&log, &key).await.state, state(delta));
}

/// Keys that no delta names keep their value.
pub async fn keys_outside_the_delta_keep_their_value(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1,"b":1,"user:a":1,"app:a":1}"#).await;
    append(
        &log,
        &key,
        state_event("e", r#"{"b":2,"user:b":2,"app:b":2}"#),
    )
    .await;
    let expected = r#"{"a":1,"b":2,"user:a":1,"user:b":2,"app:a":1,"app:b":2}"#;
    assert_eq!(read(&log, &key).await.state, state(expected));
}

/// Later events of a batch override earlier ones.
pub async fn later_event_of_a_batch_overrides_earlier(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let batch = vec![
        state_event("e1", r#"{"a":1,"user:a":1,"b":1}"#),
        state_event("e2", r#"{"a":2,"user:a":2}"#),
        state_event("e3", r#"{"a":3}"#),
    ];
    append_all(&log, &key, batch).await;
    let now = read(&log, &key).await.state;
    assert_eq!(now, state(r#"{"a":3,"user:a":2,"b":1}"#));
    let at_one = log.state_at(&key, 1).await.unwrap();
    assert_eq!(at_one.get("a"), Some(&Json::from(1)));
}

/// Any prefix except the three known ones is part of the key.
pub async fn keys_with_an_unknown_prefix_are_session_keys(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let delta = r#"{"foo:a":1,"App:b":2,":c":3,"users:d":4,"user":5,"app":6,"":7,"app:":8,"user:":9,"app:user:x":10}"#;
    append(&log, &key, state_event("e", delta)).await;
    assert_eq!(read(&log, &key).await.state, state(delta));
    let other = create(&log, "other").await;
    let shared = state(r#"{"app:":8,"user:":9,"app:user:x":10}"#);
    assert_eq!(read(&log, &other).await.state, shared);
    let app = log.get_app_state(APP).await.unwrap();
    assert_eq!(app, map(r#"{"":8,"user:x":10}"#));
}

/// The shared state of an unused app or user is empty.
pub async fn shared_state_of_an_unknown_user_is_empty(harness: Harness) {
    let log = harness.service();
    create_with(&log, "s", r#"{"app:a":1,"user:u":1}"#).await;
    assert!(log.get_app_state("nowhere").await.unwrap().is_empty());
    assert!(log.get_user_state(APP, "nobody").await.unwrap().is_empty());
    assert!(log.get_user_state("other", USER).await.unwrap().is_empty());
}

/// The state at each position is the fold of the initial state and the events up to it.
pub async fn state_at_every_position_equals_the_fold_of_the_events(harness: Harness) {
    let log = harness.service();
    let initial = r#"{"a":1,"b":[1]}"#;
    let key = create_with(&log, "s", initial).await;
    for n in 0..30 {
        let delta = match n % 5 {
            0 => format!(r#"{{"a":{n}}}"#),
            1 => format!(r#"{{"k{n}":{n},"a":null}}"#),
            2 => "{}".to_owned(),
            3 => format!(r#"{{"b":{{"n":{n}}},"user:u":{n}}}"#),
            _ => r#"{"b":null}"#.to_owned(),
        };
        let invocation = format!("i{}", n / 3);
        append(
            &log,
            &key,
            invocation_event(&format!("e{n}"), &invocation, &delta),
        )
        .await;
        if n == 14 {
            log.rewind(&key, "i2").await.unwrap();
        }
    }
    assert_fold(&log, &key, initial).await;
}

/// Compares the state at each position with the fold over the events.
pub(super) async fn assert_fold(log: &Log, key: &SessionKey, initial: &str) {
    let session = read(log, key).await;
    let states = states_by_position(&map(initial), session.events.iter());
    for (position, expected) in states.iter().enumerate() {
        let at = log.state_at(key, position as u64).await.unwrap();
        assert_eq!(own_state(&at), *expected, "at position {position}");
    }
    assert_eq!(Some(&own_state(&session.state)), states.last());
}

/// Returns the session's own keys of a merged state.
pub(super) fn own_state(state: &retain_core::State) -> retain_core::JsonMap {
    retain_core::ScopedDelta::from_delta(&state.to_delta()).session
}

/// Past states have the current shared state, whatever the position.
pub async fn state_at_has_the_current_shared_state(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1,"user:u":1}"#).await;
    append(
        &log,
        &key,
        state_event("e", r#"{"a":2,"user:u":2,"app:a":3}"#),
    )
    .await;
    let initial = log.state_at(&key, 0).await.unwrap();
    assert_eq!(initial, state(r#"{"a":1,"user:u":2,"app:a":3}"#));
}

/// A position beyond the end of the log has no state.
pub async fn state_beyond_the_end_fails_with_position_not_found(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 2)).await;
    log.state_at(&key, 2).await.unwrap();
    for beyond in [3, 1000, i64::MAX as u64, u64::MAX] {
        let answer = log.state_at(&key, beyond).await;
        assert_fails!(
            answer,
            SessionError::PositionNotFound { position, last: 2, key: found }
                if position == beyond && found == key
        );
    }
}

/// A loaded session is a copy: changing it does not change stored data.
pub async fn changing_a_loaded_session_does_not_change_the_store(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1}"#).await;
    append(&log, &key, event("e")).await;
    let mut live = read(&log, &key).await;
    live.state.set("a", 99);
    live.state.set("user:b", 99);
    live.events.truncate(0);
    harness.clock.tick(Duration::from_secs(1));
    append(&log, &key, event("f")).await;
    let fresh = read(&log, &key).await;
    assert_eq!(fresh.state, state(r#"{"a":1}"#));
    assert_eq!(ids(&fresh), ["e", "f"]);
}
