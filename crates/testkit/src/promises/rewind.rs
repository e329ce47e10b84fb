//! Promises about rewinding: an appended event undoes history and restores the exact state.

use std::time::Duration;

use retain_core::{Append, Event, Json, SessionError, SessionKey, State};

use super::{
    common::*,
    state::{assert_fold, own_state},
};
use crate::harness::Harness;

const INITIAL: &str = r#"{"a":1,"b":2,"n":null,"user:u":1,"app:p":1}"#;

/// Creates a session with three invocations that set, null and add state keys.
async fn three_invocations(log: &Log) -> SessionKey {
    let key = create_with(log, "s", INITIAL).await;
    let events = vec![
        invocation_event("e1", "i1", r#"{"a":10,"c":3}"#),
        invocation_event("e2", "i1", r#"{"c":[4]}"#),
        invocation_event("e3", "i2", r#"{"a":20,"b":null,"d":5,"user:u":2}"#),
        invocation_event("e4", "i2", r#"{"n":0}"#),
        invocation_event("e5", "i3", r#"{"d":6,"app:p":2,"e":{}}"#),
    ];
    append_all(log, &key, events).await;
    key
}

fn own(state: &State) -> State {
    own_state(state).into()
}

/// Reads the session's own state.
async fn read_own_state(log: &Log, key: &SessionKey) -> State {
    own(&read(log, key).await.state)
}

/// Creates a rewind as another program stores it: an event with ADK's deltas.
fn foreign_rewind(id: &str, before: &str, delta: &str) -> Event {
    let mut event = invocation_event(id, &format!("e-{id}"), delta);
    event.response.content = None;
    event.actions.rewind_before_invocation_id = Some(before.into());
    event
}

/// The session's own state is restored exactly: initial values return, and keys that did not exist
/// are absent, not null.
pub async fn rewind_restores_the_state_exactly(harness: Harness) {
    let log = harness.service();
    for (invocation, expected) in [
        ("i3", r#"{"a":20,"b":null,"n":0,"c":[4],"d":5}"#),
        ("i2", r#"{"a":10,"b":2,"n":null,"c":[4]}"#),
        ("i1", r#"{"a":1,"b":2,"n":null}"#),
    ] {
        let key = three_invocations(&log).await;
        log.rewind(&key, invocation).await.unwrap();
        assert_eq!(
            read_own_state(&log, &key).await,
            state(expected),
            "{invocation}"
        );
        assert_fold(&log, &key, INITIAL).await;
        log.delete_session(APP, USER, "s").await.unwrap();
    }
}

/// The stored event has the deltas that ADK would write, so that ADK restores the same state.
pub async fn rewind_event_has_the_deltas_of_adk(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    let appended = log.rewind(&key, "i2").await.unwrap();
    assert_eq!(positions(&appended), [6]);
    let stored = read(&log, &key).await;
    let event = &stored.events[5];
    assert_eq!(*event, *appended.events[0].1);
    assert_eq!(event.author, "user");
    assert!(event.invocation_id.starts_with("e-"));
    let before = event.actions.rewind_before_invocation_id.as_deref();
    assert_eq!(before, Some("i2"));
    assert_eq!(event.response.content, None);
    let delta = r#"{"a":10,"b":2,"n":null,"d":null,"e":null}"#;
    assert_eq!(event.actions.state_delta, map(delta));
    assert_eq!(stored.position, 6, "nothing is deleted");
}

/// A rewind does not restore shared state.
pub async fn rewind_does_not_change_shared_state(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    log.rewind(&key, "i1").await.unwrap();
    let now = read(&log, &key).await.state;
    assert_eq!(now.get("user:u"), Some(&Json::from(2)));
    assert_eq!(now.get("app:p"), Some(&Json::from(2)));
}

/// Rewinding an unknown invocation fails and writes nothing.
pub async fn rewinding_an_unknown_invocation_is_not_found(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    let before = read(&log, &key).await;
    for unknown in ["i4", "i", "I1", ""] {
        let refused = log.rewind(&key, unknown).await;
        assert_fails!(
            refused,
            SessionError::InvocationNotFound { invocation_id, key: found }
                if invocation_id == unknown && found == key
        );
    }
    assert_eq!(read(&log, &key).await, before);
}

/// An invocation id with a NUL character matches nothing, not even events without an invocation; no
/// store confuses it with another id.
pub async fn invalid_invocation_id_is_not_found(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", INITIAL).await;
    append(&log, &key, invocation_event("e1", "", r#"{"a":10}"#)).await;
    append(&log, &key, invocation_event("e2", "i1", r#"{"a":20}"#)).await;
    let before = read(&log, &key).await;
    for odd in ["\0", "i1\0", "\0i1"] {
        let refused = log.rewind(&key, odd).await;
        assert_fails!(refused, SessionError::InvocationNotFound { .. });
    }
    assert_eq!(read(&log, &key).await, before);
    // A rewind event from another program with such an id acts as a plain delta.
    append(&log, &key, foreign_rewind("r1", "\0", r#"{"b":5}"#)).await;
    let expected = state(r#"{"a":20,"b":5,"n":null}"#);
    assert_eq!(read_own_state(&log, &key).await, expected);
    assert_fold(&log, &key, INITIAL).await;
}

/// Rewinding to the same invocation twice gives the same state twice.
pub async fn rewinding_twice_gives_the_same_state(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    log.rewind(&key, "i2").await.unwrap();
    let once = read_own_state(&log, &key).await;
    append(
        &log,
        &key,
        invocation_event("e7", "i4", r#"{"a":99,"z":1}"#),
    )
    .await;
    log.rewind(&key, "i2").await.unwrap();
    assert_eq!(read_own_state(&log, &key).await, once);
    log.rewind(&key, "i2").await.unwrap();
    assert_eq!(read_own_state(&log, &key).await, once);
    log.rewind(&key, "i1").await.unwrap();
    assert_eq!(
        read_own_state(&log, &key).await,
        state(r#"{"a":1,"b":2,"n":null}"#)
    );
    assert_fold(&log, &key, INITIAL).await;
}

/// A rewind is an event: rewinding to before it undoes it.
pub async fn rewind_can_be_rewound(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    let before = read_own_state(&log, &key).await;
    let rewound = log.rewind(&key, "i1").await.unwrap();
    let invocation = &rewound.events[0].1.invocation_id;
    log.rewind(&key, invocation).await.unwrap();
    assert_eq!(read_own_state(&log, &key).await, before);
    assert_fold(&log, &key, INITIAL).await;
}

/// A rewind does not change the state at earlier positions.
pub async fn rewind_does_not_change_the_state_at_earlier_positions(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    let mut before = Vec::new();
    for position in 0..=5 {
        before.push(own(&log.state_at(&key, position).await.unwrap()));
    }
    log.rewind(&key, "i1").await.unwrap();
    for (position, before) in before.iter().enumerate() {
        let now = log.state_at(&key, position as u64).await.unwrap();
        assert_eq!(own(&now), *before, "position {position}");
    }
}

/// A rewind event that ADK wrote restores the state exactly, too. ADK writes `null` for keys that
/// did not exist and for keys of the initial state.
pub async fn rewind_event_written_by_adk_restores_the_state_exactly(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    let delta = r#"{"a":10,"b":null,"n":null,"d":null,"e":null}"#;
    append(&log, &key, foreign_rewind("r1", "i2", delta)).await;
    let expected = state(r#"{"a":10,"b":2,"n":null,"c":[4]}"#);
    assert_eq!(read_own_state(&log, &key).await, expected);
    let stored = read(&log, &key).await;
    assert_eq!(stored.events[5].actions.state_delta, map(delta));
    assert_fold(&log, &key, INITIAL).await;
}

/// The delta of a rewind event from another program may set further state keys, shared ones too.
pub async fn rewind_event_written_by_adk_may_set_further_keys(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    let delta = r#"{"a":10,"new":"x","b":7,"user:u":9,"d":null}"#;
    append(&log, &key, foreign_rewind("r1", "i2", delta)).await;
    let now = read(&log, &key).await.state;
    let expected = state(r#"{"a":10,"b":7,"n":null,"c":[4],"new":"x"}"#);
    assert_eq!(own(&now), expected);
    assert_eq!(now.get("user:u"), Some(&Json::from(9)));
}

/// A rewind event from another program may name an invocation that this log does not have. Then
/// only its delta applies.
pub async fn rewind_event_for_an_unknown_invocation_applies_only_its_delta(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    append(
        &log,
        &key,
        foreign_rewind("r1", "never", r#"{"a":5,"b":null}"#),
    )
    .await;
    let now = read_own_state(&log, &key).await;
    assert_eq!(now.get("a"), Some(&Json::from(5)));
    assert_eq!(now.get("b"), Some(&Json::Null));
    assert_eq!(now.get("d"), Some(&Json::from(6)));
}

/// Events before and after a rewind in one batch apply in their order.
pub async fn events_around_a_rewind_in_a_batch_apply_in_order(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    let batch = vec![
        invocation_event("e6", "i4", r#"{"x":1,"a":40}"#),
        foreign_rewind("r1", "i2", r#"{"a":10,"x":null}"#),
        invocation_event("e7", "i5", r#"{"y":1}"#),
    ];
    assert_eq!(append_all(&log, &key, batch).await, [6, 7, 8]);
    let expected = state(r#"{"a":10,"b":2,"n":null,"c":[4],"y":1}"#);
    assert_eq!(read_own_state(&log, &key).await, expected);
    assert_fold(&log, &key, INITIAL).await;
}

/// A rewind event may name an invocation of the same batch.
pub async fn batch_may_rewind_its_own_events(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":1}"#).await;
    let batch = vec![
        invocation_event("e1", "i1", r#"{"a":2}"#),
        invocation_event("e2", "i2", r#"{"a":3,"b":3}"#),
        foreign_rewind("r1", "i2", r#"{"a":2,"b":null}"#),
    ];
    append_all(&log, &key, batch).await;
    assert_eq!(read_own_state(&log, &key).await, state(r#"{"a":2}"#));
    assert_fold(&log, &key, r#"{"a":1}"#).await;
}

/// A repeated rewind is stored once, with or without a given time.
pub async fn repeated_rewind_is_stored_once(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    let timed = foreign_rewind("r1", "i2", r#"{"a":10}"#);
    let mut timeless = foreign_rewind("r2", "i2", r#"{"a":10}"#);
    timeless.timestamp = 0.0;
    for rewind in [timed, timeless] {
        let position = append(&log, &key, rewind.clone()).await;
        let later = invocation_event(&format!("after-{}", rewind.id), "i9", r#"{"z":1}"#);
        append(&log, &key, later).await;
        let before = read(&log, &key).await;
        harness.clock.tick(Duration::from_secs(1));
        assert_eq!(append(&log, &key, rewind.clone()).await, position);
        let expecting = Append::from(rewind).expecting(position - 1);
        let again = log.append(&key, expecting).await.unwrap();
        assert_eq!(positions(&again), [position]);
        assert_eq!(read(&log, &key).await, before);
    }
}

/// A rewind appended through a live session leaves it equal to a fresh read.
pub async fn live_session_after_a_rewind_equals_a_fresh_read(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    let mut live = read(&log, &key).await;
    let rewind = foreign_rewind("r1", "i2", r#"{"a":10,"b":null,"d":null}"#);
    log.append_event(&mut live, rewind).await.unwrap();
    assert_eq!(live, read(&log, &key).await);
}

/// A rewind waits for the lease, so it also undoes what the current run still appends.
pub async fn rewind_waits_for_the_lease_of_an_active_run(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    let run = begin(&log, &key, invocation_event("e6", "i4", r#"{"late":1}"#));
    let run = run.await.unwrap();
    let mut rewinding = log.rewind(&key, "i2");
    assert_pending(&mut rewinding).await;
    let last = invocation_event("e7", "i4", r#"{"later":1,"a":77}"#);
    log.append(&key, Append::from(last).ending_run(run))
        .await
        .unwrap();
    let rewound = within_a_minute(rewinding).await.unwrap();
    assert_eq!(positions(&rewound), [8]);
    let expected = state(r#"{"a":10,"b":2,"n":null,"c":[4]}"#);
    assert_eq!(read_own_state(&log, &key).await, expected);
    // The rewind was a run of its own and has released its lease.
    begin(&log, &key, event("e9")).await.unwrap();
}

/// With concurrent appends and rewinds, the state equals the fold of the log.
pub async fn state_after_concurrent_rewinds_and_appends_equals_the_fold(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = three_invocations(&log).await;
    run_concurrently(4, |task| {
        let (log, key) = ([&log, &second][task % 2].clone(), key.clone());
        async move {
            for n in 0..5 {
                if task == 0 {
                    within_a_minute(log.rewind(&key, "i2")).await.unwrap();
                    continue;
                }
                let delta = format!(r#"{{"k{task}":{n},"a":{n}}}"#);
                let event = invocation_event(&format!("x{task}-{n}"), "late", &delta);
                append(&log, &key, event).await;
            }
        }
    })
    .await;
    assert_eq!(read(&log, &key).await.position, 5 + 20);
    assert_fold(&log, &key, INITIAL).await;
}

/// All events stay in the log, including the undone ones and the rewind.
pub async fn rewound_events_stay_in_the_log(harness: Harness) {
    let log = harness.service();
    let key = three_invocations(&log).await;
    log.rewind(&key, "i1").await.unwrap();
    let stored = read(&log, &key).await;
    assert_eq!(ids(&stored)[..5], ["e1", "e2", "e3", "e4", "e5"]);
    assert_eq!(append(&log, &key, event("e3-new")).await, 7);
}

/// A rewind that follows repeated events in a batch starts from the current state, not from the
/// state that those events once set.
pub async fn rewind_after_repeated_events_starts_from_the_current_state(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let first = invocation_event("e1", "i1", r#"{"a":1,"b":1}"#);
    append(&log, &key, first.clone()).await;
    append(&log, &key, invocation_event("e2", "i2", r#"{"a":2,"c":2}"#)).await;
    let batch = vec![first, foreign_rewind("r1", "i2", r#"{"a":1,"c":null}"#)];
    assert_eq!(append_all(&log, &key, batch).await, [1, 3]);
    assert_eq!(read_own_state(&log, &key).await, state(r#"{"a":1,"b":1}"#));
    assert_fold(&log, &key, "{}").await;
}
