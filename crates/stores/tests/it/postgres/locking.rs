//! Which operations wait for which. A row lock held by the test stands for a long append.

use retain_core::{Append, SessionLog as _, SessionService as _};
use tokio_postgres::error::SqlState;

use super::{created, database, event, open, proxy::Proxy, texts};

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_user_do_not_block_each_other() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let (one, two) = (
        created(&sessions, "one").await,
        created(&sessions, "two").await,
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
    // Neither append path to session two needs these locks, and no read does.
    sessions.append(&two, event("a").into()).await.unwrap();
    let replica = open(&database.uri()).await;
    replica.append(&two, event("b").into()).await.unwrap();
    assert_eq!(texts(&replica, &two).await, ["a", "b"]);
    assert_eq!(texts(&sessions, &one).await, ["shared"]);
    assert_eq!(sessions.get_user_state("app", "ada").await.unwrap()["a"], 1);
    // An append that changes user state does.
    let waiting = {
        let (sessions, two) = (sessions.clone(), two.clone());
        let mut shared = event("c");
        shared.actions.state_delta.insert("user:b", 2);
        tokio::spawn(async move { sessions.append(&two, shared.into()).await })
    };
    let other = database.client().await;
    let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    super::until(&other, waits).await;
    held.rollback().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(texts(&sessions, &two).await, ["a", "b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_locking_in_different_orders_do_not_fail() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let mut keys = Vec::new();
    for n in 0..4 {
        keys.push(created(&sessions, &format!("s{n}")).await);
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
        assert_eq!(texts(&sessions, key).await.len(), 60);
    }
    // Every state key has its last written value, despite the other writers.
    let app = sessions.get_app_state("app").await.unwrap();
    for writer in 0..8 {
        let last = if writer % 2 == 0 { 28 } else { 29 };
        assert_eq!(app[format!("{writer}").as_str()], last);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn append_on_a_cached_head_is_one_statement() {
    let Some(database) = database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let sessions = open(proxy.uri()).await;
    // No background work is left.
    sessions.store().purge().await.unwrap();
    let key = created(&sessions, "s").await;
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
    let replica_line = Proxy::new(&database).await;
    let replica = open(replica_line.uri()).await;
    replica.store().purge().await.unwrap();
    assert_eq!(texts(&replica, &key).await.len(), 14);
    let before = replica_line.commits();
    replica.append(&key, event("b").into()).await.unwrap();
    assert_eq!(replica_line.commits(), before);
}

/// A locked session blocks all its writers, however many, and nobody else: they do not use up the
/// connection pool.
#[tokio::test(flavor = "multi_thread")]
async fn busy_session_does_not_exhaust_the_pool() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&format!("{}?pool_size=2", database.uri())).await;
    let (busy, other) = (
        created(&sessions, "busy").await,
        created(&sessions, "other").await,
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
        let looker = database.client().await;
        let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        super::until(&looker, waits).await;
        for n in 0..5 {
            let event = event(&format!("{n}"));
            sessions.append(&other, event.into()).await.unwrap();
            texts(&sessions, &busy).await;
        }
        held.rollback().await.unwrap();
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
    }
    assert_eq!(texts(&sessions, &busy).await.len(), 34);
    assert_eq!(sessions.check().await.unwrap(), Vec::<String>::new());
}

/// The removed_memory of a deadlock is aborted and retried.
#[tokio::test(flavor = "multi_thread")]
async fn deadlock_is_retried() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = created(&sessions, "s").await;
    let shared = |n: i64| {
        let mut shared = event("shared");
        shared.actions.state_delta.insert("user:a", n);
        shared
    };
    sessions.append(&key, shared(1).into()).await.unwrap();
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let looker = database.client().await;
    let before: i64 = looker.query_one(deadlocks, &[]).await.unwrap().get(0);
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
        super::until(&looker, waits).await;
        // The append holds the user state and waits for the head. A waiter looks for deadlocks once,
        // after a second. On a slow machine that is too early, and this lock is the removed_memory.
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
    super::until(&looker, &counted).await;
    let stored = texts(&sessions, &key).await;
    assert_eq!(stored, vec!["shared"; appends as usize]);
    let state = sessions.get_user_state("app", "ada").await.unwrap();
    assert_eq!(state["a"].as_i64(), Some(appends));
}

/// A fork reads from one snapshot, and its source may change meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn serialization_failure_is_retried() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = created(&sessions, "s").await;
    sessions.append(&key, event("a").into()).await.unwrap();
    let mut holder = database.client().await;
    let held = holder.transaction().await.unwrap();
    // An update of the session id, for which every reader of the old one waits.
    let change = "UPDATE retain_sessions SET id = id || 'x'; UPDATE retain_sessions SET id = 's'";
    held.batch_execute(change).await.unwrap();
    let waiting = {
        let (sessions, key) = (sessions.clone(), key.clone());
        tokio::spawn(async move { sessions.fork(&key, None, Some("copy")).await })
    };
    let looker = database.client().await;
    let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    super::until(&looker, waits).await;
    held.commit().await.unwrap();
    let copy = waiting.await.unwrap().unwrap();
    assert_eq!(texts(&sessions, &copy.key()).await, ["a"]);
}

/// Tables that another transaction locks against vacuum do not block an erase.
#[tokio::test(flavor = "multi_thread")]
async fn erase_does_not_wait_for_vacuum() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = created(&sessions, "s").await;
    sessions.append(&key, event("a").into()).await.unwrap();
    let mut holder = database.client().await;
    let held = holder.transaction().await.unwrap();
    let lock = "LOCK TABLE retain_events, retain_sessions IN SHARE UPDATE EXCLUSIVE MODE";
    held.batch_execute(lock).await.unwrap();
    let receipt = sessions.erase_user("app", "ada").await.unwrap();
    assert_eq!((receipt.sessions, receipt.events), (1, 1));
    super::until(
        &database.client().await,
        "SELECT count(*) = 0 FROM retain_events",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_session_rows_are_purged() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let client = database.client().await;
    for n in 0..3 {
        let key = created(&sessions, "s").await;
        sessions.append(&key, event("a").into()).await.unwrap();
        sessions.delete_session("app", "ada", "s").await.unwrap();
        if n == 1 {
            sessions.store().purge().await.unwrap();
        }
        let left = "SELECT (SELECT count(*) FROM retain_events) + (SELECT count(*) FROM retain_logs) \
                    + (SELECT count(*) FROM retain_state) = 0";
        super::until(&client, left).await;
    }
}
