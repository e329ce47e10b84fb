//! Two services on one database, each with its own index, run random operations. After each
//! operation, both have the results of a newly opened service, and no search finds a forgotten
//! memory.

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use retain_core::{
    Content, Event, Forget, MemoryEntry, MemoryService as _, MemoryStore, MemoryUpdate, SessionLog,
};
use retain_memory::{IngestOptions, ListMemories, MemoryQuery, StoreMemoryService};
use retain_stores::{PostgresSessionService, SqliteSessionService};
use retain_testkit::{
    TestClock, TestIds,
    postgres::{TestDatabase, is_there},
    random::Random,
};

use super::session_with;

const WORDS: [&str; 6] = ["apples", "pears", "plums", "figs", "melons", "grapes"];

/// The memory service and the session service of one simulated process.
struct Process<S> {
    sessions: Arc<dyn SessionLog>,
    memory: StoreMemoryService<S>,
}

fn process<S: MemoryStore>(sessions: impl SessionLog, store: S, clock: &TestClock) -> Process<S> {
    let memory = StoreMemoryService::over(store)
        .with_clock(Arc::new(clock.clone()))
        // Use words only, so that every hit has a matching word.
        .with_static_vectors(false)
        .with_ids(Arc::new(TestIds::new("m")));
    Process {
        sessions: Arc::new(sessions),
        memory,
    }
}

/// Returns the ids and texts of all listed memories, and the ids of the hits for each word.
async fn visible_memories<S: MemoryStore>(
    memory: &StoreMemoryService<S>,
) -> (Vec<(String, String)>, Vec<BTreeSet<String>>) {
    let mut list = ListMemories::default().with_limit(7);
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        list.after = after;
        let page = memory.list("app", "ada", list.clone()).await.unwrap();
        let memories = page.memories.into_iter();
        listed.extend(memories.map(|it| (it.info.id, it.content.text_concat())));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut hits_by_word = Vec::new();
    for word in WORDS {
        let search = MemoryQuery::new(word).with_limit(1000);
        let hits = memory.search_memory_with("app", "ada", search).await;
        hits_by_word.push(hits.unwrap().into_iter().map(|it| it.info.id).collect());
    }
    (listed, hits_by_word)
}

fn text(random: &mut Random) -> String {
    format!("{} and {}", random.pick(&WORDS), random.pick(&WORDS))
}

/// Runs a random operation, and adds to `forgotten` the ids that must no longer be visible.
async fn run_operation<S: MemoryStore>(
    random: &mut Random,
    process: &Process<S>,
    clock: &TestClock,
    forgotten: &mut BTreeSet<String>,
) {
    let memory = &process.memory;
    let session = format!("s{}", random.below(3));
    let id = format!("{session}-{}", 1 + random.below(5));
    match random.below(100) {
        0..40 => {
            let count = 1 + random.below(5);
            let events = (0..count).map(|_| Event::user_text(text(random)));
            let session = session_with(&session, events.collect());
            let mut options = IngestOptions::default();
            options.ttl = random.chance(30).then_some(Duration::from_secs(20));
            memory.add_session_with(&session, &options).await.unwrap();
        }
        40..55 => {
            let given = MemoryEntry {
                content: Content::user(text(random)),
                id: Some(format!("g{}", random.below(3))),
                ..MemoryEntry::default()
            };
            let added = memory.add_memory("app", "ada", &[given], None).await;
            added.unwrap();
        }
        55..70 => {
            let update = MemoryUpdate::default().with_content(Content::user(text(random)));
            memory.update("app", "ada", &id, update).await.unwrap();
        }
        70..85 => {
            let ids = Forget::Ids(vec![id.clone()]);
            let receipt = memory.forget("app", "ada", ids).await.unwrap();
            if receipt.memories > 0 {
                forgotten.insert(id);
            }
        }
        85..90 => {
            let of_session = Forget::session(session);
            memory.forget("app", "ada", of_session).await.unwrap();
        }
        90..97 => clock.tick(Duration::from_secs(15)),
        _ => {
            process.sessions.erase_user("app", "ada").await.unwrap();
            forgotten.clear();
        }
    }
}

/// Checks that two processes on one store have equal results after each operation. `open` opens the
/// store in a new process.
async fn assert_consistent<S: MemoryStore, F>(seed: u64, clock: &TestClock, open: impl Fn() -> F)
where
    F: Future<Output = Process<S>>,
{
    let mut random = Random::new(seed);
    let processes = [open().await, open().await];
    let mut forgotten = BTreeSet::new();
    for number in 0..60 {
        let process = &processes[random.below(2) as usize];
        run_operation(&mut random, process, clock, &mut forgotten).await;
        let step = format!("seed {seed}, step {number}");
        let fresh = open().await;
        let expected = visible_memories(&fresh.memory).await;
        for process in &processes {
            assert_eq!(visible_memories(&process.memory).await, expected, "{step}");
        }
        let (listed, hits_by_word) = expected;
        let ids: BTreeSet<String> = listed.iter().map(|(id, _)| id.clone()).collect();
        assert_eq!(ids.len(), listed.len(), "{step}: {listed:?}");
        assert!(ids.is_disjoint(&forgotten), "{step}: {ids:?}");
        for (word, hits) in WORDS.iter().zip(hits_by_word) {
            let is_in_a_text = listed.iter().any(|(_, text)| text.contains(word));
            // Hits merge duplicates and include neighbors of a match, so they differ from the
            // memories that contain the word. Each hit must still be a listed memory.
            assert!(hits.is_subset(&ids), "{step}: {word}");
            assert_eq!(hits.is_empty(), !is_in_a_text, "{step}: {word}");
        }
        let counted = fresh.memory.statistics("app", "ada").await.unwrap();
        assert_eq!(counted.entries, ids.len() as u64, "{step}");
    }
    let problems = processes[0].sessions.check().await.unwrap();
    assert_eq!(problems, [], "seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_on_one_sqlite_file_have_equal_results_after_each_step() {
    for seed in [1, 2, 3] {
        let folder = retain_testkit::scratch::folder();
        let uri = format!("sqlite:///{}", folder.path().join("m.db").display());
        let clock = TestClock::default();
        assert_consistent(seed, &clock, || async {
            let sessions = SqliteSessionService::connect(&uri).await.unwrap();
            let store = sessions.store().memory();
            process(sessions, store, &clock)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_on_one_postgres_database_have_equal_results_after_each_step() {
    if !is_there() {
        return;
    }
    for seed in [4, 5] {
        let (database, clock) = (TestDatabase::new().await, TestClock::default());
        assert_consistent(seed, &clock, || async {
            let sessions = PostgresSessionService::connect(&database.uri()).await;
            let sessions = sessions.unwrap();
            let store = sessions.store().memory();
            process(sessions, store, &clock)
        })
        .await;
    }
}
