//! Promises of a memory store to the service that uses it.

use std::sync::Arc;

use retain_core::{
    Content, Forget, IngestReceipt, Json, JsonMap, MemoryBatch, MemoryChanges, MemoryEdit,
    MemoryError, MemoryFilter, MemoryKind, MemoryLimits, MemoryMark, MemoryOrigin, MemoryRecord,
    MemoryRows, MemoryScope, MemoryStatistics, MemoryStore, MemoryUpdate, MemoryVector,
    MemoryVectors, NewEmbedding, NewMemory, OriginKind, PreparedMemory, QuotaExceeded, QuotaKind,
    QuotaRoom, RepeatPolicy, StateOwner,
};

use super::MemoryStoreHarness;

const NOW_US: i64 = 1_700_000_000_000_000;

fn ada() -> MemoryScope {
    MemoryScope::new("app", "ada")
}

/// Creates an entry with every optional field set.
fn memory(id: &str, text: &str) -> NewMemory {
    NewMemory {
        id: id.to_owned(),
        session: Some("s1".to_owned()),
        position: 7,
        event_id: Some(id.to_owned()),
        author: Some("user".to_owned()),
        timestamp: 1_600_000_000.25,
        content: Content::user(text),
        ..NewMemory::default()
    }
}

fn batch(memories: Vec<NewMemory>) -> MemoryBatch {
    let memories = memories.into_iter().map(PreparedMemory::new);
    MemoryBatch {
        scope: ada(),
        memories: memories.collect::<Result<_, _>>().unwrap(),
        repeats: RepeatPolicy::Replace,
        limits: MemoryLimits::default(),
        rooms: Vec::new(),
        now_us: NOW_US,
    }
}

async fn add(store: &dyn MemoryStore, memories: Vec<NewMemory>) -> IngestReceipt {
    store.add(Arc::new(batch(memories))).await.unwrap()
}

fn edit(update: MemoryUpdate, now_us: i64) -> MemoryEdit {
    MemoryEdit {
        update,
        limits: MemoryLimits::default(),
        now_us,
    }
}

async fn update_at(store: &dyn MemoryStore, id: &str, update: MemoryUpdate, now_us: i64) -> bool {
    let edit = Arc::new(edit(update, now_us));
    store.update(&ada(), id, edit).await.unwrap()
}

async fn all(store: &dyn MemoryStore) -> Vec<MemoryRecord> {
    let rows = MemoryRows::After {
        seq: 0,
        limit: usize::MAX,
    };
    store.rows(&ada(), rows, true).await.unwrap()
}

async fn texts(store: &dyn MemoryStore) -> Vec<String> {
    let rows = all(store).await;
    rows.iter().map(|row| row.content.text_concat()).collect()
}

async fn mark(store: &dyn MemoryStore) -> MemoryMark {
    store.mark(&ada()).await.unwrap()
}

/// If one entry of a batch is rejected, none is ingested.
pub async fn ingested_batch_is_all_or_nothing(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    add(&*store, vec![memory("a", "one")]).await;
    let before = mark(&*store).await;
    let mut refused = batch(vec![memory("b", "two"), memory("c", &"x".repeat(500))]);
    refused.limits.entry_bytes = 400;
    let error = store.add(Arc::new(refused)).await.unwrap_err();
    assert!(
        matches!(error, MemoryError::LimitExceeded { .. }),
        "{error}"
    );
    assert_eq!(texts(&*store).await, ["one"]);
    assert_eq!(mark(&*store).await, before);
    let empty = add(&*store, vec![]).await;
    assert_eq!(empty, IngestReceipt::default());
}

