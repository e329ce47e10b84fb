//! Interrupted connections: each acknowledged write is stored, and stored once.

use std::time::Duration;

use retain_core::{Append, RunOptions, SessionLog as _, SessionService as _, State};
use retain_stores::PostgresSessionService;

use super::{
    created, database, event, open,
    proxy::{Cut, Proxy},
    texts, until,
};

/// Text that only one of the two append paths sends.
const FAST: &str = "in one";
const SLOW: &str = "COMMIT\0";

/// Two services on one database: one through the proxy, one direct.
async fn two(proxy: &Proxy, uri: &str) -> (PostgresSessionService, PostgresSessionService) {
    (open(proxy.uri()).await, open(uri).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_append_is_stored_once() {
    let Some(database) = database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let (sessions, straight) = two(&proxy, &database.uri()).await;
    for (cut, words) in [
        (Cut::Before, FAST),
        (Cut::After, FAST),
        (Cut::Before, SLOW),
        (Cut::After, SLOW),
    ] {
        let name = words.trim_end_matches('\0');
        let key = created(&sessions, &format!("{cut:?} {name}")).await;
        sessions.append(&key, event("first").into()).await.unwrap();
        if words == SLOW {
            // An append by another process makes the cached head stale.
            straight.append(&key, event("other").into()).await.unwrap();
        }
        let before = texts(&straight, &key).await.len() as u64;
        let cuts = proxy.cuts();
        let mut cut_off = event(&format!("cut {name}"));
        // This author identifies an append in one round trip.
        cut_off.author = "in one".to_owned();
        proxy.cut_next(cut, words);
        let appended = sessions.append(&key, cut_off.into()).await.unwrap();
        assert_eq!(proxy.cuts(), cuts + 1, "{cut:?} {words}");
        assert_eq!(appended.events[0].0, before + 1, "{cut:?} {words}");
        sessions.append(&key, event("last").into()).await.unwrap();
        let texts = texts(&straight, &key).await;
        let found = texts.iter().filter(|text| text.starts_with("cut"));
        assert_eq!(found.count(), 1, "{cut:?} {words}: {texts:?}");
        assert_eq!(texts.len() as u64, before + 2, "{cut:?} {words}: {texts:?}");
    }
    assert_eq!(straight.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn run_with_an_interrupted_begin_continues() {
    let Some(database) = database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let (sessions, straight) = two(&proxy, &database.uri()).await;
    for words in [FAST, SLOW] {
        let key = created(&sessions, words.trim_end_matches('\0')).await;
        if words == SLOW {
            straight.append(&key, event("other").into()).await.unwrap();
        }
        let mut first = event("begins");
        first.author = "in one".to_owned();
        proxy.cut_next(Cut::After, words);
        let options = RunOptions::default().with_wait(Duration::from_secs(1));
        let begun = Append::from(first).beginning_run(options);
        // Nobody else holds the session: the interrupted caller must not wait for its own lease.
        let run = sessions.append(&key, begun).await.unwrap().run.unwrap();
        let within = Append::from(event("within")).within_run(run);
        sessions.append(&key, within).await.unwrap();
        let refused = Append::from(event("other"))
            .beginning_run(RunOptions::default().with_wait(Duration::ZERO));
        assert!(straight.append(&key, refused).await.is_err());
        let end = Append::from(event("ends")).ending_run(run);
        sessions.append(&key, end).await.unwrap();
        let texts = texts(&straight, &key).await;
        assert_eq!(texts[texts.len() - 3..], ["begins", "within", "ends"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_create_makes_one_session() {
    let Some(database) = database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let sessions = open(proxy.uri()).await;
    created(&sessions, "before").await;
    for cut in [Cut::Before, Cut::After] {
        proxy.cut_next(cut, SLOW);
        let state = State::from([("user:a", "1"), ("b", "2")]);
        let id = format!("{cut:?}");
        let created = sessions.create_session("app", "ada", Some(state), Some(&id));
        let created = created.await.unwrap();
        assert_eq!(created.state["b"], "2");
        let again = sessions.create_session("app", "ada", None, Some(&id)).await;
        assert!(again.is_err(), "{cut:?}");
        proxy.cut_next(cut, SLOW);
        let (key, fork) = (created.key(), format!("fork {id}"));
        let forked = sessions.fork(&key, None, Some(&fork)).await.unwrap();
        assert_eq!(forked.state["b"], "2");
        proxy.cut_next(cut, SLOW);
        sessions.delete_session("app", "ada", &id).await.unwrap();
        // The next cut must not hit background work.
        sessions.store().purge().await.unwrap();
        assert!(
            sessions
                .read(&created.key(), retain_core::Window::NONE)
                .await
                .unwrap()
                .is_none()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_erase_returns_a_complete_receipt() {
    let Some(database) = database().await else {
        return;
    };
    let proxy = Proxy::new(&database).await;
    let sessions = open(proxy.uri()).await;
    for cut in [Cut::Before, Cut::After] {
        for id in ["one", "two"] {
            let key = created(&sessions, id).await;
            sessions.append(&key, event("a").into()).await.unwrap();
        }
        sessions.store().purge().await.unwrap();
        let cuts = proxy.cuts();
        proxy.cut_next(cut, SLOW);
        let receipt = sessions.erase_user("app", "ada").await.unwrap();
        assert_eq!(proxy.cuts(), cuts + 1, "{cut:?}");
        let found = (receipt.sessions, receipt.events, receipt.state_keys);
        assert_eq!(found, (2, 2, 2), "{cut:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_backend_is_replaced() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = created(&sessions, "s").await;
    sessions.append(&key, event("first").into()).await.unwrap();
    let mut holder = database.client().await;
    let other = database.client().await;
    for n in 0..4 {
        let held = holder.transaction().await.unwrap();
        let lock = "SELECT FROM retain_sessions FOR UPDATE";
        held.execute(lock, &[]).await.unwrap();
        let waiting = {
            let (sessions, key) = (sessions.clone(), key.clone());
            let append = match n % 2 {
                // Shared state keys take the slow path, a transaction of several statements.
                0 => {
                    let mut shared = event(&format!("n{n}"));
                    shared.actions.state_delta.insert("user:n", n);
                    shared
                }
                _ => event(&format!("n{n}")),
            };
            tokio::spawn(async move { sessions.append(&key, append.into()).await })
        };
        let waits = "FROM pg_stat_activity WHERE application_name = 'retain' \
                     AND datname = current_database() AND wait_event_type = 'Lock'";
        until(&other, &format!("SELECT count(*) = 1 {waits}")).await;
        let end = format!("SELECT pg_terminate_backend(pid) {waits}");
        other.query(&end, &[]).await.unwrap();
        held.rollback().await.unwrap();
        let appended = waiting.await.unwrap().unwrap();
        assert_eq!(appended.events[0].0, n as u64 + 2);
    }
    assert_eq!(
        texts(&sessions, &key).await,
        ["first", "n0", "n1", "n2", "n3"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn store_survives_losing_all_connections() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = created(&sessions, "s").await;
    let other = database.client().await;
    let writers = (0..8).map(|writer| {
        let (sessions, key) = (sessions.clone(), key.clone());
        tokio::spawn(async move {
            for n in 0..25 {
                let event = event(&format!("{writer}-{n}"));
                sessions.append(&key, event.into()).await.unwrap();
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE application_name = 'retain' AND datname = current_database()";
    // Exactly 20 times: on a slow machine no writer would progress between two of them.
    for _ in 0..20 {
        other.query(end, &[]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut texts = texts(&sessions, &key).await;
    assert_eq!(texts.len(), 200);
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 200, "something is there twice");
}

/// A future that is held but not polled must not block the session for others.
#[tokio::test(flavor = "multi_thread")]
async fn unpolled_append_does_not_block_others() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = created(&sessions, "s").await;
    for n in 0..50 {
        let mut shared = event(&format!("{n}"));
        shared.actions.state_delta.insert("user:n", n);
        let mut kept = sessions.append(&key, shared.into());
        // Poll it for this long, and no further.
        let patience = Duration::from_micros(n * 100);
        let done = tokio::time::timeout(patience, &mut kept).await;
        sessions.append(&key, event("other").into()).await.unwrap();
        if done.is_err() {
            kept.await.unwrap();
        }
    }
    assert_eq!(texts(&sessions, &key).await.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_append_leaves_no_open_transaction() {
    let Some(database) = database().await else {
        return;
    };
    let sessions = open(&format!("{}?pool_size=2", database.uri())).await;
    let key = created(&sessions, "s").await;
    let mut holder = database.client().await;
    let other = database.client().await;
    for n in 0..6 {
        let held = holder.transaction().await.unwrap();
        let lock = "SELECT FROM retain_sessions FOR UPDATE";
        held.execute(lock, &[]).await.unwrap();
        let waiting = {
            let (sessions, key) = (sessions.clone(), key.clone());
            let mut shared = event("gone");
            shared.actions.state_delta.insert("app:n", n);
            tokio::spawn(async move { sessions.append(&key, shared.into()).await })
        };
        let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        until(&other, waits).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        held.rollback().await.unwrap();
        let open = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'retain' \
                    AND datname = current_database() AND state <> 'idle'";
        until(&other, open).await;
    }
    sessions.append(&key, event("stays").into()).await.unwrap();
    let texts = texts(&sessions, &key).await;
    assert_eq!(texts.last().map(String::as_str), Some("stays"));
    assert!(texts.len() <= 7, "{texts:?}");
    assert_eq!(sessions.check().await.unwrap(), Vec::<String>::new());
}
