//! Locks: which operations wait for each other. A row lock that the test holds simulates a long
//! append.

use retain_core::{Append, SessionLog as _, SessionService as _};
use tokio_postgres::error::SqlState;

use super::{create, create_database, event, open, proxy::Proxy, read_texts};

#[tokio::test(flavor = "multi_thread")]
async fn append_does_not_wait_for_another_session_of_the_user() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let (one, two) = (
        create(&sessions, "one").await,
        create(&sessions, "two").await,
    );
    let mut shared = event("shared");
    shared.actions.state_delta.insert("user:a", 1);
    shared.actions.state_delta.insert("app:a", 1);
    sessions.append(&one, shared.into()).await.unwrap();
    let mut holder = database.client().await;
    let held = holder.transaction().await.unwrap();
    // Another writer locks session one, and the state of the user and of the app.
    for lock in [
        "SELECT FROM retain_shared_bytes FOR UPDATE",
        "SELECT FROM retain_shared_state FOR UPDATE",
        "SELECT FROM retain_sessions WHERE id = 'one' FOR UPDATE",
    ] {
        held.execute(lock, &[]).await.unwrap();
    }
    // An append to session two, with or without a cached head, needs none of these locks; nor does
    // a read.
    sessions.append(&two, event("a").into()).await.unwrap();
    let replica = open(&database.uri()).await;
    replica.append(&two, event("b").into()).await.unwrap();
    assert_eq!(read_texts(&replica, &two).await, ["a", "b"]);
    assert_eq!(read_texts(&sessions, &one).await, ["shared"]);
    assert_eq!(sessions.get_user_state("app", "ada").await.unwrap()["a"], 1);
    // An append that changes user state waits.
    let waiting = {
        let (sessions, two) = (sessions.clone(), two.clone());
        let mut shared = event("c");
        shared.actions.state_delta.insert("user:b", 2);
        tokio::spawn(async move { sessions.append(&two, shared.into()).await })
    };
    let other = database.client().await;
    let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    super::wait_until(&other, waits).await;
    held.rollback().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(read_texts(&sessions, &two).await, ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_appends_to_shared_state_succeed() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let mut keys = Vec::new();
    for n in 0..4 {
        keys.push(create(&sessions, &format!("s{n}")).await);
    }
    let writers = (0..8_usize).map(|writer| {
        let (sessions, key) = (sessions.clone(), keys[writer % 4].clone());
        tokio::spawn(async move {
            for n in 0..30 {
                let mut event = event(&format!("{writer}-{n}"));
                let delta = &mut event.actions.state_delta;
                if (writer + n) % 3 == 0 {
                    delta.insert(format!("user:{writer}"), n);
                }
                if (writer + n) % 2 == 0 {
                    delta.insert(format!("app:{writer}"), n);
                }
                sessions.append(&key, event.into()).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    for key in &keys {
        assert_eq!(read_texts(&sessions, key).await.len(), 60);
    }
    // Concurrent writers of other keys did not overwrite a state key.
    let app = sessions.get_app_state("app").await.unwrap();
    for writer in 0..8 {
        let last = if writer % 2 == 0 { 28 } else { 29 };
        assert_eq!(app[format!("{writer}").as_str()], last);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn append_with_a_cached_head_needs_no_transaction() {
    let Some(database) = create_database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let sessions = open(proxy.uri()).await;
    // Finish background work, whose commits would be counted.
    sessions.store().purge().await.unwrap();
    let key = create(&sessions, "s").await;
    let before = proxy.commits();
    for n in 0..10 {
        let mut given = event(&format!("{n}"));
        given.id = format!("id {n}");
        sessions.append(&key, given.into()).await.unwrap();
    }
    let run = sessions
        .append(
            &key,
            Append::from(event("run")).beginning_run(Default::default()),
        )
        .await
        .unwrap()
        .run
        .unwrap();
    let batch = vec![event("x"), retain_core::Event::user_text("y")];
    let within = Append::from(batch).within_run(run);
    sessions.append(&key, within).await.unwrap();
    let end = Append::from(event("z")).ending_run(run);
    sessions.append(&key, end).await.unwrap();
    assert_eq!(proxy.commits(), before);
    // A replica that has read the session has its head cached too.
    let replica_proxy = Proxy::new(&database).await;
    let replica = open(replica_proxy.uri()).await;
    replica.store().purge().await.unwrap();
    assert_eq!(read_texts(&replica, &key).await.len(), 14);
    let before = replica_proxy.commits();
    replica.append(&key, event("b").into()).await.unwrap();
    assert_eq!(replica_proxy.commits(), before);
}

/// Writers that wait for a locked session must not hold all connections.
#[tokio::test(flavor = "multi_thread")]
async fn busy_session_does_not_exhaust_the_pool() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&format!("{}?pool_size=2", database.uri())).await;
    let (busy, other) = (
        create(&sessions, "busy").await,
        create(&sessions, "other").await,
    );
    for lock in [
        "SELECT FROM retain_sessions WHERE id = 'busy' FOR UPDATE",
        "SELECT FROM retain_shared_bytes FOR UPDATE",
    ] {
        let mut shared = event("first");
        shared.actions.state_delta.insert("user:a", 1);
        sessions.append(&busy, shared.into()).await.unwrap();
        let mut holder = database.client().await;
        let held = holder.transaction().await.unwrap();
        held.execute(lock, &[]).await.unwrap();
        let waiting = (0..16).map(|n| {
            let (sessions, busy) = (sessions.clone(), busy.clone());
            let mut waits = event(&format!("{n}"));
            waits.actions.state_delta.insert("user:a", n);
            tokio::spawn(async move { sessions.append(&busy, waits.into()).await })
        });
        let waiting: Vec<_> = waiting.collect();
        let observer = database.client().await;
        let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        super::wait_until(&observer, waits).await;
        for n in 0..5 {
            let event = event(&format!("{n}"));
            sessions.append(&other, event.into()).await.unwrap();
            read_texts(&sessions, &busy).await;
        }
        held.rollback().await.unwrap();
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
    }
    assert_eq!(read_texts(&sessions, &busy).await.len(), 34);
    assert_eq!(sessions.check().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn append_aborted_by_a_deadlock_is_retried() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = create(&sessions, "s").await;
    let shared = |n: i64| {
        let mut shared = event("shared");
        shared.actions.state_delta.insert("user:a", n);
        shared
    };
    sessions.append(&key, shared(1).into()).await.unwrap();
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let observer = database.client().await;
    let before: i64 = observer.query_one(deadlocks, &[]).await.unwrap().get(0);
    let mut holder = database.client().await;
    let mut appends = 1;
    loop {
        appends += 1;
        let held = holder.transaction().await.unwrap();
        let lock = "SELECT FROM retain_sessions FOR UPDATE";
        held.execute(lock, &[]).await.unwrap();
        let waiting = {
            let (sessions, key, shared) = (sessions.clone(), key.clone(), shared(appends));
            tokio::spawn(async move { sessions.append(&key, shared.into()).await })
        };
        let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        super::wait_until(&observer, waits).await;
        // The append has locked the user state and waits for the head. PostgreSQL checks a waiting
        // transaction for a deadlock once, after one second. If the test requests its lock after
        // that check, PostgreSQL aborts the test's transaction instead of the append.
        let lock = "SELECT FROM retain_shared_bytes FOR UPDATE";
        let locked = held.execute(lock, &[]).await;
        let append_is_victim = match locked {
            Ok(_) => true,
            Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => false,
            Err(error) => panic!("{error}"),
        };
        held.rollback().await.unwrap();
        waiting.await.unwrap().unwrap();
        if append_is_victim {
            break;
        }
    }
    // Each round had one deadlock.
    let counted = format!("SELECT ({deadlocks}) >= {}", before + appends - 1);
    super::wait_until(&observer, &counted).await;
    let stored = read_texts(&sessions, &key).await;
    assert_eq!(stored, vec!["shared"; appends as usize]);
    let state = sessions.get_user_state("app", "ada").await.unwrap();
    assert_eq!(state["a"].as_i64(), Some(appends));
}

/// A fork reads from one snapshot, which fails if its source changes meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn fork_with_a_serialization_failure_is_retried() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = create(&sessions, "s").await;
    sessions.append(&key, event("a").into()).await.unwrap();
    let mut holder = database.client().await;
    let held = holder.transaction().await.unwrap();
    // An update of the session id, a key column, blocks every transaction that locks the row.
    let change = "UPDATE retain_sessions SET id = id || 'x'; UPDATE retain_sessions SET id = 's'";
    held.batch_execute(change).await.unwrap();
    let waiting = {
        let (sessions, key) = (sessions.clone(), key.clone());
        tokio::spawn(async move { sessions.fork(&key, None, Some("copy")).await })
    };
    let observer = database.client().await;
    let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    super::wait_until(&observer, waits).await;
    held.commit().await.unwrap();
    let copy = waiting.await.unwrap().unwrap();
    assert_eq!(read_texts(&sessions, &copy.key()).await, ["a"]);
}

/// The test holds a table lock that conflicts with VACUUM.
#[tokio::test(flavor = "multi_thread")]
async fn erase_does_not_wait_for_vacuum() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = create(&sessions, "s").await;
    sessions.append(&key, event("a").into()).await.unwrap();
    let mut holder = database.client().await;
    let held = holder.transaction().await.unwrap();
    let lock = "LOCK TABLE retain_events, retain_sessions IN SHARE UPDATE EXCLUSIVE MODE";
    held.batch_execute(lock).await.unwrap();
    let receipt = sessions.erase_user("app", "ada").await.unwrap();
    assert_eq!((receipt.sessions, receipt.events), (1, 1));
    super::wait_until(
        &database.client().await,
        "SELECT count(*) = 0 FROM retain_events",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_deleted_session_are_purged() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let client = database.client().await;
    for n in 0..3 {
        let key = create(&sessions, "s").await;
        sessions.append(&key, event("a").into()).await.unwrap();
        sessions.delete_session("app", "ada", "s").await.unwrap();
        if n == 1 {
            sessions.store().purge().await.unwrap();
        }
        let left = "SELECT (SELECT count(*) FROM retain_events) + (SELECT count(*) FROM retain_logs) \
                    + (SELECT count(*) FROM retain_state) = 0";
        super::wait_until(&client, left).await;
    }
}
