//! Search options on SQLite, and the explanation of each hit.

use std::sync::Arc;

use retain_core::{
    Content, Event, FunctionResponse, Json, JsonMap, MemoryFilter, MemoryKind, MemoryOrigin,
    MemoryService as _, OriginKind, Part,
};
use retain_memory::{
    IngestOptions, MemoryHit, MemoryQuery, StoreMemoryService,
    index::{Explanation, MatchPlace},
};
use retain_stores::SqliteMemoryStore;
use retain_testkit::TestClock;

use super::{session_with, sqlite};

type Memory = StoreMemoryService<SqliteMemoryStore>;

/// 2024-03-11, a Monday, at noon.
const MONDAY: f64 = 1_710_158_400.0;
const DAY: f64 = 86_400.0;

fn at_time(mut event: Event, timestamp: f64) -> Event {
    event.timestamp = timestamp;
    event
}

/// Adds a session on each of three days.
async fn add_sessions(memory: &Memory) {
    let monday = vec![
        at_time(
            Event::user_text("I prefer hotel rooms on high floors."),
            MONDAY,
        ),
        at_time(
            Event::model_text("concierge", "Noted, a high floor."),
            MONDAY + 5.0,
        ),
        at_time(Event::user_text("Breakfast can be early."), MONDAY + 10.0),
    ];
    let tuesday = vec![at_time(
        Event::user_text("My sister Clara plays the cello in an orchestra."),
        MONDAY + DAY,
    )];
    let friday = vec![at_time(
        Event::user_text("The hotel in Lisbon had noisy floors."),
        MONDAY + 4.0 * DAY,
    )];
    for (id, events) in [("monday", monday), ("tuesday", tuesday), ("friday", friday)] {
        let session = session_with(id, events);
        memory.add_session_to_memory(&session).await.unwrap();
    }
}

/// Creates a memory with the sessions of [`add_sessions`].
async fn memory_with_sessions() -> (Memory, tempfile::TempDir) {
    let folder = retain_testkit::scratch::folder();
    let store = sqlite(&folder.path().join("memory.db")).await;
    let memory = StoreMemoryService::over(store).with_clock(Arc::new(TestClock::default()));
    add_sessions(&memory).await;
    (memory, folder)
}

async fn search(memory: &Memory, query: MemoryQuery) -> Vec<MemoryHit> {
    let found = memory.search_memory_with("app", "ada", query).await;
    found.unwrap()
}

fn ids(found: &[MemoryHit]) -> Vec<&str> {
    found.iter().map(|it| it.info.id.as_str()).collect()
}

fn sum(it: &Explanation) -> f32 {
    let words = it.lexical + it.session + it.author;
    words + it.meaning + it.context + it.embedding + it.time
}

