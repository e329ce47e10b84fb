//! Promises about runs: one at a time, in order, and a dead run does not block others forever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use retain_core::{
    Append, AppendReceipt, CancellationToken, Conflict, Event, Result, Rewind, RunOptions,
    RunToken, SessionError, SessionKey,
};

use super::common::*;
use crate::harness::Harness;

/// A time longer than any lease or ticket lasts.
const LONG: Duration = Duration::from_secs(3600);

fn begin_and_wait(event: Event) -> Append {
    let wait = Duration::from_secs(60);
    Append::from(event).beginning_run(RunOptions::default().with_wait(wait))
}

async fn within(log: &Log, key: &SessionKey, id: &str, run: RunToken) -> Result<AppendReceipt> {
    let append = Append::from(event(id)).within_run(run);
    log.append(key, append).await
}

/// The append that begins a run returns its token, and later appends of the run return it again.
pub async fn run_gets_its_token_with_the_first_append(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let begun = log.append(&key, begin_and_wait(event("e1"))).await.unwrap();
    assert_eq!(positions(&begun), [1]);
    let run = begun.run.expect("a token");
    let next = within(&log, &key, "e2", run).await.unwrap();
    assert_eq!((positions(&next), next.run), (vec![2], Some(run)));
}

/// A run may begin without an event.
pub async fn run_may_begin_without_events(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let empty = Append::default().beginning_run(no_wait());
    let run = log.append(&key, empty).await.unwrap().run.expect("a token");
    let busy = begin(&log, &key, event("other")).await;
    assert_fails!(busy, SessionError::RunBusy { .. });
    within(&log, &key, "e1", run).await.unwrap();
    assert_eq!(ids(&read(&log, &key).await), ["e1"]);
}

