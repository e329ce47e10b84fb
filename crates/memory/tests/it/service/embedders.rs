//! A fake embedder, and tests with embedders that fail, change or return invalid vectors.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use retain_core::{
    BoxError, Embedder, Event, MemoryEntry, MemoryError, MemoryService as _, MemoryStore as _,
};
use retain_memory::{StoreMemoryService, VectorMemoryService};
use retain_stores::InMemoryMemoryStore;

use super::{found_texts, session_with};

const DIMS: usize = 2048;

/// An embedder whose vectors of two texts are similar if the texts have words in common.
#[derive(Debug)]
pub(super) struct WordEmbedder {
    id: String,
    is_failing: AtomicBool,
    /// Number of texts embedded so far.
    texts: AtomicUsize,
}

impl WordEmbedder {
    pub(super) fn new(id: &str) -> WordEmbedder {
        WordEmbedder {
            id: id.to_owned(),
            is_failing: AtomicBool::new(false),
            texts: AtomicUsize::new(0),
        }
    }

    fn vector(text: &str) -> Vec<f32> {
        let mut vector = vec![0.0; DIMS];
        let text = text.to_lowercase();
        let words = text.split(|c: char| !c.is_alphanumeric());
        let letters = text.split("").filter(|letter| !letter.is_ascii());
        for word in words.chain(letters).filter(|word| !word.is_empty()) {
            let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            vector[(hash >> 7) as usize % DIMS] += 1.0;
        }
        vector
    }
}

#[async_trait]
impl Embedder for WordEmbedder {
    fn id(&self) -> &str {
        &self.id
    }

