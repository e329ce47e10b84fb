//! Promises about deleting a session.

use std::time::Duration;

use retain_core::{Append, RunToken, SessionError, SessionKey, Window};

use super::common::*;
use crate::harness::Harness;

async fn delete(log: &Log, key: &SessionKey) {
    let deleted = log.delete_session(&key.app, &key.user, &key.id);
    deleted.await.unwrap();
}

/// A deleted session can be neither read nor listed.
pub async fn delete_removes_the_session(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1}"#).await;
    append(&log, &key, event("e")).await;
    delete(&log, &key).await;
    assert_eq!(log.read(&key, Window::ALL).await.unwrap(), None);
    assert_eq!(log.list_sessions(APP, None).await.unwrap().sessions, []);
}

/// Deleting a missing session succeeds.
pub async fn delete_is_idempotent(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    delete(&log, &key).await;
    delete(&log, &key).await;
    delete(&log, &SessionKey::new("no", "such", "session")).await;
}

/// State shared with other sessions stays.
pub async fn delete_keeps_shared_state(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1,"app:b":2,"user:c":3}"#).await;
    delete(&log, &key).await;
    assert_eq!(log.get_app_state(APP).await.unwrap(), map(r#"{"b":2}"#));
    let user = log.get_user_state(APP, USER).await.unwrap();
    assert_eq!(user, map(r#"{"c":3}"#));
}

/// Other sessions, of the same user or with the same id, do not change.
pub async fn delete_does_not_change_other_sessions(harness: Harness) {
    let log = harness.service();
    let others = [
        key("t"),
        SessionKey::new(APP, "grace", "s"),
        SessionKey::new("other", USER, "s"),
    ];
    let mut before = Vec::new();
    for other in &others {
        create_at(&log, other, r#"{"a":1}"#).await;
        append(&log, other, state_event("e", r#"{"b":1}"#)).await;
        before.push(read(&log, other).await);
    }
    let key = create(&log, "s").await;
    append(&log, &key, state_event("e", r#"{"b":2}"#)).await;
    delete(&log, &key).await;
    for (other, before) in others.iter().zip(before) {
        assert_eq!(read(&log, other).await, before);
    }
}

/// An append through a live session fails once the stored one is deleted, and changes nothing.
pub async fn append_after_delete_is_not_found(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let mut live = read(&log, &key).await;
    delete(&log, &key).await;
    let appended = log
        .append_event(&mut live, state_event("e", r#"{"a":1}"#))
        .await;
    assert_fails!(appended, SessionError::NotFound { key: found } if found == key);
    assert!(live.events.is_empty() && live.state.is_empty());
    assert_eq!(log.read(&key, Window::ALL).await.unwrap(), None);
}

/// A recreated session shows nothing of the deleted one, and its event ids can be used again.
pub async fn recreated_session_is_empty(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"old":1}"#).await;
    append(&log, &key, invocation_event("e1", "old", r#"{"older":1}"#)).await;
    append(&log, &key, event("e2")).await;
    delete(&log, &key).await;
    create_with(&log, "s", r#"{"new":1}"#).await;
    let fresh = read(&log, &key).await;
    assert!(fresh.events.is_empty());
    assert_eq!((fresh.state, fresh.position), (state(r#"{"new":1}"#), 0));
    let at_zero = log.state_at(&key, 0).await.unwrap();
    assert_eq!(at_zero, state(r#"{"new":1}"#));
    assert_eq!(append(&log, &key, state_event("e1", r#"{"b":1}"#)).await, 1);
    let after = log.state_at(&key, 1).await.unwrap();
    assert_eq!(after, state(r#"{"new":1,"b":1}"#));
    let rewound = log.rewind(&key, "old").await;
    assert_fails!(rewound, SessionError::InvocationNotFound { .. });
}

/// The run token of a deleted session is invalid in a recreated session with the same id.
pub async fn run_cannot_append_after_its_session_is_deleted(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let old = begin(&log, &key, event("e1")).await.unwrap();
    delete(&log, &key).await;
    create(&log, "s").await;
    let write = |id: &str, token| log.append(&key, Append::from(event(id)).within_run(token));
    assert_fails!(write("e2", old).await, SessionError::RunLost { .. });
    let new = begin(&log, &key, event("e3")).await.unwrap();
    assert_fails!(write("e4", old).await, SessionError::RunLost { .. });
    assert_fails!(log.end_run(&key, old).await, SessionError::RunLost { .. });
    write("e5", new).await.unwrap();
    assert_eq!(ids(&read(&log, &key).await), ["e3", "e5"]);
}

/// Every operation on a missing session fails with `NotFound` and creates nothing.
pub async fn operations_on_a_missing_session_are_not_found(harness: Harness) {
    let log = harness.service();
    let key = key("missing");
    let position = log.append(&key, Append::from(event("e")).expecting(0));
    assert_fails!(position.await, SessionError::NotFound { .. });
    assert_operations_find_nothing(&log, &key, RunToken(1)).await;
    assert_eq!(log.list_sessions(APP, None).await.unwrap().sessions, []);
}

/// A delete among concurrent appends removes the session, whatever the order.
pub async fn session_is_deleted_despite_concurrent_appends(harness: Harness) {
    let log = harness.service();
    for round in 0..10 {
        let key = create(&log, &format!("s{round}")).await;
        let answers = run_concurrently(4, |number| {
            let (log, key) = (log.clone(), key.clone());
            async move {
                if number == 0 {
                    return log.delete_session(&key.app, &key.user, &key.id).await;
                }
                let event = event(&format!("e{number}"));
                log.append(&key, event.into()).await.map(drop)
            }
        });
        for answer in answers.await {
            if answer.is_err() {
                assert_fails!(answer, SessionError::NotFound { .. });
            }
        }
        assert_eq!(log.read(&key, Window::ALL).await.unwrap(), None);
    }
}

/// A deleted session stays deleted after reopening the store.
pub async fn deleted_session_stays_deleted_after_reopening(mut harness: Harness) {
    if !harness.is_durable() {
        return;
    }
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1}"#).await;
    append(&log, &key, event("e")).await;
    delete(&log, &key).await;
    drop(log);
    let log = harness.reopen().await;
    assert_eq!(log.read(&key, Window::ALL).await.unwrap(), None);
    create(&log, "s").await;
    let fresh = read(&log, &key).await;
    assert!(fresh.events.is_empty() && fresh.state.is_empty());
}

/// A run that waits for the lease fails when the session is deleted.
pub async fn waiting_run_fails_when_the_session_is_deleted(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    begin(&log, &key, event("e1")).await.unwrap();
    let options = retain_core::RunOptions::default().with_wait(Duration::from_secs(60));
    let append = Append::from(event("e2")).beginning_run(options);
    let mut waiting = log.append(&key, append);
    assert_pending(&mut waiting).await;
    delete(&log, &key).await;
    let answer = within_a_minute(waiting).await;
    assert_fails!(answer, SessionError::NotFound { .. });
}

/// A loaded copy of a deleted session does not append to a new session with the same id.
pub async fn handle_of_a_deleted_session_cannot_append_to_a_new_one(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append(&log, &key, event("e1")).await;
    let mut old = read(&log, &key).await;
    log.delete_session(APP, USER, "s").await.unwrap();
    create(&log, "s").await;
    let written = log.append_event(&mut old, event("e2")).await;
    assert_fails!(written, SessionError::NotFound { .. });
    assert_eq!(read(&log, &key).await.position, 0);
    let mut new = read(&log, &key).await;
    log.append_event(&mut new, event("e3")).await.unwrap();
}