/// A second run that does not wait fails immediately and writes nothing.
pub async fn second_run_that_does_not_wait_is_busy(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    begin(&log, &key, event("e1")).await.unwrap();
    for log in [&log, &second] {
        let refused = begin(log, &key, state_event("e2", r#"{"a":1}"#)).await;
        assert_fails!(refused, SessionError::RunBusy { key: found, .. } if found == key);
    }
    let stored = read(&log, &key).await;
    assert_eq!(ids(&stored), ["e1"]);
    assert!(stored.state.is_empty());
}

/// A second run waits and continues when the first one ends.
pub async fn second_run_waits_for_the_first(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let first = begin(&log, &key, event("e1")).await.unwrap();
    let mut waiting = log.append(&key, begin_and_wait(event("late")));
    assert_pending(&mut waiting).await;
    within(&log, &key, "e2", first).await.unwrap();
    assert_pending(&mut waiting).await;
    let last = Append::from(event("e3")).ending_run(first);
    log.append(&key, last).await.unwrap();
    let second = within_a_minute(waiting)
        .await
        .unwrap()
        .run
        .expect("a token");
    assert_ne!(second, first);
    assert_eq!(ids(&read(&log, &key).await), ["e1", "e2", "e3", "late"]);
}

/// A run of another instance waits too.
pub async fn run_of_a_second_instance_waits_for_the_first(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    let first = begin(&log, &key, event("e1")).await.unwrap();
    let mut waiting = second.append(&key, begin_and_wait(event("late")));
    assert_pending(&mut waiting).await;
    within(&log, &key, "e2", first).await.unwrap();
    log.end_run(&key, first).await.unwrap();
    within_a_minute(waiting).await.unwrap();
    assert_eq!(ids(&read(&log, &key).await), ["e1", "e2", "late"]);
}

/// Waiting runs of one process get the lease in the order of arrival.
pub async fn waiting_runs_get_the_lease_in_order(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let holder = begin(&log, &key, event("holder")).await.unwrap();
    let mut waiting = Vec::new();
    for number in 0..6 {
        let (log, key) = (log.clone(), key.clone());
        let mut waiter = Box::pin(async move {
            let begun = log
                .append(&key, begin_and_wait(event(&format!("run{number}"))))
                .await;
            let run = begun.unwrap().run.unwrap();
            log.end_run(&key, run).await.unwrap();
        });
        assert_pending(&mut waiter).await;
        waiting.push(tokio::spawn(waiter));
    }
    log.end_run(&key, holder).await.unwrap();
    for waiter in waiting {
        within_a_minute(waiter).await.unwrap();
    }
    let expected = ["holder", "run0", "run1", "run2", "run3", "run4", "run5"];
    assert_eq!(ids(&read(&log, &key).await), expected);
}

/// A run that times out while waiting gets `RunBusy` and leaves the queue.
pub async fn wait_times_out_with_run_busy(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let holder = begin(&log, &key, event("e1")).await.unwrap();
    let options = RunOptions::default().with_wait(Duration::from_millis(20));
    let append = Append::from(event("late")).beginning_run(options);
    let gave_up = within_a_minute(log.append(&key, append)).await;
    assert_fails!(gave_up, SessionError::RunBusy { key: found, .. } if found == key);
    log.end_run(&key, holder).await.unwrap();
    begin(&log, &key, event("e2")).await.unwrap();
    assert_eq!(ids(&read(&log, &key).await), ["e1", "e2"]);
}

/// A dead run blocks others no longer than its lease, by the store's clock.
pub async fn expired_lease_does_not_block_a_run(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    begin(&log, &key, event("e1")).await.unwrap();
    harness.clock.tick(Duration::from_secs(29));
    let early = begin(&log, &key, event("e2")).await;
    assert_fails!(early, SessionError::RunBusy { .. });
    harness.clock.tick(Duration::from_secs(2));
    begin(&log, &key, event("e3")).await.unwrap();
    assert_eq!(ids(&read(&log, &key).await), ["e1", "e3"]);
}

/// The service configures the duration of a lease.
pub async fn lease_duration_is_configurable(harness: Harness) {
    let brief = harness.second_with(|settings| settings.run_ttl = Duration::from_secs(2));
    let (log, brief) = (harness.service(), brief.await);
    let key = create(&log, "s").await;
    begin(&brief, &key, event("e1")).await.unwrap();
    harness.clock.tick(Duration::from_secs(1));
    assert_fails!(
        begin(&log, &key, event("e2")).await,
        SessionError::RunBusy { .. }
    );
    harness.clock.tick(Duration::from_secs(2));
    begin(&log, &key, event("e3")).await.unwrap();
}

/// A waiting run continues when the lease of a dead run expires.
pub async fn waiting_run_gets_the_expired_lease(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    begin(&log, &key, event("dead")).await.unwrap();
    let mut waiting = second.append(&key, begin_and_wait(event("next")));
    assert_pending(&mut waiting).await;
    harness.clock.tick(LONG);
    within_a_minute(waiting).await.unwrap();
    assert_eq!(ids(&read(&log, &key).await), ["dead", "next"]);
}

/// The token of a superseded run is rejected and writes nothing.
pub async fn outdated_run_token_is_refused(harness: Harness) {
    let log = harness.service();
    let key = create_with(&log, "s", r#"{"a":0}"#).await;
    let old = begin(&log, &key, event("e1")).await.unwrap();
    harness.clock.tick(LONG);
    let new = begin(&log, &key, event("e2")).await.unwrap();
    let before = read(&log, &key).await;
    let write = Append::from(state_event("e3", r#"{"a":1,"user:b":1}"#));
    for append in [write.clone().within_run(old), write.ending_run(old)] {
        let refused = log.append(&key, append).await;
        assert_fails!(
            refused,
            SessionError::RunLost { key: found, token } if found == key && token == old.0
        );
    }
    assert_fails!(log.renew_run(&key, old).await, SessionError::RunLost { .. });
    assert_fails!(log.end_run(&key, old).await, SessionError::RunLost { .. });
    assert_eq!(read(&log, &key).await, before);
    // The run that took over still holds the lease.
    assert_fails!(
        begin(&log, &key, event("e4")).await,
        SessionError::RunBusy { .. }
    );
    within(&log, &key, "e5", new).await.unwrap();
}

/// A token that was never issued is rejected.
pub async fn unknown_run_token_is_refused(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for invented in [RunToken(1), RunToken(77), RunToken(i64::MAX as u64)] {
        let refused = within(&log, &key, "e1", invented).await;
        assert_fails!(refused, SessionError::RunLost { .. });
    }
    assert!(read(&log, &key).await.events.is_empty());
}

/// A token stays valid until another run takes over, even after its lease expired.
pub async fn expired_run_continues_if_no_other_run_took_over(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let run = begin(&log, &key, event("e1")).await.unwrap();
    harness.clock.tick(LONG);
    within(&log, &key, "e2", run).await.unwrap();
    let busy = begin(&log, &key, event("e3")).await;
    assert_fails!(busy, SessionError::RunBusy { .. });
}

/// An append of a run renews its lease.
pub async fn append_of_a_run_renews_its_lease(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let run = begin(&log, &key, event("e0")).await.unwrap();
    for number in 1..4 {
        harness.clock.tick(Duration::from_secs(20));
        within(&log, &key, &format!("e{number}"), run)
            .await
            .unwrap();
    }
    harness.clock.tick(Duration::from_secs(20));
    let busy = begin(&log, &key, event("other")).await;
    assert_fails!(busy, SessionError::RunBusy { .. });
}

/// A run without events keeps its lease by renewing it.
pub async fn lease_can_be_renewed_without_an_append(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let run = begin(&log, &key, event("e1")).await.unwrap();
    for _ in 0..3 {
        harness.clock.tick(Duration::from_secs(20));
        log.renew_run(&key, run).await.unwrap();
    }
    let busy = begin(&log, &key, event("e2")).await;
    assert_fails!(busy, SessionError::RunBusy { .. });
    harness.clock.tick(Duration::from_secs(31));
    begin(&log, &key, event("e3")).await.unwrap();
    assert_eq!(read(&log, &key).await.position, 2);
}

/// Ending a run releases its lease; ending it twice is allowed.
pub async fn ending_a_run_releases_its_lease(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let run = begin(&log, &key, event("e1")).await.unwrap();
    log.end_run(&key, run).await.unwrap();
    log.end_run(&key, run).await.unwrap();
    begin(&log, &key, event("e2")).await.unwrap();
}

/// A run may end with its last append.
pub async fn ending_a_run_with_its_last_append_releases_its_lease(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let run = begin(&log, &key, event("e1")).await.unwrap();
    let last = Append::from(event("e2")).ending_run(run);
    let ended = log.append(&key, last.clone()).await.unwrap();
    assert_eq!((positions(&ended), ended.run), (vec![2], None));
    // Retrying the append, for example after a lost answer, returns the same result.
    let again = log.append(&key, last).await.unwrap();
    assert_eq!((positions(&again), again.run), (vec![2], None));
    begin(&log, &key, event("e3")).await.unwrap();
}

/// A last append that is already stored ends the run too.
pub async fn ending_a_run_with_a_repeated_append_releases_its_lease(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let run = begin(&log, &key, event("e1")).await.unwrap();
    within(&log, &key, "e2", run).await.unwrap();
    let last = Append::from(event("e2")).ending_run(run);
    log.append(&key, last).await.unwrap();
    begin(&log, &key, event("e3")).await.unwrap();
}

/// Appends outside the run are allowed and do not affect it.
pub async fn append_without_a_token_does_not_affect_a_run(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    let run = begin(&log, &key, event("e1")).await.unwrap();
    append(&log, &key, event("outside1")).await;
    append(&second, &key, event("outside2")).await;
    let next = within(&log, &key, "e2", run).await.unwrap();
    assert_eq!((positions(&next), next.run), (vec![4], Some(run)));
    let busy = begin(&second, &key, event("other")).await;
    assert_fails!(busy, SessionError::RunBusy { .. });
}

/// A run may expect a position. If its first append is rejected, it gets no lease.
pub async fn run_that_fails_to_begin_holds_no_lease(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append(&log, &key, event("e1")).await;
    let late = begin_and_wait(event("e2")).expecting(0);
    assert_fails!(
        log.append(&key, late).await,
        SessionError::Conflict {
            conflict: Conflict::Position { .. },
            ..
        }
    );
    let other = begin_and_wait(state_event("e1", r#"{"other":1}"#));
    assert_fails!(
        log.append(&key, other).await,
        SessionError::Conflict {
            conflict: Conflict::EventId { .. },
            ..
        }
    );
    begin(&log, &key, event("e3")).await.unwrap();
}

/// A run inside a run of the same session would wait for itself, so it fails immediately.
pub async fn nested_run_in_the_same_session_fails_at_once(harness: Harness) {
    let log = harness.service();
    let (key, other) = (create(&log, "s").await, create(&log, "other").await);
    let run = begin(&log, &key, event("e1")).await.unwrap();
    let inside = RunOptions::default().with_outer_session(key.clone());
    let begins = |options: &RunOptions| Append::from(event("e2")).beginning_run(options.clone());
    let nested = log.append(&key, begins(&inside)).await;
    assert_fails!(nested, SessionError::NestedRun { key: found } if found == key);
    let rewind = Rewind::before("").with_options(inside.clone());
    let nested = log.rewind_with(&key, rewind).await;
    assert_fails!(nested, SessionError::NestedRun { .. });
    // A nested run of another session may begin. Runs nested in it are checked against both.
    let inner = log
        .append(&other, begins(&inside))
        .await
        .unwrap()
        .run
        .unwrap();
    let inside = inside.with_outer_session(other.clone());
    for key in [&other, &key] {
        let nested = log.append(key, begins(&inside)).await;
        assert_fails!(nested, SessionError::NestedRun { .. });
    }
    log.end_run(&other, inner).await.unwrap();
    within(&log, &key, "e3", run).await.unwrap();
    assert_eq!(ids(&read(&log, &key).await), ["e1", "e3"]);
}

/// A cancelled wait stores nothing, leaves the queue and fails with `Cancelled`.
pub async fn cancelled_wait_stores_nothing_and_leaves_the_queue(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    let holder = begin(&log, &key, event("holder")).await.unwrap();
    let cancel = CancellationToken::new();
    let options = RunOptions::default().with_cancel(cancel.clone());
    let wait = |log: &Log, id: &str| {
        let append = Append::from(event(id)).beginning_run(options.clone());
        let (log, key) = (log.clone(), key.clone());
        Box::pin(async move { log.append(&key, append).await })
    };
    // One waiter is first and has a ticket, one is behind it, one is in another instance.
    let (mut first, mut behind) = (wait(&log, "first"), wait(&log, "behind"));
    let mut elsewhere = wait(&second, "elsewhere");
    wait_for_ticket(&mut first).await;
    assert_pending(&mut behind).await;
    wait_for_ticket(&mut elsewhere).await;
    cancel.cancel();
    for waiting in [first, behind, elsewhere] {
        let cancelled = within_a_minute(waiting).await;
        assert_fails!(cancelled, SessionError::Cancelled { key: found } if found == key);
    }
    log.end_run(&key, holder).await.unwrap();
    // The clock stands still, so a leftover ticket would block this run.
    begin(&log, &key, event("next")).await.unwrap();
    assert_eq!(ids(&read(&log, &key).await), ["holder", "next"]);
}

/// Dropping the future of a wait withdraws its ticket.
pub async fn dropped_wait_withdraws_its_ticket(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    let holder = begin(&log, &key, event("holder")).await.unwrap();
    let mut gone = second.append(&key, begin_and_wait(event("gone")));
    wait_for_ticket(&mut gone).await;
    drop(gone);
    log.end_run(&key, holder).await.unwrap();
    // The clock stands still, so the ticket does not expire.
    within_a_minute(log.append(&key, begin_and_wait(event("next"))))
        .await
        .unwrap();
    assert_eq!(ids(&read(&log, &key).await), ["holder", "next"]);
}

/// Runs of different sessions do not wait for one another.
pub async fn runs_of_other_sessions_do_not_wait(harness: Harness) {
    let log = harness.service();
    for session in ["a", "b", "c"] {
        let key = create(&log, session).await;
        begin(&log, &key, event("e")).await.unwrap();
    }
    let neighbor = SessionKey::new(APP, "grace", "a");
    create_at(&log, &neighbor, "{}").await;
    begin(&log, &neighbor, event("e")).await.unwrap();
}

/// With concurrent runs in two instances, the events of each run are contiguous.
pub async fn events_of_two_runs_do_not_interleave(harness: Harness) {
    const RUNS: usize = 10;
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    run_concurrently(RUNS, |number| {
        let (log, key) = ([&log, &second][number % 2].clone(), key.clone());
        async move {
            let begun = log.append(&key, begin_and_wait(event(&format!("{number}-a"))));
            let run = within_a_minute(begun).await.unwrap().run.unwrap();
            within(&log, &key, &format!("{number}-b"), run)
                .await
                .unwrap();
            let last = Append::from(event(&format!("{number}-c"))).ending_run(run);
            log.append(&key, last).await.unwrap();
        }
    })
    .await;
    let stored = read(&log, &key).await;
    assert_eq!(stored.events.len(), RUNS * 3);
    for run in ids(&stored).chunks(3) {
        let number = run[0].trim_end_matches("-a");
        assert_eq!(run[1..], [format!("{number}-b"), format!("{number}-c")]);
    }
}

/// A busy instance does not starve another, whose runs begin although new ones keep arriving.
pub async fn busy_instance_does_not_starve_another(harness: Harness) {
    const ENOUGH: u64 = 5000;
    let (busy, modest) = (harness.service(), harness.second().await);
    let key = create(&busy, "s").await;
    let done = Arc::new(AtomicBool::new(false));
    let others = Arc::new(AtomicU64::new(0));
    let crowd: Vec<_> = (0..3)
        .map(|_| {
            let (log, key) = (busy.clone(), key.clone());
            let (done, others) = (Arc::clone(&done), Arc::clone(&others));
            tokio::spawn(async move {
                while !done.load(Ordering::SeqCst) && others.load(Ordering::SeqCst) < ENOUGH {
                    run_once(&log, &key).await;
                    others.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for _ in 0..5 {
        run_once(&modest, &key).await;
    }
    done.store(true, Ordering::SeqCst);
    let others = others.load(Ordering::SeqCst);
    for task in crowd {
        task.await.unwrap();
    }
    assert!(
        others < ENOUGH,
        "the other instance ran {others} times first"
    );
}

async fn run_once(log: &Log, key: &SessionKey) {
    let empty = Append::default().beginning_run(RunOptions::default());
    let run = within_a_minute(log.append(key, empty)).await.unwrap().run;
    log.end_run(key, run.unwrap()).await.unwrap();
}

/// A run that waits in another instance is not overtaken when the session becomes free.
pub async fn waiting_run_of_another_instance_is_not_overtaken(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    for round in 0..3 {
        let holder = begin(&log, &key, event(&format!("holder{round}"))).await;
        let mut waiting = second.append(&key, begin_and_wait(event(&format!("first{round}"))));
        wait_for_ticket(&mut waiting).await;
        log.end_run(&key, holder.unwrap()).await.unwrap();
        let overtaking = begin(&log, &key, event("overtaking")).await;
        assert_fails!(overtaking, SessionError::RunBusy { .. });
        let run = within_a_minute(waiting).await.unwrap().run.unwrap();
        second.end_run(&key, run).await.unwrap();
    }
}

/// A run that stops waiting leaves the queue, and later runs move up.
pub async fn dropped_waiter_does_not_block_the_queue(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    let holder = begin(&log, &key, event("holder")).await.unwrap();
    let mut first = log.append(&key, begin_and_wait(event("first")));
    wait_for_ticket(&mut first).await;
    let mut middle = log.append(&key, begin_and_wait(event("middle")));
    assert_pending(&mut middle).await;
    let mut elsewhere = second.append(&key, begin_and_wait(event("elsewhere")));
    wait_for_ticket(&mut elsewhere).await;
    let mut last = log.append(&key, begin_and_wait(event("last")));
    assert_pending(&mut last).await;
    drop(first);
    drop(middle);
    drop(elsewhere);
    log.end_run(&key, holder).await.unwrap();
    // A leftover ticket expires.
    harness.clock.tick(Duration::from_secs(10));
    let run = within_a_minute(last).await.unwrap().run.unwrap();
    log.end_run(&key, run).await.unwrap();
    begin(&second, &key, event("end")).await.unwrap();
    assert_eq!(ids(&read(&log, &key).await), ["holder", "last", "end"]);
}

/// The ticket of a waiting run that no longer renews it expires by the store's clock.
pub async fn ticket_of_a_silent_waiter_expires(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    let key = create(&log, "s").await;
    let holder = begin(&log, &key, event("holder")).await.unwrap();
    let mut gone = second.append(&key, begin_and_wait(event("gone")));
    wait_for_ticket(&mut gone).await;
    drop(gone);
    log.end_run(&key, holder).await.unwrap();
    harness.clock.tick(Duration::from_secs(10));
    begin(&log, &key, event("next")).await.unwrap();
}

/// A lease and its token survive closing and reopening the store.
pub async fn lease_survives_reopening(mut harness: Harness) {
    if !harness.is_durable() {
        return;
    }
    let log = harness.service();
    let key = create(&log, "s").await;
    let run = begin(&log, &key, event("e1")).await.unwrap();
    drop(log);
    let log = harness.reopen().await;
    let busy = begin(&log, &key, event("e2")).await;
    assert_fails!(busy, SessionError::RunBusy { .. });
    within(&log, &key, "e3", run).await.unwrap();
    harness.clock.tick(LONG);
    begin(&log, &key, event("e4")).await.unwrap();
    let lost = within(&log, &key, "e5", run).await;
    assert_fails!(lost, SessionError::RunLost { .. });
}

/// The last append of a run invalidates its token, even if no other run has begun since.
pub async fn ended_run_cannot_append(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let run = begin(&log, &key, event("e1")).await.unwrap();
    let last = Append::from(event("e2")).ending_run(run);
    log.append(&key, last.clone()).await.unwrap();
    let late = log
        .append(&key, Append::from(event("e3")).within_run(run))
        .await;
    assert_fails!(late, SessionError::RunLost { .. });
    // Repeating the last append succeeds: its event is already stored.
    log.append(&key, last).await.unwrap();
    assert_eq!(read(&log, &key).await.position, 2);
}

/// A run whose first answer was lost begins again with the same event. The event is stored once,
/// and the run gets a token when the lost lease expires.
pub async fn repeated_begin_waits_until_the_lost_lease_expires(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    let lost = begin(&log, &key, event("e1")).await.unwrap();
    let again = Append::from(event("e1")).beginning_run(no_wait());
    let refused = log.append(&key, again.clone()).await;
    assert_fails!(refused, SessionError::RunBusy { .. });
    harness.clock.tick(Duration::from_secs(31));
    let begun = log.append(&key, again).await.unwrap();
    assert_eq!(positions(&begun), [1]);
    assert_ne!(begun.run.unwrap(), lost);
}
