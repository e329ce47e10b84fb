//! Errors and check results that name corrupt or orphaned records.

use std::sync::Arc;

use retain_core::{
    Content, MemoryBatch, MemoryLimits, MemoryScope, MemoryStore as _, NewMemory, PreparedMemory,
    RepeatPolicy, SessionLog as _, Window,
};
use rusqlite::Connection;

/// Events before and after the corrupt one stay readable.
#[tokio::test]
async fn read_error_names_the_unreadable_event() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = super::open_service(&file).await;
    let key = super::fill(&sessions, "ada", "s1", 5).await.key();
    let connection = Connection::open(&file).unwrap();
    let sql = "UPDATE events SET body = '{\"author\": 7}' WHERE key & 0xffffffff = 3";
    assert_eq!(connection.execute(sql, []).unwrap(), 1);
    let error = sessions.read(&key, Window::ALL).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "event 3 of session \"app\"/\"ada\"/\"s1\" cannot be read"
    );
    assert_eq!(
        sessions
            .read(&key, Window::newest(2))
            .await
            .unwrap()
            .unwrap()
            .events
            .len(),
        2
    );
    let problems = sessions.check().await.unwrap();
    assert_eq!(problems.len(), 1);
    let text = problems[0].to_string();
    assert!(
        text.contains("event 3") && text.contains("author"),
        "{text}"
    );
}

#[tokio::test]
async fn read_error_names_the_missing_event() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = super::open_service(&file).await;
    let key = super::fill(&sessions, "ada", "s1", 5).await.key();
    let connection = Connection::open(&file).unwrap();
    connection
        .execute("DELETE FROM events WHERE key & 0xffffffff = 2", [])
        .unwrap();
    let error = sessions.read(&key, Window::ALL).await.unwrap_err();
    assert!(
        error.to_string().starts_with("event 2 of session"),
        "{error}"
    );
    assert_eq!(sessions.check().await.unwrap().len(), 1);
}

#[tokio::test]
async fn read_error_names_the_unreadable_state_key() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = super::open_service(&file).await;
    let key = super::fill(&sessions, "ada", "s1", 3).await.key();
    let connection = Connection::open(&file).unwrap();
    connection
        .execute("UPDATE state SET value = 'NaN' WHERE key = 'key1'", [])
        .unwrap();
    let error = sessions.read(&key, Window::NONE).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("state key \"key1\" of session"),
        "{error}"
    );
}

#[tokio::test]
async fn check_names_an_orphaned_memory() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = super::open_service(&file).await;
    let memory = PreparedMemory::new(NewMemory {
        id: "m0".to_owned(),
        content: Content::user("I like tea."),
        ..NewMemory::default()
    });
    let batch = MemoryBatch {
        scope: MemoryScope::new("app", "ada"),
        memories: vec![memory.unwrap()],
        repeats: RepeatPolicy::Replace,
        limits: MemoryLimits::default(),
        rooms: Vec::new(),
        now_us: 1,
    };
    let memories = sessions.store().memory();
    memories.add(Arc::new(batch)).await.unwrap();
    assert_eq!(sessions.check().await.unwrap(), []);
    let connection = Connection::open(&file).unwrap();
    let moved = connection.execute("UPDATE memories SET key = key + (7 << 32)", []);
    assert_eq!(moved.unwrap(), 1);
    let problems = sessions.check().await.unwrap();
    let named = problems
        .iter()
        .any(|it| it.to_string().contains("is orphaned"));
    assert!(named, "{problems:?}");
}
