//! Searches and lists with all options, and the cache of indexes.

use retain_core::{
    Event, Forget, Json, JsonMap, MemoryError, MemoryFilter, MemoryKind, MemoryService as _,
    OriginKind,
    budget::{BudgetUse, ByteBudget},
};
use retain_memory::{
    IngestOptions, ListMemories, MemoryQuery, StoreMemoryService, index::Language,
};
use retain_stores::InMemoryMemoryStore;

use super::{InMemory, found_texts, in_memory, session_with};

/// Returns the sorted ids of the hits.
async fn hit_ids(memory: &InMemory, query: MemoryQuery) -> Vec<String> {
    let found = memory
        .search_memory_with("app", "ada", query)
        .await
        .unwrap();
    let mut ids: Vec<String> = found.into_iter().map(|it| it.info.id).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn search_and_list_apply_each_filter() {
    let (memory, _) = in_memory();
    let at = |mut event: Event, seconds: f64| {
        event.timestamp = seconds;
        event
    };
    let metadata: JsonMap = [("team".to_owned(), Json::from("red"))]
        .into_iter()
        .collect();
    let first = vec![
        at(Event::user_text("apples one"), 100.0),
        at(Event::model_text("bot", "apples two"), 200.0),
    ];
    memory
        .add_session_to_memory(&session_with("s1", first))
        .await
        .unwrap();
    let options = IngestOptions::default().with_custom_metadata(metadata.clone());
    let second = session_with("s2", vec![at(Event::user_text("apples three"), 300.0)]);
    memory.add_session_with(&second, &options).await.unwrap();
    let any = MemoryFilter::default();
    for (filter, expected) in [
        (any.clone(), vec!["s1-1", "s1-2", "s2-1"]),
        (any.clone().with_since(200.0), vec!["s1-2", "s2-1"]),
        (any.clone().with_until(200.0), vec!["s1-1"]),
        (any.clone().with_author("bot"), vec!["s1-2"]),
        (any.clone().with_session("s2"), vec!["s2-1"]),
        (any.clone().with_kind(MemoryKind::Direct), vec![]),
        (
            any.clone().with_origins([OriginKind::Person]),
            vec!["s1-1", "s2-1"],
        ),
        (any.clone().with_metadata(metadata), vec!["s2-1"]),
    ] {
        let search = MemoryQuery::new("apples").with_filter(filter.clone());
        assert_eq!(hit_ids(&memory, search).await, expected, "{filter:?}");
        let list = ListMemories::default().with_filter(filter);
        let page = memory.list("app", "ada", list).await.unwrap();
        let mut listed: Vec<&str> = page.memories.iter().map(|it| it.info.id.as_str()).collect();
        listed.sort_unstable();
        assert_eq!(listed, expected);
    }
}

#[tokio::test]
async fn search_respects_limit_and_token_budget() {
    let (memory, _) = in_memory();
    let short = "apples".to_owned();
    let long = format!("apples {}", "filler ".repeat(200));
    let texts = [&short, &long, &short, &short].map(|text| Event::user_text(text.as_str()));
    memory
        .add_session_to_memory(&session_with("s1", texts.to_vec()))
        .await
        .unwrap();
    let search = || MemoryQuery::new("apples");
    assert!(hit_ids(&memory, search().with_limit(2)).await.len() <= 2);
    assert!(hit_ids(&memory, search().with_limit(0)).await.is_empty());
    // A budget that is too small for the long message still suffices for short ones.
    let fits = hit_ids(&memory, search().with_token_budget(4)).await;
    assert!(
        !fits.is_empty() && !fits.contains(&"s1-2".to_owned()),
        "{fits:?}"
    );
    assert!(
        hit_ids(&memory, search().with_token_budget(1))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn list_pages_cover_all_memories_in_order() {
    let (memory, _) = in_memory();
    let texts = (0..1203)
        .map(|n| Event::user_text(format!("text {n}")))
        .collect();
    memory
        .add_session_to_memory(&session_with("s1", texts))
        .await
        .unwrap();
    for limit in [1203, 100, 401, 2000] {
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let mut list = ListMemories::default().with_limit(limit);
            list.after = after;
            let page = memory.list("app", "ada", list).await.unwrap();
            assert!(page.memories.len() <= limit);
            seen.extend(page.memories.into_iter().map(|it| it.info.position));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, (1..=1203).collect::<Vec<u64>>(), "{limit}");
    }
}

#[tokio::test]
async fn forgotten_memory_is_removed_from_the_index_at_once() {
    let (memory, _) = in_memory();
    let texts = (0..50)
        .map(|n| Event::user_text(format!("apples {n}")))
        .collect();
    memory
        .add_session_to_memory(&session_with("s1", texts))
        .await
        .unwrap();
    assert_eq!(found_texts(&memory, "apples").await.len(), 10);
    let (_, full) = memory.cache_size();
    let receipt = memory.forget("app", "ada", Forget::session("s1")).await;
    assert_eq!(receipt.unwrap().memories, 50);
    let (_, empty) = memory.cache_size();
    assert!(empty < full, "{empty} of {full} bytes are left");
    assert!(found_texts(&memory, "apples").await.is_empty());
}

#[tokio::test]
async fn index_cache_stays_within_its_size_limit() {
    let (memory, _) = in_memory();
    let memory = memory.with_cache_bytes(1);
    for user in ["ada", "grace", "hedy"] {
        let mut session = session_with("s1", vec![Event::user_text("apples")]);
        session.user_id = user.to_owned();
        memory.add_session_to_memory(&session).await.unwrap();
        let found = memory.search_memory("app", user, "apples").await.unwrap();
        assert_eq!(found.memories.len(), 1);
        assert_eq!(memory.cache_size().0, 1);
    }
}

/// Adds a session of this many events and returns whether a search gets its index.
async fn can_search(memory: &InMemory, user: &str, events: usize) -> Result<(), MemoryError> {
    let texts = (0..events).map(|number| Event::user_text(format!("apples {number}")));
    let mut session = session_with("s1", texts.collect());
    session.user_id = user.to_owned();
    memory.add_session_to_memory(&session).await.unwrap();
    memory.search_memory("app", user, "apples").await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn indexes_count_against_the_budget_and_requests_evict_them() {
    let budget = ByteBudget::new(4_000_000);
    let (memory, _) = in_memory();
    let memory = memory.with_byte_budget(&budget);
    for user in ["ada", "grace"] {
        can_search(&memory, user, 200).await.unwrap();
    }
    let (count, bytes) = memory.cache_size();
    assert_eq!(
        (count, budget.used_for(BudgetUse::MemoryIndexes)),
        (2, bytes)
    );
    // An index that does not fit into half of the budget is not built.
    let refused = can_search(&memory, "hedy", 3000).await;
    assert!(
        matches!(refused, Err(MemoryError::OverBudget(_))),
        "{refused:?}"
    );
    assert!(budget.used() <= 2_000_000, "{budget:?}");
    can_search(&memory, "ada", 200).await.unwrap();
    let request = budget.try_reserve(BudgetUse::Requests, 3_990_000);
    assert!(request.is_ok() && memory.cache_size().0 == 0);
    drop(request);
    can_search(&memory, "ada", 200).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn index_follows_changes_by_another_service() {
    let store = InMemoryMemoryStore::default();
    let one = StoreMemoryService::over(store.clone());
    let two = StoreMemoryService::over(store);
    let session = |n: usize| session_with(&format!("s{n}"), vec![Event::user_text("apples")]);
    for round in 0..30 {
        one.add_session_to_memory(&session(round)).await.unwrap();
        let list = || ListMemories::default();
        let stored = one.list("app", "ada", list()).await.unwrap().memories.len();
        let search = MemoryQuery::new("apples").with_limit(100);
        let found = two
            .search_memory_with("app", "ada", search.clone())
            .await
            .unwrap();
        // A hit also represents its near-duplicates.
        let represented: usize = found
            .iter()
            .map(|it| 1 + it.explanation.duplicates.len())
            .sum();
        assert_eq!(represented, stored, "round {round}");
        if round % 3 == 2 {
            let forget = Forget::session(format!("s{}", round - 1));
            assert_eq!(one.forget("app", "ada", forget).await.unwrap().memories, 1);
        }
    }
}

#[tokio::test]
async fn word_forms_match_in_the_configured_language() {
    let (memory, _) = in_memory();
    let memory = memory.with_static_vectors(false);
    let session = session_with("s1", vec![Event::user_text("Die Katzen schliefen lange.")]);
    memory.add_session_to_memory(&session).await.unwrap();
    assert!(found_texts(&memory, "Katze").await.is_empty());
    let german = memory.with_language(Language::German);
    assert_eq!(found_texts(&german, "Katze").await.len(), 1);
    let none = german.with_language(Language::None);
    assert!(found_texts(&none, "Katze").await.is_empty());
}
