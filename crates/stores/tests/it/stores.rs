//! Opens each store for the tests, one function per store.

use std::sync::{Arc, OnceLock};

use retain_stores::InMemoryStore;
use retain_testkit::{Harness, Persistence, SharedStore, TestClock};

/// Creates a harness of the in-memory store; all its instances share the store.
pub(crate) async fn in_memory() -> Harness {
    let store = OnceLock::new();
    Harness::new(Persistence::Volatile, move |clock: TestClock| {
        let new = || SharedStore::new(InMemoryStore::with_clock(Arc::new(clock)));
        std::future::ready(store.get_or_init(new).clone())
    })
    .await
}

/// Creates a harness of a separate database on a PostgreSQL server, dropped with the harness.
#[cfg(feature = "postgres")]
pub(crate) async fn postgres() -> Harness {
    use retain_stores::{PostgresOptions, PostgresStore};
    use retain_testkit::postgres::TestDatabase;

    let database = Arc::new(TestDatabase::new().await);
    Harness::new(Persistence::Durable, move |clock: TestClock| {
        let database = Arc::clone(&database);
        async move {
            let options = PostgresOptions::from_uri(&database.uri()).expect("a valid URI");
            let opened = PostgresStore::open(options.with_clock(Arc::new(clock))).await;
            opened.expect("a database")
        }
    })
    .await
}

/// Creates a harness of a separate SQLite file, deleted with the harness.
#[cfg(feature = "sqlite")]
pub(crate) async fn sqlite() -> Harness {
    use retain_stores::{SqliteOptions, SqliteStore};

    let folder = Arc::new(retain_testkit::scratch::folder());
    Harness::new(Persistence::Durable, move |clock: TestClock| {
        let folder = Arc::clone(&folder);
        async move {
            let options = SqliteOptions::file(folder.path().join("sessions.db"));
            // The tests close the store and do not simulate a power failure.
            let options = options.with_durability(retain_stores::Durability::Off);
            let opened = SqliteStore::open(options.with_clock(Arc::new(clock))).await;
            opened.expect("a database")
        }
    })
    .await
}

/// Creates a harness of SQLite without a file; all its instances share the store.
#[cfg(feature = "sqlite")]
pub(crate) async fn sqlite_in_memory() -> Harness {
    use retain_stores::{SqliteOptions, SqliteStore};

    let store = Arc::new(tokio::sync::OnceCell::new());
    Harness::new(Persistence::Volatile, move |clock: TestClock| {
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