#[tokio::test(flavor = "multi_thread")]
async fn hit_explains_its_score_and_origin() {
    let (memory, _folder) = memory_with_sessions().await;
    let found = search(&memory, MemoryQuery::new("Which rooms on high floors?")).await;
    let best = &found[0];
    assert_eq!(best.info.id, "monday-1");
    assert_eq!(best.info.session.as_deref(), Some("monday"));
    assert_eq!(best.info.position, 1);
    assert_eq!(best.info.event_id.as_deref(), Some("monday-1"));
    assert_eq!(best.info.author.as_deref(), Some("user"));
    assert_eq!(best.info.origin, MemoryOrigin::Person);
    assert_eq!(best.info.kind, MemoryKind::Turn);
    assert_eq!(best.info.timestamp, MONDAY);
    assert_eq!(best.entry.timestamp.as_deref(), Some("2024-03-11T12:00:00"));
    let words = best.explanation.words.iter();
    let mut own: Vec<&str> = words
        .filter(|it| it.place == MatchPlace::Own)
        .map(|it| it.word.as_str())
        .collect();
    own.sort_unstable();
    assert_eq!(own, ["floors", "high", "rooms"]);
    for hit in &found {
        let (score, sum) = (hit.score, sum(&hit.explanation));
        assert!(
            (score - sum).abs() < 1e-3,
            "score {score}, sum of the signals {sum}: {hit:?}"
        );
        assert!((0.0..=1.0).contains(&score));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explanation_reports_neighbor_matches_and_time_score() {
    let (memory, _folder) = memory_with_sessions().await;
    let found = search(&memory, MemoryQuery::new("hotel rooms")).await;
    let near = found.iter().find(|it| it.info.id == "monday-2").unwrap();
    let places = near.explanation.words.iter().map(|it| it.place);
    assert!(places.clone().count() > 0 && places.into_iter().all(|it| it == MatchPlace::Near));

    let query = MemoryQuery::new("What did I say about the hotel yesterday?");
    let on_tuesday = search(&memory, query.clone().with_reference_time(MONDAY + DAY)).await;
    assert_eq!(on_tuesday[0].info.id, "monday-1");
    assert!(on_tuesday[0].explanation.time > 0.0);
    let on_saturday = search(&memory, query.with_reference_time(MONDAY + 5.0 * DAY)).await;
    assert_eq!(on_saturday[0].info.id, "friday-1");
    assert!(on_saturday[0].explanation.time > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn hits_below_min_score_are_dropped() {
    let (memory, _folder) = memory_with_sessions().await;
    let query = MemoryQuery::new("high floors in hotels");
    let all = search(&memory, query.clone()).await;
    let scores: Vec<f32> = all.iter().map(|it| it.score).collect();
    assert!(
        all.len() >= 3 && scores.is_sorted_by(|a, b| a >= b),
        "{scores:?}"
    );
    assert!(scores[0] > scores[2], "{scores:?}");
    for least in [scores[2], scores[1], scores[0]] {
        let found = search(&memory, query.clone().with_min_score(least)).await;
        let expected = scores.iter().filter(|it| **it >= least).count();
        assert_eq!(found.len(), expected, "{least} of {scores:?}");
    }
    assert!(search(&memory, query.with_min_score(1.0)).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_and_token_budget_keep_the_best_hits() {
    let (memory, _folder) = memory_with_sessions().await;
    let query = MemoryQuery::new("high floors in hotels");
    let all = search(&memory, query.clone()).await;
    for limit in 0..=all.len() {
        let found = search(&memory, query.clone().with_limit(limit)).await;
        assert_eq!(ids(&found), ids(&all[..limit]));
    }
    // Nine tokens are 36 bytes, the length of the first message of Monday.
    let first = all[0].entry.content.text_concat();
    assert_eq!(first.len(), 36);
    let found = search(&memory, query.clone().with_token_budget(9)).await;
    assert_eq!(ids(&found), ["monday-1"]);
    let found = search(&memory, query.with_token_budget(8)).await;
    let bytes: usize = found
        .iter()
        .map(|it| it.entry.content.text_concat().len())
        .sum();
    assert!(!ids(&found).contains(&"monday-1") && bytes <= 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn search_returns_only_hits_that_match_the_filter() {
    let (memory, _folder) = memory_with_sessions().await;
    let query =
        |filter: MemoryFilter| MemoryQuery::new("high floors in hotels").with_filter(filter);
    let any = MemoryFilter::default;
    let later = any().with_since(MONDAY + DAY);
    assert_eq!(ids(&search(&memory, query(later)).await), ["friday-1"]);
    let range = any().with_since(MONDAY + 5.0).with_until(MONDAY + 10.0);
    assert_eq!(ids(&search(&memory, query(range)).await), ["monday-2"]);
    let agents = any().with_origins([OriginKind::Agent]);
    assert_eq!(ids(&search(&memory, query(agents)).await), ["monday-2"]);
    let friday = any().with_session("friday");
    assert_eq!(ids(&search(&memory, query(friday)).await), ["friday-1"]);
    let unknown_author = any().with_author("eve");
    assert!(search(&memory, query(unknown_author)).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_responses_can_be_filtered_out() {
    let (memory, _folder) = memory_with_sessions().await;
    let text = Json::from("Hotels with high floors are closed.");
    let answer = JsonMap::from([("text", text)]);
    let part = Part {
        function_response: Some(FunctionResponse::new("call-1", "web_search", answer)),
        ..Part::default()
    };
    let mut event = Event::user_text("");
    event.response.content = Some(Content::new("user", vec![part]));
    let session = session_with("tools", vec![event]);
    let options = IngestOptions::default().with_tool_responses(true);
    memory.add_session_with(&session, &options).await.unwrap();
    let query = MemoryQuery::new("hotels with high floors");
    let found = search(&memory, query.clone()).await;
    let tool = found.iter().find(|it| it.info.id == "tools-1#0").unwrap();
    let name = "web_search".to_owned();
    assert_eq!(tool.info.origin, MemoryOrigin::Tool { name });
    assert_eq!(tool.info.author.as_deref(), Some("web_search"));
    // In ADK's form of the entry, the author shows that a tool wrote the text.
    assert_eq!(tool.entry.author.as_deref(), Some("web_search (tool)"));
    let people = MemoryFilter::default().with_origins([OriginKind::Person, OriginKind::Agent]);
    let found = search(&memory, query.with_filter(people)).await;
    assert!(found.len() >= 3 && !ids(&found).contains(&"tools-1#0"));
}
