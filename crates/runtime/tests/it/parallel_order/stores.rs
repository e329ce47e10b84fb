//! The stores for the cases. One of them answers late and from another thread.

use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use retain_core::{
    MemoryError, MemoryService, SearchMemoryResponse, Session, SessionService, StoreSessionService,
};
use retain_stores::{InMemoryStore, PostgresSessionService};
use retain_testkit::{
    oracle::setting,
    postgres::{self, TestDatabase},
    random::Random,
    wrapper::{StoreInterceptor, WrappedStore},
};
use tokio::runtime::Runtime;

use crate::support::services;

/// The maximum number of yields before a late answer, about as long as a few steps of a run.
const YIELDS_END: u64 = 200;

/// An empty store.
#[derive(Debug)]
pub(super) struct TestStore {
    pub(super) name: String,
    pub(super) sessions: Arc<dyn SessionService>,
    /// A memory service whose searches find nothing.
    pub(super) memory: Arc<dyn MemoryService>,
    /// Keeps the database alive as long as the store is used.
    _database: Option<TestDatabase>,
}

/// Opens every store. Without a PostgreSQL server, records a skip and opens the others.
pub(super) async fn open_stores() -> Vec<TestStore> {
    let seed = setting("RETAIN_SEED").unwrap_or(16);
    let late = LateAnswers(Arc::new(Mutex::new(Random::new(seed))));
    let wrapped = WrappedStore::with(InMemoryStore::default(), late.clone());
    let sessions: Arc<dyn SessionService> = Arc::new(StoreSessionService::over(wrapped));
    let mut stores = services().await;
    stores.push(("late in memory", sessions));
    let open = |(name, sessions): (&str, _)| TestStore {
        name: format!("{name}, seed {seed}"),
        sessions,
        memory: Arc::new(late.clone()),
        _database: None,
    };
    let mut stores: Vec<_> = stores.into_iter().map(open).collect();
    if postgres::is_there() {
        let database = TestDatabase::new().await;
        let sessions = PostgresSessionService::connect(&database.uri()).await;
        let sessions: Arc<dyn SessionService> = Arc::new(sessions.unwrap());
        stores.push(TestStore {
            _database: Some(database),
            ..open(("PostgreSQL", sessions))
        });
    }
    stores
}

/// Delays each answer of a store or memory service by a random number of yields on another thread.
#[derive(Debug, Clone)]
struct LateAnswers(Arc<Mutex<Random>>);

impl LateAnswers {
    async fn wait(&self) {
        /// The only thread of this runtime runs no agent.
        static OTHER_THREAD: LazyLock<Runtime> = LazyLock::new(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1).build().unwrap()
        });
        let yields = self.0.lock().unwrap().below(YIELDS_END);
        let answer = OTHER_THREAD.spawn(async move {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
        });
        answer.await.unwrap();
    }
}

impl StoreInterceptor for LateAnswers {
    fn before_answer(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.wait())
    }
}

#[async_trait]
impl MemoryService for LateAnswers {
    async fn add_session_to_memory(&self, _: &Session) -> Result<(), MemoryError> {
        self.wait().await;
        Ok(())
    }

    async fn search_memory(
        &self,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<SearchMemoryResponse, MemoryError> {
        self.wait().await;
        Ok(SearchMemoryResponse::default())
    }
}
