//! Promises about limits: each is explicit and configurable, and an excess writes nothing.

use retain_core::{Event, LimitKind, Limits, Result, SessionError, State, Window};

use super::common::*;
use crate::harness::Harness;

fn text_of(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// Creates an event that sets `key` to a text of `bytes` bytes.
fn sized_event(id: &str, key: &str, bytes: usize) -> Event {
    state_event(id, &format!(r#"{{"{key}":"{}"}}"#, text_of(bytes)))
}

/// Returns the limit on the state of the scope with this prefix.
fn state_limit(prefix: &str) -> LimitKind {
    match prefix {
        "app:" => LimitKind::AppState,
        "user:" => LimitKind::UserState,
        _ => LimitKind::SessionState,
    }
}

/// Fails unless the error names `what` as too large, and `limit` as the limit.
fn assert_too_large<T: std::fmt::Debug>(answer: Result<T>, what: LimitKind, limit: usize) {
    match answer {
        Err(SessionError::TooLarge {
            what: found_what,
            limit: named,
            found,
        }) => {
            assert_eq!(found_what, what);
            assert_eq!(named, limit as u64);
            assert!(found > named);
        }
        other => panic!("expected TooLarge, got {other:?}"),
    }
}

/// An event may have as many bytes of JSON as the limit, and not one more.
pub async fn size_of_an_event_is_limited(harness: Harness) {
    let event = sized_event("e", "user:a", 500);
    let bytes = event.to_json().unwrap().len();
    let exact = harness.second_with(|s| s.limits.event_bytes = bytes).await;
    let tight = harness
        .second_with(|s| s.limits.event_bytes = bytes - 1)
        .await;
    let key = create(&exact, "s").await;
    let before = read(&exact, &key).await;
    let refused = tight.append(&key, event.clone().into()).await;
    assert_too_large(refused, LimitKind::Event, bytes - 1);
    let in_batch = vec![sized_event("f", "b", 1), event.clone()];
    let refused = tight.append(&key, in_batch.into()).await;
    assert_too_large(refused, LimitKind::Event, bytes - 1);
    assert_eq!(read(&exact, &key).await, before);
    append(&exact, &key, event).await;
}

/// A state key may have as many bytes as the limit, prefix included, in every operation.
pub async fn length_of_a_state_key_is_limited(harness: Harness) {
    let log = harness.second_with(|s| s.limits.state_key_bytes = 20).await;
    let key = create(&log, "s").await;
    let before = read(&log, &key).await;
    for prefix in ["", "user:", "app:"] {
        let long = format!("{prefix}{}", text_of(21 - prefix.len()));
        let refused = log.append(&key, sized_event("e", &long, 1).into()).await;
        assert_too_large(refused, LimitKind::StateKey, 20);
        let initial = State::from([(long, 1)]);
        let refused = log.create_session(APP, USER, Some(initial), Some("t"));
        assert_too_large(refused.await, LimitKind::StateKey, 20);
    }
    assert_eq!(read(&log, &key).await, before);
    let missing = log.read(&super::common::key("t"), Window::ALL).await;
    assert_eq!(missing.unwrap(), None);
    for prefix in ["", "user:", "app:"] {
        let fits = format!("{prefix}{}", text_of(20 - prefix.len()));
        append(&log, &key, sized_event(&format!("{prefix}e"), &fits, 1)).await;
    }
}

/// An append may have as many events as the limit; partial ones do not count.
pub async fn size_of_a_batch_is_limited(harness: Harness) {
    let log = harness.second_with(|s| s.limits.batch_events = 3).await;
    let key = create(&log, "s").await;
    let refused = log.append(&key, numbered_events("e", 4).into()).await;
    assert_too_large(refused, LimitKind::Batch, 3);
    assert!(read(&log, &key).await.events.is_empty());
    let mut batch = numbered_events("e", 3);
    let mut partial = event("p");
    partial.response.partial = Some(true);
    batch.push(partial);
    assert_eq!(append_all(&log, &key, batch).await, [1, 2, 3]);
}

/// The size of the state of a session, of a user and of an app is limited.
pub async fn size_of_state_is_limited_in_each_scope(harness: Harness) {
    const LIMIT: usize = 1000;
    let log = harness.second_with(|s| s.limits.state_bytes = LIMIT).await;
    for (scope, id) in [("", "s0"), ("user:", "s1"), ("app:", "s2")] {
        let key = create(&log, id).await;
        append(&log, &key, sized_event("e1", &format!("{scope}a"), 600)).await;
        let before = read(&log, &key).await;
        let more = sized_event("e2", &format!("{scope}b"), 600);
        let refused = log.append(&key, more.clone().into()).await;
        assert_too_large(refused, state_limit(scope), LIMIT);
        let batch = vec![state_event("e3", r#"{"x":1,"user:x":1,"app:x":1}"#), more];
        let refused = log.append(&key, batch.into()).await;
        assert_too_large(refused, state_limit(scope), LIMIT);
        assert_eq!(read(&log, &key).await, before, "scope {scope:?}");
        // The other scopes have room, and so does this one once a value is replaced.
        append(&log, &key, sized_event("e4", &format!("{scope}a"), 700)).await;
        append(&log, &key, sized_event("e5", &format!("{scope}a"), 1)).await;
        append(&log, &key, sized_event("e6", &format!("{scope}b"), 600)).await;
    }
}

/// The limits on user and app state count the writes of all sessions together.
pub async fn shared_state_is_limited_across_sessions(harness: Harness) {
    let log = harness.second_with(|s| s.limits.state_bytes = 1000).await;
    let (one, two) = (create(&log, "one").await, create(&log, "two").await);
    for scope in ["user:", "app:"] {
        append(&log, &one, sized_event(scope, &format!("{scope}a"), 600)).await;
        let more = sized_event(scope, &format!("{scope}b"), 600);
        let refused = log.append(&two, more.into()).await;
        assert_too_large(refused, state_limit(scope), 1000);
    }
    assert!(read(&log, &two).await.events.is_empty());
    // The limit on session state counts each session by itself.
    append(&log, &one, sized_event("own", "k", 600)).await;
    append(&log, &two, sized_event("own", "k", 600)).await;
}

/// The limit applies to the initial state too, together with existing shared state.
pub async fn size_of_initial_state_is_limited(harness: Harness) {
    let log = harness.second_with(|s| s.limits.state_bytes = 1000).await;
    for scope in ["", "user:", "app:"] {
        let initial = State::from([(format!("{scope}a"), text_of(1200))]);
        let refused = log.create_session(APP, USER, Some(initial), Some("s"));
        assert_too_large(refused.await, LimitKind::InitialState, 1000);
    }
    create_with(&log, "one", &format!(r#"{{"user:a":"{}"}}"#, text_of(600))).await;
    let initial = State::from([("user:b", text_of(600))]);
    let refused = log.create_session(APP, USER, Some(initial), Some("s"));
    assert_too_large(refused.await, LimitKind::UserState, 1000);
    let listed = log.list_sessions(APP, None).await.unwrap().sessions;
    assert_eq!(listed.len(), 1);
    let user = log.get_user_state(APP, USER).await.unwrap();
    assert_eq!(user.len(), 1);
}

/// The limit on ids may be lowered, but not raised above what stores support.
pub async fn length_of_ids_is_limited(harness: Harness) {
    let log = harness.second_with(|s| s.limits.id_bytes = 10).await;
    let long = text_of(11);
    let refused = log.create_session(APP, USER, None, Some(&long)).await;
    assert_fails!(refused, SessionError::Invalid { .. });
    let refused = log.create_session(&long, USER, None, Some("s")).await;
    assert_fails!(refused, SessionError::Invalid { .. });
    let refused = log.create_session(APP, &long, None, Some("s")).await;
    assert_fails!(refused, SessionError::Invalid { .. });
    let key = create(&log, &text_of(10)).await;
    let refused = log.append(&key, event(&long).into()).await;
    assert_fails!(refused, SessionError::Invalid { .. });
    let refused = log.append(&key, invocation_event("e", &long, "{}").into());
    assert_fails!(refused.await, SessionError::Invalid { .. });
    assert!(read(&log, &key).await.events.is_empty());

    let raised = harness.second_with(|s| s.limits.id_bytes = usize::MAX);
    let raised = raised.await;
    let most = text_of(Limits::ID_BYTES_MAX);
    create(&raised, &most).await;
    let longer = format!("{most}x");
    let refused = raised.create_session(APP, USER, None, Some(&longer)).await;
    assert_fails!(refused, SessionError::Invalid { .. });
}

/// The default limits allow large events.
pub async fn default_limits_allow_large_events(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let large = sized_event("e", "k", 2 * 1024 * 1024);
    append(&log, &key, large.clone()).await;
    let stored = read(&log, &key).await;
    assert_eq!(event_texts(&stored), [large.to_json().unwrap()]);
    assert_eq!(stored.state.to_delta(), large.actions.state_delta);
}

/// A timestamp must be a number.
pub async fn invalid_timestamp_is_refused(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for time in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let refused = log.append(&key, event_at("e", time).into()).await;
        assert_fails!(refused, SessionError::Invalid { .. });
    }
    assert!(read(&log, &key).await.events.is_empty());
}

/// After the limit is lowered, a larger state cannot grow, but its session still accepts events.
pub async fn lowered_state_limit_refuses_only_growth(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for scope in ["", "user:", "app:"] {
        let event = sized_event(&format!("e{scope}"), &format!("{scope}a"), 2000);
        append(&log, &key, event).await;
    }
    let tight = harness.second_with(|s| s.limits.state_bytes = 1000).await;
    append(&tight, &key, event("words only")).await;
    for scope in ["", "user:", "app:"] {
        let more = sized_event("more", &format!("{scope}b"), 10);
        let refused = tight.append(&key, more.into()).await;
        assert_too_large(refused, state_limit(scope), 1000);
    }
}
