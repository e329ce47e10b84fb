//! Streamed answers are put together as google-adk 2.13 does it, over random streams.

use std::{process::Command, sync::Arc};

use retain_core::{Ids, Json, LlmResponse};
use retain_runtime::StreamAggregator;
use retain_testkit::oracle::{adk_python, is_long, setting};

const SEED: u64 = 20_261_116;
const STREAMS: u64 = 2_000;

/// The id that the other side makes.
#[derive(Debug)]
struct SameId;

impl Ids for SameId {
    fn new_id(&self) -> String {
        "0".to_owned()
    }
}

fn json(response: &LlmResponse) -> Json {
    let text = response.to_json().expect("a response can be written");
    Json::parse(&text).expect("what was written can be read")
}

#[test]
fn pieces_become_the_whole_that_adk_makes() {
    let Some(python) = adk_python("streaming") else {
        return;
    };
    let count = if is_long() { STREAMS * 10 } else { STREAMS };
    let seed = setting("RETAIN_SEED").unwrap_or(SEED);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/streaming/oracle.py");
    let mut oracle = Command::new(python);
    let oracle = oracle
        .arg(script)
        .args([seed.to_string(), count.to_string()]);
    let output = oracle.output().expect("the oracle runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the oracle failed: {errors}");
    let text = String::from_utf8(output.stdout).expect("the oracle writes UTF-8");
    let (mut streams, mut calls, mut errors) = (0, 0, 0);
    for line in text.lines() {
        let stream = Json::parse(line).expect("the oracle writes JSON");
        compare(&stream);
        streams += 1;
        calls += u64::from(line.contains("partialArgs"));
        errors += u64::from(stream["whole"].get("errorCode").is_some());
    }
    assert_eq!(streams, count);
    assert!(
        calls > count / 10 && errors > count / 10,
        "{calls} {errors}"
    );
}

fn compare(stream: &Json) {
    let seed = &stream["seed"];
    let mut pieces = StreamAggregator::new(Arc::new(SameId));
    let created = stream["created"].as_array().unwrap_or_default();
    let handed_on = stream["handed_on"].as_array().unwrap_or_default();
    for (number, (piece, expected)) in created.iter().zip(handed_on).enumerate() {
        let piece = LlmResponse::from_json(&piece.to_string()).expect("a piece can be read");
        let found = json(&pieces.push(piece));
        assert_eq!(&found, expected, "seed {seed}, piece {number}");
    }
    let whole = pieces.finish().map_or(Json::Null, |whole| json(&whole));
    assert_eq!(
        whole, stream["whole"],
        "seed {seed}, the whole of {}",
        stream["created"]
    );
}
