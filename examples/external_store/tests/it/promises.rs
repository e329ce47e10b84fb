//! All session promises, each as a test of `JournalStore`. A store that cannot fulfill a promise
//! lists it with `except: [name = "reason"]`.

use std::sync::Arc;

use external_store::JournalStore;
use retain::testing::{Harness, Persistence, TestClock, scratch};

/// Creates a journal. The harness calls the closure for each service, which opens the same file
/// again as another process would.
async fn open() -> Harness {
    let folder = scratch::folder();
    Harness::new(Persistence::Durable, move |clock: TestClock| {
        let store = JournalStore::open(folder.path().join("sessions.jsonl"));
        let store = store.expect("a journal").with_clock(Arc::new(clock));
        std::future::ready(store)
    })
    .await
}

retain::testing::session_promises!(open());
