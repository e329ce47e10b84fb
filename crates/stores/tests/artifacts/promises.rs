//! Every artifact store keeps the same promises.

use std::sync::Arc;

use async_trait::async_trait;
use retain_core::{
    ArtifactAddress, ArtifactError, ArtifactNaming, ArtifactStore, ArtifactVersion, NewArtifact,
    StoredArtifact,
};
use retain_stores::{FileArtifactStore, InMemoryArtifactStore};
use retain_testkit::{ArtifactHarness, Persistence};

/// A store shared by several services.
#[derive(Debug, Clone)]
struct Shared(Arc<InMemoryArtifactStore>);

#[async_trait]
impl ArtifactStore for Shared {
    fn naming(&self) -> ArtifactNaming {
        self.0.naming()
    }

    async fn put(&self, place: &ArtifactAddress, new: NewArtifact) -> Result<u64, ArtifactError> {
        self.0.put(place, new).await
    }

    async fn get(
        &self,
        place: &ArtifactAddress,
        version: Option<u64>,
    ) -> Result<Option<StoredArtifact>, ArtifactError> {
        self.0.get(place, version).await
    }

    async fn versions(
        &self,
        place: &ArtifactAddress,
    ) -> Result<Vec<ArtifactVersion>, ArtifactError> {
        self.0.versions(place).await
    }

    async fn delete(&self, place: &ArtifactAddress) -> Result<(), ArtifactError> {
        self.0.delete(place).await
    }

    async fn list(
        &self,
        app: &str,
        user: &str,
        session: Option<&str>,
    ) -> Result<Vec<String>, ArtifactError> {
        self.0.list(app, user, session).await
    }

    async fn addresses(
        &self,
        after: Option<&ArtifactAddress>,
        limit: usize,
    ) -> Result<Vec<ArtifactAddress>, ArtifactError> {
        self.0.addresses(after, limit).await
    }
}

async fn in_memory_harness() -> ArtifactHarness {
    let store = Shared(Arc::default());
    ArtifactHarness::new(Persistence::Volatile, move || {
        std::future::ready(store.clone())
    })
    .await
}

/// A second service opens the folder as another process would.
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
            let options = PostgresOptions::from_uri(&database.uri()).expect("an address");
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
