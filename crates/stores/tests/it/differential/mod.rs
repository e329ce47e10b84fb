//! Random session operations get the same answers from Retain as from Google's ADK.
//!
//! A rule in `compare` explains each intended difference and what ADK answers instead; any other
//! difference fails. A failure prints its seed: `RETAIN_SEED=7 RETAIN_SCRIPTS=1` runs it alone.

mod compare;
mod run;
mod script;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use compare::{Comparison, Rule, RuleCounts, Service};
use retain_core::{Json, JsonMap};
use retain_stores::{
    Durability, InMemorySessionService, SqliteOptions, SqliteSessionService, SqliteStore,
};
use retain_testkit::oracle::{Oracle, Reference, is_long, setting};
use run::{ScriptClock, ScriptIds, ScriptRunner};
use script::{Script, Step};

/// First seed of a normal run. The scripts of such a run use every rule.
const SEED: u64 = 20_260_731;
const SCRIPTS: u64 = 300;

#[tokio::test(flavor = "multi_thread")]
async fn session_services_answer_as_in_adk() {
    let count = if is_long() { 5000 } else { SCRIPTS };
    let count = setting("RETAIN_SCRIPTS").unwrap_or(count);
    let seed = setting("RETAIN_SEED").unwrap_or(SEED);
    println!("{count} scripts from seed {seed}");
    let scripts = (0..count).map(|n| Script::generate(seed + n));
    let scripts: Vec<Script> = scripts.chain([Script::recreated_session()]).collect();
    let Some(rules) = compare_all(&scripts).await else {
        return;
    };
    for rule in Rule::ALL {
        println!("{:8} {rule:?}", rules.get(*rule));
    }
    if seed == SEED && count >= SCRIPTS {
        let unused = |rule: &&Rule| rules.get(**rule) == 0;
        let unused: Vec<&Rule> = Rule::ALL.iter().filter(unused).collect();
        assert!(unused.is_empty(), "unused rules: {unused:?}");
    }
}

#[test]
fn every_rule_is_documented() {
    let docs: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs"]
        .iter()
        .collect();
    let text = std::fs::read_to_string(docs.join("differences-from-adk.md"));
    let text = text.expect("the differences are documented");
    for rule in Rule::ALL {
        assert!(text.contains(&format!("| {rule:?} |")), "{rule:?}");
    }
}

/// Runs the scripts on both sides and fails if an answer differs; `None` if ADK is not installed.
async fn compare_all(scripts: &[Script]) -> Option<RuleCounts> {
    let folder = retain_testkit::scratch::folder();
    let mut adk = Adk::start(folder.path())?;
    let services = open_services(folder.path()).await;
    let mut rules = RuleCounts::default();
    let mut failures = Vec::new();
    for script in scripts {
        let answers = adk.run(script);
        for (name, service) in &services {
            let outcomes = service.runner().run(script).await;
            for (adk, theirs) in Service::ALL.into_iter().zip(&answers) {
                let compared = Comparison::run(adk, script, &outcomes, theirs, &mut rules);
                if let Err(mismatch) = compared {
                    failures.push(describe(name, adk, script, &mismatch));
                }
            }
        }
    }
    adk.0.stop();
    for failure in failures.iter().take(5) {
        println!("\n{failure}");
    }
    assert!(failures.is_empty(), "{} differences", failures.len());
    Some(rules)
}

/// Describes a difference: the script up to it, and both answers.
fn describe(name: &str, adk: Service, script: &Script, mismatch: &compare::Mismatch) -> String {
    let seed = script.seed;
    let mut text = format!(
        "Retain {name} and ADK {}, RETAIN_SEED={seed} RETAIN_SCRIPTS=1\n{mismatch}\n",
        adk.name()
    );
    for (number, step) in script.steps.iter().enumerate().take(mismatch.op + 1) {
        text += &format!("  {number}: {}\n", step.to_json());
    }
    text
}

/// A session service of Retain, with the clock and ids that a script sets.
enum OurService {
    Memory(InMemorySessionService, ScriptClock, ScriptIds),
    Sqlite(SqliteSessionService, ScriptClock, ScriptIds),
}

impl OurService {
    fn runner(&self) -> ScriptRunner<'_> {
        match self {
            OurService::Memory(service, clock, ids) => ScriptRunner {
                service,
                clock: clock.clone(),
                ids: ids.clone(),
            },
            OurService::Sqlite(service, clock, ids) => ScriptRunner {
                service,
                clock: clock.clone(),
                ids: ids.clone(),
            },
        }
    }
}

async fn open_services(folder: &Path) -> [(&'static str, OurService); 2] {
    let (clock, ids) = (ScriptClock::default(), ScriptIds::default());
    let memory = InMemorySessionService::new()
        .with_clock(Arc::new(clock.clone()))
        .with_ids(Arc::new(ids.clone()));
    let memory = OurService::Memory(memory, clock, ids);
    let (clock, ids) = (ScriptClock::default(), ScriptIds::default());
    let options = SqliteOptions::file(folder.join("retain.db")).with_durability(Durability::Off);
    let store = SqliteStore::open(options).await.expect("a new database");
    let sqlite = SqliteSessionService::over(store)
        .with_clock(Arc::new(clock.clone()))
        .with_ids(Arc::new(ids.clone()));
    [
        ("memory", memory),
        ("sqlite", OurService::Sqlite(sqlite, clock, ids)),
    ]
}

/// A process that runs scripts on ADK.
struct Adk(Oracle);

impl Adk {
    /// Starts ADK; `None` if it is not installed.
    fn start(folder: &Path) -> Option<Adk> {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/it/differential/oracle.py"
        );
        let in_folder = |command: &mut Command| {
            command.env("TMPDIR", folder);
        };
        Oracle::start_with(Reference::Adk, "differential", script, in_folder).map(Adk)
    }

    /// Returns the answers of ADK's services, in the order of [`Service::ALL`].
    fn run(&mut self, script: &Script) -> Vec<Vec<Json>> {
        let steps: Vec<Json> = script.steps.iter().map(Step::to_json).collect();
        let mut request = JsonMap::new();
        request.insert("script", script.seed);
        request.insert("ops", steps);
        self.0.send(&request.into());
        let answers = Service::ALL.into_iter().map(|service| {
            let answer = self.0.answer();
            assert_eq!(answer["script"].as_u64(), Some(script.seed));
            assert_eq!(answer["service"], service.name());
            answer["results"].as_array().expect("results").to_vec()
        });
        answers.collect()
    }
}
