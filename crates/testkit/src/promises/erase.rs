//! Promises about erasing a user.

use futures_util::StreamExt as _;
use retain_core::{EraseReceipt, ExportScope, SessionError, SessionKey, Window};

use super::common::*;
use crate::harness::Harness;

/// Creates two sessions with three events, three state keys of their own and two of the user.
async fn fill(log: &Log, app: &str, user: &str) -> [SessionKey; 2] {
    let one = SessionKey::new(app, user, "one");
    let two = SessionKey::new(app, user, "two");
    create_at(log, &one, r#"{"a":1,"user:u":1,"app:p":1}"#).await;
    create_at(log, &two, r#"{"c":3}"#).await;
    append(log, &one, state_event("e1", r#"{"a":2,"b":2}"#)).await;
    append(log, &one, event("e2")).await;
    append(log, &two, state_event("e1", r#"{"user:v":3,"app:q":3}"#)).await;
    [one, two]
}

/// Returns the receipt for erasing the data that [`fill`] creates.
fn receipt_of_fill() -> EraseReceipt {
    let mut receipt = EraseReceipt::default();
    (receipt.sessions, receipt.events, receipt.state_keys) = (2, 3, 5);
    receipt
}

/// Everything of the user is removed, and the receipt counts it.
pub async fn erase_removes_everything_of_a_user(harness: Harness) {
    let log = harness.service();
    let sessions = fill(&log, APP, USER).await;
    let receipt = log.erase_user(APP, USER).await.unwrap();
    assert_eq!(receipt, receipt_of_fill());
    for key in &sessions {
        assert_eq!(log.read(key, Window::ALL).await.unwrap(), None);
        let at = log.state_at(key, 0).await;
        assert_fails!(at, SessionError::NotFound { .. });
    }
    assert!(log.get_user_state(APP, USER).await.unwrap().is_empty());
    assert_eq!(log.list_sessions(APP, None).await.unwrap().sessions, []);
    let scope = ExportScope::User {
        app: APP.into(),
        user: USER.into(),
    };
    let exported = export(&log, scope).await.concat();
    assert!(!exported.contains("\"e1\""), "{exported}");
}

/// Other users, the same user of another app, and the app's state stay.
pub async fn erase_keeps_other_users(harness: Harness) {
    let log = harness.service();
    fill(&log, APP, USER).await;
    let mut others = Vec::new();
    for (app, user) in [(APP, "grace"), ("other", USER), (APP, "ada2"), (APP, "Ada")] {
        others.extend(fill(&log, app, user).await);
    }
    let mut before = Vec::new();
    for key in &others {
        before.push(read(&log, key).await);
    }
    assert_eq!(log.erase_user(APP, USER).await.unwrap(), receipt_of_fill());
    for (key, before) in others.iter().zip(before) {
        assert_eq!(read(&log, key).await, before);
    }
    let app = log.get_app_state(APP).await.unwrap();
    assert_eq!(app, map(r#"{"p":1,"q":3}"#));
}

/// Erasing again, or erasing an unknown user, removes nothing and returns zeros.
pub async fn repeated_erase_counts_zero(harness: Harness) {
    let log = harness.service();
    fill(&log, APP, USER).await;
    log.erase_user(APP, USER).await.unwrap();
    let nothing = EraseReceipt::default();
    assert_eq!(log.erase_user(APP, USER).await.unwrap(), nothing);
    assert_eq!(log.erase_user(APP, "nobody").await.unwrap(), nothing);
    assert_eq!(log.erase_user("nowhere", USER).await.unwrap(), nothing);
}

/// An erased user can start again, without any earlier data.
pub async fn erased_user_starts_again_without_old_data(harness: Harness) {
    let log = harness.service();
    let [one, _] = fill(&log, APP, USER).await;
    log.erase_user(APP, USER).await.unwrap();
    create_at(&log, &one, "{}").await;
    let fresh = read(&log, &one).await;
    assert!(fresh.events.is_empty());
    assert_eq!(fresh.state, state(r#"{"app:p":1,"app:q":3}"#));
    assert_eq!(append(&log, &one, event("e1")).await, 1);
}

/// A user with only user state and no session is erased too.
pub async fn erase_removes_user_keys_without_sessions(harness: Harness) {
    let log = harness.service();
    create_with(&log, "s", r#"{"user:u":1,"user:v":2}"#).await;
    log.delete_session(APP, USER, "s").await.unwrap();
    let receipt = log.erase_user(APP, USER).await.unwrap();
    let mut keys_only = EraseReceipt::default();
    keys_only.state_keys = 2;
    assert_eq!(receipt, keys_only);
    assert!(log.get_user_state(APP, USER).await.unwrap().is_empty());
}

/// Tails of an erased user's sessions end.
pub async fn erase_ends_the_tails_of_the_user(harness: Harness) {
    let log = harness.service();
    let [one, _] = fill(&log, APP, USER).await;
    let mut tail = log.tail(&one, 2);
    assert_pending(&mut tail.next()).await;
    log.erase_user(APP, USER).await.unwrap();
    let end = within_a_minute(tail.next()).await.unwrap();
    assert_fails!(end, SessionError::NotFound { .. });
}

/// Erased data stays erased after reopening the store.
pub async fn erased_user_stays_erased_after_reopening(mut harness: Harness) {
    if !harness.is_durable() {
        return;
    }
    let log = harness.service();
    let [one, _] = fill(&log, APP, USER).await;
    log.erase_user(APP, USER).await.unwrap();
    drop(log);
    let log = harness.reopen().await;
    assert_eq!(log.read(&one, Window::ALL).await.unwrap(), None);
    assert!(log.get_user_state(APP, USER).await.unwrap().is_empty());
    assert_eq!(log.check().await.unwrap(), []);
}
