//! Random histories, templates and values have the same results as in google-adk.
//!
//! `RETAIN_SEED` sets the first seed, as a failure prints it; `RETAIN_CASES` sets the number of
//! cases.

mod compactions;
mod features;
mod generator;
mod growing;
mod history;
mod oracle;
mod templates;
mod values;

use std::collections::BTreeMap;

use features::Feature;
use history::History;
use oracle::{Oracle, cases};
use retain_core::Json;
use retain_runtime::contents::{
    assemble_contents, insertion_point_before_user_turn, place_of_user_content,
};

/// Maximum number of printed failures.
const PRINTED_MAX: usize = 3;

#[test]
fn contents_of_histories_match_adk() {
    let seeds = cases(3000);
    let Some(mut oracle) = Oracle::start("contents") else {
        return;
    };
    let mut counts: BTreeMap<Feature, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for batch in seeds.batches(200) {
        let histories: Vec<History> = batch.map(History::generate).collect();
        let answers = oracle.ask("histories", histories.iter().map(History::to_json));
        for (history, theirs) in histories.iter().zip(&answers) {
            let ours = answer(history);
            for feature in features::find(history, &ours) {
                *counts.entry(feature).or_default() += 1;
            }
            if !is_same(&ours, theirs) {
                failures.push(history.report(&ours, theirs));
            }
        }
    }
    oracle.stop();
    for failure in failures.iter().take(PRINTED_MAX) {
        println!("{failure}\n");
    }
    assert!(failures.is_empty(), "{} histories differ", failures.len());
    if seeds.is_whole_run() {
        let count = |feature: &Feature| counts.get(feature).copied().unwrap_or(0);
        for feature in Feature::ALL {
            println!("{:6} {feature:?}", count(feature));
        }
        // A feature counts as tested after 20 occurrences.
        let missing: Vec<_> = Feature::ALL.iter().filter(|it| count(it) < 20).collect();
        assert!(missing.is_empty(), "fewer than 20 histories: {missing:?}");
    }
}

/// Compares both answers, floats by value: Retain keeps the input's digits, and ADK formats the
/// number again.
fn is_same(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Number(a), Json::Number(b)) if !a.is_integer() && !b.is_integer() => {
            a.as_f64() == b.as_f64()
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            let is_in_b = |(key, a): (&str, &Json)| b.get(key).is_some_and(|b| is_same(a, b));
            a.len() == b.len() && a.iter().all(is_in_b)
        }
        _ => ours == theirs,
    }
}

/// Returns Retain's answer in the same format as the oracle.
fn answer(history: &History) -> Json {
    let contents = assemble_contents(&history.events, &history.options());
    let place = insertion_point_before_user_turn(&contents);
    let user_content = place_of_user_content(&contents, history.user_content.as_ref());
    let contents = contents.iter().map(|content| {
        let text = content.to_json().expect("a content is JSON");
        Json::parse(&text).expect("a content is JSON")
    });
    let contents: Vec<Json> = contents.collect();
    retain_core::JsonMap::from([
        ("contents", Json::from(contents)),
        ("beforeUserTurn", (place as i64).into()),
        ("userContent", (user_content as i64).into()),
    ])
    .into()
}

#[test]
fn compaction_selects_the_same_events_as_adk() {
    compactions::compare();
}

#[test]
fn templates_render_as_in_adk() {
    templates::compare();
}

#[test]
fn values_print_as_in_python() {
    values::compare();
}

#[test]
fn escaped_characters_match_python() {
    values::compare_characters();
}

#[test]
fn cached_contents_equal_fresh_contents_as_the_history_grows() {
    growing::compare();
}

#[test]
fn cache_settles_every_step_of_a_tool_loop() {
    growing::settle_tool_loops();
}

#[test]
fn contents_cache_detects_a_different_event_list() {
    growing::detect_other_lists();
}
