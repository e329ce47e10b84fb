//! Maintenance: erase, backup, purge, and errors that name corrupt records.

use std::{fs, sync::Arc};

use retain_core::{
    Content, Event, MemoryBatch, MemoryLimits, MemoryScope, MemoryStore as _, NewMemory,
    PreparedMemory, RepeatPolicy, SessionError, SessionKey, SessionLog as _, SessionService as _,
    TransferStore as _, Window,
};
use rusqlite::Connection;

/// Neither the database nor its WAL holds a byte of the user, even in pages that were split.
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
    // Interleaved and of many sizes, so that rows move between pages.
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
    assert_eq!(sessions.check().await.unwrap(), Vec::<String>::new());
}

/// The backup holds a prefix of every session and opens without the original file.
#[tokio::test(flavor = "multi_thread")]
async fn backup_under_load_is_consistent() {
    let folder = retain_testkit::scratch::folder();
    let sessions = super::open_service(&folder.path().join("s.db")).await;
    let writers = (0..4).map(|n| {
        let sessions = sessions.clone();
        tokio::spawn(async move { super::fill(&sessions, "ada", &format!("s{n}"), 200).await })
    });
    let writers: Vec<_> = writers.collect();
    let copy = folder.path().join("copy.db");
    sessions.store().backup(&copy).await.unwrap();
    for writer in writers {
        writer.await.unwrap();
    }
    let copied = super::open_service(&copy).await;
    assert_eq!(copied.check().await.unwrap(), Vec::<String>::new());
    for meta in copied.list_sessions("app", None).await.unwrap().sessions {
        let copy = copied
            .read(&meta.key(), Window::ALL)
            .await
            .unwrap()
            .unwrap();
        let window = Window::range(1, copy.position);
        let original = sessions.read(&meta.key(), window).await.unwrap().unwrap();
        assert_eq!(copy.events, original.events);
        let state = sessions.state_at(&meta.key(), copy.position).await.unwrap();
        assert_eq!(copy.state, state);
    }
    // A backup overwrites nothing.
    let error = sessions.store().backup(&copy).await.unwrap_err();
    assert!(matches!(error, SessionError::Invalid { .. }), "{error}");
}

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
    assert!(
        problems[0].contains("event 3") && problems[0].contains("author"),
        "{problems:?}"
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
async fn abandoned_draft_is_purged_when_the_store_opens() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("s.db");
    let sessions = super::open_service(&file).await;
    super::fill(&sessions, "ada", "kept", 3).await;
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
    let kept = SessionKey::new("app", "ada", "kept");
    assert!(sessions.read(&kept, Window::ALL).await.unwrap().is_some());
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
        now_us: 1,
    };
    let memories = sessions.store().memory();
    memories.add(Arc::new(batch)).await.unwrap();
    assert_eq!(sessions.check().await.unwrap(), Vec::<String>::new());
    let connection = Connection::open(&file).unwrap();
    let moved = connection.execute("UPDATE memories SET key = key + (7 << 32)", []);
    assert_eq!(moved.unwrap(), 1);
    let problems = sessions.check().await.unwrap();
    let named = problems.iter().any(|it| it.contains("is orphaned"));
    assert!(named, "{problems:?}");
}
