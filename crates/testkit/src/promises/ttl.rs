//! Promises about the time to live. Sessions expire by the store's clock, which tests advance.

use std::time::Duration;

use retain_core::{Clock as _, SessionError, SessionKey, Window};

use super::common::*;
use crate::harness::Harness;

const TTL: Duration = Duration::from_secs(100);
const HALF: Duration = Duration::from_secs(60);

async fn is_there(log: &Log, key: &SessionKey) -> bool {
    log.read(key, Window::ALL).await.unwrap().is_some()
}

/// An expired session can be neither read nor listed.
pub async fn expired_session_is_not_found(harness: Harness) {
    let log = harness.service();
    let key = create_for(&log, "s", TTL).await;
    append(&log, &key, event("e")).await;
    harness.clock.tick(HALF);
    assert!(is_there(&log, &key).await);
    harness.clock.tick(HALF);
    assert!(!is_there(&log, &key).await);
    let config = Default::default();
    assert_eq!(get(&log, &key, config).await, None);
    for user in [None, Some(USER)] {
        let listed = log.list_sessions(APP, user).await.unwrap();
        assert_eq!(listed.sessions, []);
    }
}

/// Every operation on an expired session fails with `NotFound`, except deletion, which succeeds.
pub async fn operations_on_an_expired_session_are_not_found(harness: Harness) {
    let log = harness.service();
    let key = create_for(&log, "s", TTL).await;
    let run = begin(&log, &key, invocation_event("e", "i", "{}"))
        .await
        .unwrap();
    let mut live = read(&log, &key).await;
    harness.clock.tick(TTL * 2);
    // Even a repeat fails, because the log is gone.
    let repeat = invocation_event("e", "i", "{}");
    assert_fails!(
        log.append(&key, repeat.into()).await,
        SessionError::NotFound { .. }
    );
    let appended = log.append_event(&mut live, event("f"));
    assert_fails!(appended.await, SessionError::NotFound { .. });
    assert_fails!(log.refresh(&mut live).await, SessionError::NotFound { .. });
    assert_operations_find_nothing(&log, &key, run).await;
}

/// The id of an expired session is free, and a new session under it has no old data.
pub async fn id_of_an_expired_session_can_be_reused(harness: Harness) {
    let log = harness.service();
    let key = create_for(&log, "s", TTL).await;
    append(&log, &key, state_event("e", r#"{"old":1,"user:u":1}"#)).await;
    harness.clock.tick(TTL * 2);
    create_with(&log, "s", r#"{"new":1}"#).await;
    let fresh = read(&log, &key).await;
    assert!(fresh.events.is_empty());
    assert_eq!(fresh.state, state(r#"{"new":1,"user:u":1}"#));
    assert_eq!(append(&log, &key, state_event("e", r#"{"x":1}"#)).await, 1);
    // The new session has no time to live.
    harness.clock.tick(TTL * 10);
    assert!(is_there(&log, &key).await);
    assert_eq!(log.sweep().await.unwrap(), 0);
}

/// A fork may use the id of an expired session.
pub async fn fork_may_reuse_the_id_of_an_expired_session(harness: Harness) {
    let log = harness.service();
    let origin = create_with(&log, "origin", r#"{"a":1}"#).await;
    append(&log, &origin, event("e")).await;
    let key = create_for(&log, "s", TTL).await;
    append_all(&log, &key, numbered_events("old", 3)).await;
    harness.clock.tick(TTL * 2);
    let fork = log.fork(&origin, None, Some("s")).await.unwrap();
    assert_eq!(ids(&fork), ["e"]);
    assert_eq!(fork.state, state(r#"{"a":1}"#));
}

/// Each write restarts the time to live; a read does not.
pub async fn append_restarts_the_ttl(harness: Harness) {
    let log = harness.service();
    let key = create_for(&log, "s", TTL).await;
    for number in 0..4 {
        harness.clock.tick(HALF);
        append(&log, &key, event(&format!("e{number}"))).await;
    }
    harness.clock.tick(HALF);
    assert_eq!(read(&log, &key).await.position, 4);
    harness.clock.tick(HALF);
    assert!(!is_there(&log, &key).await);
}

/// Expiry depends on the store's clock, not on event timestamps.
pub async fn event_timestamps_do_not_extend_the_ttl(harness: Harness) {
    let log = harness.service();
    let key = create_for(&log, "s", TTL).await;
    let far = harness.clock.now() + 1e6;
    append(&log, &key, event_at("far", far)).await;
    harness.clock.tick(HALF);
    append(&log, &key, event_at("past", 1.0)).await;
    harness.clock.tick(HALF);
    assert!(is_there(&log, &key).await);
    harness.clock.tick(HALF);
    assert!(!is_there(&log, &key).await);
}

/// A list has the expiry time of a session, which moves with each write.
pub async fn list_has_expiry_times(harness: Harness) {
    let log = harness.service();
    let key = create_for(&log, "s", TTL).await;
    let expire_time = async || {
        let listed = log.list_sessions(APP, None).await.unwrap();
        listed.sessions[0].expire_time
    };
    assert_eq!(expire_time().await, Some(harness.clock.now() + 100.0));
    harness.clock.tick(HALF);
    append(&log, &key, event("e")).await;
    assert_eq!(expire_time().await, Some(harness.clock.now() + 100.0));
}

/// A sweep deletes and counts expired sessions and keeps the others.
pub async fn sweep_deletes_and_counts_expired_sessions(harness: Harness) {
    let log = harness.service();
    for number in 0..150 {
        create_for(&log, &format!("short{number}"), TTL).await;
    }
    let longer = create_for(&log, "longer", TTL * 10).await;
    let for_ever = create_with(&log, "for ever", r#"{"user:u":1}"#).await;
    assert_eq!(log.sweep().await.unwrap(), 0);
    harness.clock.tick(TTL * 2);
    assert_eq!(log.sweep().await.unwrap(), 150);
    assert_eq!(log.sweep().await.unwrap(), 0);
    assert!(is_there(&log, &longer).await && is_there(&log, &for_ever).await);
    let user = log.get_user_state(APP, USER).await.unwrap();
    assert_eq!(user, map(r#"{"u":1}"#));
}

/// A session without a time to live does not expire.
pub async fn session_without_ttl_never_expires(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    harness
        .clock
        .tick(Duration::from_secs(3600 * 24 * 365 * 50));
    assert_eq!(log.sweep().await.unwrap(), 0);
    assert!(is_there(&log, &key).await);
}

/// A service may set a default time to live; the time to live of a session overrides it.
pub async fn ttl_of_the_service_is_the_default(harness: Harness) {
    let log = harness.second_with(|settings| settings.session_ttl = Some(TTL));
    let log = log.await;
    let usual = create(&log, "usual").await;
    let longer = create_for(&log, "longer", TTL * 3).await;
    harness.clock.tick(TTL * 2);
    assert!(!is_there(&log, &usual).await);
    assert!(is_there(&log, &longer).await);
    harness.clock.tick(TTL * 2);
    assert!(!is_there(&log, &longer).await);
}

/// A time to live survives reopening the store.
pub async fn ttl_survives_reopening(mut harness: Harness) {
    if !harness.is_durable() {
        return;
    }
    let log = harness.service();
    let key = create_for(&log, "s", TTL).await;
    drop(log);
    let log = harness.reopen().await;
    harness.clock.tick(HALF);
    append(&log, &key, event("e")).await;
    harness.clock.tick(HALF);
    assert!(is_there(&log, &key).await);
    harness.clock.tick(HALF);
    assert!(!is_there(&log, &key).await);
    assert_eq!(log.sweep().await.unwrap(), 1);
}
