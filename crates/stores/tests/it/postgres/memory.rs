//! Memories: concurrent writes by several replicas, erasure, and corrupt memories.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use retain_core::{
    Content, Forget, Json, MemoryBatch, MemoryChanges, MemoryEdit, MemoryError, MemoryFilter,
    MemoryLimits, MemoryMark, MemoryOrigin, MemoryRows, MemoryScope, MemoryStore as _,
    MemoryUpdate, NewMemory, PreparedMemory, RepeatPolicy, SessionLog as _,
};
use retain_stores::{PostgresMemoryStore, PostgresOptions, PostgresStore};
use retain_testkit::{
    postgres::{TestDatabase, is_there},
    random::Random,
};

fn ada_scope() -> MemoryScope {
    MemoryScope::new("app", "ada")
}

async fn open(database: &TestDatabase) -> PostgresMemoryStore {
    let options = PostgresOptions::from_uri(&database.uri()).unwrap();
    PostgresStore::open(options).await.unwrap().memory()
}

fn new_memory(id: String, text: &str) -> NewMemory {
    NewMemory {
        id,
        session: Some("s1".to_owned()),
        content: Content::user(text),
        ..NewMemory::default()
    }
}

fn batch(memories: Vec<NewMemory>) -> Arc<MemoryBatch> {
    let memories = memories.into_iter().map(PreparedMemory::new);
    Arc::new(MemoryBatch {
        scope: ada_scope(),
        memories: memories.collect::<Result<_, _>>().unwrap(),
        repeats: RepeatPolicy::Replace,
        limits: MemoryLimits::default(),
        rooms: Vec::new(),
        now_us: 1_700_000_000_000_000,
    })
}

/// A reader that loads only the memories that changed after its mark, as an index does.
#[derive(Default)]
struct Follower {
    mark: MemoryMark,
    texts: BTreeMap<u64, (u64, String)>,
}

impl Follower {
    /// Refreshes up to the store's mark.
    async fn refresh(&mut self, store: &PostgresMemoryStore) {
        let now = store.mark(&ada_scope()).await.unwrap();
        if now == self.mark {
            return;
        }
        assert!(now.revision > self.mark.revision, "{now:?} {:?}", self.mark);
        assert!(now.last_seq >= self.mark.last_seq);
        let mut seqs_to_load: Vec<u64> = (self.mark.last_seq + 1..=now.last_seq).collect();
        if self.mark.generation == now.generation {
            let changes = store.changes(&ada_scope(), self.mark).await.unwrap();
            let MemoryChanges::Touched { seqs, mark } = changes else {
                panic!("{changes:?}");
            };
            seqs_to_load.extend(seqs);
            seqs_to_load.extend(now.last_seq + 1..=mark.last_seq);
            self.mark = mark;
        } else {
            self.mark = now;
        }
        for seq in &seqs_to_load {
            self.texts.remove(seq);
        }
        let seqs_to_load = MemoryRows::Numbered(seqs_to_load);
        for row in store.rows(&ada_scope(), seqs_to_load, false).await.unwrap() {
            let entry = (row.info.revision, row.content.text_concat());
            self.texts.insert(row.info.seq, entry);
        }
    }
}

/// Returns the sequence number, revision and text of every stored memory.
async fn read_all(store: &PostgresMemoryStore) -> BTreeMap<u64, (u64, String)> {
    let all = MemoryRows::After {
        seq: 0,
        limit: usize::MAX,
    };
    let rows = store
        .rows(&ada_scope(), all, false)
        .await
        .unwrap()
        .into_iter();
    rows.map(|row| (row.info.seq, (row.info.revision, row.content.text_concat())))
        .collect()
}