    fn dims(&self) -> usize {
        DIMS
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, BoxError> {
        if self.is_failing.load(Ordering::SeqCst) {
            return Err("the embedder fails in this test".into());
        }
        self.texts.fetch_add(texts.len(), Ordering::SeqCst);
        Ok(texts
            .iter()
            .map(|text| WordEmbedder::vector(text))
            .collect())
    }
}

fn apples_and_pears() -> retain_core::Session {
    let texts = ["Apples are red.", "Pears are green."];
    session_with("s1", texts.map(Event::user_text).to_vec())
}

#[tokio::test]
async fn failing_embedder_does_not_block_ingest_or_search() {
    let store = InMemoryMemoryStore::default();
    let embedder = Arc::new(WordEmbedder::new("m1"));
    let memory = StoreMemoryService::over(store).with_embedder(embedder.clone());
    embedder.is_failing.store(true, Ordering::SeqCst);
    memory
        .add_session_to_memory(&apples_and_pears())
        .await
        .unwrap();
    assert_eq!(found_texts(&memory, "apples").await[0], "Apples are red.");
    memory.flush().await;
    let statistics = memory.statistics("app", "ada").await.unwrap();
    assert_eq!((statistics.entries, statistics.embedded), (2, 0));
    // When the embedder works again, the next ingest also embeds the memories without a vector.
    embedder.is_failing.store(false, Ordering::SeqCst);
    let more = session_with("s2", vec![Event::user_text("Plums are blue.")]);
    memory.add_session_to_memory(&more).await.unwrap();
    memory.flush().await;
    let statistics = memory.statistics("app", "ada").await.unwrap();
    assert_eq!((statistics.entries, statistics.embedded), (3, 3));
    assert_eq!(embedder.texts.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn new_embedding_model_recomputes_all_vectors() {
    let store = InMemoryMemoryStore::default();
    let scope = retain_core::MemoryScope::new("app", "ada");
    let first = Arc::new(WordEmbedder::new("m1"));
    let memory = StoreMemoryService::over(store.clone()).with_embedder(first);
    memory
        .add_session_to_memory(&apples_and_pears())
        .await
        .unwrap();
    memory.flush().await;
    let unembedded = store
        .without_embedding(&scope, "m1", DIMS, 0, 10)
        .await
        .unwrap();
    assert!(unembedded.is_empty());
    let second = Arc::new(WordEmbedder::new("m2"));
    let memory = StoreMemoryService::over(store.clone()).with_embedder(second);
    // The first search finds vectors of another model and starts to embed the memories again.
    assert_eq!(found_texts(&memory, "apples").await[0], "Apples are red.");
    memory.flush().await;
    let unembedded = store
        .without_embedding(&scope, "m2", DIMS, 0, 10)
        .await
        .unwrap();
    assert!(unembedded.is_empty());
    assert_eq!(memory.statistics("app", "ada").await.unwrap().embedded, 2);
}

#[tokio::test]
async fn vector_search_returns_the_nearest_and_embeds_each_text_once() {
    let embedder = Arc::new(WordEmbedder::new("m1"));
    let memory = VectorMemoryService::new(embedder.clone()).with_top_k(2);
    let texts: Vec<Event> = (0..9)
        .map(|n| Event::user_text(format!("tree {n}")))
        .collect();
    let session = session_with("s1", texts);
    memory.add_session_to_memory(&session).await.unwrap();
    memory.add_session_to_memory(&session).await.unwrap();
    assert_eq!(embedder.texts.load(Ordering::SeqCst), 9);
    assert_eq!(found_texts(&memory, "tree 4").await.len(), 2);
    assert_eq!(found_texts(&memory, "tree 4").await[0], "tree 4");
    let strict = VectorMemoryService::new(embedder.clone()).with_min_score(0.9);
    strict.add_session_to_memory(&session).await.unwrap();
    assert_eq!(found_texts(&strict, "tree 4").await, ["tree 4"]);
    let house = MemoryEntry {
        content: retain_core::Content::user("house 1"),
        ..MemoryEntry::default()
    };
    strict
        .add_memory("app", "ada", &[house], None)
        .await
        .unwrap();
    assert_eq!(found_texts(&strict, "house 1").await, ["house 1"]);
    embedder.is_failing.store(true, Ordering::SeqCst);
    assert!(strict.search_memory("app", "ada", "tree").await.is_err());
}

#[tokio::test]
async fn event_id_in_two_sessions_is_one_memory_only_if_the_texts_are_equal() {
    let embedder = Arc::new(WordEmbedder::new("m1"));
    let memory = VectorMemoryService::new(embedder).with_min_score(0.5);
    let session_with_e1 = |id: &str, text: &str| {
        let mut event = Event::user_text(text);
        event.id = "e1".to_owned();
        let mut session = session_with(id, Vec::new());
        session.events.push(1, event);
        session
    };
    for (id, text) in [
        ("s1", "red apples"),
        ("s2", "sour pears"),
        ("fork", "red apples"),
    ] {
        let session = session_with_e1(id, text);
        memory.add_session_to_memory(&session).await.unwrap();
    }
    assert_eq!(found_texts(&memory, "red apples").await, ["red apples"]);
    assert_eq!(found_texts(&memory, "sour pears").await, ["sour pears"]);
    // New content replaces the memory of this session.
    let session = session_with_e1("s1", "dry plums");
    memory.add_session_to_memory(&session).await.unwrap();
    assert!(found_texts(&memory, "red apples").await.is_empty());
    assert_eq!(found_texts(&memory, "dry plums").await, ["dry plums"]);
    // A deletion permanently removes the memories with this id in all sessions, and no others.
    let other = session_with("s3", vec![Event::user_text("green tea")]);
    memory.add_session_to_memory(&other).await.unwrap();
    memory
        .delete_memory("app", "ada", Some("e1"))
        .await
        .unwrap();
    memory.add_session_to_memory(&session).await.unwrap();
    memory.add_session_to_memory(&other).await.unwrap();
    for deleted in ["dry plums", "sour pears"] {
        assert!(found_texts(&memory, deleted).await.is_empty(), "{deleted}");
    }
    assert_eq!(found_texts(&memory, "green tea").await, ["green tea"]);
}

#[tokio::test]
async fn direct_entries_without_an_id_are_stored_separately() {
    let embedder = Arc::new(WordEmbedder::new("m1"));
    let memory = VectorMemoryService::new(embedder).with_min_score(0.5);
    let entry = |text: &str, id: Option<&str>| MemoryEntry {
        content: retain_core::Content::user(text),
        id: id.map(str::to_owned),
        ..MemoryEntry::default()
    };
    let all = [
        entry("red apples", Some("")),
        entry("sour pears", Some("")),
        entry("tea", None),
    ];
    memory.add_memory("app", "ada", &all, None).await.unwrap();
    for text in ["red apples", "sour pears", "tea"] {
        assert_eq!(found_texts(&memory, text).await, [text]);
    }
    let without_text = memory
        .add_memory("app", "ada", &[entry("", None)], None)
        .await;
    assert!(matches!(
        without_text,
        Err(MemoryError::InvalidInput { .. })
    ));
}

/// An embedder that returns NaN for one text and huge values for another.
#[derive(Debug)]
struct InvalidEmbedder;

#[async_trait]
impl Embedder for InvalidEmbedder {
    fn id(&self) -> &str {
        "odd"
    }

    fn dims(&self) -> usize {
        2
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, BoxError> {
        assert!(
            texts.len() <= 64,
            "a call has more texts than the batch size"
        );
        let vector = |text: &String| match text.as_str() {
            "odd" => vec![f32::NAN, 1.0],
            "huge" => vec![f32::MAX, f32::MAX],
            _ => vec![1.0, 0.5],
        };
        Ok(texts.iter().map(vector).collect())
    }
}

#[tokio::test]
async fn overflowing_vectors_rank_last_and_texts_are_batched() {
    let memory = VectorMemoryService::new(Arc::new(InvalidEmbedder)).with_top_k(200);
    let mut texts = vec!["huge".to_owned()];
    texts.extend((0..150).map(|n| format!("plain {n}")));
    let texts = texts.into_iter().map(Event::user_text).collect();
    memory
        .add_session_to_memory(&session_with("s1", texts))
        .await
        .unwrap();
    let found = found_texts(&memory, "plain").await;
    assert_eq!(found.len(), 151);
    assert_eq!(found[150..], ["huge"]);
}

#[tokio::test]
async fn nan_vector_is_an_error() {
    let memory = VectorMemoryService::new(Arc::new(InvalidEmbedder));
    let texts = ["plain", "odd"].map(Event::user_text).to_vec();
    let added = memory
        .add_session_to_memory(&session_with("s1", texts))
        .await;
    assert!(matches!(added, Err(MemoryError::Backend(_))), "{added:?}");
    assert!(found_texts(&memory, "plain").await.is_empty());
}
