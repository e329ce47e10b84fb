//! Promises about creating a session.

use retain_core::{Clock as _, SessionError, SessionKey};

use super::common::*;
use crate::harness::Harness;

/// A session has the requested id.
pub async fn create_keeps_the_given_id(harness: Harness) {
    let log = harness.service();
    let created = log.create_session(APP, USER, None, Some("s1")).await;
    assert_eq!(created.unwrap().key(), key("s1"));
    assert_eq!(read(&log, &key("s1")).await.key(), key("s1"));
}

/// Without an id, the session gets a new one.
pub async fn create_without_id_generates_one(harness: Harness) {
    let log = harness.service();
    let first = log.create_session(APP, USER, None, None).await.unwrap();
    let second = log.create_session(APP, USER, None, None).await.unwrap();
    assert!(!first.id.is_empty());
    assert_ne!(first.id, second.id);
    read(&log, &first.key()).await;
}

/// A blank id counts as missing, as in ADK's in-memory service.
pub async fn create_with_a_blank_id_generates_one(harness: Harness) {
    let log = harness.service();
    for blank in ["", " ", "\t\n ", "\u{3000}"] {
        let created = log.create_session(APP, USER, None, Some(blank)).await;
        let created = created.unwrap();
        assert!(!created.id.trim().is_empty(), "{blank:?}");
        read(&log, &created.key()).await;
    }
}

