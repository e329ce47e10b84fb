//! The same random operations on our service and on Google's ADK find the same, to the byte.
//!
//! The seed of a failing script is printed: `RETAIN_SEED=7 RETAIN_SCRIPTS=1` runs it alone.

mod script;
mod texts;

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
};

use retain_core::{Event, Json, MemoryError, MemoryService as _};
use retain_memory::InMemoryMemoryService;
use retain_testkit::oracle::{adk_python, is_long, setting};
use script::{Op, Script};

const SEED: u64 = 20_260_801;
const SCRIPTS: u64 = 300;

#[tokio::test]
async fn searches_find_what_adk_finds() {
    let Some(python) = adk_python("memory parity") else {
        return;
    };
    let count = if is_long() { SCRIPTS * 10 } else { SCRIPTS };
    let count = setting("RETAIN_SCRIPTS").unwrap_or(count);
    let seed = setting("RETAIN_SEED").unwrap_or(SEED);
    println!("{count} scripts from seed {seed}");
    let mut adk = Adk::start(&python);
    let mut seen = Seen::default();
    for seed in seed..seed + count {
        let script = Script::generate(seed);
        let theirs = adk.run(&script);
        compare(&script, &theirs, &mut seen).await;
    }
    adk.stop();
    println!("{seen:?}");
    if count >= SCRIPTS {
        seen.must_be_telling();
    }
}

/// What the searches came upon: scripts in which nothing is found would prove nothing.
#[derive(Debug, Default)]
struct Seen {
    searches: u64,
    with_finds: u64,
    with_all_ten: u64,
}

impl Seen {
    fn count(&mut self, found: usize) {
        self.searches += 1;
        self.with_finds += u64::from(found > 0);
        self.with_all_ten += u64::from(found == 10);
    }

    fn must_be_telling(&self) {
        assert!(self.searches > 3000, "{self:?}");
        assert!(self.with_finds > self.searches / 4, "{self:?}");
        assert!(self.with_finds < self.searches * 19 / 20, "{self:?}");
        assert!(self.with_all_ten > self.searches / 50, "{self:?}");
    }
}

/// Plays the script on a service of ours, and fails at the first answer that is not theirs.
async fn compare(script: &Script, theirs: &[Json], seen: &mut Seen) {
    let memory = InMemoryMemoryService::new();
    assert_eq!(theirs.len(), script.ops.len());
    for (number, (op, theirs)) in script.ops.iter().zip(theirs).enumerate() {
        let ours = play(&memory, op, seen)
            .await
            .expect("nothing can fail here");
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
    seen: &mut Seen,
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
            seen.count(found.memories.len());
            return Ok(Some(
                found.to_json().expect("what was found can be written"),
            ));
        }
    }
    Ok(None)
}

/// A process that runs scripts on ADK.
struct Adk {
    process: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Adk {
    fn start(python: &Path) -> Adk {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let oracle: PathBuf = root.join("tests/it/parity").join("oracle.py");
        let mut process = Command::new(python)
            .arg(oracle)
            // ADK writes times in the zone of the machine; ours are always in this one.
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python can be started");
        let answers = process.stdout.take().expect("a pipe");
        let answers = BufReader::new(answers).lines();
        Adk { process, answers }
    }

    /// An answer for each operation.
    fn run(&mut self, script: &Script) -> Vec<Json> {
        let ops: Vec<Json> = script.ops.iter().map(Op::to_json).collect();
        let (seed, ops) = (script.seed, Json::from(ops));
        let input = self.process.stdin.as_mut().expect("a pipe");
        writeln!(input, "{{\"script\":{seed},\"ops\":{ops}}}").expect("the oracle reads");
        let line = self.answers.next().expect("the oracle answers");
        let answer = Json::parse(&line.expect("the oracle writes UTF-8"));
        let answer = answer.expect("the oracle writes JSON");
        assert_eq!(answer["script"].as_u64(), Some(seed));
        answer["results"].as_array().expect("results").to_vec()
    }

    fn stop(mut self) {
        drop(self.process.stdin.take());
        let status = self.process.wait().expect("the oracle ends");
        assert!(status.success(), "the oracle failed: {status}");
    }
}
