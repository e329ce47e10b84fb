//! Compactions: which events are selected, and the transcript for the default summarizer.

use std::{collections::BTreeMap, sync::Arc};

use retain_core::{Event, Events, Json, JsonMap, Shaped, UsageMetadata};
use retain_runtime::compaction::{
    SlidingWindow, TokenThreshold, prompt, prompt_tokens, sliding_window_range,
    token_threshold_range, transcript,
};
use retain_testkit::random::Random;

use crate::differential::{
    history::History,
    oracle::{Oracle, cases},
};

/// A history and its compaction settings.
struct Case {
    history: History,
    window: SlidingWindow,
    threshold: TokenThreshold,
}

impl Case {
    fn generate(seed: u64) -> Case {
        let mut random = Random::new(seed.wrapping_mul(31));
        let mut history = History::generate(seed);
        history.events = history
            .events
            .iter_with_positions()
            .map(|(position, event)| (position, with_requests(event.clone(), &mut random)))
            .collect::<Events>();
        Case {
            history,
            window: SlidingWindow {
                interval: 1 + random.below(4) as usize,
                overlap: random.below(4) as usize,
            },
            threshold: TokenThreshold {
                tokens: 1 + random.below(40) as u32,
                retained_events: random.below(6) as usize,
            },
        }
    }

    fn to_json(&self) -> Json {
        let mut case = self.history.to_json();
        let window = JsonMap::from([
            ("compaction_interval", self.window.interval as i64),
            ("overlap_size", self.window.overlap as i64),
        ]);
        let threshold = JsonMap::from([
            ("token_threshold", i64::from(self.threshold.tokens)),
            (
                "event_retention_size",
                self.threshold.retained_events as i64,
            ),
        ]);
        let fields = case.as_object_mut().expect("an object");
        fields.insert("window", window);
        fields.insert("threshold", threshold);
        case
    }

    /// Returns Retain's answer in the same format as the oracle.
    fn answer(&self) -> Json {
        let events = &self.history.events;
        let options = self.history.options();
        let all: Vec<Arc<Event>> = (0..events.len())
            .filter_map(|at| events.get_shared(at))
            .collect();
        let threshold = token_threshold_range(events, &self.threshold, &options);
        JsonMap::from([
            (
                "window",
                selection(sliding_window_range(events, &self.window)),
            ),
            ("threshold", selection(threshold)),
            ("tokens", prompt_tokens(events, &options).into()),
            ("transcript", transcript(&all).into()),
        ])
        .into()
    }

    fn report(&self, ours: &Json, theirs: &Json) -> String {
        let mut text = format!(
            "RETAIN_SEED={} {:?} {:?}\n{}\n",
            self.history.seed,
            self.window,
            self.threshold,
            self.history.options_json()
        );
        for (index, event) in self.history.events.iter().enumerate() {
            let event = event.to_json().expect("an event is JSON");
            text += &format!("  {index}: {event}\n");
        }
        for field in ["window", "threshold", "tokens", "transcript", "error"] {
            if ours[field] != theirs[field] {
                text += &format!("{field}\n  ours {:?}\n", ours[field]);
                text += &format!("  ADK  {:?}\n", theirs[field]);
            }
        }
        text
    }
}

/// Gives some events a token count, and lets some request a confirmation or credentials.
fn with_requests(mut event: Event, random: &mut Random) -> Event {
    if random.chance(15) {
        event.response.usage_metadata = Some(UsageMetadata {
            prompt_token_count: Some(random.below(60) as i64),
            ..UsageMetadata::default()
        });
    }
    if random.chance(5) {
        // About as long as the limit of a quoted call or answer.
        let long = "é".repeat(1960 + random.below(60) as usize);
        let parts = event
            .response
            .content
            .as_mut()
            .and_then(|it| it.parts.as_mut());
        for part in parts.into_iter().flatten() {
            let call = part.function_call.as_mut().map(|call| &mut call.args);
            let answer = part.function_response.as_mut();
            let answer = answer.map(|answer| &mut answer.response);
            for map in call.into_iter().chain(answer) {
                map.get_or_insert_default().insert("long", long.as_str());
            }
        }
    }
    let call_id = random.pick(&["c1", "c2", "adk-1", "t1"]);
    if random.chance(4) {
        let confirmation = JsonMap::from([("hint", "sure?")]);
        let confirmations = JsonMap::from([(call_id, confirmation)]);
        event.actions.requested_tool_confirmations = Shaped::new(confirmations);
    }
    if random.chance(3) {
        let scheme = JsonMap::from([("type", "http"), ("scheme", "bearer")]);
        let credential = JsonMap::from([("authScheme", Json::from(scheme))]);
        let credentials = JsonMap::from([(call_id, credential)]);
        event.actions.requested_auth_configs = Shaped::new(credentials);
    }
    event
}

fn selection(range: Option<Vec<Arc<Event>>>) -> Json {
    let Some(range) = range else {
        return Json::Null;
    };
    let ids: Vec<Json> = range.iter().map(|event| event.id.as_str().into()).collect();
    JsonMap::from([
        ("ids", Json::from(ids)),
        ("first", range[0].timestamp.into()),
        ("prompt", prompt(&range).into()),
    ])
    .into()
}

/// Returns the features of a case, to check that each feature was tested.
fn features(case: &Case, ours: &Json) -> Vec<&'static str> {
    let mut found = Vec::new();
    let len = |field: &str| ours[field]["ids"].as_array().map_or(0, <[Json]>::len);
    let mut note = |is_so: bool, feature| found.extend(is_so.then_some(feature));
    note(len("window") > 0, "window");
    note(len("threshold") > 0, "threshold");
    note(len("window") > 5, "long window");
    note(ours["threshold"]["ids"][0] == "", "seed");
    let events = &case.history.events;
    let has = |is: fn(&Event) -> bool| events.iter().any(is);
    let rewinds = has(|event| event.actions.rewind_before_invocation_id.is_some());
    note(rewinds && len("window") > 0, "window and rewinds");
    let summaries = has(|event| event.actions.compaction.is_some());
    note(summaries && len("window") > 0, "window and summaries");
    let transcript = ours["transcript"].as_str().unwrap_or_default();
    note(transcript.contains("... [truncated "), "truncated");
    let calls = has(|event| !event.function_calls().is_empty());
    note(calls && len("threshold") > 0, "threshold and calls");
    found
}

pub(crate) fn compare() {
    let seeds = cases(4000);
    let Some(mut oracle) = Oracle::start("compactions") else {
        return;
    };
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for batch in seeds.batches(200) {
        let cases: Vec<Case> = batch.map(Case::generate).collect();
        let answers = oracle.ask("compactions", cases.iter().map(Case::to_json));
        for (case, theirs) in cases.iter().zip(&answers) {
            let ours = case.answer();
            for feature in features(case, &ours) {
                *found.entry(feature).or_default() += 1;
            }
            if !crate::differential::is_same(&ours, theirs) {
                failures.push(case.report(&ours, theirs));
            }
        }
    }
    oracle.stop();
    for failure in failures.iter().take(crate::differential::PRINTED_MAX) {
        println!("{failure}\n");
    }
    println!("{found:?}");
    assert!(failures.is_empty(), "{} cases differ", failures.len());
    if seeds.is_whole_run() {
        assert_eq!(found.len(), 8, "some features do not occur, see above");
        assert!(
            found.values().all(|count| *count >= 20),
            "some features occur in fewer than 20 cases, see above"
        );
    }
}
