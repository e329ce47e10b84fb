//! Corrupt memories are named, never skipped or mistaken for something else.

use std::{path::Path, sync::Arc};

use retain_core::{
    Content, Forget, Json, MemoryBatch, MemoryError, MemoryFilter, MemoryLimits, MemoryOrigin,
    MemoryRows, MemoryScope, MemoryStore as _, NewMemory, PreparedMemory, RepeatPolicy,
    TransferStore as _,
};
use retain_stores::{SqliteMemoryStore, SqliteOptions, SqliteStore};
use rusqlite::Connection;

fn ada() -> MemoryScope {
    MemoryScope::new("app", "ada")
}

async fn open(path: &Path) -> (SqliteStore, SqliteMemoryStore) {
    let store = SqliteStore::open(SqliteOptions::file(path)).await.unwrap();
    let memory = store.memory();
    (store, memory)
}

/// Two memories: `said`, and `told` by a tool and with metadata.
async fn fill(store: &SqliteMemoryStore) {
    let said = NewMemory {
        id: "said".to_owned(),
        session: Some("s1".to_owned()),
        content: Content::user("I like tea."),
        ..NewMemory::default()
    };
    let told = NewMemory {
        id: "told".to_owned(),
        origin: MemoryOrigin::Tool {
            name: "web".to_owned(),
        },
        custom_metadata: [("k".to_owned(), Json::from("v"))].into_iter().collect(),
        ..said.clone()
    };
    let batch = MemoryBatch {
        scope: ada(),
        memories: [said, told]
            .map(|it| PreparedMemory::new(it).unwrap())
            .into(),
        repeats: RepeatPolicy::Keep,
        limits: MemoryLimits::default(),
        now_us: 1_700_000_000_000_000,
    };
    store.add(Arc::new(batch)).await.unwrap();
}

/// Fail unless the error names this memory as unreadable.
fn is_named<T: std::fmt::Debug>(result: Result<T, MemoryError>, id: &str, damage: &str) {
    match result {
        Err(MemoryError::Corrupt { id: named, .. }) => assert_eq!(named, id, "{damage}"),
        other => panic!("{damage}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn corrupt_memories_are_named() {
    for (damage, id) in [
        ("kind = 2", "told"),
        ("kind = 'x'", "told"),
        ("origin = 4", "told"),
        ("origin = -1", "told"),
        ("tool = NULL", "told"),
        ("custom_metadata = '[1]'", "told"),
        ("custom_metadata = 'null'", "told"),
        ("custom_metadata = '{'", "told"),
        ("custom_metadata = x'ff'", "told"),
        ("content = '{'", "told"),
        ("content = x'ff'", "told"),
        ("timestamp = 'now'", "told"),
        ("session = x'ff'", "told"),
        ("id = x'ff'", "number 2"),
    ] {
        let folder = retain_testkit::scratch::folder();
        let file = folder.path().join("m.db");
        let (database, store) = open(&file).await;
        fill(&store).await;
        assert_eq!(database.check().await.unwrap(), Vec::<String>::new());
        let sql = format!("UPDATE memories SET {damage} WHERE id = 'told'");
        let changed = Connection::open(&file).unwrap().execute(&sql, []).unwrap();
        assert_eq!(changed, 1);
        let problems = database.check().await.unwrap().join("; ");
        let named = format!("memories of app/ada: memory {id:?} cannot be read: ");
        assert!(problems.contains(&named), "{damage}: {problems}");

        let all = MemoryRows::After { seq: 0, limit: 10 };
        is_named(store.rows(&ada(), all, true).await, id, damage);
        if !damage.starts_with("content") {
            let filter = Forget::Matching(MemoryFilter {
                tool: Some("web".to_owned()),
                ..MemoryFilter::default()
            });
            is_named(store.forget(&ada(), Arc::new(filter)).await, id, damage);
        }
        // It can be removed by its id, and the rest is unchanged.
        if id == "told" {
            let ids = Forget::Ids(vec![id.to_owned()]);
            let receipt = store.forget(&ada(), Arc::new(ids)).await.unwrap();
            assert_eq!(receipt.memories, 1, "{damage}");
            let all = MemoryRows::After { seq: 0, limit: 10 };
            let left = store.rows(&ada(), all, true).await.unwrap();
            assert_eq!(left[0].info.id, "said");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_totals_that_differ_from_the_rows() {
    let folder = retain_testkit::scratch::folder();
    let file = folder.path().join("m.db");
    let (database, store) = open(&file).await;
    fill(&store).await;
    let sql = "DELETE FROM memories WHERE id = 'told'";
    Connection::open(&file).unwrap().execute(sql, []).unwrap();
    let problems = database.check().await.unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with("memories of app/ada: 1 of "),
        "{problems:?}"
    );
}
