//! Random whole turns: the same script on ADK's runner and on ours gives the same events, requests
//! and state, with one agent and with several.
//!
//! `RETAIN_SEED` sets the first seed, as a failure prints it; `RETAIN_CASES` sets the number of
//! scripts.

mod compare;
mod oracle;
mod parallel_agents;
mod play;
mod resuming;
mod rules;
mod script;
mod tree_play;
mod tree_script;
mod turns;

use compare::{comparable, difference};
use retain_core::Json;
use retain_testkit::oracle::{is_long, setting};
use rules::RuleUses;

/// First seed of a normal run.
const SEED: u64 = 20_261_101;

/// First seed of the scripts with several agents.
const TREE_SEED: u64 = 20_261_116;

/// Seeds of scripts with several agents that need rarely used rules.
const RARE: [u64; 3] = [37_000_260, 37_000_342, 37_000_406];

/// Seeds of scripts for resumable runners that need rarely used rules.
const RARE_RESUMABLE: [u64; 4] = [20_262_015, 20_262_252, 20_262_273, 20_262_329];

/// Number of failures printed.
const SHOWN: usize = 5;

/// The situations that a run must cover, each with the text that identifies it.
const MET: &[(&str, &str)] = &[
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

/// Minimum number of scripts that must cover each situation.
const MET_AT_LEAST: usize = 3;

/// The situations that a run with several agents must cover.
const TREE_MET: &[(&str, &str)] = &[
    ("a handing over", r#""transferToAgent":""#),
    ("a handing over to nobody", "which does not exist"),
    ("a handing over to itself", "cannot transfer to itself"),
    ("a forbidden handing over", "is not allowed to transfer"),
    ("a sequence", r#""kind":"sequential""#),
    ("a loop", r#""kind":"loop""#),
    ("a loop that is left", r#""escalate":true"#),
    ("agents side by side", r#""branch":""#),
    ("an agent as a tool", r#"{"request":"Help!"}"#),
    ("a model of the agent above", r#""ownModel":false"#),
    ("an agent without history", r#""includeContents":"none""#),
    ("a template of what another one said", "ann=ann says"),
    ("a question to a person", "Please approve or reject"),
    ("an approved call", r#"{"paid":"#),
    ("a rejected call", "This tool call is rejected."),
    ("a late answer", r#"{"late":"#),
    ("an answer around an agent", "From a callback."),
    ("a callback that fails", "a callback is broken"),
    ("a tool that fails", r#""errorMessage":"broken""#),
    ("a place in the tree", r#""nodeInfo":{"path":"ann@1/"#),
    (
        "a choice",
        r#"{"name":"get_user_choice","response":{"result":"that"}"#,
    ),
    (
        "a number that was asked for",
        r#"{"name":"adk_request_input","response":{"result":"that"}"#,
    ),
    (
        "an agent as a tool that is given a form",
        r#""args":{"topic":"ink""#,
    ),
    (
        "an agent as a tool that gives a form",
        r#""response":{"title":"T"#,
    ),
];

/// The situations that a resumable run with several agents must cover.
const RESUMABLE_MET: &[(&str, &str)] = &[
    (
        "a step of a sequence",
        r#""agentState":{"current_sub_agent":"#,
    ),
    ("a round of a loop", r#""times_looped":1"#),
    ("an agent that is done", r#""endOfAgent":true"#),
    ("a handing over", r#""transferToAgent":""#),
    ("agents side by side", r#""branch":""#),
    ("a late answer", r#"{"late":"#),
    ("an approved call", r#"{"paid":"#),
];

#[tokio::test]
async fn turns_match_adk() {
    let count = if is_long() { 2000 } else { 100 };
    let seeds = (SEED..SEED + count).collect();
    all_alike(seeds, script::script, play::play, MET).await;
}

#[tokio::test]
async fn turns_of_several_agents_match_adk() {
    let count = if is_long() { 2000 } else { 250 };
    let seeds = (TREE_SEED..TREE_SEED + count).chain(RARE).collect();
    let needed = all_alike(seeds, tree_script::script, tree_play::play, TREE_MET).await;
    if setting("RETAIN_SEED").is_none() && needed.scripts > 0 {
        needed.assert_all_were();
    }
}

#[tokio::test]
async fn resumable_turns_match_adk() {
    let count = if is_long() { 2000 } else { 100 };
    let seeds = (TREE_SEED..TREE_SEED + count).chain(RARE_RESUMABLE);
    let seeds = seeds.collect();
    let needed = all_alike(
        seeds,
        tree_script::resumable,
        tree_play::play,
        RESUMABLE_MET,
    )
    .await;
    if setting("RETAIN_SEED").is_none() && needed.scripts > 0 {
        needed.assert_all_of_resumable_were();
    }
}

async fn all_alike(
    mut seeds: Vec<u64>,
    script: impl Fn(u64) -> Json,
    play: impl AsyncFn(&Json) -> Json,
    situations: &[(&str, &str)],
) -> RuleUses {
    let given = setting("RETAIN_SEED");
    if let Some(seed) = given {
        seeds = (seed..seed + setting("RETAIN_CASES").unwrap_or(1)).collect();
    }
    println!("{} scripts from seed {}", seeds.len(), seeds[0]);
    let scripts: Vec<Json> = seeds.iter().copied().map(script).collect();
    let Some(theirs) = oracle::play_all(&scripts) else {
        return RuleUses::default();
    };
    let mut needed = RuleUses::default();
    let mut failures = Vec::new();
    let mut met = vec![0; situations.len()];
    for ((seed, script), theirs_told) in seeds.iter().zip(&scripts).zip(&theirs) {
        let played = play(script).await;
        let (ours, theirs) = needed.settle(script, &played, theirs_told);
        let ours = comparable(&ours);
        let text = format!("{ours} {} {}", played["stored"], script["tree"]);
        for (count, (_, words)) in met.iter_mut().zip(situations) {
            *count += usize::from(text.contains(words));
        }
        if given.is_some() {
            println!("script: {script}");
            println!(
                "Retain:{}ADK:{}",
                compare::brief(&played),
                compare::brief(theirs_told)
            );
        }
        if let Some(difference) = difference(&ours, &comparable(&theirs), "$") {
            failures.push(format!("seed {seed}: {difference}"));
        }
    }
    failures
        .iter()
        .take(SHOWN)
        .for_each(|it| println!("{it}\n"));
    assert!(failures.is_empty(), "{} scripts differ", failures.len());
    if given.is_none() {
        for (count, (what, _)) in met.iter().zip(situations) {
            println!("{count:5} {what}");
            assert!(*count >= MET_AT_LEAST, "hardly any script has met {what}");
        }
    }
    println!("{needed:?}");
    needed
}
