//! Promises about forking: a separate session with the same history.

use std::time::Duration;

use retain_core::{Clock as _, Origin, SessionError, SessionKey, SessionMeta, Window};

use super::{common::*, state::assert_fold};
use crate::harness::Harness;

const INITIAL: &str = r#"{"a":1,"b":2}"#;

async fn origin(log: &Log) -> SessionKey {
    let key = create_with(log, "s", INITIAL).await;
    for n in 1..=4 {
        let delta = format!(r#"{{"a":{n},"k{n}":{n},"user:u":{n}}}"#);
        let event = invocation_event(&format!("e{n}"), &format!("i{n}"), &delta);
        append(log, &key, event).await;
    }
    key
}

async fn meta(log: &Log, id: &str) -> SessionMeta {
    let listed = log.list_sessions(APP, Some(USER)).await.unwrap().sessions;
    let found = listed.into_iter().find(|meta| meta.id == id);
    found.unwrap_or_else(|| panic!("{id} is not listed"))
}

/// A fork has the events up to its position byte for byte, and the state after them.
pub async fn fork_has_the_same_history(harness: Harness) {
    let log = harness.service();
    let key = origin(&log).await;
    let whole = read(&log, &key).await;
    for position in 0..=4 {
        let id = format!("fork{position}");
        let fork = log.fork(&key, Some(position), Some(&id)).await.unwrap();
        assert_eq!(fork.key(), SessionKey::new(APP, USER, id));
        assert_eq!(event_texts(&fork), event_texts(&whole)[..position as usize]);
        assert_eq!(loaded_positions(&fork), (1..=position).collect::<Vec<_>>());
        assert_eq!(fork.state, log.state_at(&key, position).await.unwrap());
        assert_eq!(fork.position, position);
        assert_eq!(fork, read(&log, &fork.key()).await);
    }
    assert_eq!(read(&log, &key).await, whole);
}

/// Without a position a fork copies the whole log; without an id it gets a new one.
pub async fn fork_defaults_to_the_end_and_a_generated_id(harness: Harness) {
    let log = harness.service();
    let key = origin(&log).await;
    let one = log.fork(&key, None, None).await.unwrap();
    let two = log.fork(&key, None, Some("  ")).await.unwrap();
    assert_eq!((one.position, two.position), (4, 4));
    assert!(!one.id.trim().is_empty() && !two.id.trim().is_empty());
    assert!(one.id != two.id && one.id != key.id);
    assert_eq!(event_texts(&one), event_texts(&read(&log, &key).await));
}

/// A fork beyond the end of the log fails.
pub async fn fork_beyond_the_end_fails_with_position_not_found(harness: Harness) {
    let log = harness.service();
    let key = origin(&log).await;
    for beyond in [5, u64::MAX] {
        let refused = log.fork(&key, Some(beyond), Some("fork")).await;
        assert_fails!(
            refused,
            SessionError::PositionNotFound { position, last: 4, .. } if position == beyond
        );
    }
    let fork = log.read(&super::common::key("fork"), Window::ALL).await;
    assert_eq!(fork.unwrap(), None);
}

/// A fork does not overwrite an existing session.
pub async fn fork_to_an_existing_id_fails_with_already_exists(harness: Harness) {
    let log = harness.service();
    let key = origin(&log).await;
    let taken = create_with(&log, "taken", r#"{"mine":1}"#).await;
    let before = read(&log, &taken).await;
    for id in ["taken", "s"] {
        let refused = log.fork(&key, Some(2), Some(id)).await;
        assert_fails!(refused, SessionError::AlreadyExists { key: found } if found.id == id);
    }
    assert_eq!(read(&log, &taken).await, before);
    assert_eq!(read(&log, &key).await.position, 4);
}

/// A list shows the origin of a fork, and a fork of a fork names its direct parent.
pub async fn fork_records_its_origin(harness: Harness) {
    let log = harness.service();
    let key = origin(&log).await;
    harness.clock.tick(Duration::from_secs(60));
    let fork = log.fork(&key, Some(3), Some("fork")).await.unwrap();
    log.fork(&fork.key(), Some(1), Some("grandchild"))
        .await
        .unwrap();
    let from = |session_id: &str, position| {
        let session_id = session_id.to_owned();
        Some(Origin {
            session_id,
            position,
        })
    };
    let listed = meta(&log, "fork").await;
    assert_eq!(listed.origin, from("s", 3));
    assert_eq!(listed.create_time, harness.clock.now());
    assert_eq!(meta(&log, "grandchild").await.origin, from("fork", 1));
    assert_eq!(meta(&log, "s").await.origin, None);
    // The fork keeps its origin after the origin is deleted.
    log.delete_session(APP, USER, "s").await.unwrap();
    assert_eq!(meta(&log, "fork").await.origin, from("s", 3));
    assert_eq!(read(&log, &fork.key()).await.events.len(), 3);
}

/// Origin and fork change independently; only shared state is shared.
pub async fn fork_and_origin_change_independently(harness: Harness) {
    let log = harness.service();
    let key = origin(&log).await;
    let fork = log.fork(&key, Some(2), Some("fork")).await.unwrap().key();
    append(&log, &key, state_event("of-origin", r#"{"a":"origin"}"#)).await;
    let delta = r#"{"a":"fork","user:u":"fork"}"#;
    assert_eq!(append(&log, &fork, state_event("of-fork", delta)).await, 3);
    let (of_origin, of_fork) = (read(&log, &key).await, read(&log, &fork).await);
    assert_eq!(of_origin.state.get("a").unwrap(), "origin");
    assert_eq!(of_fork.state.get("a").unwrap(), "fork");
    assert_eq!(of_origin.state.get("user:u").unwrap(), "fork");
    assert_eq!(ids(&of_fork), ["e1", "e2", "of-fork"]);
    assert_eq!(of_origin.position, 5);
    log.delete_session(APP, USER, "fork").await.unwrap();
    assert_eq!(read(&log, &key).await, of_origin);
}

/// A fork's earlier states can be read, and the fork can be rewound, like its origin.
pub async fn fork_has_the_state_at_every_earlier_position(harness: Harness) {
    let log = harness.service();
    let key = origin(&log).await;
    log.rewind(&key, "i3").await.unwrap();
    append(&log, &key, invocation_event("e6", "i6", r#"{"z":1}"#)).await;
    let fork = log.fork(&key, None, Some("fork")).await.unwrap().key();
    assert_fold(&log, &fork, INITIAL).await;
    log.rewind(&fork, "i1").await.unwrap();
    assert_fold(&log, &fork, INITIAL).await;
    assert_eq!(read(&log, &key).await.position, 6);
    let before = log.fork(&key, Some(2), Some("early")).await.unwrap().key();
    let unknown = log.rewind(&before, "i3").await;
    assert_fails!(unknown, SessionError::InvocationNotFound { .. });
    assert_fold(&log, &before, INITIAL).await;
}

/// A fork recognizes repeats of the events that it copied, and only those.
pub async fn fork_recognizes_repeats_of_copied_events(harness: Harness) {
    let log = harness.service();
    let key = origin(&log).await;
    let stored = read(&log, &key).await;
    let fork = log.fork(&key, Some(2), Some("fork")).await.unwrap().key();
    assert_eq!(append(&log, &fork, stored.events[1].clone()).await, 2);
    assert_eq!(append(&log, &fork, stored.events[3].clone()).await, 3);
    assert_eq!(ids(&read(&log, &fork).await), ["e1", "e2", "e4"]);
}

/// A run of the origin does not hold the fork's lease.
pub async fn fork_has_no_lease_while_its_origin_runs(harness: Harness) {
    let log = harness.service();
    let key = origin(&log).await;
    let run = begin(&log, &key, event("run")).await.unwrap();
    let fork = log.fork(&key, None, Some("fork")).await.unwrap().key();
    let stranger = retain_core::Append::from(event("stranger")).within_run(run);
    assert_fails!(
        log.append(&fork, stranger).await,
        SessionError::RunLost { .. }
    );
    begin(&log, &fork, event("own")).await.unwrap();
    log.renew_run(&key, run).await.unwrap();
}

/// Of concurrent forks to one id, exactly one succeeds.
pub async fn exactly_one_of_concurrent_forks_wins(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = origin(&log).await;
    let answers = run_concurrently(6, |number| {
        let (log, key) = ([&log, &second][number % 2].clone(), key.clone());
        async move { log.fork(&key, Some(number as u64 % 4), Some("fork")).await }
    });
    let won: Vec<u64> = (answers.await.into_iter().flatten().map(|s| s.position)).collect();
    assert_eq!(won.len(), 1);
    let fork = SessionKey::new(APP, USER, "fork");
    assert_eq!(read(&log, &fork).await.position, won[0]);
}

/// A fork can be read by time, whether its events are older or newer than the fork.
pub async fn forked_session_can_be_read_by_time(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let now = harness.clock.now();
    for (number, offset) in [-100.0, 5000.0].into_iter().enumerate() {
        append(&log, &key, event_at(&format!("e{number}"), now + offset)).await;
    }
    let fork = log.fork(&key, None, Some("fork")).await.unwrap().key();
    for (number, offset) in [10.0, 6000.0].into_iter().enumerate() {
        append(&log, &fork, event_at(&format!("f{number}"), now + offset)).await;
    }
    for (offset, expected) in [(0.0, vec![2, 3, 4]), (15.0, vec![2, 4]), (5500.0, vec![4])] {
        let window = Window {
            after_timestamp: Some(now + offset),
            ..Window::ALL
        };
        let found = read_window(&log, &fork, window).await;
        assert_eq!(loaded_positions(&found), expected, "since {offset}");
    }
}
