//! A waiting tail receives appends by another process before its fallback poll.

use std::time::Duration;

use futures_util::StreamExt as _;
use retain_core::{Event, SessionKey, SessionLog as _, SessionService as _};
use retain_stores::SqliteSessionService;
use tokio::time::timeout;

/// Less than the interval at which a waiting tail polls without a notification.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn waiting_tail_receives_appends_by_another_process() {
    let folder = retain_testkit::scratch::folder();
    let uri = format!("sqlite:///{}", folder.path().join("s.db").display());
    // Two connections behave like two processes.
    let here = SqliteSessionService::connect(&uri).await.unwrap();
    let there = SqliteSessionService::connect(&uri).await.unwrap();
    here.create_session("app", "ada", None, Some("s1"))
        .await
        .unwrap();
    let key = SessionKey::new("app", "ada", "s1");
    let mut tail = here.tail(&key, 0);
    // Time out first, so that the tail is waiting.
    for text in ["one", "two"] {
        assert!(
            timeout(Duration::from_millis(500), tail.next())
                .await
                .is_err()
        );
        there
            .append(&key, Event::user_text(text).into())
            .await
            .unwrap();
        let received = timeout(RECEIVE_TIMEOUT, tail.next()).await;
        let (_, event) = received
            .expect("the tail receives the event")
            .unwrap()
            .unwrap();
        assert_eq!(event.content().unwrap().text_concat(), text);
    }
}
