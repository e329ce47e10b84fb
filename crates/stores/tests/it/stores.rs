//! How each store is opened for the tests. One function a store.

use std::sync::{Arc, OnceLock};

use retain_stores::InMemoryStore;
use retain_testkit::{Durability, Harness, SharedStore, TestClock};

/// The store in memory. A second instance is a second service on the same one.
pub(crate) async fn in_memory() -> Harness {
    let store = OnceLock::new();
    Harness::new(Durability::Forgets, move |clock: TestClock| {
        let new = || SharedStore::new(InMemoryStore::with_clock(Arc::new(clock)));
        std::future::ready(store.get_or_init(new).clone())
    })
    .await
}

/// A database of its own on a PostgreSQL server, which goes with the test.
#[cfg(feature = "postgres")]
pub(crate) async fn postgres() -> Harness {
    use retain_stores::{PostgresOptions, PostgresStore};
    use retain_testkit::postgres::TestDatabase;

    let database = Arc::new(TestDatabase::new().await);
    Harness::new(Durability::Durable, move |clock: TestClock| {
        let database = Arc::clone(&database);
        async move {
            let options = PostgresOptions::from_uri(&database.uri()).expect("an address");
            let opened = PostgresStore::open(options.with_clock(Arc::new(clock))).await;
            opened.expect("a database")
        }
    })
    .await
}

/// A SQLite file of its own in a folder that goes with the test.
#[cfg(feature = "sqlite")]
pub(crate) async fn sqlite() -> Harness {
    use retain_stores::{SqliteOptions, SqliteStore};

    let folder = Arc::new(retain_testkit::scratch::folder());
    Harness::new(Durability::Durable, move |clock: TestClock| {
        let folder = Arc::clone(&folder);
        async move {
            let options = SqliteOptions::file(folder.path().join("sessions.db"));
            // The tests close the store, they do not cut the power.
            let options = options.with_durability(retain_stores::Durability::Off);
            let opened = SqliteStore::open(options.with_clock(Arc::new(clock))).await;
            opened.expect("a database")
        }
    })
    .await
}

/// SQLite without a file.
#[cfg(feature = "sqlite")]
pub(crate) async fn sqlite_in_memory() -> Harness {
    use retain_stores::{SqliteOptions, SqliteStore};

    let store = Arc::new(tokio::sync::OnceCell::new());
    Harness::new(Durability::Forgets, move |clock: TestClock| {
        let store = Arc::clone(&store);
        async move {
            let open = || async {
                let options = SqliteOptions::in_memory().with_clock(Arc::new(clock));
                let opened = SqliteStore::open(options).await;
                SharedStore::new(opened.expect("a database"))
            };
            store.get_or_init(open).await.clone()
        }
    })
    .await
}
