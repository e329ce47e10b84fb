//! Drafts of imports that were never finished.

use retain_core::{SessionKey, SessionLog as _, TransferStore as _, Window};
use rusqlite::Connection;

#[tokio::test]
async fn abandoned_draft_is_purged_when_the_store_opens() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = super::open_service(&file).await;
    let session = super::fill(&sessions, "ada", "s1", 3).await.key();
    let key = SessionKey::new("app", "ada", "draft");
    let draft = sessions.store().begin_draft(&key).await.unwrap();
    let connection = Connection::open(&file).unwrap();
    let sql = "UPDATE logs SET purge_after_us = 0 WHERE number = ?1";
    connection.execute(sql, [draft.0 as i64]).unwrap();
    drop(sessions);
    let sessions = super::open_service(&file).await;
    let logs: i64 = connection
        .query_row("SELECT count(*) FROM logs", [], |row| row.get(0))
        .unwrap();
    assert_eq!(logs, 1);
    assert!(
        sessions
            .read(&session, Window::ALL)
            .await
            .unwrap()
            .is_some()
    );
}
