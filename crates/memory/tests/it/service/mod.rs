//! The memory services on their stores.
//!
//! - `consistency`: two services on one database give equal results
//! - `counting_store`: a store that counts reads, and tests of how often a service reads an index
//! - `disk`: sizes of files, and their contents after an erasure
//! - `embedders`, `embedding`: failing and changing embedders, embeddings in the background
//! - `explanation`, `search`: search options, filters, and the explanation of each hit
//! - `growth`: repeated ingestion of a growing session
//! - `limits`: limits, TTLs and repeated ids
//! - `promises`: the contract tests of `retain_testkit`, for each service and store
//! - `rebuild`, `refresh`: how an index follows its store
//! - `rules`: what is ingested, edited and forgotten
//! - `word_vectors`: searches by meaning

mod consistency;
mod counting_store;
mod disk;
mod embedders;
mod embedding;
mod explanation;
mod growth;
mod limits;
mod promises;
mod rebuild;
mod refresh;
mod rules;
mod search;
mod word_vectors;

use std::sync::Arc;

use retain_core::{Event, IngestReceipt, MemoryService, Session};
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

fn receipt(added: u64, replaced: u64, unchanged: u64) -> IngestReceipt {
    let mut receipt = IngestReceipt::default();
    (receipt.added, receipt.replaced, receipt.unchanged) = (added, replaced, unchanged);
    receipt
}

/// Returns the texts that a search by `ada` in `app` finds, best first.
async fn found_texts(memory: &dyn MemoryService, query: &str) -> Vec<String> {
    let found = memory.search_memory("app", "ada", query).await.unwrap();
    let texts = found.memories.iter();
    texts.map(|memory| memory.content.text_concat()).collect()
}

fn shared<S: MemoryService>(service: S) -> Arc<dyn MemoryService> {
    Arc::new(service)
}
