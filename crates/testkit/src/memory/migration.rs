//! Promises of a memory store as the source and as the target of a migration.

use std::sync::Arc;

use retain_core::{
    Content, Forget, IngestReceipt, MemoryBatch, MemoryError, MemoryLimits, MemoryOrigin,
    MemoryRecord, MemoryRestore, MemoryRows, MemoryScope, MemoryStore, MemoryVector, MemoryVectors,
    NewMemory, PreparedMemory, RepeatPolicy, SourceMemory, Tombstone,
};

use super::MemoryStoreHarness;

const NOW_US: i64 = 1_700_000_000_000_000;

fn memory(id: &str, text: &str) -> PreparedMemory {
    let new = NewMemory {
        id: id.to_owned(),
        session: Some("s1".to_owned()),
        position: 7,
        event_id: Some(id.to_owned()),
        author: Some("user".to_owned()),
        timestamp: 1_600_000_000.25,
        content: Content::user(text),
        ..NewMemory::default()
    };
    PreparedMemory::new(new).unwrap()
}

async fn add(store: &dyn MemoryStore, scope: &MemoryScope, id: &str, text: &str) -> IngestReceipt {
    let batch = MemoryBatch {
        scope: scope.clone(),
        memories: vec![memory(id, text)],
        repeats: RepeatPolicy::Replace,
        limits: MemoryLimits::default(),
        rooms: Vec::new(),
        now_us: NOW_US,
    };
    store.add(Arc::new(batch)).await.unwrap()
}

async fn rows(store: &dyn MemoryStore, scope: &MemoryScope) -> Vec<MemoryRecord> {
    let rows = MemoryRows::After {
        seq: 0,
        limit: usize::MAX,
    };
    store.rows(scope, rows, true).await.unwrap()
}

/// Users with entries or forgotten entries are listed in byte order, in pages of any size.
pub async fn scopes_with_entries_are_listed_in_order(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    assert_eq!(store.scopes(None, 10).await.unwrap(), []);
    let names = [("b", "u"), ("a", "ü"), ("a", "U"), ("a", "u"), ("é", "%")];
    for (app, user) in names {
        add(&*store, &MemoryScope::new(app, user), "a", "one").await;
    }
    let forgotten = MemoryScope::new("b", "u");
    let ids = Arc::new(Forget::Ids(vec!["a".to_owned()]));
    store.forget(&forgotten, ids).await.unwrap();
    let mut expected: Vec<_> = names.map(|(a, u)| MemoryScope::new(a, u)).to_vec();
    expected.sort();
    for step in [1, 2, 100] {
        let mut all: Vec<MemoryScope> = Vec::new();
        loop {
            let page = store.scopes(all.last(), step).await.unwrap();
            if page.is_empty() {
                break;
            }
            all.extend(page);
        }
        assert_eq!(all, expected, "{step}");
    }
}

/// The hashes of forgotten entries come in ascending order, in pages of any size.
pub async fn hashes_of_forgotten_entries_are_read_in_pages(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let scope = MemoryScope::new("app", "ada");
    assert_eq!(store.tombstones(&scope, None, 10).await.unwrap(), []);
    let ids: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    for id in &ids {
        add(&*store, &scope, id, "one").await;
    }
    let mut expected: Vec<_> = ids.iter().map(|id| Tombstone::of_id(&scope, id)).collect();
    expected.sort();
    let forget = Arc::new(Forget::Ids(ids));
    store.forget(&scope, forget).await.unwrap();
    for step in [1, 7, 100] {
        let mut all: Vec<Tombstone> = Vec::new();
        loop {
            let last = all.last().copied();
            let page = store.tombstones(&scope, last, step).await.unwrap();
            if page.is_empty() {
                break;
            }
            all.extend(page);
        }
        assert_eq!(all, expected, "{step}");
    }
}

