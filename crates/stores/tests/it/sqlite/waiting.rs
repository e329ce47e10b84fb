//! A waiting tail sees appends by another process, without constant polling.

use std::time::Duration;

use futures_util::StreamExt as _;
use retain_core::{Event, SessionKey, SessionLog as _, SessionService as _};
use retain_stores::SqliteSessionService;
use tokio::time::timeout;

/// Less than the interval after which a waiter polls without a notification.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn waiting_tail_sees_appends_by_another_process() {
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
        let heard = timeout(PATIENCE, tail.next()).await;
        let (_, event) = heard.expect("it is heard").unwrap().unwrap();
        assert_eq!(event.content().unwrap().text_concat(), text);
    }
}
