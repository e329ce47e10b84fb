//! After any sequence of changes, a refreshed index has the same results as a rebuilt one.

use std::{sync::Arc, time::Duration};

use retain_core::{
    Content, Event, Forget, MemoryEntry, MemoryService as _, MemoryStore, MemoryUpdate,
};
use retain_memory::{IngestOptions, ListMemories, MemoryQuery, StoreMemoryService};
use retain_stores::InMemoryMemoryStore;
use retain_testkit::{
    TestClock, TestIds,
    postgres::{TestDatabase, is_there},
    random::Random,
};

use super::{postgres, session_with};

const WORDS: [&str; 16] = [
    "tea",
    "coffee",
    "violin",
    "plays",
    "played",
    "train",
    "yesterday",
    "Ada",
    "green",
    "kitten",
    "dog",
    "the",
    "what",
    "Hamburg",
    "東京",
    "👍",
];

fn text(random: &mut Random) -> String {
    let words = 1 + random.below(9);
    let words: Vec<&str> = (0..words).map(|_| random.pick(&WORDS)).collect();
    words.join(" ")
}

/// Returns the id, the score and the duplicates of each hit.
async fn search<S: MemoryStore>(
    memory: &StoreMemoryService<S>,
    query: &str,
) -> Vec<(String, u32, Vec<u64>)> {
    let search = MemoryQuery::new(query).with_limit(7);
    let found = memory.search_memory_with("app", "ada", search).await;
    let found = found.unwrap().into_iter();
    found
        .map(|it| (it.info.id, it.score.to_bits(), it.explanation.duplicates))
        .collect()
}

/// Returns the id of a random memory, if there is one.
async fn random_id<S: MemoryStore>(
    memory: &StoreMemoryService<S>,
    random: &mut Random,
) -> Option<String> {
    let list = ListMemories::default().with_limit(200);
    let page = memory.list("app", "ada", list).await.unwrap();
    let ids: Vec<String> = page.memories.into_iter().map(|it| it.info.id).collect();
    (!ids.is_empty()).then(|| random.pick(&ids))
}

/// Adds a session. The session may have been added before with fewer or more events, and its
/// memories may expire.
async fn add_session<S: MemoryStore>(memory: &StoreMemoryService<S>, random: &mut Random) {
    let name = random.pick(&["a", "b", "c", "d"]);
    let turns = 1 + random.below(12);
    let mut texts = Random::new(name.len() as u64 + u64::from(name.as_bytes()[0]));
    let events =
        (0..turns).map(|_| Event::model_text(random.pick(&["Ada", "bot"]), text(&mut texts)));
    let session = session_with(name, events.collect());
    let mut options = IngestOptions::default();
    options.ttl = random
        .chance(30)
        .then(|| Duration::from_secs(random.below(40)));
    memory.add_session_with(&session, &options).await.unwrap();
}

/// Runs a random operation.
async fn run_operation<S: MemoryStore>(
    memory: &StoreMemoryService<S>,
    clock: &TestClock,
    random: &mut Random,
) {
    match random.below(10) {
        0..=3 => add_session(memory, random).await,
        4 => {
            let entry = MemoryEntry {
                content: Content::user(text(random)),
                ..MemoryEntry::default()
            };
            memory
                .add_memory("app", "ada", &[entry], None)
                .await
                .unwrap();
        }
        5 | 6 => {
            if let Some(id) = random_id(memory, random).await {
                let update = MemoryUpdate::default().with_content(Content::user(text(random)));
                memory.update("app", "ada", &id, update).await.unwrap();
            }
        }
        7 => {
            let id = random_id(memory, random).await;
            memory
                .delete_memory("app", "ada", id.as_deref())
                .await
                .unwrap();
        }
        8 => {
            let forget = Forget::session(random.pick(&["a", "b", "c", "d"]));
            memory.forget("app", "ada", forget).await.unwrap();
        }
        _ => {
            clock.tick(Duration::from_secs(random.below(30)));
            if random.chance(50) {
                memory.expire().await.unwrap();
            }
        }
    }
}

/// Runs random operations on `store` and asserts after each that the refreshed index has the same
/// results as a new one.
async fn assert_refresh_equals_rebuild<S: MemoryStore + Clone>(store: S, seed: u64) {
    let mut random = Random::new(seed);
    let clock = TestClock::default();
    let service = || StoreMemoryService::over(store.clone()).with_clock(Arc::new(clock.clone()));
    let memory = service().with_ids(Arc::new(TestIds::new("m")));
    for step in 0..25 {
        run_operation(&memory, &clock, &mut random).await;
        let query = text(&mut random);
        let (refreshed, rebuilt) = (
            search(&memory, &query).await,
            search(&service(), &query).await,
        );
        assert_eq!(refreshed, rebuilt, "seed {seed}, step {step}, {query:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshed_index_equals_a_rebuilt_one() {
    for seed in 0..12 {
        assert_refresh_equals_rebuild(InMemoryMemoryStore::default(), seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshed_index_equals_a_rebuilt_one_on_postgres() {
    if !is_there() {
        return;
    }
    for seed in 12..15 {
        let database = TestDatabase::new().await;
        assert_refresh_equals_rebuild(postgres(&database).await, seed).await;
    }
}