/// Creates a restore of two entries with a gap between their numbers. One is edited and has
/// vectors.
fn sample_restore(scope: &MemoryScope) -> MemoryRestore {
    let mut edited = memory("b", "by hand");
    edited.body_hash = memory("b", "original text").body_hash;
    edited.new.expires_us = Some(NOW_US + 9);
    edited.new.origin = MemoryOrigin::Tool {
        name: "web".to_owned(),
    };
    edited.new.vectors = MemoryVectors {
        fixed: Some(MemoryVector {
            model: "table".to_owned(),
            dims: 2,
            bytes: vec![1, 255],
        }),
        embedding: Some(MemoryVector::from_floats("m", &[0.5, -1.0])),
    };
    let source_memory = |seq, memory, updated_us| SourceMemory {
        seq,
        memory,
        created_us: NOW_US - 5,
        updated_us,
    };
    MemoryRestore {
        scope: scope.clone(),
        memories: vec![
            source_memory(3, memory("a", "one"), None),
            source_memory(7, edited, Some(NOW_US + 1)),
        ],
        tombstones: vec![Tombstone::of_id(scope, "gone")],
    }
}

/// Numbers, times, hashes and vectors equal those of the source, and entries that the source forgot
/// are not ingested again.
pub async fn migrated_entries_equal_their_source(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let scope = MemoryScope::new("app", "ada");
    let before = store.mark(&scope).await.unwrap();
    let restore = sample_restore(&scope);
    store.restore(Arc::new(restore.clone())).await.unwrap();
    let mark = store.mark(&scope).await.unwrap();
    assert!(mark.generation > before.generation && mark.revision > 0);
    assert_eq!(mark.last_seq, 7);
    let found = rows(&*store, &scope).await;
    assert_eq!(found.len(), 2);
    for (found, source) in found.iter().zip(&restore.memories) {
        let (info, new) = (&found.info, &source.memory.new);
        assert_eq!(info.seq, source.seq);
        assert_eq!(info.created_us, source.created_us);
        assert_eq!(info.updated_us, source.updated_us);
        assert_eq!(info.expires_us, new.expires_us);
        assert_eq!((&info.id, info.position), (&new.id, new.position));
        assert_eq!(
            (&info.session, &info.event_id),
            (&new.session, &new.event_id)
        );
        assert_eq!((&info.author, &info.origin), (&new.author, &new.origin));
        assert_eq!(info.timestamp, new.timestamp);
        assert_eq!(
            (&found.content, &found.vectors),
            (&new.content, &new.vectors)
        );
    }
    let ids = ["a".to_owned(), "b".to_owned()];
    let hashes = store.body_hashes(&scope, Some("s1"), &ids).await.unwrap();
    let expected = restore.memories.iter().map(|it| Some(it.memory.body_hash));
    assert_eq!(hashes, expected.collect::<Vec<_>>());
    let counted = store.statistics(&scope, NOW_US).await.unwrap();
    let bytes: u64 = restore.memories.iter().map(|it| it.memory.bytes()).sum();
    assert_eq!(
        (counted.entries, counted.bytes, counted.tombstones),
        (2, bytes, 1)
    );
    assert_eq!(add(&*store, &scope, "gone", "x").await.forgotten, 1);
    assert_eq!(add(&*store, &scope, "b", "again").await.unchanged, 1);
    assert_eq!(add(&*store, &scope, "c", "new").await.added, 1);
    assert_eq!(rows(&*store, &scope).await[2].info.seq, 8);
}

/// A restore that would overwrite entries, or whose numbers do not ascend, is rejected and changes
/// nothing. Hashes of forgotten entries may repeat.
pub async fn restore_does_not_overwrite_existing_entries(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let scope = MemoryScope::new("app", "ada");
    let restore = sample_restore(&scope);
    store.restore(Arc::new(restore.clone())).await.unwrap();
    let (mark, before) = (
        store.mark(&scope).await.unwrap(),
        rows(&*store, &scope).await,
    );
    let mut backwards = restore.clone();
    for (seq, source) in [12, 11].into_iter().zip(&mut backwards.memories) {
        source.seq = seq;
    }
    for refused in [restore.clone(), backwards] {
        let refused = store.restore(Arc::new(refused)).await.unwrap_err();
        assert!(
            matches!(refused, MemoryError::InvalidInput { .. }),
            "{refused}"
        );
    }
    assert_eq!(store.mark(&scope).await.unwrap(), mark);
    assert_eq!(rows(&*store, &scope).await, before);
    let hashes = MemoryRestore {
        memories: Vec::new(),
        tombstones: vec![
            Tombstone::of_id(&scope, "gone"),
            Tombstone::of_id(&scope, "x"),
        ],
        ..restore
    };
    store.restore(Arc::new(hashes)).await.unwrap();
    let counted = store.statistics(&scope, NOW_US).await.unwrap();
    assert_eq!((counted.entries, counted.tombstones), (2, 2));
}
