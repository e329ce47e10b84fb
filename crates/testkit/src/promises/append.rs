//! Promises about appending events. Appending the same event again is in `repeat`.

use std::time::Duration;

use retain_core::{Append, Clock as _, Conflict, Event, Json, SessionError, SharedSession, Window};

use super::common::*;
use crate::harness::Harness;

/// Positions start at 1 and have no gap, for single events and batches.
pub async fn positions_are_dense_from_one(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    assert_eq!(append(&log, &key, event("a")).await, 1);
    assert_eq!(
        append_all(&log, &key, numbered_events("b", 3)).await,
        [2, 3, 4]
    );
    assert_eq!(append(&log, &key, event("c")).await, 5);
    assert_eq!(loaded_positions(&read(&log, &key).await), [1, 2, 3, 4, 5]);
}

/// A failed append does not use up a position.
pub async fn failed_appends_leave_no_gap(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append(&log, &key, event("a")).await;
    let late = Append::from(event("b")).expecting(0);
    assert_fails!(log.append(&key, late).await, SessionError::Conflict { .. });
    assert_eq!(append(&log, &key, event("c")).await, 2);
}

/// A partial event of a streamed text is returned unchanged and not stored.
pub async fn partial_events_are_not_stored(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let mut live = read(&log, &key).await;
    let before = live.clone();
    let mut partial = state_event("p", r#"{"a":1,"temp:b":2}"#);
    partial.response.partial = Some(true);
    let answer = log.append_event(&mut live, partial.clone()).await.unwrap();
    assert_eq!(answer, partial);
    assert_eq!(live, before);

    let mixed = vec![event("e1"), partial, event("e2")];
    assert_eq!(append_all(&log, &key, mixed).await, [1, 2]);
    let stored = read(&log, &key).await;
    assert_eq!(ids(&stored), ["e1", "e2"]);
    assert!(stored.state.is_empty());
}

/// Appending to a session that does not exist fails with `NotFound` and does not create it.
pub async fn append_to_a_missing_session_is_not_found(harness: Harness) {
    let log = harness.service();
    let missing = log.append(&key("s"), event("e").into()).await;
    assert_fails!(missing, SessionError::NotFound { key: found } if found == key("s"));
    assert_eq!(log.read(&key("s"), Window::ALL).await.unwrap(), None);
}

/// An event without an id and a time gets a new id and the time of the clock.
pub async fn append_fills_in_id_and_time(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    harness.clock.tick(Duration::from_micros(1_234_567));
    let mut live = read(&log, &key).await;
    let first = log.append_event(&mut live, Event::user_text("a"));
    let first = first.await.unwrap();
    let second = log.append_event(&mut live, Event::user_text("b"));
    let second = second.await.unwrap();
    assert!(!first.id.is_empty() && first.id != second.id);
    assert_eq!(first.timestamp, harness.clock.now());
    let stored = read(&log, &key).await;
    assert_eq!(stored.events[0], first);
    assert_eq!(stored.events[1], second);
}

/// An append returns exactly the event that a later read returns, byte for byte.
pub async fn append_returns_the_stored_event(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let given = state_event("e", r#"{"temp:x":1,"a":1}"#);
    let appended = log.append(&key, given.into()).await.unwrap();
    let (position, event) = &appended.events[0];
    let stored = read(&log, &key).await;
    assert_eq!(*position, 1);
    assert_eq!(event.to_json().unwrap(), event_texts(&stored)[0]);
    assert_eq!(event.actions.state_delta, map(r#"{"a":1}"#));
    assert_eq!(appended.run, None);
}

/// A batch is stored as a whole or not at all: one invalid event in the middle rejects it.
pub async fn batch_is_all_or_nothing(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":0}"#).await;
    append(&log, &key, event("taken")).await;
    let before = read(&log, &key).await;
    let mut not_a_number = event("bad");
    not_a_number.timestamp = f64::NAN;
    let mut unwritable = event("bad");
    unwritable.actions.state_delta.insert("x", f64::INFINITY);
    let other_body = state_event("taken", r#"{"other":1}"#);
    let nul = state_event("bad", r#"{"nul\u0000":1}"#);
    for bad in [not_a_number, unwritable, other_body, nul] {
        let first = state_event("e1", r#"{"a":1,"user:b":1,"app:c":1}"#);
        let batch = vec![first, bad, state_event("e2", r#"{"d":1}"#)];
        assert!(log.append(&key, batch.into()).await.is_err());
        assert_eq!(read(&log, &key).await, before);
    }
    let good = vec![
        state_event("e1", r#"{"a":1}"#),
        event("e2"),
        state_event("e3", r#"{"a":3}"#),
    ];
    assert_eq!(append_all(&log, &key, good).await, [2, 3, 4]);
    assert_eq!(read(&log, &key).await.state, state(r#"{"a":3}"#));
}

/// A failed append leaves the caller's live session untouched, `temp:` keys included.
pub async fn failed_append_leaves_the_live_session_untouched(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":0}"#).await;
    let mut live = read(&log, &key).await;
    log.append_event(&mut live, event("taken")).await.unwrap();
    let before = live.clone();
    let other_body = state_event("taken", r#"{"a":1,"temp:t":1}"#);
    let failed = log.append_event(&mut live, other_body.clone()).await;
    assert_fails!(failed, SessionError::Conflict { .. });
    assert_eq!(live, before);
    let shared = SharedSession::new(live);
    let failed = log.append_event_locked(&shared, other_body).await;
    assert_fails!(failed, SessionError::Conflict { .. });
    assert_eq!(shared.snapshot(), before);
}

/// Events are ordered by append, regardless of their timestamps.
pub async fn events_are_ordered_by_append_not_by_timestamp(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let times = [50.0, 50.0, 10.0, 99.0, -5.0, 50.0];
    for (number, time) in times.into_iter().enumerate() {
        append(&log, &key, event_at(&format!("e{number}"), time)).await;
    }
    let stored = read(&log, &key).await;
    assert_eq!(ids(&stored), ["e0", "e1", "e2", "e3", "e4", "e5"]);
    let found: Vec<f64> = stored.events.iter().map(|e| e.timestamp).collect();
    assert_eq!(found, times);
}

/// The update time of a session is the time of its last event, even if an earlier event has a later
/// time, as in ADK.
pub async fn last_update_time_follows_the_last_event(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for (number, time) in [50.5, 10.25, 1_699_999_999.123_456].into_iter().enumerate() {
        append(&log, &key, event_at(&format!("e{number}"), time)).await;
        assert_eq!(read(&log, &key).await.last_update_time, time);
    }
}

/// An append with the correct expected position succeeds.
pub async fn append_at_the_expected_position_succeeds(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for position in 0..4 {
        let event = event(&format!("e{position}"));
        let appended = log.append(&key, Append::from(event).expecting(position));
        assert_eq!(positions(&appended.await.unwrap()), [position + 1]);
    }
}

/// An append with a wrong expected position writes nothing, and its error has both positions.
pub async fn append_with_a_wrong_expected_position_is_a_conflict(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_all(&log, &key, numbered_events("e", 2)).await;
    let before = read(&log, &key).await;
    for wrong in [0, 1, 3, u64::MAX] {
        let late = Append::from(state_event("late", r#"{"a":1}"#)).expecting(wrong);
        let answer = log.append(&key, late).await;
        assert_fails!(
            answer,
            SessionError::Conflict { key: found, conflict: Conflict::Position { expected, found: 2 } }
                if found == key && expected == wrong
        );
    }
    assert_eq!(read(&log, &key).await, before);
}

/// Of several writers that expect the same position, one succeeds.
pub async fn exactly_one_of_the_writers_expecting_a_position_succeeds(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    for round in 0..5 {
        let answers = run_concurrently(6, |number| {
            let (log, key) = ([&log, &second][number % 2].clone(), key.clone());
            let event = event(&format!("e{round}-{number}"));
            async move { log.append(&key, Append::from(event).expecting(round)).await }
        });
        let answers = answers.await;
        let winners = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(winners, 1, "{answers:?}");
    }
    assert_eq!(read(&log, &key).await.position, 5);
}

/// With concurrent writers in two instances, every event is stored once and in full.
pub async fn concurrent_appends_keep_every_event(harness: Harness) {
    const WRITERS: usize = 8;
    const EACH: usize = 15;
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    let written = run_concurrently(WRITERS, |writer| {
        let (log, key) = ([&log, &second][writer % 2].clone(), key.clone());
        async move {
            let mut mine = Vec::new();
            for number in 0..EACH {
                let id = format!("w{writer}-{number}");
                mine.push((append(&log, &key, event(&id)).await, id));
            }
            mine
        }
    });
    let written = written.await;
    let stored = read(&log, &key).await;
    assert_eq!(stored.events.len(), WRITERS * EACH);
    let everywhere: Vec<u64> = (1..=(WRITERS * EACH) as u64).collect();
    assert_eq!(loaded_positions(&stored), everywhere);
    for mine in written {
        assert!(mine.is_sorted(), "a writer's events keep their order");
        for (position, id) in mine {
            assert_eq!(stored.events[position as usize - 1].id, id);
        }
    }
}

/// Concurrent writers of different state keys lose nothing, in any scope and from any session.
pub async fn concurrent_writers_of_different_keys_lose_nothing(harness: Harness) {
    const WRITERS: usize = 8;
    const EACH: usize = 10;
    let (log, second) = (harness.service(), harness.second().await);
    for session in ["s0", "s1"] {
        create(&log, session).await;
    }
    run_concurrently(WRITERS, |writer| {
        let log = [&log, &second][writer % 2].clone();
        let key = key(["s0", "s1"][writer / 2 % 2]);
        async move {
            for n in 0..EACH {
                let delta = format!(
                    r#"{{"k{writer}-{n}":{n},"user:k{writer}-{n}":{n},"app:k{writer}-{n}":{n}}}"#
                );
                append(&log, &key, state_event(&format!("e{writer}-{n}"), &delta)).await;
            }
        }
    })
    .await;
    let app = log.get_app_state(APP).await.unwrap();
    let user = log.get_user_state(APP, USER).await.unwrap();
    assert_eq!(app.len(), WRITERS * EACH);
    assert_eq!(user, app);
    let mut own = 0;
    for session in ["s0", "s1"] {
        let state = read(&log, &key(session)).await.state;
        own += state.iter().filter(|(key, _)| key.starts_with('k')).count();
        assert_eq!(state.len(), WRITERS * EACH * 2 + WRITERS * EACH / 2);
    }
    assert_eq!(own, WRITERS * EACH);
}

/// A live session after its own appends equals a fresh read.
pub async fn live_session_equals_a_fresh_read(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1,"app:b":2}"#).await;
    let mut live = read(&log, &key).await;
    let deltas = [
        r#"{"a":{"x":1}}"#,
        r#"{"a":{"y":2},"user:c":3}"#,
        r#"{"app:b":null,"d":[1,2.0]}"#,
        "{}",
    ];
    for (number, delta) in deltas.into_iter().enumerate() {
        let mut event = state_event(&format!("e{number}"), delta);
        event.timestamp = 100.0 - number as f64;
        log.append_event(&mut live, event).await.unwrap();
        let fresh = read(&log, &key).await;
        assert_eq!(live, fresh);
        assert_eq!(event_texts(&live), event_texts(&fresh));
    }
}

/// Several tasks append through one shared session: it has every event, like the store.
pub async fn shared_live_session_receives_every_event(harness: Harness) {
    const WRITERS: usize = 6;
    const EACH: usize = 10;
    let log = harness.service();
    let key = create(&log, "s").await;
    let shared = SharedSession::new(read(&log, &key).await);
    run_concurrently(WRITERS, |writer| {
        let (log, shared) = (log.clone(), shared.clone());
        async move {
            for n in 0..EACH {
                let event = state_event(
                    &format!("e{writer}-{n}"),
                    &format!(r#"{{"k{writer}":{n},"temp:t{writer}":{n}}}"#),
                );
                log.append_event_locked(&shared, event).await.unwrap();
            }
        }
    })
    .await;
    let mut live = shared.snapshot();
    let mut found = loaded_positions(&live);
    found.sort_unstable();
    let everywhere: Vec<u64> = (1..=(WRITERS * EACH) as u64).collect();
    assert_eq!(found, everywhere);
    let temps = live
        .state
        .iter()
        .filter(|(key, _)| key.starts_with("temp:"));
    assert_eq!(temps.count(), WRITERS);
    // Tasks receive their events in any order; a refresh restores the order of the log.
    log.refresh(&mut live).await.unwrap();
    let stored = read(&log, &key).await;
    assert_eq!(event_texts(&live), event_texts(&stored));
    assert_eq!(live.position, stored.position);
}

/// An empty append changes nothing.
pub async fn empty_append_changes_nothing(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append(&log, &key, event("e")).await;
    let before = read(&log, &key).await;
    let appended = log.append(&key, Append::default()).await.unwrap();
    assert!(appended.events.is_empty() && appended.run.is_none());
    assert_eq!(read(&log, &key).await, before);
}

/// Unknown fields at every depth, integers of any size, `1` and `1.0`, the order of keys and
/// unusual texts are returned byte for byte.
pub async fn events_are_stored_byte_for_byte(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let mut given = Vec::new();
    for (number, text) in EXACT_EVENTS.iter().enumerate() {
        let mut event = Event::from_json(text).unwrap();
        event.id = format!("e{number}");
        event.timestamp = 1_700_000_000.123_457;
        given.push(event.to_json().unwrap());
        append(&log, &key, event).await;
    }
    let stored = read(&log, &key).await;
    assert_eq!(event_texts(&stored), given);
    assert!(given[0].contains("123456789012345678901234567890"));
    assert!(given[0].contains(r#""zFuture":{"b":1,"a":[1,1.0,1e5,-0]}"#));
    let second = harness.second().await;
    assert_eq!(event_texts(&read(&second, &key).await), given);
}

const EXACT_EVENTS: [&str; 6] = [
    r#"{"author":"x","zFuture":{"b":1,"a":[1,1.0,1e5,-0]},"actions":{"stateDelta":{"z":123456789012345678901234567890,"a":1.50,"m":{"y":null,"b":[]}},"futureAction":{"deep":{"deeper":[{"n":1E400}]}}}}"#,
    r#"{"author":"model","content":{"role":"model","future":true,"parts":[{"text":"hi","futurePart":{"k":[null,false,"\u0001"]}},{"functionCall":{"name":"f","args":{"b":1,"a":{"x":1.0,"w":[]}},"later":7}}]}}"#,
    r#"{"author":"a","content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"_-8="}},{"thought":true,"thoughtSignature":"AA=="}]},"customMetadata":{"n":null,"big":18446744073709551616}}"#,
    r#"{"author":"a","output":{"any":[1,"two",3.0]},"nodeInfo":{"path":"a@1/b@2","later":1},"branch":"p.c","longRunningToolIds":["b","a"]}"#,
    r#"{"author":"a","content":{"parts":[{"text":"\"quotes\" \\ / \b\f\n\r\t \u0000 \u001f \u2028 \ud83e\udd80 é e\u0301 ﷽"}]}}"#,
    r#"{"author":"","invocationId":"","actions":{"artifactDelta":{"f.txt":3},"agentState":{"x":[0.1,1e-7]},"route":["a",1,true]}}"#,
];

/// State values of every scope are returned exactly, now and at their position.
pub async fn state_values_are_stored_exactly(harness: Harness) {
    let log = harness.service();
    let values = [
        "null",
        "true",
        "0",
        "-0",
        "-0.0",
        "1",
        "1.0",
        "1e5",
        "0.1",
        "1E400",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775809",
        "123456789012345678901234567890",
        r#""""#,
        r#""null""#,
        r#""\u0000\u001f\u2028🦀""#,
        "[]",
        "{}",
        r#"[[],{},[null]]"#,
        r#"{"z":1,"a":{"z":[1,1.0],"a":null}}"#,
    ];
    let mut delta = String::new();
    for scope in ["", "user:", "app:"] {
        for (number, value) in values.iter().enumerate() {
            delta.push_str(&format!(r#","{scope}k{number}":{value}"#));
        }
    }
    let delta = format!("{{{}}}", &delta[1..]);
    let initial = create_with(&log, "initial", &delta).await;
    let appended = create(&log, "appended").await;
    append(&log, &appended, state_event("e", &delta)).await;
    for (key, position) in [(initial, 0), (appended, 1)] {
        let now = read(&harness.second().await, &key).await.state;
        let then = log.state_at(&key, position).await.unwrap();
        for state in [now, then] {
            for scope in ["", "user:", "app:"] {
                for (number, value) in values.iter().enumerate() {
                    let found = state.get(&format!("{scope}k{number}")).map(Json::to_string);
                    let expected = json(value).to_string();
                    assert_eq!(found, Some(expected), "{scope}k{number}");
                }
            }
        }
    }
}

/// A log of a thousand events can be read in full, in part, and as past states.
pub async fn long_log_is_stored_completely(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for batch in 0..5 {
        let delta = format!(r#"{{"batch":{batch}}}"#);
        let events = (0..200).map(|n| state_event(&format!("e{batch}-{n}"), &delta));
        append_all(&log, &key, events.collect()).await;
    }
    let stored = read(&log, &key).await;
    assert_eq!(stored.events.len(), 1000);
    assert_eq!(loaded_positions(&stored), (1..=1000).collect::<Vec<u64>>());
    let newest = read_window(&log, &key, Window::newest(3)).await;
    assert_eq!(ids(&newest), ["e4-197", "e4-198", "e4-199"]);
    let middle = log.state_at(&key, 400).await.unwrap();
    assert_eq!(middle, state(r#"{"batch":1}"#));
}
