//! Background embedding after an ingest: rejected texts, retries, changed dimensions, and memories
//! that change meanwhile.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use retain_core::{
    BoxError, Embedder, Event, MemoryRecord, MemoryRows, MemoryScope, MemoryService as _,
    MemoryStore, SessionLog as _,
};
use retain_memory::StoreMemoryService;
use retain_stores::{InMemoryMemoryStore, SqliteSessionService};
use retain_testkit::TestClock;
use tokio::sync::Semaphore;

use super::{found_texts, session_with};

/// An embedder whose vectors hold only the length of the text.
#[derive(Debug)]
struct LengthEmbedder {
    dims: usize,
    /// The permits for calls. Each call takes one before it returns.
    permits: Semaphore,
    /// The texts of all calls so far.
    requested: Mutex<Vec<String>>,
    calls: AtomicUsize,
    is_failing: AtomicBool,
}

impl LengthEmbedder {
    fn new(dims: usize) -> Arc<LengthEmbedder> {
        Arc::new(LengthEmbedder {
            dims,
            permits: Semaphore::new(Semaphore::MAX_PERMITS),
            requested: Mutex::default(),
            calls: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
        })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Embedder for LengthEmbedder {
    fn id(&self) -> &str {
        "lengths"
    }

    fn dims(&self) -> usize {
        self.dims
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, BoxError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.requested.lock().unwrap().extend_from_slice(texts);
        self.permits.acquire().await?.forget();
        let is_rejected = texts.iter().any(|text| text.contains("rejected"));
        if is_rejected || self.is_failing.load(Ordering::SeqCst) {
            return Err("the embedder fails in this test".into());
        }
        let number = |text: &String| match text.contains("zero divided") {
            true => f32::NAN,
            false => text.len() as f32,
        };
        Ok(texts.iter().map(|it| vec![number(it); self.dims]).collect())
    }
}

async fn rows(store: &dyn MemoryStore) -> Vec<MemoryRecord> {
    let all = MemoryRows::After {
        seq: 0,
        limit: 1000,
    };
    let scope = MemoryScope::new("app", "ada");
    store.rows(&scope, all, true).await.unwrap()
}

/// Returns for each memory the text length that its embedding holds, if it has an embedding.
fn embedded_lengths(rows: &[MemoryRecord]) -> Vec<Option<f32>> {
    let vectors = rows.iter().map(|row| row.vectors.embedding.as_ref());
    vectors.map(|it| Some(it?.floats()[0])).collect()
}

#[tokio::test]
async fn rejected_text_does_not_block_other_embeddings() {
    let store = InMemoryMemoryStore::default();
    let embedder = LengthEmbedder::new(1);
    let memory = StoreMemoryService::over(store.clone()).with_embedder(embedder.clone());
    let texts = (0..200).map(|n| match n {
        3 => "rejected".to_owned(),
        130 => "zero divided by zero".to_owned(),
        n => format!("text {n}"),
    });
    let session = session_with("s1", texts.map(Event::user_text).collect());
    memory.add_session_to_memory(&session).await.unwrap();
    memory.flush().await;
    let lengths = embedded_lengths(&rows(&store).await);
    let without: Vec<usize> = (0..200).filter(|n| lengths[*n].is_none()).collect();
    assert_eq!(without, [3, 130]);
    assert!(embedder.calls() < 40, "{} calls", embedder.calls());
}

#[tokio::test]
async fn failing_embedder_is_retried_after_a_minute() {
    let (store, clock) = (InMemoryMemoryStore::default(), TestClock::default());
    let embedder = LengthEmbedder::new(1);
    let memory = StoreMemoryService::over(store.clone())
        .with_clock(Arc::new(clock.clone()))
        .with_embedder(embedder.clone());
    embedder.is_failing.store(true, Ordering::SeqCst);
    let texts = (0..500).map(|n| Event::user_text(format!("text {n}")));
    let session = session_with("s1", texts.collect());
    memory.add_session_to_memory(&session).await.unwrap();
    memory.flush().await;
    assert_eq!(embedder.calls(), 10);
    // Each search embeds its query and nothing else.
    assert!(!found_texts(&memory, "text").await.is_empty());
    memory.flush().await;
    assert_eq!(embedder.calls(), 11);
    // After a minute, a search starts to embed the remaining memories, without a new ingest.
    embedder.is_failing.store(false, Ordering::SeqCst);
    clock.tick(Duration::from_secs(60));
    found_texts(&memory, "text").await;
    memory.flush().await;
    assert!(
        embedded_lengths(&rows(&store).await)
            .iter()
            .all(Option::is_some)
    );
    let calls = embedder.calls();
    found_texts(&memory, "text").await;
    memory.flush().await;
    assert_eq!(embedder.calls(), calls + 1);
}

#[tokio::test]
async fn vectors_of_another_size_are_recomputed() {
    let store = InMemoryMemoryStore::default();
    let session = session_with("s1", vec![Event::user_text("I like tea.")]);
    let one = StoreMemoryService::over(store.clone()).with_embedder(LengthEmbedder::new(2));
    one.add_session_to_memory(&session).await.unwrap();
    one.flush().await;
    // `two` differs from `one` only in the embedder.
    let two = one.clone().with_embedder(LengthEmbedder::new(3));
    for _ in 0..2 {
        assert_eq!(found_texts(&two, "tea").await, ["I like tea."]);
        two.flush().await;
    }
    let vector = rows(&store).await.remove(0).vectors.embedding.unwrap();
    assert_eq!(vector.floats(), [11.0, 11.0, 11.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn late_vectors_of_an_erased_user_are_dropped() {
    let sessions = SqliteSessionService::connect("sqlite::memory:").await;
    let sessions = sessions.unwrap();
    let store = sessions.store().memory();
    let embedder = LengthEmbedder::new(1);
    let memory = StoreMemoryService::over(store.clone()).with_embedder(embedder.clone());
    // Block all calls of the embedder for now.
    embedder.permits.forget_permits(Semaphore::MAX_PERMITS);
    let old = session_with("s1", vec![Event::user_text("a long and secret text")]);
    memory.add_session_to_memory(&old).await.unwrap();
    while embedder.requested.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    sessions.erase_user("app", "ada").await.unwrap();
    // The new memory has the same number and revision as the erased one.
    let new = session_with("s2", vec![Event::user_text("short")]);
    memory.add_session_to_memory(&new).await.unwrap();
    embedder.permits.add_permits(1);
    // The embedder gets a call for the new memory only if the store rejected the old vector.
    while embedder.requested.lock().unwrap().len() < 2 {
        assert_eq!(embedded_lengths(&rows(&store).await), [None]);
        tokio::task::yield_now().await;
    }
    assert_eq!(embedded_lengths(&rows(&store).await), [None]);
    embedder.permits.add_permits(100);
    memory.flush().await;
    assert_eq!(embedded_lengths(&rows(&store).await), [Some(5.0)]);
}

#[tokio::test]
async fn late_vectors_of_forgotten_or_edited_memories_are_dropped() {
    let store = InMemoryMemoryStore::default();
    let embedder = LengthEmbedder::new(1);
    let memory = StoreMemoryService::over(store.clone()).with_embedder(embedder.clone());
    embedder.permits.forget_permits(Semaphore::MAX_PERMITS);
    let texts = ["forgotten", "edited", "same"].map(Event::user_text);
    let session = session_with("s1", texts.to_vec());
    memory.add_session_to_memory(&session).await.unwrap();
    while embedder.requested.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let forget = memory.delete_memory("app", "ada", Some("s1-1")).await;
    forget.unwrap();
    let update =
        retain_core::MemoryUpdate::default().with_content(retain_core::Content::user("new"));
    assert!(memory.update("app", "ada", "s1-2", update).await.unwrap());
    embedder.permits.add_permits(100);
    memory.flush().await;
    assert_eq!(
        embedded_lengths(&rows(&store).await),
        [Some(3.0), Some(4.0)]
    );
}
