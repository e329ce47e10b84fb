//! Searches by meaning, with the compiled-in word vectors.

use std::sync::Arc;

use retain_core::{
    Content, Event, MemoryBatch, MemoryLimits, MemoryRecord, MemoryRows, MemoryScope,
    MemoryService as _, MemoryStore as _, MemoryUpdate, MemoryVector, MemoryVectors, NewMemory,
    PreparedMemory, RepeatPolicy,
};
use retain_memory::{MemoryQuery, StoreMemoryService, static_vectors::StaticVectors};
use retain_stores::SqliteMemoryStore;

use super::{found_texts, session_with, sqlite};

const CAR: &str = "I bought a new car.";
const KITTENS: &str = "We have two kittens.";
/// A query that has no word in common with the memories.
const AUTOMOBILE: &str = "Do I own an automobile?";

fn table() -> &'static StaticVectors {
    StaticVectors::get().unwrap()
}

async fn rows(store: &SqliteMemoryStore) -> Vec<MemoryRecord> {
    let scope = MemoryScope::new("app", "ada");
    let all = MemoryRows::After { seq: 0, limit: 9 };
    store.rows(&scope, all, true).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn synonym_is_found_without_a_common_word() {
    let folder = retain_testkit::scratch::folder();
    let store = sqlite(&folder.path().join("memory.db")).await;
    let memory = StoreMemoryService::over(store.clone());
    let session = session_with("s1", vec![Event::user_text(CAR)]);
    memory.add_session_to_memory(&session).await.unwrap();
    let other = session_with("s2", vec![Event::user_text(KITTENS)]);
    memory.add_session_to_memory(&other).await.unwrap();

    let search = MemoryQuery::new(AUTOMOBILE);
    let hits = memory.search_memory_with("app", "ada", search).await;
    let hits = hits.unwrap();
    let stored = rows(&store).await;
    let table = table();
    assert_eq!(hits.len(), 1, "{hits:?}");
    assert_eq!(hits[0].entry.content.text_concat(), CAR);
    let explanation = &hits[0].explanation;
    assert!(explanation.words.is_empty() && explanation.meaning > 0.0);
    for (record, text) in stored.iter().zip([CAR, KITTENS]) {
        let vector = record.vectors.fixed.as_ref().unwrap();
        assert_eq!((vector.model.as_str(), vector.dims), (table.id(), 256));
        assert_eq!(vector.bytes, table.embed(text).to_bytes());
    }
}

/// No query has a word in common with its answer.
#[tokio::test(flavor = "multi_thread")]
async fn matching_memory_among_a_few_is_found_by_meaning() {
    let folder = retain_testkit::scratch::folder();
    let memory = StoreMemoryService::over(sqlite(&folder.path().join("memory.db")).await);
    let texts = [
        "I drive a blue Toyota.",
        "My birthday is on 3 June.",
        "I prefer window seats on planes.",
        "My knee hurts when I run.",
        "I don't eat meat.",
        "We adopted a kitten last week.",
    ];
    for (number, text) in texts.into_iter().enumerate() {
        let session = session_with(&format!("s{number}"), vec![Event::user_text(text)]);
        memory.add_session_to_memory(&session).await.unwrap();
    }
    for (query, expected) in [
        ("What car do I own?", texts[0]),
        ("When was I born?", texts[1]),
        ("Where do I like to sit when flying?", texts[2]),
        ("Any injuries?", texts[3]),
        ("Which foods must I avoid?", texts[4]),
    ] {
        let hits = found_texts(&memory, query).await;
        assert_eq!(
            hits.first().map(String::as_str),
            Some(expected),
            "{query}: {hits:?}"
        );
    }
    for query in ["What is the capital of France?", "Thank you!"] {
        let hits = found_texts(&memory, query).await;
        assert!(hits.is_empty(), "{query}: {hits:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_static_vectors_only_words_match() {
    let folder = retain_testkit::scratch::folder();
    let store = sqlite(&folder.path().join("memory.db")).await;
    let memory = StoreMemoryService::over(store.clone()).with_static_vectors(false);
    let session = session_with("s1", vec![Event::user_text(CAR)]);
    memory.add_session_to_memory(&session).await.unwrap();
    assert!(rows(&store).await[0].vectors.fixed.is_none());
    assert!(found_texts(&memory, AUTOMOBILE).await.is_empty());
    assert_eq!(found_texts(&memory, "cars?").await, [CAR]);
    // With word vectors, the service computes the missing vector of the stored memory.
    let memory = memory.with_static_vectors(true);
    assert_eq!(found_texts(&memory, AUTOMOBILE).await, [CAR]);
}

/// Stores a memory of `text` with the vector of another text, under this model id.
async fn write_with_vector_of(store: &SqliteMemoryStore, text: &str, vector_of: &str, model: &str) {
    let fixed = MemoryVector {
        model: model.to_owned(),
        dims: 256,
        bytes: table().embed(vector_of).to_bytes().to_vec(),
    };
    let memory = PreparedMemory::new(NewMemory {
        id: text.to_owned(),
        content: Content::user(text),
        vectors: MemoryVectors {
            fixed: Some(fixed),
            embedding: None,
        },
        ..NewMemory::default()
    });
    let batch = MemoryBatch {
        scope: MemoryScope::new("app", "ada"),
        memories: vec![memory.unwrap()],
        repeats: RepeatPolicy::Keep,
        limits: MemoryLimits::default(),
        rooms: Vec::new(),
        now_us: 1,
    };
    store.add(Arc::new(batch)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_vector_is_used_if_its_model_matches() {
    let table = table();
    for (model, expected) in [(table.id(), KITTENS), ("another table", CAR)] {
        let folder = retain_testkit::scratch::folder();
        let store = sqlite(&folder.path().join("memory.db")).await;
        // Each memory has the other text's vector. The hit shows whether the search used the stored
        // vectors or computed new ones.
        write_with_vector_of(&store, CAR, KITTENS, model).await;
        write_with_vector_of(&store, KITTENS, CAR, model).await;
        let memory = StoreMemoryService::over(store);
        assert_eq!(
            found_texts(&memory, AUTOMOBILE).await,
            [expected],
            "{model}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updated_memory_is_found_by_its_new_meaning() {
    let folder = retain_testkit::scratch::folder();
    let memory = StoreMemoryService::over(sqlite(&folder.path().join("memory.db")).await);
    let session = session_with("s1", vec![Event::user_text(KITTENS)]);
    memory.add_session_to_memory(&session).await.unwrap();
    assert!(found_texts(&memory, AUTOMOBILE).await.is_empty());
    let update = MemoryUpdate::default().with_content(Content::user(CAR));
    let changed = memory.update("app", "ada", "s1-1", update).await;
    assert!(changed.unwrap());
    assert_eq!(found_texts(&memory, AUTOMOBILE).await, [CAR]);
    assert!(found_texts(&memory, "kittens").await.is_empty());
}

#[tokio::test]
async fn long_ingest_yields_to_other_tasks() {
    let store = retain_stores::InMemoryMemoryStore::default();
    let memory = StoreMemoryService::over(store);
    // Load the table first, because loading it takes time.
    assert!(found_texts(&memory, "kitten").await.is_empty());
    let long = "kitten basket adopted ".repeat(20_000);
    let session = session_with("s1", vec![Event::user_text(long)]);
    let ingest = tokio::spawn({
        let memory = memory.clone();
        async move { memory.add_session_to_memory(&session).await }
    });
    // Other tasks make progress during the ingest: this task is polled many times before it
    // finishes.
    let mut polls = 0_u32;
    while !ingest.is_finished() {
        tokio::task::yield_now().await;
        polls += 1;
    }
    ingest.await.unwrap().unwrap();
    assert!(polls > 20, "{polls} polls");
    assert_eq!(found_texts(&memory, "kitten").await.len(), 1);
}
