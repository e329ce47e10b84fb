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
use retain_core::{Limits, SessionLog, StoreSessionService, TransferStore};

use crate::clock::{TestClock, TestIds};

/// Whether what a store holds outlives its closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It does: promises close it and open it again.
    Durable,
    /// It does not: promises about opening again do not apply.
    Forgets,
}

/// What a service is told beside its store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What may be stored.
    pub limits: Limits,
    /// How long a run holds its session without a sign of life.
    pub run_ttl: Duration,
    /// How long sessions live after the last write.
    pub session_ttl: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            limits: Limits::default(),
            run_ttl: Duration::from_secs(30),
            session_ttl: None,
        }
    }
}

/// How many were made in this process.
static HARNESSES: AtomicU64 = AtomicU64::new(0);

type Open = Box<dyn Fn(Settings) -> BoxFuture<'static, Arc<dyn SessionLog>> + Send + Sync>;
type OpenStore = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn TransferStore>> + Send + Sync>;
type Another = Box<dyn Fn() -> BoxFuture<'static, Harness> + Send + Sync>;

/// One fresh store under test. Store and services share one clock and one source of ids.
pub struct Harness {
    /// The time, for store and services.
    pub clock: TestClock,
    durability: Durability,
    open: Open,
    open_store: OpenStore,
    service: Option<Arc<dyn SessionLog>>,
    another: Option<Another>,
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Harness");
        shown.field("service", &self.service).finish()
    }
}

impl Harness {
    /// A harness on what `open` gives. It is called once for each service, and each time must
    /// give a store on the same data, opened as another process would open it.
    pub async fn new<S, F, Opened>(durability: Durability, open: F) -> Harness
    where
        S: TransferStore,
        F: Fn(TestClock) -> Opened + Send + Sync + 'static,
        Opened: Future<Output = S> + Send + 'static,
    {
        let clock = TestClock::default();
        // Ids of two stores must differ, or a log moved from one to the other would meet its own.
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
                    .with_clock(clock)
                    .with_ids(ids)
                    .with_limits(settings.limits)
                    .with_run_ttl(settings.run_ttl);
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
            durability,
            open: Box::new(open),
            open_store: Box::new(open_store),
            service: Some(service),
            another: None,
        }
    }

    /// Says how a further, empty store of the same kind is made.
    pub fn with_another<F>(mut self, another: impl Fn() -> F + Send + Sync + 'static) -> Harness
    where
        F: Future<Output = Harness> + Send + 'static,
    {
        self.another = Some(Box::new(move || Box::pin(another())));
        self
    }

    /// A further store of the same kind, empty and with a clock of its own.
    pub async fn another(&self) -> Harness {
        let another = self.another.as_ref().expect("a way to make another store");
        another().await
    }

    /// The service that the promises talk to.
    pub fn service(&self) -> Arc<dyn SessionLog> {
        Arc::clone(self.service.as_ref().expect("open between two calls"))
    }

    /// The store itself, opened once more: for what no service does.
    pub async fn store(&self) -> Arc<dyn TransferStore> {
        (self.open_store)().await
    }

    /// Another service on the same data, as another process would have it.
    pub async fn second(&self) -> Arc<dyn SessionLog> {
        self.second_with(|_| ()).await
    }

    /// As [`second`](Self::second), with other settings.
    pub async fn second_with(&self, change: impl FnOnce(&mut Settings)) -> Arc<dyn SessionLog> {
        let mut settings = Settings::default();
        change(&mut settings);
        (self.open)(settings).await
    }

    /// Whether what is stored outlives [`reopen`](Self::reopen).
    pub fn is_durable(&self) -> bool {
        self.durability == Durability::Durable
    }

    /// Closes the service and opens the data again. The caller must have dropped every service.
    pub async fn reopen(&mut self) -> Arc<dyn SessionLog> {
        assert!(self.is_durable(), "this store forgets what it holds");
        if let Some(service) = self.service.take() {
            service.flush().await.expect("flush before closing");
        }
        self.service = Some((self.open)(Settings::default()).await);
        self.service()
    }
}