/// Eight replicas write memories of one user. A follower would miss a memory whose sequence number
/// became visible after a later one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn follower_sees_every_change_of_concurrent_writers() {
    if !is_there() {
        return;
    }
    const SEED: u64 = 8;
    println!("seed {SEED}");
    let database = TestDatabase::new().await;
    let done = Arc::new(AtomicBool::new(false));
    let followers = [open(&database).await, open(&database).await].map(|store| {
        let done = Arc::clone(&done);
        tokio::spawn(async move {
            let (mut follower, mut steps) = (Follower::default(), 0);
            while !done.load(Ordering::SeqCst) {
                follower.refresh(&store).await;
                steps += 1;
            }
            follower.refresh(&store).await;
            (follower, steps)
        })
    });
    let mut writers = Vec::new();
    for writer in 0..8 {
        let store = open(&database).await;
        writers.push(tokio::spawn(async move {
            let mut random = Random::new(SEED + writer);
            let mut added = 0;
            for number in 0..25 {
                added += write_randomly(&store, &mut random, writer, number).await;
            }
            added
        }));
    }
    let mut added = 0;
    for writer in writers {
        added += writer.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    let store = open(&database).await;
    let expected = read_all(&store).await;
    let mark = store.mark(&ada_scope()).await.unwrap();
    // Sequence numbers have no gaps.
    assert_eq!(mark.last_seq, added);
    for follower in followers {
        let (follower, steps) = follower.await.unwrap();
        assert!(steps > 2, "the follower made only {steps} steps");
        assert_eq!(follower.mark, mark);
        assert_eq!(follower.texts, expected);
    }
    let statistics = store.statistics(&ada_scope(), 0).await.unwrap();
    assert_eq!(statistics.entries, expected.len() as u64);
    assert_eq!(statistics.revision, mark.revision);
}

