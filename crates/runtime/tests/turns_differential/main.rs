//! Whole turns, random ones: the same script on ADK's runner and on ours gives the same events,
//! requests and state.
//!
//! `RETAIN_SEED` repeats the script that a failure names, `RETAIN_CASES` says how many from there.

mod compare;
mod oracle;
mod play;
mod script;

use compare::{comparable, difference};
use retain_core::Json;
use retain_testkit::oracle::{is_long, setting};

/// Where the seeds of a normal run begin.
const SEED: u64 = 20_261_101;

/// How many failures are printed.
const SHOWN: usize = 5;

/// What a run must have met, and the words by which it is known in what happened.
const MET: [(&str, &str); 18] = [
    ("answers in pieces", r#""partial":true"#),
    ("calls that run together", r#"}},{"functionResponse""#),
    ("a value that grows", r#""response":{"size":2}"#),
    ("an unknown tool", "no tool with that name"),
    ("a tool that fails", r#""failed":"ValueError""#),
    ("a model that fails", r#""failed":"RuntimeError""#),
    ("a callback that fails", "a callback is broken"),
    ("the limit of model calls", "LlmCallsLimitExceededError"),
    ("an empty answer", "MODEL_RETURNED_NO_CONTENT"),
    (
        "a result that needs no words",
        r#""skipSummarization":true"#,
    ),
    ("a call that stays open", r##""longRunningToolIds":["#"##),
    ("a late answer", r#"{"late":"#),
    ("an answer around the agent", "From a callback."),
    ("an answer for a tool", r#"{"by":"callback"}"#),
    ("a changed request", "Changed."),
    ("a changed call", r#""changed""#),
    ("a static instruction", "BEGIN_SYSTEM_INSTRUCTION"),
    ("notes of a run", r#""trace":7"#),
];

/// How many scripts must have met each.
const MET_AT_LEAST: usize = 3;

#[tokio::test]
async fn turns_go_as_they_go_in_adk() {
    let seed = setting("RETAIN_SEED");
    let count = match (seed, is_long()) {
        (Some(_), _) => 1,
        (None, true) => 2000,
        (None, false) => 100,
    };
    let (seed, count) = (
        seed.unwrap_or(SEED),
        setting("RETAIN_CASES").unwrap_or(count),
    );
    println!("{count} scripts from seed {seed}");
    let scripts: Vec<Json> = (seed..seed + count).map(script::script).collect();
    let Some(theirs) = oracle::play_all(&scripts) else {
        return;
    };
    let mut failures = Vec::new();
    let mut met = [0; MET.len()];
    for ((seed, script), theirs) in (seed..).zip(&scripts).zip(&theirs) {
        let ours = comparable(&play::play(script).await);
        let text = ours.to_string();
        for (count, (_, words)) in met.iter_mut().zip(MET) {
            *count += usize::from(text.contains(words));
        }
        if let Some(difference) = difference(&ours, &comparable(theirs), "$") {
            failures.push(format!("seed {seed}: {difference}"));
        }
    }
    failures
        .iter()
        .take(SHOWN)
        .for_each(|it| println!("{it}\n"));
    assert!(failures.is_empty(), "{} scripts differ", failures.len());
    if setting("RETAIN_SEED").is_none() {
        for (count, (what, _)) in met.iter().zip(MET) {
            println!("{count:5} {what}");
            assert!(*count >= MET_AT_LEAST, "hardly any script has met {what}");
        }
    }
}
