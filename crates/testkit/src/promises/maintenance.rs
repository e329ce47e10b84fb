//! Promises about periodic tasks: work that must follow runs, leases of tasks, expired sessions.

use std::time::Duration;

use retain_core::{
    Append, ExpiredSession, MaintenanceStore, PendingStatistics, PendingWork, RunToken, SessionKey,
    SessionWork, TaskLease,
};

use super::common::*;
use crate::harness::Harness;

const INGESTION: PendingWork = PendingWork::INGESTION;
const COMPACTION: PendingWork = PendingWork::COMPACTION;
const TTL: Duration = Duration::from_secs(100);

fn store(log: &Log) -> &dyn MaintenanceStore {
    log.maintenance().expect("a store with maintenance")
}

/// Appends an event that `work` must follow.
async fn append_with(log: &Log, key: &SessionKey, id: &str, work: PendingWork) {
    let append = Append::from(event(id)).followed_by(work);
    log.append(key, append).await.unwrap();
}

async fn pending(log: &Log) -> Vec<SessionWork> {
    store(log).pending_work(0, 100).await.unwrap()
}

/// Returns the pending work as (session id, position, kinds).
async fn pending_by_id(log: &Log) -> Vec<(String, u64, PendingWork)> {
    let found = pending(log).await.into_iter();
    found.map(|it| (it.key.id, it.position, it.work)).collect()
}

async fn finish(log: &Log, work: SessionWork) {
    store(log).finish_work(&work).await.unwrap();
}

