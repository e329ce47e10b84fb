//! Runs the contract tests of `retain_testkit` on every service and store.

use std::sync::Arc;

use retain_core::{MemoryService, MemoryStore};
use retain_memory::{InMemoryMemoryService, StoreMemoryService, VectorMemoryService};
use retain_stores::InMemoryMemoryStore;
use retain_testkit::{
    memory::{MemoryHarness, MemoryStoreHarness, Sharing},
    postgres::{TestDatabase, is_there},
};

use super::{embedders::WordEmbedder, postgres, shared, sqlite};

/// Returns a database path in a folder that is deleted when its last handle is dropped.
fn file() -> (Arc<tempfile::TempDir>, std::path::PathBuf) {
    let folder = retain_testkit::scratch::folder();
    let path = folder.path().join("memory.db");
    (Arc::new(folder), path)
}

mod on_sqlite {
    use super::*;

    async fn harness() -> MemoryHarness {
        let (folder, path) = file();
        MemoryHarness::new(Sharing::Durable, move || {
            let (folder, path) = (Arc::clone(&folder), path.clone());
            async move {
                let _folder = folder;
                shared(StoreMemoryService::over(sqlite(&path).await))
            }
        })
    }

    retain_testkit::memory_promises!(harness());
}

mod on_sqlite_with_an_embedder {
    use super::*;

    async fn harness() -> MemoryHarness {
        let (folder, path) = file();
        MemoryHarness::new(Sharing::Durable, move || {
            let (folder, path) = (Arc::clone(&folder), path.clone());
            async move {
                let _folder = folder;
                let memory = StoreMemoryService::over(sqlite(&path).await);
                shared(memory.with_embedder(Arc::new(WordEmbedder::new("words"))))
            }
        })
    }

    retain_testkit::memory_promises!(harness());
}

mod on_postgres {
    use super::*;

    async fn harness() -> MemoryHarness {
        let database = Arc::new(TestDatabase::new().await);
        MemoryHarness::new(Sharing::Durable, move || {
            let database = Arc::clone(&database);
            async move { shared(StoreMemoryService::over(postgres(&database).await)) }
        })
    }

    retain_testkit::memory_promises!(harness(), needs: is_there());
}

mod in_memory_store {
    use super::*;

    async fn harness() -> MemoryHarness {
        let store = InMemoryMemoryStore::default();
        MemoryHarness::new(Sharing::Shared, move || {
            let memory = shared(StoreMemoryService::over(store.clone()));
            std::future::ready(memory)
        })
    }

    retain_testkit::memory_promises!(harness());
}

mod by_words {
    use super::*;

    async fn harness() -> MemoryHarness {
        MemoryHarness::new(Sharing::Alone, || {
            std::future::ready(shared(InMemoryMemoryService::new()))
        })
    }

    retain_testkit::memory_promises!(harness());
}

mod by_vectors {
    use super::*;

    async fn harness() -> MemoryHarness {
        MemoryHarness::new(Sharing::Alone, || {
            let embedder = Arc::new(WordEmbedder::new("words"));
            let memory: Arc<dyn MemoryService> = Arc::new(VectorMemoryService::new(embedder));
            std::future::ready(memory)
        })
    }

    retain_testkit::memory_promises!(harness());
}

mod store_on_sqlite {
    use super::*;

    async fn harness() -> MemoryStoreHarness {
        let (folder, path) = file();
        MemoryStoreHarness::new(move || {
            let (folder, path) = (Arc::clone(&folder), path.clone());
            async move {
                let _folder = folder;
                let store: Arc<dyn MemoryStore> = Arc::new(sqlite(&path).await);
                store
            }
        })
    }

    retain_testkit::memory_store_promises!(harness());
}

mod store_on_postgres {
    use super::*;

    async fn harness() -> MemoryStoreHarness {
        let database = Arc::new(TestDatabase::new().await);
        MemoryStoreHarness::new(move || {
            let database = Arc::clone(&database);
            async move {
                let store: Arc<dyn MemoryStore> = Arc::new(postgres(&database).await);
                store
            }
        })
    }

    retain_testkit::memory_store_promises!(harness(), needs: is_there());
}

mod store_in_memory {
    use super::*;

    async fn harness() -> MemoryStoreHarness {
        let store = InMemoryMemoryStore::default();
        MemoryStoreHarness::new(move || {
            let store: Arc<dyn MemoryStore> = Arc::new(store.clone());
            std::future::ready(store)
        })
    }

    retain_testkit::memory_store_promises!(harness());
}
