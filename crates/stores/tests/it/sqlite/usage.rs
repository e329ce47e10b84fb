//! An older program appends events without counting their bytes.

use retain_core::{SessionKey, SessionLog as _, SessionService as _, Usage};
use rusqlite::Connection;

use super::{fill, open_service};

/// Undoes what an append of this program records and an older program does not.
const OLDER: &str = "UPDATE sessions SET sized_to = 1, log_bytes = \
    (SELECT octet_length(body) FROM events WHERE key = number << 32 | 1)";

#[tokio::test(flavor = "multi_thread")]
async fn append_of_an_older_program_is_counted() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = open_service(&file).await;
    let key = SessionKey::new("app", "ada", "s");
    let mut session = fill(&sessions, "ada", "s", 5).await;
    let complete = sessions.usage("app", Some("ada")).await.unwrap();
    let older = Connection::open(&file).unwrap();
    older.execute(OLDER, []).unwrap();
    let usage = || async { sessions.usage("app", Some("ada")).await.unwrap() };
    assert_eq!(usage().await, complete);
    let fork = sessions.fork(&key, Some(3), Some("t")).await.unwrap();
    let copied = usage().await.event_bytes - complete.event_bytes;
    sessions
        .delete_session("app", "ada", &fork.id)
        .await
        .unwrap();
    assert!(copied > 0 && copied < complete.event_bytes);

    // The next append counts the missing events in the row.
    let event = retain_core::Event::user_text("new");
    let stored = sessions.append_event(&mut session, event).await.unwrap();
    let bytes = stored.to_json().unwrap().len() as u64;
    let sums = "SELECT position, sized_to, log_bytes FROM sessions";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let counted: (u64, u64, u64) = older.query_row(sums, [], row).unwrap();
    assert_eq!(counted, (6, 6, complete.event_bytes + bytes));
    let expected = Usage::default().with_sessions(1).with_events(6);
    assert_eq!(usage().await, expected.with_event_bytes(counted.2));
}
