//! Runs the artifact contract tests of `retain_testkit` for every artifact store.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use std::sync::Arc;

use retain_stores::{FileArtifactStore, InMemoryArtifactStore};
use retain_testkit::{ArtifactHarness, Persistence};

async fn in_memory_harness() -> ArtifactHarness {
    let store = InMemoryArtifactStore::default();
    ArtifactHarness::new(Persistence::Volatile, move || {
        std::future::ready(store.clone())
    })
    .await
}

/// Creates a harness whose second service opens the folder as another process would.
async fn folder_harness() -> ArtifactHarness {
    let folder = retain_testkit::scratch::folder();
    ArtifactHarness::new(Persistence::Durable, move || {
        std::future::ready(FileArtifactStore::open(folder.path()).expect("a folder"))
    })
    .await
}

#[cfg(feature = "sqlite")]
async fn sqlite_harness() -> ArtifactHarness {
    use retain_stores::{SqliteOptions, SqliteStore};

    let folder = Arc::new(retain_testkit::scratch::folder());
    ArtifactHarness::new(Persistence::Durable, move || {
        let folder = Arc::clone(&folder);
        async move {
            let options = SqliteOptions::file(folder.path().join("sessions.db"));
            let options = options.with_durability(retain_stores::Durability::Off);
            let store = SqliteStore::open(options).await;
            store.expect("a database").artifacts()
        }
    })
    .await
}

#[cfg(feature = "postgres")]
async fn postgres_harness() -> ArtifactHarness {
    use retain_stores::{PostgresOptions, PostgresStore};
    use retain_testkit::postgres::TestDatabase;

    let database = Arc::new(TestDatabase::new().await);
    ArtifactHarness::new(Persistence::Durable, move || {
        let database = Arc::clone(&database);
        async move {
            let options = PostgresOptions::from_uri(&database.uri()).expect("a valid URI");
            let store = PostgresStore::open(options).await;
            store.expect("a database").artifacts()
        }
    })
    .await
}

mod in_memory {
    retain_testkit::artifact_promises!(super::in_memory_harness());
}

mod folder {
    retain_testkit::artifact_promises!(super::folder_harness());
}

#[cfg(feature = "postgres")]
mod postgres {
    retain_testkit::artifact_promises!(super::postgres_harness(),
        needs: retain_testkit::postgres::is_there());
}

#[cfg(feature = "sqlite")]
mod sqlite {
    retain_testkit::artifact_promises!(super::sqlite_harness());
}
