//! The bytes that remain in the files of a database after a user is erased.

use std::fs;

use retain_core::{Event, SessionLog as _, SessionService as _};

/// Neither the database file nor its WAL contains data of the user, not even in split pages.
#[tokio::test(flavor = "multi_thread")]
async fn erase_user_leaves_no_bytes_in_the_files() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = super::open_service(&file).await;
    let mut live = Vec::new();
    for n in 0..12 {
        let user = if n % 3 == 0 { "CANARY" } else { "other" };
        live.push(super::fill(&sessions, user, &format!("{user}-{n}"), 0).await);
    }
    // Append events of many sizes to the sessions in turn, so that rows move between pages.
    for n in 0..2400 {
        let session = &mut live[(n * 7) % 12];
        let text = session.user_id.repeat(1 + (n * 31) % 90);
        let mut event = Event::user_text(text.clone());
        event.id = format!("{}-{n}", session.user_id);
        event
            .actions
            .state_delta
            .insert(format!("{}{}", session.user_id, n % 7), text.clone());
        event
            .actions
            .state_delta
            .insert(format!("user:{}", n % 5), text);
        sessions.append_event(session, event).await.unwrap();
    }
    let receipt = sessions.erase_user("app", "CANARY").await.unwrap();
    assert_eq!((receipt.sessions, receipt.events), (4, 800));
    // 7 state keys in each session, 5 of the user.
    assert_eq!(receipt.state_keys, 4 * 7 + 5);
    for suffix in ["", "-wal", "-shm"] {
        let path = folder.path().join(format!("s.db{suffix}"));
        let bytes = fs::read(&path).unwrap_or_default();
        let found = bytes
            .windows(6)
            .filter(|window| window == b"CANARY")
            .count();
        assert_eq!(found, 0, "{found} traces in s.db{suffix}");
    }
    let left = sessions.list_sessions("app", Some("other")).await.unwrap();
    assert_eq!(left.sessions.len(), 8);
    assert_eq!(sessions.check().await.unwrap(), []);
}
