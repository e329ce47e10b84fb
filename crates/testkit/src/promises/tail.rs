//! Promises about a tail: history, then each new event, without gap or repetition, and an end.

use futures_util::StreamExt as _;
use retain_core::SessionError;

use super::common::*;
use crate::harness::Harness;

/// A tail returns existing events and then new ones.
pub async fn tail_returns_history_and_then_new_events(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("old", 3)).await;
    let mut tail = log.tail(&key, 0);
    let old = next_events(&mut tail, 3).await;
    assert_eq!(old.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 2, 3]);
    let mut next = tail.next();
    assert_pending(&mut next).await;
    append(&log, &key, event("new1")).await;
    let (position, new) = within_a_minute(next).await.unwrap().unwrap();
    assert_eq!((position, new.id.as_str()), (4, "new1"));
    append_all(&log, &key, numbered_events("more", 2)).await;
    let more = next_events(&mut tail, 2).await;
    assert_eq!(more[1].1.id, "more2");
}

/// A tail may start at any position, including the end.
pub async fn tail_starts_after_a_position(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 4)).await;
    let middle = next_events(&mut log.tail(&key, 2), 2).await;
    assert_eq!(middle.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [3, 4]);
    let mut end = log.tail(&key, 4);
    append(&log, &key, event("new")).await;
    assert_eq!(next_events(&mut end, 1).await[0].0, 5);
}

/// A tail returns the same events as a read, byte for byte.
pub async fn tail_returns_events_byte_for_byte(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let mut tail = log.tail(&key, 0);
    let odd = r#"{"z":1.0,"a":{"y":1,"b":[1e5]},"temp:t":1}"#;
    append(&log, &key, state_event("e1", odd)).await;
    append(&log, &key, state_event("e2", r#"{"user:u":null}"#)).await;
    let seen = next_events(&mut tail, 2).await;
    let seen: Vec<_> = seen.iter().map(|(_, e)| e.to_json().unwrap()).collect();
    assert_eq!(seen, event_texts(&read(&log, &key).await));
}

/// While many writers append, a tail returns every event once, in order.
pub async fn tail_has_no_gap_and_no_repeat_during_concurrent_appends(harness: Harness) {
    const WRITERS: usize = 4;
    const EACH: usize = 30;
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("old", 10)).await;
    let total = 10 + WRITERS * EACH;
    let tails: Vec<_> = [&log, &second, &log]
        .into_iter()
        .zip([0, 0, 5])
        .map(|(log, from)| {
            let mut tail = log.tail(&key, from);
            let events = total - from as usize;
            tokio::spawn(async move { (from, next_events(&mut tail, events).await) })
        })
        .collect();
    run_concurrently(WRITERS, |writer| {
        let (log, key) = ([&log, &second][writer % 2].clone(), key.clone());
        async move {
            for n in 0..EACH {
                append(&log, &key, event(&format!("w{writer}-{n}"))).await;
            }
        }
    })
    .await;
    let stored = read(&log, &key).await;
    for tail in tails {
        let (from, seen) = within_a_minute(tail).await.unwrap();
        let positions: Vec<u64> = seen.iter().map(|(at, _)| *at).collect();
        assert_eq!(positions, (from + 1..=total as u64).collect::<Vec<_>>());
        let tailed: Vec<&str> = seen.iter().map(|(_, e)| e.id.as_str()).collect();
        assert_eq!(tailed, ids(&stored)[from as usize..]);
    }
}

/// A tail returns events that another instance appends.
pub async fn tail_sees_events_of_a_second_instance(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    let mut tail = log.tail(&key, 0);
    for n in 1..=5 {
        append(&second, &key, event(&format!("e{n}"))).await;
        let seen = next_events(&mut tail, 1).await;
        assert_eq!((seen[0].0, seen[0].1.id.as_str()), (n, &*format!("e{n}")));
    }
}

/// A tail returns every event of a batch.
pub async fn tail_returns_every_event_of_a_batch(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let mut tail = log.tail(&key, 0);
    for batch in ["a", "b", "c"] {
        append_all(&log, &key, numbered_events(batch, 7)).await;
    }
    let seen = next_events(&mut tail, 21).await;
    assert_eq!(seen.last().unwrap().1.id, "c7");
}

/// A tail returns a history that is longer than one page.
pub async fn tail_returns_a_long_history(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 700)).await;
    let seen = next_events(&mut log.tail(&key, 0), 700).await;
    let positions: Vec<u64> = seen.iter().map(|(at, _)| *at).collect();
    assert_eq!(positions, (1..=700).collect::<Vec<_>>());
}

/// Many tails follow many sessions, each its own.
pub async fn each_of_many_tails_follows_its_own_session(harness: Harness) {
    let log = harness.service();
    let mut tails = Vec::new();
    for number in 0..10 {
        let key = create(&log, &format!("s{number}")).await;
        tails.extend((0..4).map(|_| (number, log.tail(&key, 0))));
    }
    for n in 0..3 {
        for number in 0..10 {
            let event = event(&format!("s{number}-{n}"));
            append(&log, &key(&format!("s{number}")), event).await;
        }
    }
    for (number, tail) in &mut tails {
        let seen = next_events(tail, 3).await;
        let seen: Vec<&str> = seen.iter().map(|(_, e)| e.id.as_str()).collect();
        let expected = [0, 1, 2].map(|n| format!("s{number}-{n}"));
        assert_eq!(seen, expected);
    }
}

/// A tail of a missing session fails and ends.
pub async fn tail_of_a_missing_session_ends_with_not_found(harness: Harness) {
    let log = harness.service();
    let mut tail = log.tail(&key("missing"), 0);
    assert_fails!(tail.next().await.unwrap(), SessionError::NotFound { .. });
    assert!(tail.next().await.is_none());
}

/// A tail ends when its session is deleted.
pub async fn tail_ends_when_the_session_is_deleted(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    append(&log, &key, event("e")).await;
    let (mut here, mut there) = (log.tail(&key, 0), second.tail(&key, 0));
    next_events(&mut here, 1).await;
    next_events(&mut there, 1).await;
    assert_pending(&mut here.next()).await;
    assert_pending(&mut there.next()).await;
    log.delete_session(APP, USER, "s").await.unwrap();
    for tail in [&mut here, &mut there] {
        let end = within_a_minute(tail.next()).await.unwrap();
        assert_fails!(end, SessionError::NotFound { key: found } if found == key);
        assert!(tail.next().await.is_none());
    }
}

/// A recreated session is another session: the tail of the old one ends.
pub async fn tail_does_not_continue_in_a_recreated_session(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append(&log, &key, event("old")).await;
    let mut tail = log.tail(&key, 0);
    next_events(&mut tail, 1).await;
    log.delete_session(APP, USER, "s").await.unwrap();
    create(&log, "s").await;
    append_all(&log, &key, numbered_events("new", 3)).await;
    let end = within_a_minute(tail.next()).await.unwrap();
    assert_fails!(end, SessionError::NotFound { .. });
}

/// A dropped tail does not block anything.
pub async fn dropped_tail_does_not_affect_others(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for n in 0..20 {
        let mut tail = log.tail(&key, n);
        assert_pending(&mut tail.next()).await;
        drop(tail);
        append(&log, &key, event(&format!("e{n}"))).await;
    }
    assert_eq!(next_events(&mut log.tail(&key, 0), 20).await.len(), 20);
}
