//! Finished runs are ingested automatically if the runner is configured to do so.

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

async fn found(memory: &dyn MemoryService, query: &str) -> Vec<String> {
    let found = memory.search_memory(APP, USER, query).await;
    let found = found.expect("the memory can be searched");
    let texts = found.memories.iter();
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
                // Neighboring entries may be found too, but must not rank higher.
                let mut texts = found(&memory, word).await;
                texts.truncate(2);
                texts.sort();
                let said = [format!("Note {word}!"), format!("Noted: {word}.")];
                let expected = if ingests { &said[..] } else { &[] };
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

/// How a memory service fails.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Fails,
    Panics,
    IsFull,
}

/// A memory service that fails a given number of times, may be slow, and counts its calls.
#[derive(Debug)]
struct Faulty {
    memory: StoreMemoryService<InMemoryMemoryStore>,
    fault: Fault,
    faults: AtomicUsize,
    calls: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    /// One permit allows the ingest of one session.
    gate: Semaphore,
}

impl Faulty {
    fn new(fault: Fault, faults: usize) -> Arc<Faulty> {
        Arc::new(Faulty {
            memory: StoreMemoryService::over(InMemoryMemoryStore::default()),
            fault,
            faults: AtomicUsize::new(faults),
            calls: AtomicUsize::default(),
            at_once: AtomicUsize::default(),
            most_at_once: AtomicUsize::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        })
    }

    /// A service that ingests nothing until the gate opens.
    fn closed() -> Arc<Faulty> {
        let memory = Faulty::new(Fault::Fails, 0);
        memory.gate.forget_permits(Semaphore::MAX_PERMITS);
        memory
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl MemoryService for Faulty {
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
            Fault::Panics => panic!("a memory of one's own"),
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

/// A runner that ingests after turns, and its sessions; the model answers `Noted.`
fn remembering(memory: &Arc<Faulty>, turns: usize) -> (Runner, InMemorySessionService) {
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

async fn say(runner: &Runner, session: &str, text: &str) {
    let run = runner.run(USER, Some(session), text).await.unwrap();
    run.answer().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_ingest_failure_is_retried() {
    for fault in [Fault::Fails, Fault::Panics] {
        let memory = Faulty::new(fault, 2);
        let (runner, _) = remembering(&memory, 1);
        say(&runner, SESSION, "Note swordfish!").await;
        assert!(runner.flush_memory().await.is_empty(), "{fault:?}");
        assert_eq!(memory.calls(), 3, "{fault:?}");
        assert!(!found(&*memory, "swordfish").await.is_empty(), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permanent_ingest_failure_is_reported_and_retried_with_the_next_run() {
    let cases = [
        (Fault::Fails, 3, "disk"),
        (Fault::Panics, 3, "of one's own"),
        (Fault::IsFull, 1, "MemoryLimits"),
    ];
    for (fault, tries, reason) in cases {
        let memory = Faulty::new(fault, tries);
        let (runner, _) = remembering(&memory, 2);
        say(&runner, SESSION, "Note swordfish!").await;
        let failures = runner.flush_memory().await;
        let [(key, error)] = failures.as_slice() else {
            panic!("{fault:?}: {failures:?}");
        };
        assert_eq!(key.id, SESSION);
        let told = format!("{error}: {:?}", std::error::Error::source(error));
        assert!(told.contains(reason), "{told}");
        assert_eq!(memory.calls(), tries, "{fault:?}");
        assert!(found(&*memory, "swordfish").await.is_empty());
        say(&runner, SESSION, "And marlin!").await;
        // A failure that was reported once is not reported again.
        assert!(runner.flush_memory().await.is_empty(), "{fault:?}");
        for word in ["swordfish", "marlin"] {
            assert!(!found(&*memory, word).await.is_empty(), "{fault:?}: {word}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_memory_service_limits_concurrent_ingests_and_loses_nothing() {
    const SESSIONS: usize = 20;
    let memory = Faulty::closed();
    let (runner, _) = remembering(&memory, 2 * SESSIONS);
    for number in 0..SESSIONS {
        // Two runs each: the second ends while the ingest of the first waits.
        say(
            &runner,
            &format!("s{number}"),
            &format!("Note word{number}x!"),
        )
        .await;
        say(
            &runner,
            &format!("s{number}"),
            &format!("And more{number}x!"),
        )
        .await;
    }
    memory.gate.add_permits(Semaphore::MAX_PERMITS);
    assert!(runner.flush_memory().await.is_empty());
    assert_eq!(memory.most_at_once.load(Ordering::SeqCst), 8);
    for number in 0..SESSIONS {
        for word in [format!("word{number}x"), format!("more{number}x")] {
            let texts = found(&*memory, &word).await;
            assert!(
                texts.iter().any(|it| it.contains(&word)),
                "{word}: {texts:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn user_erased_during_ingest_is_not_ingested() {
    let memory = Faulty::new(Fault::Fails, 1);
    memory.gate.forget_permits(Semaphore::MAX_PERMITS);
    let (runner, sessions) = remembering(&memory, 1);
    say(&runner, SESSION, "Note swordfish!").await;
    sessions.erase_user(APP, USER).await.unwrap();
    // The current attempt fails; the retry finds the session deleted.
    memory.gate.add_permits(Semaphore::MAX_PERMITS);
    assert!(runner.flush_memory().await.is_empty());
    assert!(found(&*memory, "swordfish").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn hanging_memory_service_times_out() {
    let memory = Faulty::closed();
    let (runner, _) = remembering(&memory, 1);
    say(&runner, SESSION, "Note swordfish!").await;
    let failures = runner.flush_memory().await;
    assert_eq!(failures.len(), 1);
}
