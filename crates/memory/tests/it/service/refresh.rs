//! How an index follows its store: after failures, concurrent changes, erasures and unknown users.

use std::{sync::Arc, time::Duration};

use retain_core::{
    Event, Forget, Json, JsonMap, MemoryEdit, MemoryFilter, MemoryLimits, MemoryService as _,
    MemoryStore, MemoryUpdate, SessionLog,
};
use retain_memory::{IngestOptions, MemoryQuery, StoreMemoryService};
use retain_stores::{PostgresSessionService, SqliteSessionService};
use retain_testkit::{
    TestClock,
    postgres::{TestDatabase, is_there},
};

use super::{counting_store::CountingStore, found_texts, in_memory, session_with};

/// Returns a session with this many messages; only the first is about apples.
fn apples(id: &str, count: usize) -> retain_core::Session {
    let texts = (0..count).map(|n| match n {
        0 => "golden apples".to_owned(),
        n => format!("golden things number {n} beside some other words"),
    });
    session_with(id, texts.map(Event::user_text).collect())
}

#[tokio::test]
async fn interrupted_refresh_leaves_no_stale_entries() {
    let store = CountingStore::default();
    let memory = StoreMemoryService::over(store.clone());
    let first = session_with("s0", vec![Event::user_text("hello there")]);
    memory.add_session_to_memory(&first).await.unwrap();
    assert_eq!(found_texts(&memory, "hello").await, ["hello there"]);
    // The second of two pages fails: the index has read the first page but still has the mark of
    // its last complete refresh.
    memory
        .add_session_to_memory(&apples("s1", 1500))
        .await
        .unwrap();
    store.fail_after(1);
    let broken = memory.search_memory("app", "ada", "golden apples").await;
    assert!(broken.is_err());
    store.recover();
    let ids = Forget::Ids(vec!["s1-1".to_owned()]);
    memory.forget("app", "ada", ids).await.unwrap();
    // If the index still had the forgotten entry, the entry would be the best and only hit,
    // although the store has no row for it.
    let search = MemoryQuery::new("golden apples").with_limit(1);
    let hits = memory
        .search_memory_with("app", "ada", search)
        .await
        .unwrap();
    assert_eq!(hits.len(), 1);
    assert_ne!(hits[0].info.id, "s1-1");
}

#[tokio::test]
async fn forget_succeeds_even_if_the_index_fails_to_refresh() {
    let store = CountingStore::default();
    let memory = StoreMemoryService::over(store.clone());
    memory
        .add_session_to_memory(&apples("s1", 3))
        .await
        .unwrap();
    assert_eq!(found_texts(&memory, "apples").await[0], "golden apples");
    assert_eq!(memory.cache_size().0, 1);
    store.fail_after(0);
    let ids = Forget::Ids(vec!["s1-1".to_owned()]);
    let receipt = memory.forget("app", "ada", ids).await.unwrap();
    assert_eq!(receipt.memories, 1);
    assert_eq!(memory.cache_size().0, 0);
    store.recover();
    let found = found_texts(&memory, "golden apples").await;
    assert!(!found.is_empty() && !found.contains(&"golden apples".to_owned()));
}

#[tokio::test]
async fn filter_is_applied_to_an_entry_edited_during_the_search() {
    let store = CountingStore::default();
    let memory = StoreMemoryService::over(store.clone());
    let metadata = |team: &str| -> JsonMap {
        [("team".to_owned(), Json::from(team))]
            .into_iter()
            .collect()
    };
    let options = IngestOptions::default().with_custom_metadata(metadata("red"));
    let session = session_with("s1", vec![Event::user_text("I like tea.")]);
    memory.add_session_with(&session, &options).await.unwrap();
    let filter = MemoryFilter::default().with_metadata(metadata("red"));
    let search = || MemoryQuery::new("tea").with_filter(filter.clone());
    let before = memory.search_memory_with("app", "ada", search()).await;
    assert_eq!(before.unwrap().len(), 1);
    let update = MemoryUpdate::default().with_custom_metadata(metadata("blue"));
    let edit = MemoryEdit {
        update,
        limits: MemoryLimits::default(),
        now_us: 1,
    };
    store.edit_before_next_read("s1-1", edit);
    let after = memory.search_memory_with("app", "ada", search()).await;
    assert!(after.unwrap().is_empty());
}

#[tokio::test]
async fn unknown_users_are_not_cached() {
    let (memory, _) = in_memory();
    for n in 0..100 {
        let found = memory
            .search_memory("app", &format!("user {n}"), "tea")
            .await;
        assert!(found.unwrap().memories.is_empty());
    }
    assert_eq!(memory.cache_size(), (0, 0));
}

#[tokio::test]
async fn edited_text_is_removed_from_the_index_at_once() {
    let (memory, _) = in_memory();
    let secret: Vec<String> = (0..2000).map(|n| format!("secret{n}")).collect();
    let secret = secret.join(" ");
    let session = session_with("s1", vec![Event::user_text(format!("code {secret}"))]);
    memory.add_session_to_memory(&session).await.unwrap();
    assert_eq!(found_texts(&memory, "code").await.len(), 1);
    let with_secret = memory.cache_size().1;
    let update = MemoryUpdate::default().with_content(retain_core::Content::user("code"));
    assert!(memory.update("app", "ada", "s1-1", update).await.unwrap());
    assert!(memory.cache_size().1 + 5000 < with_secret);
}

/// Asserts that the cache has no index of a user whom `sessions` has erased.
async fn assert_erased_user_is_evicted(sessions: impl SessionLog, store: impl MemoryStore) {
    let clock = TestClock::default();
    let memory = StoreMemoryService::over(store).with_clock(Arc::new(clock.clone()));
    let tea = session_with("s1", vec![Event::user_text("I like tea.")]);
    memory.add_session_to_memory(&tea).await.unwrap();
    let mut other = session_with("s2", vec![Event::user_text("Grace likes tea.")]);
    other.user_id = "grace".to_owned();
    memory.add_session_to_memory(&other).await.unwrap();
    assert_eq!(found_texts(&memory, "tea").await.len(), 1);
    let search_of_grace = || memory.search_memory("app", "grace", "tea");
    assert_eq!(search_of_grace().await.unwrap().memories.len(), 1);
    assert_eq!(memory.cache_size().0, 2);
    sessions.erase_user("app", "ada").await.unwrap();
    // A minute later, another user's search evicts the index.
    clock.tick(Duration::from_secs(60));
    search_of_grace().await.unwrap();
    assert_eq!(memory.cache_size().0, 1);
    memory.add_session_to_memory(&tea).await.unwrap();
    assert_eq!(found_texts(&memory, "tea").await.len(), 1);
    sessions.erase_user("app", "ada").await.unwrap();
    assert!(found_texts(&memory, "tea").await.is_empty());
    assert_eq!(memory.cache_size().0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_user_is_removed_from_the_cache() {
    let sessions = SqliteSessionService::connect("sqlite::memory:").await;
    let sessions = sessions.unwrap();
    let store = sessions.store().memory();
    assert_erased_user_is_evicted(sessions, store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_user_is_removed_from_the_cache_on_postgres() {
    if !is_there() {
        return;
    }
    let database = TestDatabase::new().await;
    let sessions = PostgresSessionService::connect(&database.uri()).await;
    let sessions = sessions.unwrap();
    let store = sessions.store().memory();
    assert_erased_user_is_evicted(sessions, store).await;
}
