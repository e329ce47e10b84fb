//! Random turns: the same script gives the same events, requests and state on ADK's runner and on
//! Retain's, with one agent and with several.
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

/// First seed of the scripts with one agent.
const SEED: u64 = 20_261_101;

/// First seed of the scripts with several agents.
const TREE_SEED: u64 = 20_261_116;

/// Seeds of scripts with several agents that exercise rules which other scripts rarely exercise.
const RARE: [u64; 3] = [37_000_260, 37_000_342, 37_000_406];

/// Seeds of scripts for resumable runners that exercise rules which other scripts rarely exercise.
const RARE_RESUMABLE: [u64; 4] = [20_262_015, 20_262_252, 20_262_273, 20_262_329];

/// Maximum number of printed failures.
const PRINTED_MAX: usize = 5;

/// The situations that the scripts must cover, each with a text that occurs only in it.
const SITUATIONS: &[(&str, &str)] = &[
    ("partial answers", r#""partial":true"#),
    ("concurrent calls", r#"}},{"functionResponse""#),
    ("a value that grows", r#""response":{"size":2}"#),
    ("an unknown tool", "no tool with that name"),
    ("a tool that fails", r#""failed":"ValueError""#),
    ("a model that fails", r#""failed":"RuntimeError""#),
    ("a callback that fails", "a callback is broken"),
    (
        "a reached limit of model calls",
        "LlmCallsLimitExceededError",
    ),
    ("an empty answer", "MODEL_RETURNED_NO_CONTENT"),
    (
        "a result that is not summarized",
        r#""skipSummarization":true"#,
    ),
    ("a pending call", r##""longRunningToolIds":["#"##),
    ("a late answer", r#"{"late":"#),
    ("an answer of an agent callback", "From a callback."),
    ("an answer of a tool callback", r#"{"by":"callback"}"#),
    ("a changed request", "Changed."),
    ("a changed call", r#""changed""#),
    ("a static instruction", "BEGIN_SYSTEM_INSTRUCTION"),
    ("metadata of a run", r#""trace":7"#),
];

/// Minimum number of scripts that must cover each situation.
const SCRIPTS_MIN: usize = 3;

/// The situations that the scripts with several agents must cover.
const TREE_SITUATIONS: &[(&str, &str)] = &[
    ("a transfer", r#""transferToAgent":""#),
    ("a transfer to an unknown agent", "which does not exist"),
    ("a transfer to itself", "cannot transfer to itself"),
    ("a forbidden transfer", "is not allowed to transfer"),
    ("a sequence", r#""kind":"sequential""#),
    ("a loop", r#""kind":"loop""#),
    ("a loop that ends by escalation", r#""escalate":true"#),
    ("parallel agents", r#""branch":""#),
    ("an agent tool", r#"{"request":"Help!"}"#),
    ("an inherited model", r#""ownModel":false"#),
    ("an agent without history", r#""includeContents":"none""#),
    ("an instruction that quotes another agent", "ann=ann says"),
    ("a request for approval", "Please approve or reject"),
    ("an approved call", r#"{"paid":"#),
    ("a rejected call", "This tool call is rejected."),
    ("a late answer", r#"{"late":"#),
    ("an answer of an agent callback", "From a callback."),
    ("a callback that fails", "a callback is broken"),
    ("a tool that fails", r#""errorMessage":"broken""#),
    ("a node path", r#""nodeInfo":{"path":"ann@1/"#),
    (
        "a choice",
        r#"{"name":"get_user_choice","response":{"result":"that"}"#,
    ),
    (
        "a requested input",
        r#"{"name":"adk_request_input","response":{"result":"that"}"#,
    ),
    (
        "an agent tool with an input schema",
        r#""args":{"topic":"ink""#,
    ),
    (
        "an agent tool with an output schema",
        r#""response":{"title":"T"#,
    ),
];

/// The situations that the scripts for resumable runners must cover.
const RESUMABLE_SITUATIONS: &[(&str, &str)] = &[
    (
        "a step of a sequence",
        r#""agentState":{"current_sub_agent":"#,
    ),
    ("an iteration of a loop", r#""times_looped":1"#),
    ("an agent that is done", r#""endOfAgent":true"#),
    ("a transfer", r#""transferToAgent":""#),
    ("parallel agents", r#""branch":""#),
    ("a late answer", r#"{"late":"#),
    ("an approved call", r#"{"paid":"#),
];

#[tokio::test]
async fn turns_match_adk() {
    let count = if is_long() { 2000 } else { 100 };
    let seeds = (SEED..SEED + count).collect();
    assert_same_results(seeds, script::script, play::play, SITUATIONS).await;
}

#[tokio::test]
async fn turns_of_several_agents_match_adk() {
    let count = if is_long() { 2000 } else { 250 };
    let seeds = (TREE_SEED..TREE_SEED + count).chain(RARE).collect();
    let uses =
        assert_same_results(seeds, tree_script::script, tree_play::play, TREE_SITUATIONS).await;
    if setting("RETAIN_SEED").is_none() && uses.scripts > 0 {
        uses.assert_all_used();
    }
}

#[tokio::test]
async fn resumable_turns_match_adk() {
    let count = if is_long() { 2000 } else { 100 };
    let seeds = (TREE_SEED..TREE_SEED + count).chain(RARE_RESUMABLE);
    let seeds = seeds.collect();
    let uses = assert_same_results(
        seeds,
        tree_script::resumable_script,
        tree_play::play,
        RESUMABLE_SITUATIONS,
    )
    .await;
    if setting("RETAIN_SEED").is_none() && uses.scripts > 0 {
        uses.assert_resumable_used();
    }
}

async fn assert_same_results(
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
    let mut uses = RuleUses::default();
    let mut failures = Vec::new();
    let mut counts = vec![0; situations.len()];
    for ((seed, script), adk_result) in seeds.iter().zip(&scripts).zip(&theirs) {
        let played = play(script).await;
        let (ours, theirs) = uses.remove_allowed_differences(script, &played, adk_result);
        let ours = comparable(&ours);
        let text = format!("{ours} {} {}", played["stored"], script["tree"]);
        for (count, (_, words)) in counts.iter_mut().zip(situations) {
            *count += usize::from(text.contains(words));
        }
        if given.is_some() {
            println!("script: {script}");
            println!(
                "Retain:{}ADK:{}",
                compare::event_lines(&played),
                compare::event_lines(adk_result)
            );
        }
        if let Some(difference) = difference(&ours, &comparable(&theirs), "$") {
            failures.push(format!("seed {seed}: {difference}"));
        }
    }
    failures
        .iter()
        .take(PRINTED_MAX)
        .for_each(|it| println!("{it}\n"));
    assert!(failures.is_empty(), "{} scripts differ", failures.len());
    if given.is_none() {
        for (count, (what, _)) in counts.iter().zip(situations) {
            println!("{count:5} {what}");
            assert!(
                *count >= SCRIPTS_MIN,
                "fewer than {SCRIPTS_MIN} scripts have {what}"
            );
        }
    }
    println!("{uses:?}");
    uses
}
