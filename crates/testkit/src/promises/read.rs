//! Promises about reading a session.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use retain_core::{GetSessionConfig, Session, SessionError, Window};

use super::common::*;
use crate::harness::Harness;

/// A read returns every event in log order, with its position.
pub async fn read_returns_all_events_in_order(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 5)).await;
    let all = get(&log, &key, GetSessionConfig::default()).await.unwrap();
    assert_eq!(ids(&all), ["e1", "e2", "e3", "e4", "e5"]);
    assert_eq!(loaded_positions(&all), [1, 2, 3, 4, 5]);
    assert_eq!(all.position, 5);
}

/// A read returns the newest N events, or all if there are fewer.
pub async fn read_returns_the_newest_events(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 5)).await;
    for (count, expected) in [(1, vec![5]), (2, vec![4, 5]), (9, vec![1, 2, 3, 4, 5])] {
        let config = GetSessionConfig {
            num_recent_events: Some(count),
            after_timestamp: None,
        };
        let found = get(&log, &key, config).await.unwrap();
        assert_eq!(loaded_positions(&found), expected);
        assert_eq!(found.position, 5);
    }
}

/// Zero events means none, as in ADK 2.13; the state is still returned.
pub async fn newest_zero_returns_state_without_events(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1}"#).await;
    append(&log, &key, state_event("e", r#"{"b":2}"#)).await;
    let config = GetSessionConfig {
        num_recent_events: Some(0),
        after_timestamp: None,
    };
    let found = get(&log, &key, config).await.unwrap();
    assert!(found.events.is_empty());
    assert_eq!(found.state, state(r#"{"a":1,"b":2}"#));
    assert_eq!(found.position, 1);
}

/// A timestamp filter includes events at that time and tests each event by itself: if times are not
/// monotonic, the result is neither a prefix nor a suffix of the log.
pub async fn read_after_a_timestamp_includes_it(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let times = [10.0, 30.0, 20.0, 20.000001, 5.0, 30.0];
    for (number, time) in times.into_iter().enumerate() {
        append(&log, &key, event_at(&format!("e{number}"), time)).await;
    }
    let cases = [
        (20.0, vec![2, 3, 4, 6]),
        (20.000001, vec![2, 4, 6]),
        (30.0, vec![2, 6]),
        (30.1, vec![]),
        (-1.0, vec![1, 2, 3, 4, 5, 6]),
    ];
    for (time, expected) in cases {
        let config = GetSessionConfig {
            num_recent_events: None,
            after_timestamp: Some(time),
        };
        let found = get(&log, &key, config).await.unwrap();
        assert_eq!(loaded_positions(&found), expected, "since {time}");
        assert_eq!(found.position, 6);
    }
}

/// With a time and a count, a read returns the newest of the events that pass the time filter.
pub async fn read_applies_the_time_filter_before_the_count(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for (number, time) in [10.0, 30.0, 20.0, 5.0].into_iter().enumerate() {
        append(&log, &key, event_at(&format!("e{number}"), time)).await;
    }
    for (count, expected) in [(0, vec![]), (1, vec![3]), (2, vec![2, 3]), (7, vec![2, 3])] {
        let config = GetSessionConfig {
            num_recent_events: Some(count),
            after_timestamp: Some(20.0),
        };
        let found = get(&log, &key, config).await.unwrap();
        assert_eq!(loaded_positions(&found), expected, "newest {count}");
    }
}

/// A range of positions includes both ends and may extend beyond the log.
pub async fn read_returns_a_range_of_positions(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 5)).await;
    let cases = [
        (Window::range(2, 4), vec![2, 3, 4]),
        (Window::range(5, 5), vec![5]),
        (Window::range(0, 1), vec![1]),
        (Window::range(4, 99), vec![4, 5]),
        (Window::range(6, 9), vec![]),
        (Window::range(4, 2), vec![]),
        (Window::after(0), vec![1, 2, 3, 4, 5]),
        (Window::after(3), vec![4, 5]),
        (Window::after(5), vec![]),
        (Window::after(u64::MAX), vec![]),
        (Window::newest(2), vec![4, 5]),
        (Window::NONE, vec![]),
    ];
    for (window, expected) in cases {
        let found = read_window(&log, &key, window).await;
        assert_eq!(loaded_positions(&found), expected, "{window:?}");
    }
}

/// The conditions of a window apply in this order: range, time, newest, oldest.
pub async fn window_conditions_apply_one_after_the_other(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for number in 1..=8 {
        let time = if number % 2 == 0 { 50.0 } else { 10.0 };
        append(&log, &key, event_at(&format!("e{number}"), time)).await;
    }
    let window = Window {
        first: 2,
        last: 7,
        after_timestamp: None,
        newest: Some(4),
        oldest: Some(3),
        bytes: None,
    };
    assert_eq!(
        loaded_positions(&read_window(&log, &key, window).await),
        [4, 5, 6]
    );
    let late = Window {
        after_timestamp: Some(50.0),
        newest: Some(2),
        oldest: Some(1),
        ..window
    };
    assert_eq!(loaded_positions(&read_window(&log, &key, late).await), [4]);
    let in_steps = Window {
        oldest: Some(2),
        ..Window::after(3)
    };
    assert_eq!(
        loaded_positions(&read_window(&log, &key, in_steps).await),
        [4, 5]
    );
}

/// A session that was not created reads as `None`.
pub async fn read_of_a_missing_session_is_none(harness: Harness) {
    let log = harness.service();
    create(&log, "s").await;
    let config = GetSessionConfig::default();
    assert_eq!(get(&log, &key("t"), config).await, None);
    assert_eq!(log.read(&key("t"), Window::ALL).await.unwrap(), None);
    for (app, user) in [(APP, "grace"), ("other", USER)] {
        let found = log.get_session(app, user, "s", config).await.unwrap();
        assert_eq!(found, None, "{app} {user}");
    }
}

/// State and events of one read are consistent while others append batches: never half a batch,
/// never the state of one batch with the events of another.
pub async fn read_is_a_consistent_snapshot_during_appends(harness: Harness) {
    const BATCHES: u64 = 400;
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    let written = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = [&log, &second, &log, &second]
        .into_iter()
        .map(|reader| {
            let (log, key, written) = (reader.clone(), key.clone(), Arc::clone(&written));
            tokio::spawn(async move {
                while !written.load(Ordering::SeqCst) {
                    assert_whole_batches(&read(&log, &key).await);
                    // Short reads allow many of them.
                    for _ in 0..20 {
                        let newest = read_window(&log, &key, Window::newest(4)).await;
                        assert_whole_batches(&newest);
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for n in 1..=BATCHES {
        let left = format!(r#"{{"left":{n},"user:left":{n}}}"#);
        let right = format!(r#"{{"right":{n},"app:right":{n}}}"#);
        let left = state_event(&format!("l{n}"), &left);
        let right = state_event(&format!("r{n}"), &right);
        append_all(&log, &key, vec![left, right]).await;
    }
    written.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    let end = read(&second, &key).await;
    assert_whole_batches(&end);
    assert_eq!(end.events.len() as u64, 2 * BATCHES);
}

fn assert_whole_batches(session: &Session) {
    assert_eq!(session.position % 2, 0, "half a batch");
    assert_eq!(session.events.len() % 2, 0, "half a batch");
    let last = loaded_positions(session).last().copied().unwrap_or(0);
    assert_eq!(
        session.position, last,
        "the last event is not at the position of the session"
    );
    let batches = session.position as i64 / 2;
    for name in ["left", "right", "user:left", "app:right"] {
        let seen = session.state.get(name).and_then(|n| n.as_i64());
        assert_eq!(
            seen.unwrap_or(0),
            batches,
            "{name} does not match the events"
        );
    }
}

/// An instance reads immediately what another instance has acknowledged.
pub async fn second_instance_reads_what_the_first_wrote(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create_with(&log, "s", r#"{"a":1}"#).await;
    for number in 1..=10 {
        let delta = format!(r#"{{"n":{number},"user:n":{number}}}"#);
        append(&log, &key, state_event(&format!("e{number}"), &delta)).await;
        assert_eq!(read(&second, &key).await, read(&log, &key).await);
        assert_eq!(read(&second, &key).await.position, number);
    }
    second.delete_session(APP, USER, "s").await.unwrap();
    assert_eq!(log.read(&key, Window::ALL).await.unwrap(), None);
}

/// Stored data survives closing and reopening the store, byte for byte.
pub async fn everything_survives_reopening(mut harness: Harness) {
    if !harness.is_durable() {
        // The store declares that it is not durable, so there is nothing to check.
        return;
    }
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1,"app:x":[1,2],"user:y":null}"#).await;
    append(
        &log,
        &key,
        state_event("e1", r#"{"b":{"c":[1.0,2]},"user:z":1}"#),
    )
    .await;
    append(
        &log,
        &key,
        invocation_event("e2", "i2", r#"{"a":null,"b":"x"}"#),
    )
    .await;
    log.rewind(&key, "i2").await.unwrap();
    let fork = log.fork(&key, Some(1), Some("fork")).await.unwrap();
    let before = read(&log, &key).await;
    let listed = log.list_sessions(APP, None).await.unwrap();
    drop(log);

    let log = harness.reopen().await;
    let after = read(&log, &key).await;
    assert_eq!(after, before);
    assert_eq!(event_texts(&after), event_texts(&before));
    assert_eq!(read(&log, &fork.key()).await, fork);
    assert_eq!(log.list_sessions(APP, None).await.unwrap(), listed);
    let at_one = log.state_at(&key, 1).await.unwrap();
    assert_eq!(at_one.get("b").unwrap(), &json(r#"{"c":[1.0,2]}"#));
    assert_eq!(append(&log, &key, event("e4")).await, 4);
    assert_eq!(log.check().await.unwrap(), []);
}

/// A refresh adds missed events once and in order, and the newest state.
pub async fn refresh_loads_missed_events_without_gap_or_repeat(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create_with(&log, "s", r#"{"a":1}"#).await;
    let mut live = read(&log, &key).await;
    log.append_event(&mut live, event("mine1")).await.unwrap();
    append(
        &second,
        &key,
        state_event("theirs1", r#"{"a":2,"user:u":1}"#),
    )
    .await;
    append(&second, &key, event("theirs2")).await;
    log.append_event(&mut live, state_event("mine2", r#"{"b":1}"#))
        .await
        .unwrap();
    append(&second, &key, event("theirs3")).await;

    log.refresh(&mut live).await.unwrap();
    assert_eq!(
        ids(&live),
        ["mine1", "theirs1", "theirs2", "mine2", "theirs3"]
    );
    assert_eq!(loaded_positions(&live), [1, 2, 3, 4, 5]);
    assert_eq!(live, read(&log, &key).await);
    log.refresh(&mut live).await.unwrap();
    assert_eq!(live, read(&log, &key).await);
}

/// A refresh of a partly read session adds new events, not the older ones that the read omitted.
pub async fn refresh_of_a_partly_loaded_session_adds_only_new_events(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 5)).await;
    let mut newest = read_window(&log, &key, Window::newest(2)).await;
    let mut none = read_window(&log, &key, Window::NONE).await;
    append_all(&log, &key, numbered_events("f", 2)).await;
    log.refresh(&mut newest).await.unwrap();
    log.refresh(&mut none).await.unwrap();
    assert_eq!(loaded_positions(&newest), [4, 5, 6, 7]);
    assert_eq!(loaded_positions(&none), [6, 7]);
    assert_eq!((newest.position, none.position), (7, 7));
}

/// `temp:` keys live as long as the live session; a refresh keeps them.
pub async fn refresh_keeps_temp_keys(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let mut live = read(&log, &key).await;
    let event = state_event("e1", r#"{"temp:t":1,"a":1}"#);
    log.append_event(&mut live, event).await.unwrap();
    append(&log, &key, state_event("e2", r#"{"a":2}"#)).await;
    log.refresh(&mut live).await.unwrap();
    assert_eq!(live.state, state(r#"{"temp:t":1,"a":2}"#));
}

/// Refreshing a deleted session fails, and the live session does not change.
pub async fn refresh_of_a_deleted_session_is_not_found(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append(&log, &key, event("e1")).await;
    let mut live = read(&log, &key).await;
    let before = live.clone();
    log.delete_session(APP, USER, "s").await.unwrap();
    let refreshed = log.refresh(&mut live).await;
    assert_fails!(refreshed, SessionError::NotFound { key: found } if found == key);
    assert_eq!(live, before);
}

/// A live session never becomes a mixture of two. If another session has its id, a refresh either
/// fails or loads the new session in full.
pub async fn refresh_does_not_mix_two_sessions_with_the_same_id(harness: Harness) {
    let log = harness.service();
    for events in [1, 5] {
        let key = create_with(&log, "s", r#"{"old":1}"#).await;
        append_all(&log, &key, numbered_events("old", 3)).await;
        let mut live = read(&log, &key).await;
        log.delete_session(APP, USER, "s").await.unwrap();
        create_with(&log, "s", r#"{"new":1}"#).await;
        append_all(&log, &key, numbered_events("new", events)).await;
        match log.refresh(&mut live).await {
            Ok(()) => assert_eq!(live, read(&log, &key).await),
            refused => assert_fails!(refused, SessionError::NotFound { .. }),
        }
        log.delete_session(APP, USER, "s").await.unwrap();
    }
}
