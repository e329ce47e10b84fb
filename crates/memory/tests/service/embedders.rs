//! Embedders for tests, and what becomes of memories whose embedder fails or changes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use retain_core::{BoxError, Embedder, Event, MemoryEntry, MemoryService as _, MemoryStore as _};
use retain_memory::{StoreMemoryService, VectorMemoryService};
use retain_sessions::InMemoryMemoryStore;

use super::{found, session_with};

const DIMS: usize = 2048;

/// Texts are near that share words.
#[derive(Debug)]
pub(super) struct WordEmbedder {
    id: String,
    is_broken: AtomicBool,
    texts: AtomicUsize,
}

impl WordEmbedder {
    pub(super) fn new(id: &str) -> WordEmbedder {
        WordEmbedder {
            id: id.to_owned(),
            is_broken: AtomicBool::new(false),
            texts: AtomicUsize::new(0),
        }
    }

    fn vector(text: &str) -> Vec<f32> {
        let mut vector = vec![0.0; DIMS];
        let text = text.to_lowercase();
        let words = text.split(|c: char| !c.is_alphanumeric());
        let signs = text.split("").filter(|sign| !sign.is_ascii());
        for word in words.chain(signs).filter(|word| !word.is_empty()) {
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
        if self.is_broken.load(Ordering::SeqCst) {
            return Err("out of service".into());
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
async fn an_embedder_that_fails_holds_up_nobody() {
    let store = InMemoryMemoryStore::default();
    let embedder = Arc::new(WordEmbedder::new("m1"));
    let memory = StoreMemoryService::over(store).with_embedder(embedder.clone());
    embedder.is_broken.store(true, Ordering::SeqCst);
    memory
        .add_session_to_memory(&apples_and_pears())
        .await
        .unwrap();
    assert_eq!(found(&memory, "apples").await[0], "Apples are red.");
    memory.flush().await;
    let counted = memory.statistics("app", "ada").await.unwrap();
    assert_eq!((counted.entries, counted.embedded), (2, 0));
    // When it works again, what lacks a vector gets one with the next that is added.
    embedder.is_broken.store(false, Ordering::SeqCst);
    let more = session_with("s2", vec![Event::user_text("Plums are blue.")]);
    memory.add_session_to_memory(&more).await.unwrap();
    memory.flush().await;
    let counted = memory.statistics("app", "ada").await.unwrap();
    assert_eq!((counted.entries, counted.embedded), (3, 3));
    assert_eq!(embedder.texts.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn another_model_embeds_anew() {
    let store = InMemoryMemoryStore::default();
    let scope = retain_core::MemoryScope::new("app", "ada");
    let first = Arc::new(WordEmbedder::new("m1"));
    let memory = StoreMemoryService::over(store.clone()).with_embedder(first);
    memory
        .add_session_to_memory(&apples_and_pears())
        .await
        .unwrap();
    memory.flush().await;
    let lacking = store
        .without_embedding(&scope, "m1", DIMS, 0, 10)
        .await
        .unwrap();
    assert!(lacking.is_empty());
    let second = Arc::new(WordEmbedder::new("m2"));
    let memory = StoreMemoryService::over(store.clone()).with_embedder(second);
    // The first search finds that vectors are another model's, and has them made.
    assert_eq!(found(&memory, "apples").await[0], "Apples are red.");
    memory.flush().await;
    let lacking = store
        .without_embedding(&scope, "m2", DIMS, 0, 10)
        .await
        .unwrap();
    assert!(lacking.is_empty());
    assert_eq!(memory.statistics("app", "ada").await.unwrap().embedded, 2);
}

#[tokio::test]
async fn the_nearest_are_given_and_embedded_once() {
    let embedder = Arc::new(WordEmbedder::new("m1"));
    let memory = VectorMemoryService::new(embedder.clone()).with_top_k(2);
    let texts: Vec<Event> = (0..9)
        .map(|n| Event::user_text(format!("tree {n}")))
        .collect();
    let session = session_with("s1", texts);
    memory.add_session_to_memory(&session).await.unwrap();
    memory.add_session_to_memory(&session).await.unwrap();
    assert_eq!(embedder.texts.load(Ordering::SeqCst), 9);
    assert_eq!(found(&memory, "tree 4").await.len(), 2);
    assert_eq!(found(&memory, "tree 4").await[0], "tree 4");
    let strict = VectorMemoryService::new(embedder.clone()).with_min_score(0.9);
    strict.add_session_to_memory(&session).await.unwrap();
    assert_eq!(found(&strict, "tree 4").await, ["tree 4"]);
    let given = MemoryEntry {
        content: retain_core::Content::user("house 1"),
        ..MemoryEntry::default()
    };
    strict
        .add_memory("app", "ada", &[given], None)
        .await
        .unwrap();
    assert_eq!(found(&strict, "house 1").await, ["house 1"]);
    embedder.is_broken.store(true, Ordering::SeqCst);
    assert!(strict.search_memory("app", "ada", "tree").await.is_err());
}
