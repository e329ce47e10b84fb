//! Runs random operations on Retain's and on google-adk's `InMemoryMemoryService`: the results must
//! be equal, byte for byte.
//!
//! A failure prints the seed of its script: `RETAIN_SEED=7 RETAIN_SCRIPTS=1` runs that script
//! alone.

mod script;
mod texts;

use std::sync::Arc;

use retain_core::{Event, Json, JsonMap, MemoryError, MemoryService as _};
use retain_memory::InMemoryMemoryService;
use retain_testkit::oracle::{Oracle, Reference, is_long, setting};
use script::{Op, Script};

const SEED: u64 = 20_260_801;
const SCRIPTS: u64 = 300;

#[tokio::test]
async fn search_results_match_adk() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/parity/oracle.py");
    // ADK writes times in the machine's time zone; Retain always uses UTC.
    let started = Oracle::start_with(Reference::Adk, "memory parity", script, |command| {
        command.env("TZ", "UTC");
    });
    let Some(mut adk) = started else {
        return;
    };
    let count = if is_long() { SCRIPTS * 10 } else { SCRIPTS };
    let count = setting("RETAIN_SCRIPTS").unwrap_or(count);
    let seed = setting("RETAIN_SEED").unwrap_or(SEED);
    println!("{count} scripts from seed {seed}");
    let mut statistics = SearchStatistics::default();
    for seed in seed..seed + count {
        let script = Script::generate(seed);
        let theirs = run_on_adk(&mut adk, &script);
        compare(&script, &theirs, &mut statistics).await;
    }
    adk.stop();
    println!("{statistics:?}");
    if count >= SCRIPTS {
        statistics.assert_searches_are_representative();
    }
}

/// Search statistics, to assert that enough searches have hits: a search without hits proves
/// little.
#[derive(Debug, Default)]
struct SearchStatistics {
    searches: u64,
    with_hits: u64,
    with_ten_hits: u64,
}

impl SearchStatistics {
    fn count(&mut self, hits: usize) {
        self.searches += 1;
        self.with_hits += u64::from(hits > 0);
        self.with_ten_hits += u64::from(hits == 10);
    }

    fn assert_searches_are_representative(&self) {
        assert!(self.searches > 3000, "{self:?}");
        assert!(self.with_hits > self.searches / 4, "{self:?}");
        assert!(self.with_hits < self.searches * 19 / 20, "{self:?}");
        assert!(self.with_ten_hits > self.searches / 50, "{self:?}");
    }
}

/// Runs the script on Retain's service and fails at the first result that differs from ADK's.
async fn compare(script: &Script, theirs: &[Json], statistics: &mut SearchStatistics) {
    let memory = InMemoryMemoryService::new();
    assert_eq!(theirs.len(), script.ops.len());
    for (number, (op, theirs)) in script.ops.iter().zip(theirs).enumerate() {
        let ours = play(&memory, op, statistics)
            .await
            .expect("an in-memory operation succeeds");
        let theirs = theirs.as_str();
        if ours.as_deref() != theirs {
            for op in &script.ops[..=number] {
                println!("{}", op.to_json());
            }
            panic!(
                "RETAIN_SEED={} RETAIN_SCRIPTS=1, operation {number}\nours   {ours:?}\ntheirs {theirs:?}",
                script.seed
            );
        }
    }
}

async fn play(
    memory: &InMemoryMemoryService,
    op: &Op,
    statistics: &mut SearchStatistics,
) -> Result<Option<String>, MemoryError> {
    match op {
        Op::AddSession(session) => memory.add_session_to_memory(session).await?,
        Op::AddEvents {
            app,
            user,
            session,
            events,
        } => {
            let events: Vec<Arc<Event>> = events.iter().cloned().map(Arc::new).collect();
            let session = session.as_deref();
            memory
                .add_events_to_memory(app, user, &events, session, None)
                .await?;
        }
        Op::Delete { app, user, id } => memory.delete_memory(app, user, id.as_deref()).await?,
        Op::Search { app, user, query } => {
            let found = memory.search_memory(app, user, query).await?;
            statistics.count(found.memories.len());
            return Ok(Some(found.to_json().expect("a response can be written")));
        }
    }
    Ok(None)
}

/// Returns ADK's result of each operation.
fn run_on_adk(adk: &mut Oracle, script: &Script) -> Vec<Json> {
    let ops: Vec<Json> = script.ops.iter().map(Op::to_json).collect();
    let request = JsonMap::from([("script", Json::from(script.seed)), ("ops", ops.into())]);
    let answer = adk.ask(&request.into());
    assert_eq!(answer["script"].as_u64(), Some(script.seed));
    answer["results"].as_array().expect("results").to_vec()
}
