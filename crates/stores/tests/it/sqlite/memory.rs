//! Corrupt memories: reads fail with an error that names the memory, and `check` reports it.

use std::{path::Path, sync::Arc};

use retain_core::{
    Content, Forget, Json, MemoryBatch, MemoryError, MemoryFilter, MemoryLimits, MemoryOrigin,
    MemoryRows, MemoryScope, MemoryStore as _, NewMemory, PreparedMemory, RepeatPolicy,
    TransferStore as _,
};
use retain_stores::{SqliteMemoryStore, SqliteOptions, SqliteStore};
use rusqlite::Connection;

fn ada_scope() -> MemoryScope {
    MemoryScope::new("app", "ada")
}

async fn open(path: &Path) -> (SqliteStore, SqliteMemoryStore) {
    let store = SqliteStore::open(SqliteOptions::file(path)).await.unwrap();
    let memory = store.memory();
    (store, memory)
}

/// Adds two memories: `by_user`, and `by_tool` with a tool as origin and with metadata.
async fn fill(store: &SqliteMemoryStore) {
    let by_user = NewMemory {
        id: "by_user".to_owned(),
        session: Some("s1".to_owned()),
        content: Content::user("I like tea."),
        ..NewMemory::default()
    };
    let by_tool = NewMemory {
        id: "by_tool".to_owned(),
        origin: MemoryOrigin::Tool {
            name: "web".to_owned(),
        },
        custom_metadata: [("k".to_owned(), Json::from("v"))].into_iter().collect(),
        ..by_user.clone()
    };
    let batch = MemoryBatch {
        scope: ada_scope(),
        memories: [by_user, by_tool]
            .map(|it| PreparedMemory::new(it).unwrap())
            .into(),
        repeats: RepeatPolicy::Keep,
        limits: MemoryLimits::default(),
        rooms: Vec::new(),
        now_us: 1_700_000_000_000_000,
    };
    store.add(Arc::new(batch)).await.unwrap();
}

/// Fails unless the result is a corruption error that names this memory.
fn assert_corrupt<T: std::fmt::Debug>(result: Result<T, MemoryError>, id: &str, corruption: &str) {
    match result {
        Err(MemoryError::Corrupt { id: named, .. }) => assert_eq!(named, id, "{corruption}"),
        other => panic!("{corruption}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn corrupt_memory_is_named_and_can_be_deleted() {
    for (corruption, id) in [
        ("kind = 2", "by_tool"),
        ("kind = 'x'", "by_tool"),
        ("origin = 4", "by_tool"),
        ("origin = -1", "by_tool"),
        ("tool = NULL", "by_tool"),
        ("custom_metadata = '[1]'", "by_tool"),
        ("custom_metadata = 'null'", "by_tool"),
        ("custom_metadata = '{'", "by_tool"),
        ("custom_metadata = x'ff'", "by_tool"),
        ("content = '{'", "by_tool"),
        ("content = x'ff'", "by_tool"),
        ("timestamp = 'now'", "by_tool"),
        ("session = x'ff'", "by_tool"),
        ("id = x'ff'", "number 2"),
    ] {
        let folder = retain_testkit::scratch::folder();
        let file = folder.path().join("m.db");
        let (database, store) = open(&file).await;
        fill(&store).await;
        assert_eq!(database.check().await.unwrap(), []);
        let sql = format!("UPDATE memories SET {corruption} WHERE id = 'by_tool'");
        let changed = Connection::open(&file).unwrap().execute(&sql, []).unwrap();
        assert_eq!(changed, 1);
        let problems = database.check().await.unwrap();
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let problems = problems.join("\n");
        let named = "(number 2) of app/ada: cannot be read: ";
        assert!(problems.contains(named), "{corruption}: {problems}");

        let all = MemoryRows::After { seq: 0, limit: 10 };
        assert_corrupt(store.rows(&ada_scope(), all, true).await, id, corruption);
        if !corruption.starts_with("content") {
            let filter = Forget::Matching(MemoryFilter::default().with_tool("web"));
            assert_corrupt(
                store.forget(&ada_scope(), Arc::new(filter)).await,
                id,
                corruption,
            );
        }
        // The corrupt memory can be deleted by its id; the other one is unchanged.
        if id == "by_tool" {
            let ids = Forget::Ids(vec![id.to_owned()]);
            let receipt = store.forget(&ada_scope(), Arc::new(ids)).await.unwrap();
            assert_eq!(receipt.memories, 1, "{corruption}");
            let all = MemoryRows::After { seq: 0, limit: 10 };
            let left = store.rows(&ada_scope(), all, true).await.unwrap();
            assert_eq!(left[0].info.id, "by_user");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_totals_that_differ_from_the_rows() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("m.db");
    let (database, store) = open(&file).await;
    fill(&store).await;
    let sql = "DELETE FROM memories WHERE id = 'by_tool'";
    Connection::open(&file).unwrap().execute(sql, []).unwrap();
    let problems = database.check().await.unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let text = problems[0].to_string();
    let expected = "memories of app/ada: the recorded total is 2 entries with ";
    assert!(text.starts_with(expected), "{text}");
}
