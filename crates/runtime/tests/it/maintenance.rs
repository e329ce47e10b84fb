//! Work that must follow runs is finished after a crash, once, and expired data is deleted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use retain_core::{
    Append, BoxError, Event, MemoryError, MemoryService, PendingWork, SearchMemoryResponse,
    Session, SessionKey, SessionLog, SessionService,
    budget::{BudgetUse, ByteBudget},
};
use retain_memory::{ListMemories, LongTermMemory, StoreMemoryService};
use retain_runtime::{
    CompactionConfig, EventSummarizer, FunctionTool, LlmAgent, LlmRequest, Maintenance, Runner,
    ScriptedModel, ScriptedReply, Summary, ToolContext, ToolError,
};
use retain_stores::{
    InMemorySessionService, InMemoryStore, PostgresOptions, PostgresStore, SqliteOptions,
    SqliteStore,
};
use retain_testkit::{
    TestClock,
    postgres::{TestDatabase, is_there},
    scratch,
};
use tokio::{runtime::Runtime, sync::Semaphore};

use crate::support::{APP, LeaseClock, SESSION, USER, call, runner, stored};

/// A database that several "processes" open one after another.
enum Database {
    Sqlite(tempfile::TempDir),
    Postgres(TestDatabase),
}

/// The services of one process.
struct Services {
    sessions: Arc<dyn SessionService>,
    memory: Arc<dyn LongTermMemory>,
}

impl Services {
    fn log(&self) -> Arc<dyn SessionLog> {
        Arc::clone(&self.sessions).log().unwrap()
    }

    /// Returns the texts of all memories of the user, sorted.
    async fn memories(&self) -> Vec<String> {
        let page = self.memory.list(APP, USER, ListMemories::default()).await;
        let memories = page.unwrap().memories.into_iter();
        let mut texts: Vec<String> = memories.map(|it| it.content.text_concat()).collect();
        texts.sort();
        texts
    }
}

impl Database {
    async fn all() -> Vec<Database> {
        let mut all = vec![Database::Sqlite(scratch::folder())];
        if is_there() {
            all.push(Database::Postgres(TestDatabase::new().await));
        }
        all
    }

    async fn open(&self, clock: &LeaseClock) -> Services {
        match self {
            Database::Sqlite(folder) => {
                let store = SqliteStore::open(
                    clock.options(SqliteOptions::file(folder.path().join("s.db"))),
                )
                .await
                .unwrap();
                let memory = Arc::new(StoreMemoryService::over(store.memory()));
                Services {
                    sessions: clock.wrap(store),
                    memory,
                }
            }
            Database::Postgres(database) => {
                let options = PostgresOptions::from_uri(&database.uri()).unwrap();
                let options = options.with_clock(Arc::new(clock.test_clock()));
                let store = PostgresStore::open(options).await.unwrap();
                let memory = Arc::new(StoreMemoryService::over(store.memory()));
                Services {
                    sessions: clock.wrap(store),
                    memory,
                }
            }
        }
    }
}

/// Where the ingestion of a process hangs until the process dies.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hang {
    BeforeIngestion,
    /// Everything is ingested, but the process dies before it records that.
    AfterIngestion,
}

#[derive(Debug)]
struct HangingMemory {
    memory: Arc<dyn LongTermMemory>,
    hang: Hang,
    reached: Semaphore,
}

#[async_trait]
impl MemoryService for HangingMemory {
    async fn add_session_to_memory(&self, session: &Session) -> Result<(), MemoryError> {
        if self.hang == Hang::AfterIngestion {
            self.memory.add_session_to_memory(session).await?;
        }
        self.reached.add_permits(1);
        std::future::pending().await
    }

    async fn search_memory(
        &self,
        app: &str,
        user: &str,
        query: &str,
    ) -> Result<SearchMemoryResponse, MemoryError> {
        self.memory.search_memory(app, user, query).await
    }
}

/// Calls a tool and then answers: four events per run, three of them with text.
fn worker() -> LlmAgent {
    let tool = FunctionTool::new("work", "Works.", |_: ToolContext, (): ()| async move {
        Ok::<_, ToolError>(serde_json::json!({"ok": true}))
    });
    let model = ScriptedModel::new("m").otherwise(|request: &LlmRequest| {
        let last = request.contents.last();
        let worked = last.is_some_and(|last| last.function_responses().next().is_some());
        match worked {
            true => ScriptedReply::from("It is done."),
            false => call("work", "{}").into(),
        }
    });
    let agent = LlmAgent::builder("worker").model(model).tool(tool);
    agent.build().unwrap()
}

