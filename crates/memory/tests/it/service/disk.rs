//! Memories on disk: their size, erasure, and changes by another process.

use std::{path::Path, sync::Arc};

use retain_core::{
    Content, Event, MemoryBatch, MemoryLimits, MemoryRows, MemoryScope, MemoryService as _,
    MemoryStore as _, MemoryVector, MemoryVectors, NewEmbedding, NewMemory, PreparedMemory,
    RepeatPolicy, SessionLog as _, SessionService as _, Tombstone,
};
use retain_memory::{ListMemories, StoreMemoryService};
use retain_stores::{SqliteSessionService, SqliteStore};

use super::{found_texts, session_with, sqlite};

/// Whether a file of the folder contains the bytes.
fn is_in_a_file(folder: &Path, bytes: &[u8]) -> bool {
    let files = std::fs::read_dir(folder).unwrap();
    let mut contents = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
    contents.any(|content| content.windows(bytes.len()).any(|window| window == bytes))
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_user_leaves_no_bytes_on_disk() {
    let folder = retain_testkit::scratch::folder();
    let path = folder.path().join("sessions.db");
    let uri = format!("sqlite:///{}", path.display());
    let sessions = SqliteSessionService::connect(&uri).await.unwrap();
    let memory = StoreMemoryService::over(sessions.store().memory());
    let texts = (0..300).map(|n| Event::user_text(format!("swordfish {n} {}", "x".repeat(n))));
    let mut session = session_with("secretsession", texts.collect());
    session.user_id = "adalovelace".to_owned();
    memory.add_session_to_memory(&session).await.unwrap();
    let mut other = session_with("s1", vec![Event::user_text("Grace likes sharks.")]);
    other.user_id = "grace".to_owned();
    memory.add_session_to_memory(&other).await.unwrap();
    memory
        .delete_memory("app", "adalovelace", Some("secretsession-7"))
        .await
        .unwrap();
    let scope = MemoryScope::new("app", "adalovelace");
    let hash = Tombstone::of_id(&scope, "secretsession-7");
    let generation = memory.store().mark(&scope).await.unwrap().generation;
    let vector = MemoryVector::from_floats("m", &[0.123, 4.567, 8.9, -0.1234]);
    let embedding = NewEmbedding {
        seq: 300,
        revision: 1,
        vector: vector.clone(),
    };
    let set = memory
        .store()
        .set_embeddings(&scope, generation, Arc::new(vec![embedding]))
        .await;
    set.unwrap();
    let last = MemoryRows::Numbered(vec![300]);
    let last = memory.store().rows(&scope, last, true).await.unwrap();
    let fixed = last[0].vectors.fixed.clone().map(|it| it.bytes);
    let mut bytes = vec![hash.0.to_vec(), vector.bytes];
    bytes.extend(fixed);
    for stored in &bytes {
        assert!(is_in_a_file(folder.path(), stored));
    }
    let before = memory
        .search_memory("app", "adalovelace", "swordfish")
        .await
        .unwrap();
    assert!(!before.memories.is_empty());
    assert!(is_in_a_file(folder.path(), b"swordfish"));

    let receipt = sessions.erase_user("app", "adalovelace").await.unwrap();
    assert_eq!(receipt.memories, 299);
    for erased in ["swordfish", "secretsession", "adalovelace"] {
        assert!(
            !is_in_a_file(folder.path(), erased.as_bytes()),
            "{erased} is still there"
        );
    }
    for erased in &bytes {
        assert!(
            !is_in_a_file(folder.path(), erased),
            "{erased:?} is still there"
        );
    }
    let after = memory
        .search_memory("app", "adalovelace", "swordfish")
        .await
        .unwrap();
    assert!(after.memories.is_empty());
    let of_grace = memory
        .search_memory("app", "grace", "sharks")
        .await
        .unwrap();
    assert_eq!(of_grace.memories.len(), 1);
    // The hashes of forgotten memories are erased too, so every memory can be ingested again.
    memory.add_session_to_memory(&session).await.unwrap();
    let page = ListMemories::default().with_limit(1000);
    let page = memory.list("app", "adalovelace", page).await.unwrap();
    assert_eq!(page.memories.len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_session_keeps_its_memories() {
    let sessions = SqliteSessionService::connect("sqlite::memory:")
        .await
        .unwrap();
    let memory = StoreMemoryService::over(sessions.store().memory());
    let mut session = sessions
        .create_session("app", "ada", None, Some("s1"))
        .await
        .unwrap();
    let event = Event::user_text("I like tea.");
    sessions.append_event(&mut session, event).await.unwrap();
    memory.add_session_to_memory(&session).await.unwrap();
    sessions.delete_session("app", "ada", "s1").await.unwrap();
    assert_eq!(found_texts(&memory, "tea").await, ["I like tea."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_200_bytes_takes_at_most_1500_bytes_on_disk() {
    let folder = retain_testkit::scratch::folder();
    let path = folder.path().join("memory.db");
    let store = sqlite(&path).await;
    let empty = std::fs::metadata(&path).unwrap().len();
    let entries = 2000;
    let memories = (0..entries).map(|n: u64| {
        let fixed = MemoryVector {
            model: "table".to_owned(),
            dims: 256,
            bytes: vec![n as u8; 256],
        };
        // Ids usually have 36 characters, so these do too.
        PreparedMemory::new(NewMemory {
            id: format!("{n:036}"),
            session: Some(format!("{:036}", n / 20)),
            event_id: Some(format!("{n:036}")),
            position: n,
            author: Some("assistant".to_owned()),
            timestamp: 1_700_000_000.5,
            content: Content::model("x".repeat(200)),
            vectors: MemoryVectors {
                fixed: Some(fixed),
                embedding: None,
            },
            ..NewMemory::default()
        })
    });
    let batch = MemoryBatch {
        scope: MemoryScope::new("app", "ada"),
        memories: memories.collect::<Result<_, _>>().unwrap(),
        repeats: RepeatPolicy::Keep,
        limits: MemoryLimits::default(),
        rooms: Vec::new(),
        now_us: 1_700_000_000_000_000,
    };
    store.add(Arc::new(batch)).await.unwrap();
    drop(store);
    // Closing the store moves the WAL's data into the database file.
    let full = std::fs::metadata(&path).unwrap().len();
    let each = (full - empty) / entries;
    println!("{each} bytes on disk per memory");
    assert!(each > 400 && each <= 1500, "{each} bytes per memory");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory_sqlite_stores_memories() {
    let store = SqliteStore::open(retain_stores::SqliteOptions::in_memory())
        .await
        .unwrap();
    let memory = StoreMemoryService::over(store.memory());
    let session = session_with("s1", vec![Event::user_text("I like tea.")]);
    memory.add_session_to_memory(&session).await.unwrap();
    assert_eq!(found_texts(&memory, "tea").await, ["I like tea."]);
}

/// The variable with the path of the database. If it is set, the test is the second process.
const PATH_FOR_SECOND_PROCESS: &str = "RETAIN_MEMORY_OF_SECOND_PROCESS";

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_another_process_are_visible_at_once() {
    let violin = session_with("s1", vec![Event::user_text("I play the violin.")]);
    if let Some(path) = std::env::var_os(PATH_FOR_SECOND_PROCESS) {
        let memory = StoreMemoryService::over(sqlite(Path::new(&path)).await);
        assert_eq!(found_texts(&memory, "coffee").await, ["I like coffee."]);
        memory.add_session_to_memory(&violin).await.unwrap();
        memory
            .delete_memory("app", "ada", Some("s0-1"))
            .await
            .unwrap();
        return;
    }
    let folder = retain_testkit::scratch::folder();
    let path = folder.path().join("memory.db");
    let memory = StoreMemoryService::over(sqlite(&path).await);
    let coffee = session_with("s0", vec![Event::user_text("I like coffee.")]);
    memory.add_session_to_memory(&coffee).await.unwrap();
    assert_eq!(found_texts(&memory, "coffee").await, ["I like coffee."]);
    assert!(found_texts(&memory, "violin").await.is_empty());
    let second = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "service::disk::changes_by_another_process_are_visible_at_once",
        ])
        .env(PATH_FOR_SECOND_PROCESS, &path)
        .output()
        .await
        .unwrap();
    let output = String::from_utf8_lossy(&second.stdout);
    assert!(
        second.status.success() && output.contains("1 passed"),
        "{output}"
    );
    assert_eq!(found_texts(&memory, "violin").await, ["I play the violin."]);
    assert!(found_texts(&memory, "coffee").await.is_empty());
}
