//! The memory services on their stores: the contract of all services, the behavior of this one, and
//! its data on disk.

mod agreeing;
mod counting;
mod disk;
mod embedders;
mod embedding;
mod explaining;
mod finding;
mod following;
mod growing;
mod limiting;
mod promises;
mod rebuilt;
mod rules;
mod word_vectors;

use std::sync::Arc;

use retain_core::{Event, MemoryService, Session};
use retain_memory::StoreMemoryService;
use retain_stores::{
    InMemoryMemoryStore, PostgresMemoryStore, PostgresOptions, PostgresStore, SqliteMemoryStore,
    SqliteOptions, SqliteStore,
};
use retain_testkit::{TestClock, TestIds, postgres::TestDatabase};

type InMemory = StoreMemoryService<InMemoryMemoryStore>;

/// Creates an in-memory service with a stopped clock.
fn in_memory() -> (InMemory, TestClock) {
    let clock = TestClock::default();
    let memory = StoreMemoryService::over(InMemoryMemoryStore::default())
        .with_clock(Arc::new(clock.clone()))
        .with_ids(Arc::new(TestIds::new("m")));
    (memory, clock)
}

async fn sqlite(path: &std::path::Path) -> SqliteMemoryStore {
    let store = SqliteStore::open(SqliteOptions::file(path)).await.unwrap();
    store.memory()
}

async fn postgres(database: &TestDatabase) -> PostgresMemoryStore {
    let options = PostgresOptions::from_uri(&database.uri()).unwrap();
    PostgresStore::open(options).await.unwrap().memory()
}

/// Creates a session of `ada` in `app` with these events, whose ids are `ID-1`, `ID-2`…
fn session_with(id: &str, events: Vec<Event>) -> Session {
    let mut session = Session::new("app", "ada", id);
    for (position, mut event) in (1..).zip(events) {
        event.id = format!("{id}-{position}");
        session.events.push(position, event);
    }
    session
}

async fn found(memory: &dyn MemoryService, query: &str) -> Vec<String> {
    let found = memory.search_memory("app", "ada", query).await.unwrap();
    let texts = found.memories.iter();
    texts.map(|memory| memory.content.text_concat()).collect()
}

fn shared<S: MemoryService>(service: S) -> Arc<dyn MemoryService> {
    Arc::new(service)
}
