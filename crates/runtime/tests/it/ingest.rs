//! A runner with `ingest_after_turns` ingests each finished run.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use retain_core::{
    MemoryError, MemoryService, SearchMemoryResponse, Session, SessionLog as _, SessionService,
};
use retain_memory::StoreMemoryService;
use retain_runtime::{LlmAgent, Runner, ScriptedModel};
use retain_stores::{InMemoryMemoryStore, InMemorySessionService};
use tokio::sync::Semaphore;

use crate::support::{APP, SESSION, USER, runner, services};

async fn search(memory: &dyn MemoryService, query: &str) -> Vec<String> {
    let response = memory.search_memory(APP, USER, query).await;
    let response = response.expect("a successful search");
    let texts = response.memories.iter();
    texts.map(|memory| memory.content.text_concat()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_runs_are_ingested() {
    for ingests in [true, false] {
        for (name, sessions) in services().await {
            let model = ScriptedModel::new("scripted")
                .reply("Noted: swordfish.")
                .reply("Noted: marlin.");
            let agent = LlmAgent::builder("clerk").model(model).build().unwrap();
            let memory = StoreMemoryService::over(InMemoryMemoryStore::default());
            let runner = runner(&sessions, agent)
                .memory_service(Arc::new(memory.clone()))
                .ingest_after_turns(ingests)
                .build()
                .unwrap();
            for word in ["swordfish", "marlin"] {
                let run = runner.run(USER, Some(SESSION), format!("Note {word}!"));
                run.await.unwrap().answer().await.unwrap();
                runner.flush_memory().await;
                // The search also returns neighboring entries, which must not rank higher.
                let mut texts = search(&memory, word).await;
                texts.truncate(2);
                texts.sort();
                let turn = [format!("Note {word}!"), format!("Noted: {word}.")];
                let expected = if ingests { &turn[..] } else { &[] };
                assert_eq!(texts, expected, "{name}");
            }
            runner.close().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runner_ingesting_without_a_memory_service_is_rejected() {
    let model = ScriptedModel::new("scripted");
    let agent = LlmAgent::builder("clerk").model(model).build().unwrap();
    let (_, sessions) = services().await.remove(0);
    let built = Runner::builder()
        .app_name(APP)
        .agent(agent)
        .session_service(sessions)
        .ingest_after_turns(true)
        .build();
    assert!(built.unwrap_err().to_string().contains("memory_service"));
}

/// The fault of a memory service.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Fails,
    Panics,
    IsFull,
}

/// A memory service that fails a given number of times, waits at a gate, and counts its calls.
#[derive(Debug)]
struct FaultyMemory {
    memory: StoreMemoryService<InMemoryMemoryStore>,
    fault: Fault,
    faults: AtomicUsize,
    calls: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    /// Each permit allows the ingest of one session.
    gate: Semaphore,
}

impl FaultyMemory {
    fn new(fault: Fault, faults: usize) -> Arc<FaultyMemory> {
        Arc::new(FaultyMemory {
            memory: StoreMemoryService::over(InMemoryMemoryStore::default()),
            fault,
            faults: AtomicUsize::new(faults),
            calls: AtomicUsize::default(),
            at_once: AtomicUsize::default(),
            most_at_once: AtomicUsize::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        })
    }

    /// Creates a service that ingests nothing until the gate opens.
    fn closed() -> Arc<FaultyMemory> {
        let memory = FaultyMemory::new(Fault::Fails, 0);
        memory.gate.forget_permits(Semaphore::MAX_PERMITS);
        memory
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl MemoryService for FaultyMemory {
    async fn add_session_to_memory(&self, session: &Session) -> Result<(), MemoryError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let at_once = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        self.gate.acquire().await.unwrap().forget();
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        let less = |left: usize| left.checked_sub(1);
        let faulty = self
            .faults
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        match self.fault {
            _ if faulty.is_err() => self.memory.add_session_to_memory(session).await,
            Fault::Fails => Err(MemoryError::backend("the disk is gone")),
            Fault::Panics => panic!("a bug in the memory"),
            Fault::IsFull => Err(MemoryError::LimitExceeded {
                what: "memories",
                limit: 1,
                found: 2,
            }),
        }
    }

    async fn search_memory(
        &self,
        app_name: &str,
        user_id: &str,
        query: &str,
    ) -> Result<SearchMemoryResponse, MemoryError> {
        self.memory.search_memory(app_name, user_id, query).await
    }
}

/// Creates a runner that ingests after each run, and its sessions. The model answers `Noted.`
fn ingesting_runner(memory: &Arc<FaultyMemory>, turns: usize) -> (Runner, InMemorySessionService) {
    let reply = |model: ScriptedModel, _| model.reply("Noted.");
    let model = (0..turns).fold(ScriptedModel::new("scripted"), reply);
    let agent = LlmAgent::builder("clerk").model(model).build().unwrap();
    let sessions = InMemorySessionService::default();
    let shared: Arc<dyn SessionService> = Arc::new(sessions.clone());
    let runner = runner(&shared, agent)
        .memory_service(Arc::clone(memory) as Arc<dyn MemoryService>)
        .ingest_after_turns(true)
        .build();
    (runner.unwrap(), sessions)
}

async fn run_turn(runner: &Runner, session: &str, text: &str) {
    let run = runner.run(USER, Some(session), text).await.unwrap();
    run.answer().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_ingest_failure_is_retried() {
    for fault in [Fault::Fails, Fault::Panics] {
        let memory = FaultyMemory::new(fault, 2);
        let (runner, _) = ingesting_runner(&memory, 1);
        run_turn(&runner, SESSION, "Note swordfish!").await;
        assert!(runner.flush_memory().await.is_empty(), "{fault:?}");
        assert_eq!(memory.calls(), 3, "{fault:?}");
        assert!(!search(&*memory, "swordfish").await.is_empty(), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permanent_ingest_failure_is_reported_and_retried_with_the_next_run() {
    let cases = [
        (Fault::Fails, 3, "disk"),
        (Fault::Panics, 3, "a bug in the memory"),
        (Fault::IsFull, 1, "MemoryLimits"),
    ];
    for (fault, tries, reason) in cases {
        let memory = FaultyMemory::new(fault, tries);
        let (runner, _) = ingesting_runner(&memory, 2);
        run_turn(&runner, SESSION, "Note swordfish!").await;
        let failures = runner.flush_memory().await;
        let [(key, error)] = failures.as_slice() else {
            panic!("{fault:?}: {failures:?}");
        };
        assert_eq!(key.id, SESSION);
        let text = format!("{error}: {:?}", std::error::Error::source(error));
        assert!(text.contains(reason), "{text}");
        assert_eq!(memory.calls(), tries, "{fault:?}");
        assert!(search(&*memory, "swordfish").await.is_empty());
        run_turn(&runner, SESSION, "And marlin!").await;
        // A failure is reported only once.
        assert!(runner.flush_memory().await.is_empty(), "{fault:?}");
        for word in ["swordfish", "marlin"] {
            assert!(
                !search(&*memory, word).await.is_empty(),
                "{fault:?}: {word}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_memory_service_limits_concurrent_ingests_and_loses_nothing() {
    const SESSIONS: usize = 20;
    let memory = FaultyMemory::closed();
    let (runner, _) = ingesting_runner(&memory, 2 * SESSIONS);
    for number in 0..SESSIONS {
        // Each session has two runs: the second ends while the ingest of the first waits.
        run_turn(
            &runner,
            &format!("s{number}"),
            &format!("Note word{number}x!"),
        )
        .await;
        run_turn(
            &runner,
            &format!("s{number}"),
            &format!("And more{number}x!"),
        )
        .await;
    }
    while memory.most_at_once.load(Ordering::SeqCst) < 8 {
        tokio::task::yield_now().await;
    }
    memory.gate.add_permits(Semaphore::MAX_PERMITS);
    assert!(runner.flush_memory().await.is_empty());
    assert_eq!(memory.most_at_once.load(Ordering::SeqCst), 8);
    for number in 0..SESSIONS {
        for word in [format!("word{number}x"), format!("more{number}x")] {
            let texts = search(&*memory, &word).await;
            assert!(
                texts.iter().any(|it| it.contains(&word)),
                "{word}: {texts:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn user_erased_during_ingest_is_not_ingested() {
    let memory = FaultyMemory::new(Fault::Fails, 1);
    memory.gate.forget_permits(Semaphore::MAX_PERMITS);
    let (runner, sessions) = ingesting_runner(&memory, 1);
    run_turn(&runner, SESSION, "Note swordfish!").await;
    sessions.erase_user(APP, USER).await.unwrap();
    // The current attempt fails. The retry does not find the session, because it was deleted.
    memory.gate.add_permits(Semaphore::MAX_PERMITS);
    assert!(runner.flush_memory().await.is_empty());
    assert!(search(&*memory, "swordfish").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn hanging_memory_service_times_out() {
    let memory = FaultyMemory::closed();
    let (runner, _) = ingesting_runner(&memory, 1);
    run_turn(&runner, SESSION, "Note swordfish!").await;
    let failures = runner.flush_memory().await;
    assert_eq!(failures.len(), 1);
}