/// Executes a random write; returns the number of new memories.
async fn write_randomly(
    store: &PostgresMemoryStore,
    random: &mut Random,
    writer: u64,
    number: u64,
) -> u64 {
    let own = format!("w{writer}-{number}");
    let shared = format!("shared-{}", random.below(5));
    match random.below(10) {
        0..6 => {
            let text = format!("{own} says it");
            let memories = vec![new_memory(own, &text), new_memory(shared, &text)];
            store.add(batch(memories)).await.unwrap().added
        }
        6..8 => {
            let update =
                MemoryUpdate::default().with_content(Content::user(format!("{own} by hand")));
            let edit = MemoryEdit {
                update,
                limits: MemoryLimits::default(),
                now_us: 1,
            };
            store
                .update(&ada_scope(), &shared, Arc::new(edit))
                .await
                .unwrap();
            0
        }
        _ => {
            let ids = vec![format!("w{writer}-{}", random.below(number + 1))];
            store
                .forget(&ada_scope(), Arc::new(Forget::Ids(ids)))
                .await
                .unwrap();
            0
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_first_memories_of_a_user_create_one_scope() {
    if !is_there() {
        return;
    }
    let database = TestDatabase::new().await;
    let mut writers = Vec::new();
    for writer in 0..8 {
        let store = open(&database).await;
        writers.push(tokio::spawn(async move {
            let added = store.add(batch(vec![new_memory(format!("m{writer}"), "x")]));
            added.await.unwrap().added
        }));
    }
    for writer in writers {
        assert_eq!(writer.await.unwrap(), 1);
    }
    let store = open(&database).await;
    let mark = store.mark(&ada_scope()).await.unwrap();
    assert_eq!((mark.revision, mark.last_seq), (8, 8));
    assert_eq!(read_all(&store).await.len(), 8);
}

/// PostgreSQL cannot store a NUL, so such an id cannot exist.
#[tokio::test(flavor = "multi_thread")]
async fn memory_id_with_a_nul_is_not_found() {
    if !is_there() {
        return;
    }
    let database = TestDatabase::new().await;
    let store = open(&database).await;
    store
        .add(batch(vec![new_memory("a".to_owned(), "x")]))
        .await
        .unwrap();
    let odd = "a\0".to_owned();
    let with_id = MemoryRows::WithId(odd.clone());
    let rows = store.rows(&ada_scope(), with_id, false).await.unwrap();
    assert!(rows.is_empty());
    let hashes = [odd.clone(), "a".to_owned()];
    let hashes = store
        .body_hashes(&ada_scope(), Some("s1"), &hashes)
        .await
        .unwrap();
    assert!(hashes[0].is_none() && hashes[1].is_some());
    let edit = MemoryEdit {
        update: MemoryUpdate::default(),
        limits: MemoryLimits::default(),
        now_us: 1,
    };
    assert!(
        !store
            .update(&ada_scope(), &odd, Arc::new(edit))
            .await
            .unwrap()
    );
    let forget = Arc::new(Forget::Ids(vec![odd]));
    assert_eq!(
        store.forget(&ada_scope(), forget).await.unwrap().memories,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_larger_than_one_statement_is_written_in_full() {
    if !is_there() {
        return;
    }
    let database = TestDatabase::new().await;
    let store = open(&database).await;
    let text = "x".repeat(3_000_000);
    let memories = |text: &str| -> Vec<NewMemory> {
        let large = (0..7).map(|n| new_memory(format!("large{n}"), text));
        let small = (0..2500).map(|n| new_memory(format!("small{n}"), &text[..10 + n % 7]));
        large.chain(small).collect()
    };
    let added = store.add(batch(memories(&text))).await.unwrap();
    assert_eq!((added.added, added.replaced), (2507, 0));
    let other = text.replace('x', "y");
    let replaced = store.add(batch(memories(&other))).await.unwrap();
    assert_eq!((replaced.added, replaced.replaced), (0, 2507));
    let rows = read_all(&store).await;
    assert_eq!(rows.len(), 2507);
    assert!(
        rows.values()
            .all(|(revision, text)| *revision == 2 && text.starts_with('y'))
    );
    assert_eq!(rows[&7].1.len(), text.len());
}

/// Adds two memories: `by_user`, and `by_tool` with a tool as origin and with metadata.
async fn fill(store: &PostgresMemoryStore) {
    let by_tool = NewMemory {
        origin: MemoryOrigin::Tool {
            name: "web".to_owned(),
        },
        custom_metadata: [("k".to_owned(), Json::from("v"))].into_iter().collect(),
        ..new_memory("by_tool".to_owned(), "I like tea.")
    };
    let memories = vec![new_memory("by_user".to_owned(), "I like tea."), by_tool];
    store.add(batch(memories)).await.unwrap();
}

/// Fails unless the result is a corruption error that names the memory `by_tool`.
fn assert_corrupt<T: std::fmt::Debug>(result: Result<T, MemoryError>, corruption: &str) {
    match result {
        Err(MemoryError::Corrupt { id, .. }) => assert_eq!(id, "by_tool", "{corruption}"),
        other => panic!("{corruption}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn corrupt_memory_is_named_and_can_be_deleted() {
    if !is_there() {
        return;
    }
    let database = TestDatabase::new().await;
    let (client, sessions) = (database.client().await, super::open(&database.uri()).await);
    let store = sessions.store().memory();
    for corruption in [
        "kind = 2",
        "origin = 4",
        "origin = -1",
        "tool = NULL",
        "tool = '\\xff'",
        "author = '\\xff'",
        "event_id = '\\xff'",
        "custom_metadata = '[1]'",
        "custom_metadata = 'null'",
        "custom_metadata = '{'",
        "custom_metadata = '\\xff'",
        "content = '{'",
        "content = '\\xff'",
    ] {
        let tables = "retain_memories, retain_memory_scopes, retain_memory_touched, \
                      retain_memory_tombstones";
        client
            .batch_execute(&format!("TRUNCATE {tables}"))
            .await
            .unwrap();
        fill(&store).await;
        let sql = format!("UPDATE retain_memories SET {corruption} WHERE id = 'by_tool'");
        assert_eq!(client.execute(&sql, &[]).await.unwrap(), 1);
        let problems = sessions.check().await.unwrap();
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let problems = problems.join("\n");
        let named = "(number 2) of app/ada: cannot be read: ";
        assert!(problems.contains(named), "{corruption}: {problems}");
        let all = MemoryRows::After { seq: 0, limit: 10 };
        assert_corrupt(
            store.rows(&ada_scope(), all.clone(), true).await,
            corruption,
        );
        if !corruption.starts_with("content") {
            let filter = Forget::Matching(MemoryFilter::default().with_tool("web"));
            assert_corrupt(
                store.forget(&ada_scope(), Arc::new(filter)).await,
                corruption,
            );
        }
        // The corrupt memory can be deleted by its id; the other one is unchanged.
        let ids = Forget::Ids(vec!["by_tool".to_owned()]);
        let receipt = store.forget(&ada_scope(), Arc::new(ids)).await.unwrap();
        assert_eq!(receipt.memories, 1, "{corruption}");
        let left = store.rows(&ada_scope(), all, true).await.unwrap();
        assert_eq!(left[0].info.id, "by_user");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_wrong_totals_and_orphaned_memories() {
    if !is_there() {
        return;
    }
    let database = TestDatabase::new().await;
    let (client, sessions) = (database.client().await, super::open(&database.uri()).await);
    fill(&sessions.store().memory()).await;
    let sql = "DELETE FROM retain_memories WHERE id = 'by_tool'";
    client.batch_execute(sql).await.unwrap();
    let problems = sessions.check().await.unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let text = problems[0].to_string();
    let expected = "memories of app/ada: the recorded total is 2 entries with ";
    assert!(text.starts_with(expected), "{text}");
    let sql = "UPDATE retain_memories SET scope = scope + 7";
    client.batch_execute(sql).await.unwrap();
    let problems = sessions.check().await.unwrap();
    let named = problems
        .iter()
        .any(|it| it.to_string().contains("is orphaned"));
    assert!(named, "{problems:?}");
}

/// The receipt counts the erased memories, and no hash of a memory remains.
#[tokio::test(flavor = "multi_thread")]
async fn erase_user_erases_memories_and_tombstones() {
    if !is_there() {
        return;
    }
    let database = TestDatabase::new().await;
    let (client, sessions) = (database.client().await, super::open(&database.uri()).await);
    let store = sessions.store().memory();
    super::create(&sessions, "s1").await;
    // Add more memories than one chunk of an erase removes.
    let many = (0..2500).map(|n| new_memory(format!("m{n}"), "x"));
    store.add(batch(many.collect())).await.unwrap();
    let ids = Forget::Ids(vec!["m0".to_owned()]);
    store.forget(&ada_scope(), Arc::new(ids)).await.unwrap();
    let mut grace = (*batch(vec![new_memory("m0".to_owned(), "x")])).clone();
    grace.scope.user = "grace".to_owned();
    store.add(Arc::new(grace)).await.unwrap();
    let before = store.mark(&ada_scope()).await.unwrap();
    let receipt = sessions.erase_user("app", "ada").await.unwrap();
    assert_eq!((receipt.memories, receipt.sessions), (2499, 1));
    assert_eq!(
        store.mark(&ada_scope()).await.unwrap(),
        MemoryMark::default()
    );
    for (table, left) in [
        ("retain_memories", 1),
        ("retain_memory_scopes", 1),
        ("retain_memory_touched", 0),
        ("retain_memory_tombstones", 0),
    ] {
        let sql = format!("SELECT count(*) FROM {table}");
        let found: i64 = client.query_one(&sql, &[]).await.unwrap().get(0);
        assert_eq!(found, left, "{table}");
    }
    // A reader with an older mark detects the erasure.
    let again = batch(vec![new_memory("m0".to_owned(), "x")]);
    assert_eq!(store.add(again).await.unwrap().added, 1);
    assert_ne!(
        store.mark(&ada_scope()).await.unwrap().generation,
        before.generation
    );
    let changes = store.changes(&ada_scope(), before).await.unwrap();
    assert_eq!(changes, MemoryChanges::Rebuild);
    assert_eq!(sessions.check().await.unwrap(), []);
}