/// The limits of count, bytes and rate include existing entries; forgetting frees room.
pub async fn limits_of_a_user_are_enforced(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let any = MemoryLimits::default();
    let with = |limits: &MemoryLimits, id: &str, now_us| {
        let mut batch = batch(vec![memory(id, "one")]);
        (batch.limits, batch.now_us) = (limits.clone(), now_us);
        Arc::new(batch)
    };
    let two = any.clone().with_entries(2);
    store.add(with(&two, "a", NOW_US)).await.unwrap();
    store.add(with(&two, "b", NOW_US)).await.unwrap();
    let refused = store.add(with(&two, "c", NOW_US)).await.unwrap_err();
    assert!(refused.to_string().contains("2 of 2 memories"), "{refused}");
    // Existing entries do not count as growth, and other users have their own limits.
    store.add(with(&two, "b", NOW_US)).await.unwrap();
    let mut other = (*with(&two, "c", NOW_US)).clone();
    other.scope.user = "grace".to_owned();
    store.add(Arc::new(other)).await.unwrap();
    let bytes = store.statistics(&ada(), NOW_US).await.unwrap().bytes;
    let tight = any.clone().with_bytes(bytes + 1);
    assert!(store.add(with(&tight, "c", NOW_US)).await.is_err());
    let rate = any.with_entries_per_minute(2);
    assert!(store.add(with(&rate, "c", NOW_US)).await.is_err());
    store
        .add(with(&rate, "c", NOW_US + 60_000_000))
        .await
        .unwrap();
    let ids = Forget::Ids(vec!["a".to_owned(), "b".to_owned()]);
    store.forget(&ada(), Arc::new(ids)).await.unwrap();
    store.add(with(&two, "d", NOW_US)).await.unwrap();
}

/// The usage of an app is the sum over its users; forgotten entries do not count.
pub async fn usage_counts_the_entries_of_users_and_apps(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let of = |app: &str, user: &str, ids: &[&str]| {
        let mut batch = batch(ids.iter().map(|id| memory(id, "text")).collect());
        batch.scope = MemoryScope::new(app, user);
        Arc::new(batch)
    };
    assert_eq!(store.usage("app", None).await.unwrap(), 0);
    for batch in [
        of("app", "ada", &["a", "b"]),
        of("app", "bob", &["a"]),
        of("other", "ada", &["a", "b", "c"]),
        of("app", "ada", &["b"]),
    ] {
        store.add(batch).await.unwrap();
    }
    assert_eq!(store.usage("app", None).await.unwrap(), 3);
    assert_eq!(store.usage("app", Some("ada")).await.unwrap(), 2);
    assert_eq!(store.usage("app", Some("eve")).await.unwrap(), 0);
    let first = Forget::Ids(vec!["a".to_owned()]);
    store.forget(&ada(), Arc::new(first)).await.unwrap();
    assert_eq!(store.usage("app", Some("ada")).await.unwrap(), 1);
    assert_eq!(store.usage("app", None).await.unwrap(), 2);
}

/// A batch with more new entries than a quota has room for is refused as a whole. Entries that
/// exist already need no room.
pub async fn batch_beyond_the_room_of_a_quota_is_refused(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    add(&*store, vec![memory("a", "one")]).await;
    let owner = StateOwner::app("app");
    let exceeded = QuotaExceeded::new(QuotaKind::Memories, owner, 2, 1);
    let within = |left, memories| {
        let exceeded = exceeded.clone();
        let mut batch = batch(memories);
        batch.rooms = vec![QuotaRoom { left, exceeded }];
        Arc::new(batch)
    };
    let two = || vec![memory("b", "two"), memory("c", "three")];
    match store.add(within(1, two())).await {
        Err(MemoryError::QuotaExceeded(error)) => assert_eq!(error, exceeded),
        other => panic!("expected QuotaExceeded, got {other:?}"),
    }
    assert_eq!(texts(&*store).await, ["one"]);
    let known_and_new = vec![memory("a", "changed"), memory("b", "two")];
    store.add(within(1, known_and_new)).await.unwrap();
    assert_eq!(texts(&*store).await, ["changed", "two"]);
}