fn ingesting(services: &Services, memory: Arc<dyn MemoryService>) -> Runner {
    let runner = runner(&services.sessions, worker()).memory_service(memory);
    let runner = runner.ingest_after_turns(true).idle_limit(Duration::ZERO);
    runner.build().unwrap()
}

/// Runs once and crashes after `taken` of the run's events; `None` lets the run end first.
fn crash_after(taken: Option<usize>, hang: Hang, database: &Database, clock: &LeaseClock) {
    let crashing = Runtime::new().unwrap();
    crashing.block_on(async {
        let services = database.open(clock).await;
        let memory = Arc::new(HangingMemory {
            memory: Arc::clone(&services.memory),
            hang,
            reached: Semaphore::new(0),
        });
        let runner = ingesting(&services, Arc::clone(&memory) as _);
        let mut run = runner
            .run(USER, Some(SESSION), "Please work.")
            .await
            .unwrap();
        match taken {
            Some(taken) => {
                for _ in 0..taken {
                    run.next().await.unwrap().unwrap();
                }
            }
            None => {
                while let Some(event) = run.next().await {
                    event.unwrap();
                }
                memory.reached.acquire().await.unwrap().forget();
            }
        }
        // A crash runs no cleanup code.
        std::mem::forget(run);
    });
    crashing.shutdown_background();
    clock.pass_ttl();
}

