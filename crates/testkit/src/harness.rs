//! `Harness`: one fresh store under test, its clock, and the services on it.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use retain_core::{Limits, Quotas, SessionLog, StoreSessionService, TransferStore};

use crate::clock::{TestClock, TestIds};

/// Whether a store keeps its data after it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Data survives: promises close the store and reopen it.
    Durable,
    /// Data is lost: promises about reopening do not apply.
    Volatile,
}

/// The settings of a service, apart from its store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Limits on stored data.
    pub limits: Limits,
    /// How long a run keeps its lease without renewing it.
    pub run_ttl: Duration,
    /// How long a session lives after its last write.
    pub session_ttl: Option<Duration>,
    /// How much users and apps may store.
    pub quotas: Quotas,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            limits: Limits::default(),
            run_ttl: Duration::from_secs(30),
            session_ttl: None,
            quotas: Quotas::default(),
        }
    }
}

/// Number of harnesses created in this process.
static HARNESSES: AtomicU64 = AtomicU64::new(0);

type Open = Box<dyn Fn(Settings) -> BoxFuture<'static, Arc<dyn SessionLog>> + Send + Sync>;
type OpenStore = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn TransferStore>> + Send + Sync>;
type OpenAnother = Box<dyn Fn() -> BoxFuture<'static, Harness> + Send + Sync>;

/// One fresh store under test. Store and services share one clock and one source of ids.
pub struct Harness {
    /// The clock of the store and the services.
    pub clock: TestClock,
    persistence: Persistence,
    open: Open,
    open_store: OpenStore,
    service: Option<Arc<dyn SessionLog>>,
    another: Option<OpenAnother>,
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Harness");
        shown.field("service", &self.service).finish()
    }
}

impl Harness {
    /// Creates a harness. It calls `open` once for each service, and every call must open the same
    /// data the way another process would.
    pub async fn new<S, F, Opened>(persistence: Persistence, open: F) -> Harness
    where
        S: TransferStore,
        F: Fn(TestClock) -> Opened + Send + Sync + 'static,
        Opened: Future<Output = S> + Send + 'static,
    {
        let clock = TestClock::default();
        // Ids of two stores must differ, or a log moved between them would collide with itself.
        let number = HARNESSES.fetch_add(1, Ordering::SeqCst);
        let ids = TestIds::new(&format!("id-{number}-"));
        let time = clock.clone();
        let open = Arc::new(open);
        let (for_store, store_time) = (Arc::clone(&open), clock.clone());
        let open_store = move || -> BoxFuture<'static, Arc<dyn TransferStore>> {
            let opened = for_store(store_time.clone());
            Box::pin(async move {
                let store: Arc<dyn TransferStore> = Arc::new(opened.await);
                store
            })
        };
        let open = move |settings: Settings| -> BoxFuture<'static, Arc<dyn SessionLog>> {
            let (opened, clock, ids) = (open(time.clone()), time.clone(), ids.clone());
            Box::pin(async move {
                let service = StoreSessionService::over(opened.await)
                    .with_clock(Arc::new(clock))
                    .with_ids(Arc::new(ids))
                    .with_limits(settings.limits)
                    .with_run_ttl(settings.run_ttl)
                    .with_quotas(settings.quotas);
                let service: Arc<dyn SessionLog> = match settings.session_ttl {
                    Some(ttl) => Arc::new(service.with_session_ttl(ttl)),
                    None => Arc::new(service),
                };
                service
            })
        };
        let service = open(Settings::default()).await;
        Harness {
            clock,
            persistence,
            open: Box::new(open),
            open_store: Box::new(open_store),
            service: Some(service),
            another: None,
        }
    }

    /// Sets how to create another empty store of the same kind.
    pub fn with_another<F>(mut self, another: impl Fn() -> F + Send + Sync + 'static) -> Harness
    where
        F: Future<Output = Harness> + Send + 'static,
    {
        self.another = Some(Box::new(move || Box::pin(another())));
        self
    }

    /// Creates another store of the same kind, empty and with its own clock.
    pub async fn another(&self) -> Harness {
        let another = self.another.as_ref().expect("`with_another` was called");
        another().await
    }

    /// Returns the service under test.
    pub fn service(&self) -> Arc<dyn SessionLog> {
        Arc::clone(self.service.as_ref().expect("the service is open"))
    }

    /// Opens the store itself again, for operations that no service offers.
    pub async fn store(&self) -> Arc<dyn TransferStore> {
        (self.open_store)().await
    }

    /// Opens another service on the same data, as another process would open it.
    pub async fn second(&self) -> Arc<dyn SessionLog> {
        self.second_with(|_| ()).await
    }

    /// Like [`second`](Self::second), with different settings.
    pub async fn second_with(&self, change: impl FnOnce(&mut Settings)) -> Arc<dyn SessionLog> {
        let mut settings = Settings::default();
        change(&mut settings);
        (self.open)(settings).await
    }

    /// Whether stored data survives [`reopen`](Self::reopen).
    pub fn is_durable(&self) -> bool {
        self.persistence == Persistence::Durable
    }

    /// Closes the service and reopens the data. The caller must have dropped every service.
    pub async fn reopen(&mut self) -> Arc<dyn SessionLog> {
        assert!(self.is_durable(), "this store does not survive reopening");
        if let Some(service) = self.service.take() {
            service.flush().await.expect("flush before closing");
        }
        self.service = Some((self.open)(Settings::default()).await);
        self.service()
    }
}