/// Every field of an entry is returned.
pub async fn every_field_of_an_entry_is_returned_unchanged(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let metadata: JsonMap = [(
        "k".to_owned(),
        Json::parse(r#"{"a":[1,null,"é"]}"#).unwrap(),
    )]
    .into_iter()
    .collect();
    let tool = MemoryOrigin::Tool {
        name: "web".to_owned(),
    };
    let vectors = MemoryVectors {
        fixed: Some(MemoryVector {
            model: "table".to_owned(),
            dims: 3,
            bytes: vec![0, 255, 7],
        }),
        embedding: Some(MemoryVector::from_floats("m1", &[0.5, -1.5])),
    };
    let from_tool = NewMemory {
        id: "e1#2".to_owned(),
        origin: tool.clone(),
        expires_us: Some(NOW_US + 5),
        custom_metadata: metadata.clone(),
        vectors: vectors.clone(),
        ..memory("e1", "from the \0 web")
    };
    let direct = NewMemory {
        kind: MemoryKind::Direct,
        session: None,
        position: 0,
        event_id: None,
        author: None,
        origin: MemoryOrigin::Direct,
        ..memory("d1", "given")
    };
    add(&*store, vec![memory("e1", "said"), from_tool, direct]).await;
    let rows = all(&*store).await;
    let [from_user, web, given] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    assert_eq!(from_user.info.event_id.as_deref(), Some("e1"));
    assert_eq!((from_user.info.seq, from_user.info.position), (1, 7));
    assert_eq!(from_user.info.timestamp, 1_600_000_000.25);
    assert_eq!(from_user.info.created_us, NOW_US);
    assert_eq!(
        (from_user.info.updated_us, from_user.info.expires_us),
        (None, None)
    );
    assert_eq!(from_user.info.origin, MemoryOrigin::Person);
    assert_eq!(from_user.vectors, MemoryVectors::default());
    assert_eq!(web.info.event_id.as_deref(), Some("e1"));
    assert_eq!(
        (&web.info.origin, web.info.expires_us),
        (&tool, Some(NOW_US + 5))
    );
    assert_eq!(web.info.custom_metadata, metadata);
    assert_eq!(web.vectors, vectors);
    assert_eq!(web.content, Content::user("from the \0 web"));
    assert_eq!(given.info.kind, MemoryKind::Direct);
    assert_eq!((&given.info.session, &given.info.event_id), (&None, &None));
    assert_eq!(given.info.author, None);
    let bare = MemoryRows::WithId("e1#2".to_owned());
    let bare = store.rows(&ada(), bare, false).await.unwrap();
    assert_eq!(bare[0].vectors, MemoryVectors::default());
}

/// Pages have no gap and no repetition; missing entry numbers are skipped.
pub async fn entries_are_read_in_pages_without_gap_or_repeat(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let ids: Vec<String> = (0..25).map(|n| format!("e{n}")).collect();
    for id in &ids {
        add(&*store, vec![memory(id, id)]).await;
    }
    let (mut read, mut seq) = (Vec::new(), 0);
    loop {
        let rows = MemoryRows::After { seq, limit: 10 };
        let page = store.rows(&ada(), rows, false).await.unwrap();
        let Some(last) = page.last() else { break };
        seq = last.info.seq;
        read.extend(page.into_iter().map(|row| row.info.id));
    }
    assert_eq!(read, ids);
    let some = MemoryRows::Numbered(vec![3, 99, 1]);
    let some = store.rows(&ada(), some, false).await.unwrap();
    let some: Vec<&str> = some.iter().map(|row| row.info.id.as_str()).collect();
    assert_eq!(some, ["e2", "e0"]);
    let asked = ["e3".to_owned(), "nobody".to_owned()];
    let hashes = store.body_hashes(&ada(), Some("s1"), &asked).await.unwrap();
    assert!(hashes[0].is_some() && hashes[1].is_none());
    let elsewhere = store.body_hashes(&ada(), Some("s2"), &asked).await.unwrap();
    assert_eq!(elsewhere, [None, None]);
}

/// Every change moves the mark; an operation that changes nothing does not.
pub async fn mark_moves_exactly_when_entries_change(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    assert_eq!(mark(&*store).await, MemoryMark::default());
    let mut before = mark(&*store).await;
    let mut check_mark = async |store: &dyn MemoryStore, what: &str, is_change: bool| {
        let now = mark(store).await;
        assert_eq!(now.revision > before.revision, is_change, "{what}: {now:?}");
        before = now;
    };
    add(&*store, vec![memory("a", "one"), memory("b", "two")]).await;
    check_mark(&*store, "add", true).await;
    add(&*store, vec![memory("a", "one")]).await;
    check_mark(&*store, "add an existing entry", false).await;
    add(&*store, vec![memory("a", "other")]).await;
    check_mark(&*store, "replace", true).await;
    let update = MemoryUpdate::default();
    let none = update_at(&*store, "nobody", update.clone(), NOW_US).await;
    assert!(!none);
    check_mark(&*store, "update nothing", false).await;
    assert!(update_at(&*store, "a", update, NOW_US).await);
    check_mark(&*store, "update", true).await;
    let unknown = Arc::new(Forget::Ids(vec!["nobody".to_owned()]));
    store.forget(&ada(), unknown).await.unwrap();
    store.expire(NOW_US, 10).await.unwrap();
    check_mark(&*store, "forget and expire nothing", false).await;
    let known = Arc::new(Forget::Ids(vec!["a".to_owned()]));
    store.forget(&ada(), known).await.unwrap();
    check_mark(&*store, "forget", true).await;
    assert_eq!(mark(&*store).await.last_seq, 2);
}

/// The changes since a mark have the numbers of changed and removed entries. New entries are not
/// listed: their numbers are above the mark's `last_seq`.
pub async fn changes_since_a_mark_include_changed_and_removed_entries(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let news = ["a", "b", "c"].map(|id| memory(id, id));
    add(&*store, news.to_vec()).await;
    let since = mark(&*store).await;
    let unchanged = store.changes(&ada(), since).await.unwrap();
    assert_eq!(
        unchanged,
        MemoryChanges::Touched {
            seqs: vec![],
            mark: since
        }
    );
    add(&*store, vec![memory("a", "other"), memory("d", "d")]).await;
    let ids = Forget::Ids(vec!["c".to_owned()]);
    store.forget(&ada(), Arc::new(ids)).await.unwrap();
    let changes = store.changes(&ada(), since).await.unwrap();
    let MemoryChanges::Touched { seqs, mark: now } = changes else {
        panic!("{changes:?}");
    };
    assert_eq!(seqs, [1, 3]);
    assert_eq!(
        (now, now.last_seq),
        (mark(&*store).await, since.last_seq + 1)
    );
    let nowhere = MemoryMark {
        generation: since.generation + 7,
        ..since
    };
    let stranger = store.changes(&ada(), nowhere).await.unwrap();
    assert_eq!(stranger, MemoryChanges::Rebuild);
}

/// A store may drop old changes, but then it requires a full read.
pub async fn too_many_changes_require_a_full_read(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let many = (0..6000).map(|n| memory(&format!("e{n}"), "x"));
    add(&*store, many.collect()).await;
    let since = mark(&*store).await;
    let everything = Forget::Matching(MemoryFilter::default());
    let receipt = store.forget(&ada(), Arc::new(everything)).await.unwrap();
    assert_eq!((receipt.memories, receipt.tombstones), (6000, 6000));
    let changes = store.changes(&ada(), since).await.unwrap();
    match changes {
        MemoryChanges::Rebuild => {}
        MemoryChanges::Touched { seqs, .. } => assert_eq!(seqs.len(), 6000),
    }
    let now = mark(&*store).await;
    let nothing = store.changes(&ada(), now).await.unwrap();
    assert_eq!(
        nothing,
        MemoryChanges::Touched {
            seqs: vec![],
            mark: now
        }
    );
}

/// Ingesting again does not undo an edit, and an edit keeps the fields that it does not name.
pub async fn edited_entry_is_not_replaced_by_ingestion(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let vectors = MemoryVectors {
        embedding: Some(MemoryVector::from_floats("m1", &[1.0])),
        ..MemoryVectors::default()
    };
    let new = NewMemory {
        vectors,
        ..memory("a", "one")
    };
    add(&*store, vec![new.clone()]).await;
    let metadata: JsonMap = [("k".to_owned(), Json::from(1))].into_iter().collect();
    let update = MemoryUpdate::default()
        .with_custom_metadata(metadata.clone())
        .with_expires_us(Some(NOW_US + 9));
    assert!(update_at(&*store, "a", update, NOW_US + 1).await);
    let row = all(&*store).await.remove(0);
    assert_eq!(row.content.text_concat(), "one");
    assert_eq!(
        (row.info.expires_us, row.info.updated_us),
        (Some(NOW_US + 9), Some(NOW_US + 1))
    );
    assert!(row.vectors.embedding.is_some());
    let update = MemoryUpdate::default()
        .with_content(Content::user("by hand"))
        .with_expires_us(None);
    assert!(update_at(&*store, "a", update, NOW_US + 2).await);
    let again = add(
        &*store,
        vec![NewMemory {
            content: Content::user("two"),
            ..new
        }],
    )
    .await;
    assert_eq!(again.unchanged, 1);
    let row = all(&*store).await.remove(0);
    assert_eq!(row.content.text_concat(), "by hand");
    assert_eq!(
        (row.info.expires_us, &row.info.custom_metadata),
        (None, &metadata)
    );
    assert_eq!(row.vectors, MemoryVectors::default());
    let bytes = store.statistics(&ada(), NOW_US).await.unwrap().bytes;
    store
        .forget(&ada(), Arc::new(Forget::session("s1")))
        .await
        .unwrap();
    assert!(bytes > 0);
    assert_eq!(store.statistics(&ada(), NOW_US).await.unwrap().bytes, 0);
}

/// Forgetting by session, tool or filter removes the selected entries and prevents their ingestion.
pub async fn forget_removes_exactly_the_selected_entries(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let elsewhere = |id: &str, text: &str| NewMemory {
        session: Some("s2".to_owned()),
        ..memory(id, text)
    };
    let from_tool = NewMemory {
        origin: MemoryOrigin::Tool {
            name: "web".to_owned(),
        },
        ..elsewhere("t", "from the web")
    };
    let news = vec![
        memory("a", "one"),
        memory("b", "two"),
        elsewhere("c", "three"),
        from_tool,
    ];
    add(&*store, news.clone()).await;
    let receipt = store
        .forget(&ada(), Arc::new(Forget::session("s1")))
        .await
        .unwrap();
    assert_eq!((receipt.memories, receipt.tombstones), (2, 2));
    assert!(receipt.bytes > 0);
    let again = add(&*store, news.clone()).await;
    assert_eq!((again.forgotten, again.unchanged, again.added), (2, 2, 0));
    assert_eq!(texts(&*store).await, ["three", "from the web"]);
    store
        .forget(&ada(), Arc::new(Forget::tool("web")))
        .await
        .unwrap();
    assert_eq!(texts(&*store).await, ["three"]);
    // The same id in another session is another entry.
    let other = add(&*store, vec![elsewhere("a", "another a")]).await;
    assert_eq!(other.added, 1);
    let people = MemoryFilter::default().with_origins([OriginKind::Person]);
    let none = people.clone().with_until(0.0);
    let receipt = store
        .forget(&ada(), Arc::new(Forget::Matching(none)))
        .await
        .unwrap();
    assert_eq!(receipt.memories, 0);
    store
        .forget(&ada(), Arc::new(Forget::Matching(people)))
        .await
        .unwrap();
    assert!(texts(&*store).await.is_empty());
    let left = store.statistics(&ada(), NOW_US).await.unwrap();
    assert_eq!((left.entries, left.bytes, left.tombstones), (0, 0, 5));
}

/// An entry forgotten by id is not ingested again from any session. Other ids are not affected.
pub async fn forgotten_id_is_not_ingested_from_any_session(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    add(&*store, vec![memory("a", "one")]).await;
    let ids = Arc::new(Forget::Ids(vec![
        "a".to_owned(),
        "a".to_owned(),
        "x".to_owned(),
    ]));
    let receipt = store.forget(&ada(), ids).await.unwrap();
    assert_eq!((receipt.memories, receipt.tombstones), (1, 1));
    let elsewhere = NewMemory {
        session: Some("s2".to_owned()),
        ..memory("a", "one")
    };
    let added = add(&*store, vec![memory("x", "two"), elsewhere]).await;
    assert_eq!((added.added, added.forgotten), (1, 1));
    let mut other = batch(vec![memory("a", "one")]);
    other.scope.user = "grace".to_owned();
    assert_eq!(store.add(Arc::new(other)).await.unwrap().added, 1);
}

/// An expired entry of any user is deleted and not ingested again.
pub async fn expired_entries_are_not_ingested_again(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let mortal = |id: &str, at: i64| NewMemory {
        expires_us: Some(at),
        ..memory(id, id)
    };
    let news = vec![
        mortal("a", NOW_US + 10),
        memory("b", "b"),
        mortal("c", NOW_US + 20),
    ];
    add(&*store, news.clone()).await;
    let mut other = batch(vec![mortal("d", NOW_US + 10)]);
    other.scope.user = "grace".to_owned();
    store.add(Arc::new(other)).await.unwrap();
    assert_eq!(store.expire(NOW_US + 9, 10).await.unwrap(), 0);
    assert_eq!(store.expire(NOW_US + 10, 1).await.unwrap(), 1);
    assert_eq!(store.expire(NOW_US + 10, 10).await.unwrap(), 1);
    assert_eq!(store.expire(NOW_US + 10, 10).await.unwrap(), 0);
    assert_eq!(texts(&*store).await, ["b", "c"]);
    assert_eq!(add(&*store, news).await.forgotten, 1);
}

/// Missing vectors are found by model id, and a vector of an outdated text is rejected.
pub async fn vectors_are_stored_with_their_model(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let news = ["a", "b", "c"].map(|id| memory(id, id));
    add(&*store, news.to_vec()).await;
    let scope = ada();
    let missing_vectors = async |store: &dyn MemoryStore, model: &str, after: u64| -> Vec<u64> {
        let rows = store.without_embedding(&scope, model, 2, after, 10).await;
        rows.unwrap().iter().map(|row| row.info.seq).collect()
    };
    assert_eq!(missing_vectors(&*store, "m1", 0).await, [1, 2, 3]);
    assert_eq!(missing_vectors(&*store, "m1", 2).await, [3]);
    let revision = mark(&*store).await.revision;
    let vector = |seq, revision, model: &str| NewEmbedding {
        seq,
        revision,
        vector: MemoryVector::from_floats(model, &[seq as f32, 0.5]),
    };
    add(&*store, vec![memory("b", "changed")]).await;
    let before = mark(&*store).await;
    let vectors = vec![
        vector(1, revision, "m1"),
        vector(2, revision, "m1"),
        vector(9, 1, "m1"),
    ];
    let generation = before.generation;
    let set = async |store: &dyn MemoryStore, generation, vectors| {
        let set = store.set_embeddings(&scope, generation, Arc::new(vectors));
        set.await.unwrap();
    };
    // Vectors of erased entries are ignored.
    set(&*store, generation + 1, vectors.clone()).await;
    assert_eq!(mark(&*store).await, before);
    set(&*store, generation, vectors).await;
    let rows = all(&*store).await;
    let embedding = rows[0].vectors.embedding.clone().unwrap();
    assert_eq!(
        (embedding.model.as_str(), embedding.floats()),
        ("m1", vec![1.0, 0.5])
    );
    assert_eq!(rows[1].vectors.embedding, None);
    assert_eq!(missing_vectors(&*store, "m1", 0).await, [2, 3]);
    assert_eq!(missing_vectors(&*store, "m2", 0).await, [1, 2, 3]);
    let changes = store.changes(&scope, before).await.unwrap();
    assert!(matches!(changes, MemoryChanges::Touched { seqs, .. } if seqs == [1]));
    let other = vec![vector(1, revision, "m2")];
    set(&*store, generation, other).await;
    assert_eq!(missing_vectors(&*store, "m2", 0).await, [2, 3]);
    assert_eq!(missing_vectors(&*store, "m1", 0).await, [1, 2, 3]);
    // The same name with another dimension is another model.
    let longer = store.without_embedding(&scope, "m2", 3, 0, 10).await;
    assert_eq!(longer.unwrap().len(), 3);
}

/// Statistics count existing entries.
pub async fn statistics_count_existing_entries(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let nothing = store.statistics(&ada(), NOW_US).await.unwrap();
    assert_eq!(nothing, MemoryStatistics::default());
    let from_tool = NewMemory {
        session: Some("s2".to_owned()),
        origin: MemoryOrigin::Tool {
            name: "web".to_owned(),
        },
        timestamp: 5.0,
        ..memory("t", "from the web")
    };
    let direct = NewMemory {
        kind: MemoryKind::Direct,
        session: None,
        origin: MemoryOrigin::Direct,
        ..memory("d", "given")
    };
    add(
        &*store,
        vec![memory("a", "one"), memory("b", "two"), from_tool, direct],
    )
    .await;
    let counted = store.statistics(&ada(), NOW_US).await.unwrap();
    assert_eq!((counted.entries, counted.sessions), (4, 2));
    assert_eq!(
        (counted.from_tools, counted.direct, counted.embedded),
        (1, 1, 0)
    );
    assert_eq!(
        (counted.oldest, counted.newest),
        (Some(5.0), Some(1_600_000_000.25))
    );
    assert_eq!((counted.tombstones, counted.revision), (0, 1));
    assert!(counted.bytes > 100);
    // Expired entries do not count, even before a sweep deletes them.
    let mortal = NewMemory {
        session: Some("s3".to_owned()),
        expires_us: Some(NOW_US),
        timestamp: 1.0,
        ..memory("m", "mortal")
    };
    add(&*store, vec![mortal]).await;
    let with_mortal = store.statistics(&ada(), NOW_US).await.unwrap();
    let expected = MemoryStatistics {
        revision: 2,
        ..counted
    };
    assert_eq!(with_mortal, expected);
    let before = store.statistics(&ada(), NOW_US - 1).await.unwrap();
    assert_eq!((before.entries, before.sessions), (5, 3));
}

/// Two entries with the same id in one batch act like two calls.
pub async fn duplicate_id_in_a_batch_acts_like_two_calls(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let twice = vec![memory("a", "one"), memory("b", "x"), memory("a", "two")];
    let mut keeping = batch(twice.clone());
    keeping.repeats = RepeatPolicy::Keep;
    let kept = store.add(Arc::new(keeping)).await.unwrap();
    assert_eq!((kept.added, kept.unchanged, kept.replaced), (2, 1, 0));
    assert_eq!(texts(&*store).await, ["one", "x"]);
    let replaced = add(&*store, twice.clone()).await;
    assert_eq!((replaced.unchanged, replaced.replaced), (2, 1));
    assert_eq!(texts(&*store).await, ["two", "x"]);
    let everything = Forget::Matching(MemoryFilter::default());
    store.forget(&ada(), Arc::new(everything)).await.unwrap();
    let forgotten = add(&*store, twice).await;
    assert_eq!((forgotten.forgotten, forgotten.added), (3, 0));
    let fresh = add(&*store, vec![memory("c", "one"), memory("c", "two")]).await;
    assert_eq!((fresh.added, fresh.replaced), (1, 1));
    let rows = all(&*store).await;
    assert_eq!((rows.len(), rows[0].info.seq), (1, 3));
    assert_eq!(rows[0].content.text_concat(), "two");
    let bytes = store.statistics(&ada(), NOW_US).await.unwrap().bytes;
    let session = Forget::session("s1");
    let receipt = store.forget(&ada(), Arc::new(session)).await.unwrap();
    assert_eq!(receipt.bytes, bytes);
}

/// Ingesting an entry again without metadata keeps its metadata. A direct entry is replaced.
pub async fn repeated_ingest_without_metadata_keeps_the_metadata(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let metadata: JsonMap = [("k".to_owned(), Json::from(1))].into_iter().collect();
    let with_metadata = |text: &str| NewMemory {
        custom_metadata: metadata.clone(),
        ..memory("a", text)
    };
    add(&*store, vec![with_metadata("one")]).await;
    assert_eq!(add(&*store, vec![memory("a", "one")]).await.unchanged, 1);
    assert_eq!(all(&*store).await[0].info.custom_metadata, metadata);
    // A changed text or changed metadata replaces the entry.
    assert_eq!(add(&*store, vec![memory("a", "two")]).await.replaced, 1);
    assert_eq!(add(&*store, vec![with_metadata("two")]).await.replaced, 1);
    let given = |custom_metadata: JsonMap| NewMemory {
        kind: MemoryKind::Direct,
        origin: MemoryOrigin::Direct,
        custom_metadata,
        ..memory("g", "given")
    };
    add(&*store, vec![given(metadata.clone())]).await;
    let bare = add(&*store, vec![given(JsonMap::new())]).await;
    assert_eq!(bare.replaced, 1);
}

/// An edit that exceeds a limit for adding entries is rejected and changes nothing.
pub async fn edits_respect_the_limits(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    add(&*store, vec![memory("a", "one"), memory("b", "two")]).await;
    let long = MemoryUpdate::default().with_content(Content::user("x".repeat(100)));
    let any = MemoryLimits::default();
    let bytes = store.statistics(&ada(), NOW_US).await.unwrap().bytes;
    let before = mark(&*store).await;
    for (limits, what) in [
        (any.clone().with_bytes(bytes + 50), "bytes of a user"),
        (any.clone().with_entry_bytes(80), "bytes of a memory"),
        (any.with_entries_per_minute(2), "within a minute"),
    ] {
        let edit = MemoryEdit {
            limits,
            ..edit(long.clone(), NOW_US)
        };
        let refused = store.update(&ada(), "a", Arc::new(edit)).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    assert_eq!(mark(&*store).await, before);
    assert_eq!(texts(&*store).await, ["one", "two"]);
    assert!(update_at(&*store, "a", long, NOW_US).await);
    let after = store.statistics(&ada(), NOW_US).await.unwrap().bytes;
    assert_eq!(after, bytes + 97);
}

/// An expired entry of a session is not ingested again, but an expired direct entry may be added
/// again.
pub async fn expired_direct_entry_can_be_added_again(harness: MemoryStoreHarness) {
    let store = harness.store().await;
    let given = |id: &str, text: &str, expires_us| NewMemory {
        kind: MemoryKind::Direct,
        session: None,
        event_id: None,
        origin: MemoryOrigin::Direct,
        expires_us: Some(expires_us),
        ..memory(id, text)
    };
    let first = NOW_US + 10;
    let mortal = NewMemory {
        expires_us: Some(first),
        ..memory("event", "text")
    };
    let news = vec![
        given("swept", "old", first),
        given("not yet", "old", first + 1),
        mortal,
    ];
    add(&*store, news).await;
    assert_eq!(store.expire(first, 10).await.unwrap(), 2);
    let later = NOW_US + 100;
    let again = vec![
        given("swept", "new", later),
        given("not yet", "new", later),
        memory("event", "text"),
    ];
    let mut again = batch(again);
    again.now_us = first + 1;
    let added = store.add(Arc::new(again)).await.unwrap();
    assert_eq!((added.added, added.replaced, added.forgotten), (1, 1, 1));
    let rows = all(&*store).await;
    assert!(rows.iter().all(|row| row.info.expires_us == Some(later)));
    assert_eq!(texts(&*store).await, ["new", "new"]);
}

/// A second store on the same data sees what the first one acknowledged.
pub async fn second_store_on_the_same_data_sees_acknowledged_changes(harness: MemoryStoreHarness) {
    let (one, two) = (harness.store().await, harness.store().await);
    for number in 0..10 {
        let (writer, reader) = if number % 2 == 0 {
            (&one, &two)
        } else {
            (&two, &one)
        };
        add(&**writer, vec![memory(&format!("e{number}"), "x")]).await;
        assert_eq!(mark(&**reader).await.last_seq, number + 1);
        assert_eq!(all(&**reader).await.len() as u64, number + 1);
    }
    assert_eq!(mark(&*one).await, mark(&*two).await);
}
