//! Compares Retain's requests to Claude with ADK's.

use retain_core::Json;

use super::provider;
use crate::{differential::Comparison, provider::Provider as _};

/// Requests that differ from ADK's, each with the start of the row in the table "Claude" that
/// explains the difference.
const KNOWN_DIFFERENCES: [(&str, &str); 11] = [
    ("two turns of the user", "Messages of one role may follow"),
    ("nothing said", "Messages of one role may follow"),
    ("the model spoke last", "Messages of one role may follow"),
    (
        "an empty turn of the model",
        "Messages of one role may follow",
    ),
    ("a parameter that may be null", "`nullable` of a schema"),
    ("a tool has to be called", "`tool_config` is ignored."),
    (
        "a call without a result",
        "A call without a result is sent without one",
    ),
    (
        "a thought that nobody signed",
        "A thought without a signature",
    ),
    ("a text as data", "Data that Claude does not accept"),
    ("sound", "Data that Claude does not accept"),
    (
        "a picture at an address",
        "Data that Claude does not accept",
    ),
];

/// Replaces the name of Retain's tool for structured output. The table documents this difference.
fn normalize(ours: &mut Json, _theirs: &mut Json) {
    let text = ours.to_string();
    let text = text.replace("retain_structured_output", "structured_output");
    let text = text.replace("retain_structured_value", "structured_output");
    *ours = Json::parse(&text).expect("JSON");
}

#[test]
fn claude_request_matches_adk() {
    let ours = |request: &retain_runtime::LlmRequest| {
        let call = provider().call(request, false)?;
        Ok(Json::parse(&call.body).expect("JSON"))
    };
    let comparison = Comparison {
        provider: "claude",
        model: "claude-test",
        ours: &ours,
        normalize: &normalize,
        known_differences: &KNOWN_DIFFERENCES,
    };
    comparison.run();
}
