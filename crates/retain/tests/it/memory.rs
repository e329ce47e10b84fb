//! Programs with memory, in the style of users of ADK's Rust crates.

use std::sync::Arc;

use async_trait::async_trait;
use retain::{
    BoxError, Event, InMemoryMemoryService, MemoryService, Session, SqliteMemoryService,
    SqliteSessionService,
    memory::{Embedder, MemoryEntry, SearchMemoryResponse, VectorMemoryService, timestamp_text},
};

/// An embedder that counts two letters, which is enough to distinguish "aaa" from "bbb".
#[derive(Debug)]
struct LetterCounts;

#[async_trait]
impl Embedder for LetterCounts {
    fn id(&self) -> &str {
        "letter-counts"
    }

    fn dims(&self) -> usize {
        2
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, BoxError> {
        let count = |text: &String, letter| text.matches(letter).count() as f32;
        let vector = |text| vec![count(text, 'a'), count(text, 'b')];
        Ok(texts.iter().map(vector).collect())
    }
}

fn session(text: &str) -> Session {
    let mut session = Session::new("app", "ada", "s1");
    let mut event = Event::user_text(text);
    event.timestamp = 1_763_258_400.25;
    session.events.push(1, event);
    session
}

async fn find(memory: &dyn MemoryService, query: &str) -> Vec<MemoryEntry> {
    let found = memory.search_memory("app", "ada", query).await;
    let SearchMemoryResponse { memories, .. } = found.unwrap();
    memories
}

#[tokio::test(flavor = "multi_thread")]
async fn session_added_to_memory_is_found_with_author_and_time() {
    let sessions = SqliteSessionService::connect("sqlite::memory:").await;
    let sqlite = SqliteMemoryService::over(sessions.unwrap().store().memory());
    let services: [&dyn MemoryService; 2] = [&InMemoryMemoryService::new(), &sqlite];
    for memory in services {
        let session_with_fact = session("My favorite project is Project Alpha.");
        memory
            .add_session_to_memory(&session_with_fact)
            .await
            .unwrap();
        let found = find(memory, "favorite project").await;
        let entry = &found[0];
        assert_eq!(entry.author.as_deref(), Some("user"));
        assert_eq!(entry.timestamp_seconds(), Some(1_763_258_400.25));
        assert_eq!(
            entry.timestamp.as_deref(),
            Some("2025-11-16T02:00:00.250000")
        );
        assert_eq!(entry.timestamp, timestamp_text(1_763_258_400.25));
        assert!(entry.content.text_concat().contains("Project Alpha"));
        assert!(
            memory
                .search_memory("app", "bob", "project")
                .await
                .unwrap()
                .memories
                .is_empty()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vector_memory_returns_only_entries_above_min_score() {
    let memory = VectorMemoryService::new(Arc::new(LetterCounts))
        .with_top_k(1)
        .with_min_score(0.9);
    memory.add_session_to_memory(&session("aaa")).await.unwrap();
    assert_eq!(find(&memory, "aa").await.len(), 1);
    assert!(find(&memory, "bb").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn vector_memory_returns_five_entries_by_default() {
    let memory = VectorMemoryService::new(Arc::new(LetterCounts));
    let mut long = Session::new("app", "ada", "s1");
    for position in 1..=7 {
        let mut event = Event::user_text("aaa");
        event.id = format!("e{position}");
        long.events.push(position, event);
    }
    memory.add_session_to_memory(&long).await.unwrap();
    assert_eq!(find(&memory, "aa").await.len(), 5);
}