/// Blanks around an id are part of it: `x` and ` x ` are two sessions.
pub async fn create_keeps_blanks_around_an_id(harness: Harness) {
    let log = harness.service();
    for id in ["x", " x ", "x ", " x"] {
        create_with(&log, id, &format!(r#"{{"id":{id:?}}}"#)).await;
    }
    for id in ["x", " x ", "x ", " x"] {
        let read = read(&log, &key(id)).await;
        assert_eq!(read.state.get("id").unwrap(), id);
    }
}

/// A new session is empty, at position 0, and last changed when it was created.
pub async fn new_session_is_empty(harness: Harness) {
    let log = harness.service();
    let created = log.create_session(APP, USER, None, Some("s")).await;
    let created = created.unwrap();
    assert!(created.events.is_empty() && created.state.is_empty());
    assert_eq!(created.position, 0);
    assert_eq!(created.last_update_time, harness.clock.now());
    assert_eq!(created, read(&log, &key("s")).await);
}

/// The prefix of each key of the initial state determines its scope.
pub async fn create_splits_the_initial_state_by_scope(harness: Harness) {
    let log = harness.service();
    let initial = r#"{"a":1,"app:b":2,"user:c":3,"foo:d":4}"#;
    let created = log.create_session(APP, USER, Some(state(initial)), Some("s"));
    assert_eq!(created.await.unwrap().state, state(initial));
    assert_eq!(log.get_app_state(APP).await.unwrap(), map(r#"{"b":2}"#));
    let user = log.get_user_state(APP, USER).await.unwrap();
    assert_eq!(user, map(r#"{"c":3}"#));

    create(&log, "sister").await;
    let sister = read(&log, &key("sister")).await.state;
    assert_eq!(sister, state(r#"{"app:b":2,"user:c":3}"#));
    let neighbor = SessionKey::new(APP, "grace", "s");
    create_at(&log, &neighbor, "{}").await;
    let neighbor = read(&log, &neighbor).await.state;
    assert_eq!(neighbor, state(r#"{"app:b":2}"#));
    let elsewhere = SessionKey::new("other", USER, "s");
    create_at(&log, &elsewhere, "{}").await;
    assert!(read(&log, &elsewhere).await.state.is_empty());
}

/// Shared state keys that the initial state does not name keep their value; the others are set.
pub async fn create_merges_shared_state_key_by_key(harness: Harness) {
    let log = harness.service();
    create_with(&log, "one", r#"{"app:a":1,"app:b":1,"user:a":1}"#).await;
    create_with(&log, "two", r#"{"app:b":2,"user:c":2}"#).await;
    let expected = state(r#"{"app:a":1,"app:b":2,"user:a":1,"user:c":2}"#);
    assert_eq!(read(&log, &key("one")).await.state, expected);
}

/// `temp:` keys given at creation are dropped, as in ADK.
pub async fn create_drops_temp_keys(harness: Harness) {
    let log = harness.service();
    let initial = state(r#"{"temp:a":1,"b":2}"#);
    let created = log.create_session(APP, USER, Some(initial), Some("s"));
    assert_eq!(created.await.unwrap().state, state(r#"{"b":2}"#));
    let key = key("s");
    assert_eq!(read(&log, &key).await.state, state(r#"{"b":2}"#));
    let before = log.state_at(&key, 0).await.unwrap();
    assert_eq!(before, state(r#"{"b":2}"#));
}

/// Position 0 always has the initial state, whatever happens later.
pub async fn state_at_position_zero_is_the_initial_state(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1,"b":[2],"n":null}"#).await;
    append(&log, &key, state_event("e", r#"{"a":9,"c":3,"b":null}"#)).await;
    let initial = log.state_at(&key, 0).await.unwrap();
    assert_eq!(initial, state(r#"{"a":1,"b":[2],"n":null}"#));
}

/// Creating an existing session fails and changes nothing, not even shared state.
pub async fn creating_an_existing_session_fails_and_changes_nothing(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1,"app:a":1,"user:a":1}"#).await;
    append(&log, &key, state_event("e", r#"{"b":1}"#)).await;
    let before = read(&log, &key).await;
    let other = state(r#"{"a":2,"app:a":2,"user:a":2,"user:new":2}"#);
    let again = log.create_session(APP, USER, Some(other), Some("s")).await;
    assert_fails!(again, SessionError::AlreadyExists { key: found } if found == key);
    assert_eq!(read(&log, &key).await, before);
}

/// Of concurrent creates of one session, exactly one succeeds, and its state is stored.
pub async fn exactly_one_of_concurrent_creates_wins(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let answers = run_concurrently(8, |number| {
        let log = [&log, &second][number % 2].clone();
        let mine = state(&format!(r#"{{"winner":{number},"user:winner":{number}}}"#));
        async move { log.create_session(APP, USER, Some(mine), Some("s")).await }
    });
    let answers = answers.await;
    let winners: Vec<usize> = (0..8).filter(|&n| answers[n].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    for answer in answers.into_iter().filter(|answer| answer.is_err()) {
        assert_fails!(answer, SessionError::AlreadyExists { .. });
    }
    let stored = read(&log, &key("s")).await.state;
    let winner = winners[0] as i64;
    assert_eq!(stored.get("winner").unwrap(), &winner);
    assert_eq!(stored.get("user:winner").unwrap(), &winner);
}

/// The same session id under another user or app is another session.
pub async fn same_id_under_another_user_is_another_session(harness: Harness) {
    let log = harness.service();
    let keys = [
        key("s"),
        SessionKey::new(APP, "grace", "s"),
        SessionKey::new("other", USER, "s"),
    ];
    for (number, key) in keys.iter().enumerate() {
        create_at(&log, key, &format!(r#"{{"number":{number}}}"#)).await;
        append(&log, key, event(&format!("e{number}"))).await;
    }
    for (number, key) in keys.iter().enumerate() {
        let found = read(&log, key).await;
        assert_eq!(found.state.get("number").unwrap(), &(number as i64));
        assert_eq!(ids(&found), [format!("e{number}")]);
    }
}

/// Different keys never collide, even if their concatenated strings are equal.
pub async fn different_session_keys_never_collide(harness: Harness) {
    let log = harness.service();
    let keys = [("a", "b/c", "d"), ("a/b", "c", "d"), ("a", "b", "c/d")];
    for (app, user, id) in keys {
        create_at(&log, &SessionKey::new(app, user, id), "{}").await;
        append(&log, &SessionKey::new(app, user, id), event(user)).await;
    }
    for (app, user, id) in keys {
        let found = read(&log, &SessionKey::new(app, user, id)).await;
        assert_eq!(ids(&found), [user]);
    }
}
