//! An older program appends events without counting their bytes.

use retain_core::{SessionLog as _, Usage, Window};

use super::{create, create_database, event, open};

/// Undoes what an append of this program records and an older program does not.
const OLDER: &str = "UPDATE retain_sessions SET revision = revision + 1, sized_to = 1, \
    log_bytes = (SELECT octet_length(body) FROM retain_events WHERE log = number AND position = 1)";

#[tokio::test(flavor = "multi_thread")]
async fn append_of_an_older_program_is_counted() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = create(&sessions, "s").await;
    for n in 0..5 {
        sessions
            .append(&key, event(&format!("text {n}")).into())
            .await
            .unwrap();
    }
    let usage = || async { sessions.usage("app", Some("ada")).await.unwrap() };
    let complete = usage().await;
    let older = database.client().await;
    older.execute(OLDER, &[]).await.unwrap();
    assert_eq!(usage().await, complete);
    assert_eq!(sessions.usage("app", None).await.unwrap(), complete);

    // The next append counts the missing events in the row, also if its head is cached.
    sessions.read(&key, Window::NONE).await.unwrap();
    let stored = sessions.append(&key, event("new").into()).await.unwrap();
    let bytes = stored.events[0].1.to_json().unwrap().len() as u64;
    let sums = "SELECT position, sized_to, log_bytes FROM retain_sessions";
    let row = older.query_one(sums, &[]).await.unwrap();
    let counted: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let total = complete.event_bytes + bytes;
    assert_eq!(counted, (6, 6, total as i64));
    let expected = Usage::default().with_sessions(1).with_events(6);
    assert_eq!(usage().await, expected.with_event_bytes(total));
}