#[test]
fn acknowledged_events_are_in_memory_once_after_a_crash_at_any_step() {
    let outer = Runtime::new().unwrap();
    let mut cases: Vec<(Option<usize>, Hang)> = (0..=3)
        .map(|taken| (Some(taken), Hang::BeforeIngestion))
        .collect();
    cases.extend([(None, Hang::BeforeIngestion), (None, Hang::AfterIngestion)]);
    for (taken, hang) in cases {
        for database in outer.block_on(Database::all()) {
            let clock = LeaseClock::default();
            crash_after(taken, hang, &database, &clock);
            let next = Runtime::new().unwrap();
            next.block_on(async {
                let services = database.open(&clock).await;
                let session = stored(&services.sessions).await;
                let mut texts: Vec<String> = session
                    .events
                    .iter()
                    .filter_map(|event| Some(event.content()?.text_concat()))
                    .filter(|text| !text.is_empty())
                    .collect();
                texts.sort();
                let before = services.memories().await;
                assert_eq!(
                    before.is_empty(),
                    hang == Hang::BeforeIngestion,
                    "{taken:?}"
                );
                let runner = ingesting(&services, Arc::clone(&services.memory) as _);
                let maintenance = Maintenance::for_runner(&runner);
                let report = maintenance.run_once().await.unwrap();
                assert_eq!(
                    (report.finished, report.failures.len()),
                    (1, 0),
                    "{taken:?}"
                );
                assert_eq!(services.memories().await, texts, "{taken:?} {hang:?}");
                // Nothing is left to do.
                let report = maintenance.run_once().await.unwrap();
                assert_eq!(report.finished, 0, "{taken:?}");
                assert_eq!(maintenance.status().pending_sessions(), 0);
                assert_eq!(services.memories().await, texts, "{taken:?} {hang:?}");
            });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_without_a_crash_leaves_no_pending_work() {
    let clock = LeaseClock::default();
    for database in Database::all().await {
        let services = database.open(&clock).await;
        let runner = ingesting(&services, Arc::clone(&services.memory) as _);
        for _ in 0..2 {
            let run = runner
                .run(USER, Some(SESSION), "Please work.")
                .await
                .unwrap();
            run.collect_events().await.unwrap();
        }
        assert!(runner.flush_memory().await.is_empty());
        let log = services.log();
        let pending = log.maintenance().unwrap().pending_work(0, 10).await;
        assert_eq!(pending.unwrap(), []);
        assert_eq!(services.memories().await.len(), 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_and_cancelled_runs_are_ingested_too() {
    let clock = LeaseClock::default();
    let databases = Database::all().await;
    let services = databases[0].open(&clock).await;
    let model = ScriptedModel::new("m").reply(retain_runtime::ModelError::new("out of service"));
    let agent = LlmAgent::builder("worker").model(model).build().unwrap();
    let runner = runner(&services.sessions, agent)
        .memory_service(Arc::clone(&services.memory) as _)
        .ingest_after_turns(true)
        .build()
        .unwrap();
    let run = runner
        .run(USER, Some(SESSION), "Remember this.")
        .await
        .unwrap();
    assert!(run.answer().await.is_err());
    assert!(runner.flush_memory().await.is_empty());
    assert_eq!(services.memories().await, ["Remember this."]);
    let log = services.log();
    let pending = log.maintenance().unwrap().pending_work(0, 10).await;
    assert_eq!(pending.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_a_task_of_the_runner_is_doing_is_left_to_it() {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let entries = retain_stores::InMemoryMemoryStore::default();
    let memory = Arc::new(HangingMemory {
        memory: Arc::new(StoreMemoryService::over(entries)),
        hang: Hang::BeforeIngestion,
        reached: Semaphore::new(0),
    });
    let runner = runner(&sessions, worker())
        .memory_service(Arc::clone(&memory) as _)
        .ingest_after_turns(true)
        .build()
        .unwrap();
    let run = runner
        .run(USER, Some(SESSION), "Please work.")
        .await
        .unwrap();
    run.collect_events().await.unwrap();
    memory.reached.acquire().await.unwrap().forget();
    let maintenance = Maintenance::for_runner(&runner);
    let report = maintenance.run_once().await.unwrap();
    assert_eq!((report.finished, report.failures.len()), (0, 0));
    assert_eq!(maintenance.status().pending_sessions(), 1);
    assert_eq!(memory.reached.available_permits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_session_is_evicted_after_another_process_erased_its_user() {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let budget = ByteBudget::new(64 * 1024 * 1024);
    let runner = runner(&sessions, worker()).byte_budget(&budget);
    let runner = runner.build().unwrap();
    let run = runner.run(USER, Some(SESSION), "Please work.").await;
    run.unwrap().collect_events().await.unwrap();
    let maintenance = Maintenance::for_runner(&runner);
    maintenance.run_once().await.unwrap();
    assert!(
        budget.used_for(BudgetUse::Sessions) > 0,
        "the session stays"
    );
    let log = Arc::clone(&sessions).log().unwrap();
    log.erase_user(APP, USER).await.unwrap();
    maintenance.run_once().await.unwrap();
    assert_eq!(budget.used_for(BudgetUse::Sessions), 0);
}

/// A memory service that fails a number of times and counts its calls.
#[derive(Debug, Default)]
struct FailingMemory {
    failures_left: AtomicUsize,
    calls: AtomicUsize,
}

#[async_trait]
impl MemoryService for FailingMemory {
    async fn add_session_to_memory(&self, _: &Session) -> Result<(), MemoryError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let less = |left: usize| left.checked_sub(1);
        let left = &self.failures_left;
        match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => Err(MemoryError::invalid_input("memory", "is full")),
            Err(_) => Ok(()),
        }
    }

    async fn search_memory(
        &self,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<SearchMemoryResponse, MemoryError> {
        Ok(SearchMemoryResponse::default())
    }
}

/// Creates a session with an event that must be ingested.
async fn pending_session(log: &dyn SessionLog, app: &str, id: &str) -> SessionKey {
    let key = SessionKey::new(app, USER, id);
    log.create_session(app, USER, None, Some(id)).await.unwrap();
    let append = Append::from(Event::user_text("Hello.")).followed_by(PendingWork::INGESTION);
    log.append(&key, append).await.unwrap();
    key
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_work_stays_pending_and_is_tried_less_and_less_often() {
    let sessions = InMemorySessionService::new();
    pending_session(&sessions, APP, "s").await;
    let memory = Arc::new(FailingMemory::default());
    memory.failures_left.store(4, Ordering::SeqCst);
    let services: Arc<dyn SessionService> = Arc::new(sessions);
    let runner = runner(&services, worker()).memory_service(Arc::clone(&memory) as _);
    let maintenance = Maintenance::for_runner(&runner.build().unwrap());
    let mut tried = Vec::new();
    for run in 1..=20 {
        let calls = memory.calls.load(Ordering::SeqCst);
        let report = maintenance.run_once().await.unwrap();
        if memory.calls.load(Ordering::SeqCst) > calls {
            tried.push(run);
        }
        let is_done = tried.len() == 5;
        assert_eq!(maintenance.status().pending_sessions(), u64::from(!is_done));
        assert_eq!(maintenance.status().failed_sessions(), u64::from(!is_done));
        assert_eq!(
            report.finished,
            u64::from(is_done && tried.last() == Some(&run))
        );
    }
    assert_eq!(tried, [1, 2, 4, 8, 16]);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_an_app_without_a_runner_stays_pending_and_is_reported() {
    let sessions = Arc::new(InMemorySessionService::new());
    for (app, id) in [("gone", "s1"), ("gone", "s2"), (APP, "s3")] {
        pending_session(&*sessions, app, id).await;
    }
    let services: Arc<dyn SessionService> = Arc::clone(&sessions) as _;
    let runner = runner(&services, worker()).memory_service(Arc::new(FailingMemory::default()));
    let maintenance = Maintenance::for_runner(&runner.build().unwrap());
    let report = maintenance.run_once().await.unwrap();
    assert_eq!(report.finished, 1);
    assert_eq!(report.unserved, [("gone".to_owned(), 2)].into());
    assert_eq!(maintenance.status().pending_sessions(), 2);
}

/// A summarizer that waits for a permit.
#[derive(Debug)]
struct GatedSummarizer {
    calls: Semaphore,
    gate: Semaphore,
}

#[async_trait]
impl EventSummarizer for GatedSummarizer {
    async fn summarize(&self, events: &[Arc<Event>]) -> Result<Option<Summary>, BoxError> {
        self.calls.add_permits(1);
        self.gate.acquire().await?.forget();
        Ok(Some(format!("summary of {}", events.len()).into()))
    }
}

#[test]
fn summary_is_made_once_after_a_crash() {
    let clock = TestClock::default();
    let sessions: Arc<dyn SessionService> = Arc::new(retain_core::StoreSessionService::over(
        InMemoryStore::with_clock(Arc::new(clock.clone())),
    ));
    let compacting = |permits| {
        let summarizer = Arc::new(GatedSummarizer {
            calls: Semaphore::new(0),
            gate: Semaphore::new(permits),
        });
        let config = CompactionConfig::new()
            .with_sliding_window(1, 0)
            .with_summarizer(Arc::clone(&summarizer) as Arc<dyn EventSummarizer>);
        let runner = runner(&sessions, worker()).clock(Arc::new(retain_core::SystemClock));
        (runner.compaction(config).build().unwrap(), summarizer)
    };
    let crashing = Runtime::new().unwrap();
    crashing.block_on(async {
        let (runner, summarizer) = compacting(0);
        let run = runner
            .run(USER, Some(SESSION), "Please work.")
            .await
            .unwrap();
        run.collect_events().await.unwrap();
        summarizer.calls.acquire().await.unwrap().forget();
    });
    crashing.shutdown_background();
    Runtime::new().unwrap().block_on(async {
        let (runner, _) = compacting(10);
        let maintenance = Maintenance::for_runner(&runner);
        for finished in [1, 0] {
            assert_eq!(maintenance.run_once().await.unwrap().finished, finished);
            let session = stored(&sessions).await;
            let summaries = session.events.iter();
            let summaries = summaries.filter(|event| event.actions.compaction.is_some());
            assert_eq!(summaries.count(), 1);
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_at_a_time_does_maintenance_until_it_crashes() {
    let clock = TestClock::default();
    let store = InMemoryStore::with_clock(Arc::new(clock.clone()));
    let sessions = Arc::new(retain_core::StoreSessionService::over(store));
    pending_session(&*sessions, APP, "s").await;
    let services: Arc<dyn SessionService> = Arc::clone(&sessions) as _;
    let memory = Arc::new(HangingMemory {
        memory: Arc::new(StoreMemoryService::over(
            retain_stores::InMemoryMemoryStore::default(),
        )),
        hang: Hang::BeforeIngestion,
        reached: Semaphore::new(0),
    });
    let hanging = runner(&services, worker()).memory_service(Arc::clone(&memory) as _);
    let first = Maintenance::for_runner(&hanging.build().unwrap());
    let working = runner(&services, worker()).memory_service(Arc::new(FailingMemory::default()));
    let second = Maintenance::for_runner(&working.build().unwrap());
    {
        let mut first = Box::pin(first.run_once());
        tokio::select! {
            _ = &mut first => panic!("the ingestion hangs"),
            reached = memory.reached.acquire() => reached.unwrap().forget(),
        }
        assert!(second.run_once().await.unwrap().is_skipped);
    }
    // The first process is gone. Its lease expires.
    assert!(second.run_once().await.unwrap().is_skipped);
    clock.tick(Duration::from_secs(30));
    assert_eq!(second.run_once().await.unwrap().finished, 1);
    // A process that has finished does not block others.
    let other = Maintenance::new(Arc::clone(&sessions) as _);
    assert!(!other.run_once().await.unwrap().is_skipped);
}

#[tokio::test(start_paused = true)]
async fn maintenance_runs_periodically_until_its_task_is_dropped() {
    let sessions = Arc::new(InMemorySessionService::new());
    let maintenance = Arc::new(Maintenance::new(Arc::clone(&sessions) as _));
    let minutes = |count: u64| tokio::time::sleep(Duration::from_secs(60 * count));
    let task = Arc::clone(&maintenance).start(Duration::from_secs(60));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(maintenance.status().runs(), 1, "the first run comes soon");
    minutes(100).await;
    let runs = maintenance.status().runs();
    assert!((84..=126).contains(&runs), "{runs} runs in 100 minutes");
    drop(task);
    let runs = maintenance.status().runs();
    minutes(10).await;
    assert_eq!(maintenance.status().runs(), runs);
}
