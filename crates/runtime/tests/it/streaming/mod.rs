//! Random streams are aggregated as in google-adk 2.13.

use std::sync::Arc;

use retain_core::{Ids, Json, LlmResponse};
use retain_runtime::StreamAggregator;
use retain_testkit::oracle::{Oracle, Reference, is_long, setting};

const SEED: u64 = 20_261_116;
const STREAMS: u64 = 2_000;

/// Returns the same id as the oracle.
#[derive(Debug)]
struct OracleIds;

impl Ids for OracleIds {
    fn new_id(&self) -> String {
        "0".to_owned()
    }
}

fn json(response: &LlmResponse) -> Json {
    let text = response.to_json().expect("a response is JSON");
    Json::parse(&text).expect("a response is JSON")
}

#[test]
fn streamed_chunks_aggregate_as_in_adk() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/streaming/oracle.py");
    let Some(mut oracle) = Oracle::start(Reference::Adk, "streaming", script) else {
        return;
    };
    let count = if is_long() { STREAMS * 10 } else { STREAMS };
    let seed = setting("RETAIN_SEED").unwrap_or(SEED);
    let seeds: Vec<Json> = (seed..seed + count).map(Json::from).collect();
    let answers = oracle.ask_all(&seeds);
    oracle.stop();
    let (mut streams, mut calls, mut errors) = (0, 0, 0);
    for stream in &answers {
        compare(stream);
        streams += 1;
        calls += u64::from(stream.to_string().contains("partialArgs"));
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
    let mut pieces = StreamAggregator::new(Arc::new(OracleIds));
    let created = stream["created"].as_array().unwrap_or_default();
    let outputs = stream["outputs"].as_array().unwrap_or_default();
    for (number, (piece, expected)) in created.iter().zip(outputs).enumerate() {
        let piece = LlmResponse::from_json(&piece.to_string()).expect("a piece is a response");
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
