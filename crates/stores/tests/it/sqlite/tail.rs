//! A waiting tail receives appends by another process without waiting for its fallback poll.

use std::time::Duration;

use futures_util::StreamExt as _;
use retain_core::{
    Event, SessionKey, SessionLog as _, SessionService as _, Snapshot, StoreSessionService,
};
use retain_stores::{SqliteOptions, SqliteSessionService, SqliteStore};
use retain_testkit::wrapper::{StoreInterceptor, WrappedStore};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

/// Shorter than the interval of the fallback poll.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Counts the reads that return no events. After such a read, a tail waits.
#[derive(Debug, Clone, Default)]
struct EmptyReads(watch::Sender<usize>);

impl StoreInterceptor for EmptyReads {
    fn after_read(&self, snapshot: Snapshot) -> Snapshot {
        if snapshot.events.is_empty() {
            self.0.send_modify(|count| *count += 1);
        }
        snapshot
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_tail_receives_appends_by_another_process() {
    let folder = retain_testkit::scratch::folder();
    let options = SqliteOptions::file(folder.path().join("s.db"));
    // Two connections behave like two processes.
    let there = SqliteSessionService::over(SqliteStore::open(options.clone()).await.unwrap());
    let empty_reads = EmptyReads::default();
    let store = SqliteStore::open(options).await.unwrap();
    let here = StoreSessionService::over(WrappedStore::with(store, empty_reads.clone()));
    here.create_session("app", "ada", None, Some("s1"))
        .await
        .unwrap();
    let key = SessionKey::new("app", "ada", "s1");
    let mut tail = here.tail(&key, 0);
    let (sender, mut received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(next) = tail.next().await {
            if sender.send(next).is_err() {
                return;
            }
        }
    });
    let mut waits = empty_reads.0.subscribe();
    for (number, text) in ["one", "two"].into_iter().enumerate() {
        waits.wait_for(|count| *count > number).await.unwrap();
        there
            .append(&key, Event::user_text(text).into())
            .await
            .unwrap();
        let next = timeout(RECEIVE_TIMEOUT, received.recv()).await;
        let (_, event) = next.expect("the tail receives the event").unwrap().unwrap();
        assert_eq!(event.content().unwrap().text_concat(), text);
    }
}