/// An append records the work that must follow it; one without work does not.
pub async fn append_records_the_work_that_must_follow_it(harness: Harness) {
    let log = harness.service();
    let (first, second) = (create(&log, "s1").await, create(&log, "s2").await);
    append(&log, &first, event("e1")).await;
    assert_eq!(pending(&log).await, []);
    append_with(&log, &first, "e2", INGESTION).await;
    let mut changed = state_event("f1", r#"{"a":1,"user:b":2}"#);
    changed.invocation_id = "i".to_owned();
    let append_second = Append::from(changed).followed_by(INGESTION | COMPACTION);
    log.append(&second, append_second).await.unwrap();
    let expected = [
        ("s1".to_owned(), 2, INGESTION),
        ("s2".to_owned(), 1, INGESTION | COMPACTION),
    ];
    assert_eq!(pending_by_id(&log).await, expected);
    // Kinds add up, and the position is that of the last event with work.
    append_with(&log, &first, "e3", COMPACTION).await;
    append(&log, &first, event("e4")).await;
    let expected = ("s1".to_owned(), 3, INGESTION | COMPACTION);
    assert_eq!(pending_by_id(&log).await[0], expected);
}

/// Each kind of work is finished on its own.
pub async fn finished_work_is_no_longer_pending(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_with(&log, &key, "e", INGESTION | COMPACTION).await;
    let [work] = pending(&log).await.try_into().unwrap();
    finish(
        &log,
        SessionWork {
            work: INGESTION,
            ..work.clone()
        },
    )
    .await;
    assert_eq!(pending_by_id(&log).await, [("s".to_owned(), 1, COMPACTION)]);
    finish(
        &log,
        SessionWork {
            work: COMPACTION,
            ..work.clone()
        },
    )
    .await;
    assert_eq!(pending(&log).await, []);
    // Finishing it again changes nothing, and later work is recorded as before.
    finish(&log, work).await;
    append_with(&log, &key, "f", COMPACTION).await;
    assert_eq!(pending_by_id(&log).await, [("s".to_owned(), 2, COMPACTION)]);
}

/// Work up to an earlier event does not finish the work that a later event needs.
pub async fn work_of_a_later_event_stays_pending(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_with(&log, &key, "e1", INGESTION).await;
    let [early] = pending(&log).await.try_into().unwrap();
    append_with(&log, &key, "e2", INGESTION).await;
    finish(&log, early.clone()).await;
    assert_eq!(pending_by_id(&log).await, [("s".to_owned(), 2, INGESTION)]);
    // An event without work, such as a summary, needs none.
    append(&log, &key, event("e3")).await;
    finish(
        &log,
        SessionWork {
            position: 2,
            ..early
        },
    )
    .await;
    assert_eq!(pending(&log).await, []);
}

/// A repeated append does not make finished work pending again.
pub async fn repeated_append_does_not_repeat_its_work(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_with(&log, &key, "e", INGESTION).await;
    let [work] = pending(&log).await.try_into().unwrap();
    finish(&log, work).await;
    append_with(&log, &key, "e", INGESTION).await;
    assert_eq!(pending(&log).await, []);
}

/// Work of a run is pending once its lease has ended: by its last append, or because it crashed.
pub async fn work_of_an_active_run_is_not_listed(harness: Harness) {
    let log = harness.service();
    let (ended, crashed) = (create(&log, "ended").await, create(&log, "crashed").await);
    let mut runs: Vec<RunToken> = Vec::new();
    for key in [&ended, &crashed] {
        let append = Append::from(event("e1")).beginning_run(no_wait());
        let began = log.append(key, append.followed_by(INGESTION)).await;
        runs.push(began.unwrap().run.unwrap());
        let append = Append::from(event("e2")).within_run(*runs.last().unwrap());
        log.append(key, append.followed_by(INGESTION))
            .await
            .unwrap();
    }
    assert_eq!(pending(&log).await, []);
    let none = PendingStatistics::default();
    assert_eq!(store(&log).pending_statistics().await.unwrap(), none);
    let append = Append::from(event("e3")).ending_run(runs[0]);
    log.append(&ended, append.followed_by(INGESTION))
        .await
        .unwrap();
    assert_eq!(
        pending_by_id(&log).await,
        [("ended".to_owned(), 3, INGESTION)]
    );
    harness.clock.tick(Duration::from_secs(31));
    let crashed = ("crashed".to_owned(), 2, INGESTION);
    assert_eq!(pending_by_id(&log).await[1], crashed);
}

/// Pages of pending work continue after an incarnation.
pub async fn pending_work_is_listed_page_by_page(harness: Harness) {
    let log = harness.service();
    for number in 0..7 {
        let key = create(&log, &format!("s{number}")).await;
        append_with(&log, &key, "e", INGESTION).await;
    }
    let (mut listed, mut after) = (Vec::new(), 0);
    loop {
        let page = store(&log).pending_work(after, 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = last.incarnation;
        listed.extend(page.into_iter().map(|work| work.key.id));
    }
    assert_eq!(listed, ["s0", "s1", "s2", "s3", "s4", "s5", "s6"]);
}

/// The statistics count the sessions with pending work, and the oldest one's age.
pub async fn pending_statistics_count_sessions_and_their_age(harness: Harness) {
    let log = harness.service();
    let statistics = async || store(&log).pending_statistics().await.unwrap();
    assert_eq!(statistics().await, PendingStatistics::default());
    for id in ["s1", "s2"] {
        let key = create(&log, id).await;
        append_with(&log, &key, "e", INGESTION).await;
        harness.clock.tick(Duration::from_secs(10));
    }
    let both = PendingStatistics {
        sessions: 2,
        oldest: Some(Duration::from_secs(20)),
    };
    assert_eq!(statistics().await, both);
    let oldest = pending(&log).await.remove(0);
    finish(&log, oldest).await;
    assert_eq!(statistics().await.oldest, Some(Duration::from_secs(10)));
}

/// Work ends with its session. A new session with the same id has its own work.
pub async fn pending_work_ends_with_its_session(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_with(&log, &key, "e1", INGESTION).await;
    append_with(&log, &key, "e2", INGESTION).await;
    let [old] = pending(&log).await.try_into().unwrap();
    log.delete_session(&key.app, &key.user, &key.id)
        .await
        .unwrap();
    assert_eq!(pending(&log).await, []);
    finish(&log, old.clone()).await;
    create(&log, "s").await;
    append_with(&log, &key, "e", INGESTION).await;
    finish(&log, old).await;
    assert_eq!(pending_by_id(&log).await, [("s".to_owned(), 1, INGESTION)]);
    // A fork has its origin's events, but not its work.
    log.fork(&key, None, Some("fork")).await.unwrap();
    assert_eq!(pending(&log).await.len(), 1);
    let short = create_for(&log, "short", TTL).await;
    append_with(&log, &short, "e", INGESTION).await;
    assert_eq!(pending(&log).await.len(), 2);
    harness.clock.tick(TTL);
    assert_eq!(pending(&log).await.len(), 1);
}

/// Another process finds and finishes pending work, also after a restart.
pub async fn pending_work_is_visible_to_other_instances(mut harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    append_with(&log, &key, "e1", INGESTION).await;
    let second = harness.second().await;
    let [work] = pending(&second).await.try_into().unwrap();
    finish(&second, work).await;
    assert_eq!(pending(&log).await, []);
    // The first instance may have cached the session's head.
    append_with(&log, &key, "e2", COMPACTION).await;
    assert_eq!(
        pending_by_id(&second).await,
        [("s".to_owned(), 2, COMPACTION)]
    );
    if harness.is_durable() {
        drop((log, second));
        let log = harness.reopen().await;
        assert_eq!(pending_by_id(&log).await, [("s".to_owned(), 2, COMPACTION)]);
    }
}

/// Takes (`Some`) or releases (`None`) the lease of the task `sweep`.
async fn lease(log: &Log, holder: &str, seconds: Option<u64>) -> bool {
    let lease = TaskLease {
        task: "sweep".to_owned(),
        holder: holder.to_owned(),
        ttl: seconds.map(Duration::from_secs),
    };
    store(log).update_task_lease(&lease).await.unwrap()
}

/// One process at a time holds the lease of a task, until it releases the lease.
pub async fn task_lease_has_one_holder(harness: Harness) {
    let (log, second) = (harness.service(), harness.second().await);
    assert!(lease(&log, "a", Some(10)).await);
    assert!(!lease(&second, "b", Some(10)).await);
    assert!(!lease(&second, "b", None).await);
    assert!(lease(&log, "a", Some(10)).await);
    let other = TaskLease {
        task: "other".to_owned(),
        holder: "b".to_owned(),
        ttl: Some(TTL),
    };
    assert!(store(&second).update_task_lease(&other).await.unwrap());
    assert!(lease(&log, "a", None).await);
    assert!(lease(&second, "b", Some(10)).await);
    assert!(!lease(&log, "a", Some(10)).await);
}

/// The lease of a crashed process expires, unless the process renews it.
pub async fn task_lease_expires_unless_it_is_renewed(harness: Harness) {
    let log = harness.service();
    assert!(lease(&log, "a", Some(10)).await);
    harness.clock.tick(Duration::from_secs(9));
    assert!(lease(&log, "a", Some(10)).await);
    harness.clock.tick(Duration::from_secs(9));
    assert!(!lease(&log, "b", Some(10)).await);
    harness.clock.tick(Duration::from_secs(1));
    assert!(lease(&log, "b", Some(10)).await);
    assert!(!lease(&log, "a", Some(10)).await);
}

/// Exactly one of the processes that ask for a lease at the same time gets it.
pub async fn exactly_one_of_concurrent_processes_gets_a_task_lease(harness: Harness) {
    let log = harness.service();
    let got = run_concurrently(8, |number| {
        let log = log.clone();
        async move { lease(&log, &format!("holder {number}"), Some(10)).await }
    });
    let got = got.await;
    assert_eq!(got.iter().filter(|got| **got).count(), 1);
}

/// Pages of expired sessions continue after an incarnation and have the time of expiry.
pub async fn expired_sessions_are_listed_page_by_page(harness: Harness) {
    let log = harness.service();
    for number in 0..5 {
        create_for(&log, &format!("s{number}"), TTL).await;
    }
    create(&log, "for ever").await;
    let last = create_for(&log, "s5", TTL * 3).await;
    assert_eq!(store(&log).expired(0, 10).await.unwrap(), []);
    harness.clock.tick(TTL);
    let page = store(&log).expired(0, 3).await.unwrap();
    let more = store(&log).expired(page[2].incarnation, 3).await.unwrap();
    let ids = |page: &[ExpiredSession]| -> Vec<String> {
        page.iter().map(|session| session.key.id.clone()).collect()
    };
    assert_eq!(
        (ids(&page), ids(&more)),
        (
            vec!["s0".to_owned(), "s1".to_owned(), "s2".to_owned()],
            vec!["s3".to_owned(), "s4".to_owned()],
        )
    );
    assert!(store(&log).is_expired(&page[0].key).await.unwrap());
    assert!(!store(&log).is_expired(&last).await.unwrap());
    assert!(!store(&log).is_expired(&key("missing")).await.unwrap());
}

/// A session that was created again since it expired is not deleted.
pub async fn recreated_session_is_not_deleted_as_expired(harness: Harness) {
    let log = harness.service();
    create_for(&log, "s1", TTL).await;
    create_for(&log, "s2", TTL).await;
    harness.clock.tick(TTL);
    let expired = store(&log).expired(0, 10).await.unwrap();
    let again = create_for(&log, "s1", TTL).await;
    append(&log, &again, event("e")).await;
    assert!(!store(&log).is_expired(&again).await.unwrap());
    let delete = async || store(&log).delete_expired(&expired).await.unwrap().sessions;
    assert_eq!(delete().await, 1);
    assert_eq!(delete().await, 0);
    harness.clock.tick(TTL);
    assert_eq!(delete().await, 0);
    assert_eq!(log.sweep().await.unwrap(), 1);
}
