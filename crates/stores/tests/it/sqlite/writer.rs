//! The writer: appends share a transaction, a rejected append fails alone, and writes wait for the
//! lock of another process.

use retain_core::{
    Append, Conflict, Event, SessionError, SessionKey, SessionLog as _, SessionService as _, Window,
};
use rusqlite::Connection;

fn event(id: &str, text: &str) -> Event {
    let mut event = Event::user_text(text);
    event.id = id.to_owned();
    event.timestamp = 1.0;
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_append_does_not_fail_others_in_its_transaction() {
    let folder = retain_testkit::scratch::folder();
    let sessions = super::open_service(&folder.path().join("s.db")).await;
    let key = super::fill(&sessions, "ada", "s1", 0).await.key();
    sessions
        .append(&key, event("taken", "first").into())
        .await
        .unwrap();
    let tasks = (0..200).map(|n| {
        let (sessions, key) = (sessions.clone(), key.clone());
        tokio::spawn(async move {
            let event = match n % 4 {
                0 => event("taken", "another body"),
                _ => event(&format!("e{n}"), "fine"),
            };
            (n, sessions.append(&key, Append::from(event)).await)
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        match task.await.unwrap() {
            (
                n,
                Err(SessionError::Conflict {
                    conflict: Conflict::EventId { position, .. },
                    ..
                }),
            ) => {
                assert_eq!((n % 4, position), (0, 1));
            }
            (n, result) => assert!(n % 4 != 0 && result.is_ok(), "{n}: {result:?}"),
        }
    }
    let session = sessions.read(&key, Window::ALL).await.unwrap().unwrap();
    assert_eq!(session.events.len(), 151);
}

#[tokio::test(flavor = "multi_thread")]
async fn append_waits_while_another_process_holds_the_write_lock() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = super::open_service(&file).await;
    let key = super::fill(&sessions, "ada", "s1", 1).await.key();
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = {
        let (sessions, key) = (sessions.clone(), key.clone());
        tokio::spawn(async move { sessions.append(&key, event("e", "waits").into()).await })
    };
    // Reads do not wait.
    let read = sessions.read(&key, Window::ALL).await.unwrap().unwrap();
    assert_eq!(read.events.len(), 1);
    assert!(!waiting.is_finished());
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().events[0].0, 2);
}

/// On this runtime, the writer thread commits every append.
#[tokio::test(flavor = "current_thread")]
async fn store_works_on_a_current_thread_runtime() {
    let folder = retain_testkit::scratch::folder();
    let sessions = super::open_service(&folder.path().join("s.db")).await;
    let session = super::fill(&sessions, "ada", "s1", 20).await;
    let read = sessions
        .read(&session.key(), Window::ALL)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.events.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_append_stores_all_of_its_batch_or_nothing() {
    let folder = retain_testkit::scratch::folder();
    let sessions = super::open_service(&folder.path().join("s.db")).await;
    let key = super::fill(&sessions, "ada", "s1", 0).await.key();
    for n in 0..100 {
        let (sessions, key) = (sessions.clone(), key.clone());
        let batch = vec![event(&format!("a{n}"), "a"), event(&format!("b{n}"), "b")];
        let task = tokio::spawn(async move { sessions.append(&key, batch.into()).await });
        if n % 2 == 0 {
            task.abort();
        }
        let _ = task.await;
    }
    let session = sessions.read(&key, Window::ALL).await.unwrap().unwrap();
    let ids: Vec<&str> = session
        .events
        .iter()
        .map(|event| event.id.as_str())
        .collect();
    for pair in ids.chunks(2) {
        assert_eq!(
            pair[0].replace('a', "b"),
            pair[1],
            "half a batch was stored"
        );
    }
    assert!(
        ids.len() >= 100,
        "an append that was not cancelled is missing"
    );
}

/// A deleted log is purged in chunks, so that other writers need not wait for all of it.
#[tokio::test(flavor = "multi_thread")]
async fn appends_continue_during_the_purge_of_a_long_session() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = super::open_service(&file).await;
    let long = super::fill(&sessions, "ada", "long", 1).await.key();
    for batch in 0..30 {
        let events = (0..1000).map(|n| event(&format!("e{batch}-{n}"), "text"));
        sessions
            .append(&long, events.collect::<Vec<_>>().into())
            .await
            .unwrap();
    }
    let key = super::fill(&sessions, "bob", "s1", 1).await.key();
    let deleting = {
        let sessions = sessions.clone();
        tokio::spawn(async move { sessions.delete_session("app", "ada", "long").await })
    };
    let mut appended = 0;
    while !deleting.is_finished() {
        sessions
            .append(&key, Event::user_text("in between").into())
            .await
            .unwrap();
        appended += 1;
    }
    deleting.await.unwrap().unwrap();
    assert!(appended > 1, "the delete starved the appends");
    let deleted = SessionKey::new("app", "ada", "long");
    assert!(
        sessions
            .read(&deleted, Window::ALL)
            .await
            .unwrap()
            .is_none()
    );
    let left: i64 = Connection::open(&file)
        .unwrap()
        .query_row("SELECT count(*) FROM logs", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 1, "the deleted log was not purged");
}
