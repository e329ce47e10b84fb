//! Compares Retain's requests to OpenAI with those that ADK passes to LiteLLM.

use retain_core::Json;

use super::request_body;
use crate::differential::Comparison;

/// Requests that differ from ADK's, each with the start of the row in the table "OpenAI-compatible
/// models" that explains the difference.
const KNOWN_DIFFERENCES: [(&str, &str); 11] = [
    ("text", "Texts of one message are sent one by one."),
    ("an empty turn of the model", "A model turn without content"),
    ("top k", "`top_k` is sent to OpenAI"),
    ("a parameter that may be null", "`nullable` of a schema"),
    ("calls without ids", "A call in the history without an id"),
    ("thoughts", "Thoughts are sent back to every server."),
    (
        "a thought that nobody signed",
        "Thoughts are sent back to every server.",
    ),
    ("a document", "PDFs for OpenAI are uploaded first."),
    (
        "a text as data",
        "Texts of one message are sent one by one.",
    ),
    ("code", "A model turn without content"),
    (
        "an answer that is a list",
        "A response schema that is not an object",
    ),
];

/// Settings that reasoning models reject. ADK sends them, Retain does not; `SAMPLING_ROW` documents
/// this.
const SAMPLING: [&str; 4] = [
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
];
const SAMPLING_ROW: &str = "Sampling settings are sent to OpenAI's reasoning models.";

/// Ignores the model name, sampling settings, null fields, and the order of required properties.
fn normalize(ours: &mut Json, theirs: &mut Json) {
    if let Some(theirs) = theirs.as_object_mut() {
        theirs.insert("model", ours["model"].clone());
        for setting in SAMPLING {
            assert!(ours[setting].is_null(), "{setting} was sent");
            theirs.remove(setting);
        }
    }
    for side in [ours, theirs] {
        *side = simplify("", side);
    }
}

fn simplify(field: &str, value: &Json) -> Json {
    match value {
        Json::Object(map) => {
            let fields = map.iter().filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(key, value)| (key, simplify(key, value)));
            fields.collect::<retain_core::JsonMap>().into()
        }
        Json::Array(items) => {
            let mut items: Vec<Json> = items.iter().map(|item| simplify("", item)).collect();
            match field {
                "required" => items.sort_by_key(Json::to_string),
                // A message with one text may be sent as a string instead of a list.
                "content" if items.len() == 1 && items[0]["type"] == "text" => {
                    return items[0]["text"].clone();
                }
                _ => {}
            }
            items.into()
        }
        _ => value.clone(),
    }
}

#[test]
fn openai_request_matches_adk() {
    let documented = include_str!("../../../../../docs/differences-from-adk.md");
    assert!(documented.contains(SAMPLING_ROW), "not documented");
    let ours = |request: &retain_runtime::LlmRequest| {
        let mut request = request.clone();
        request.model = "gpt-5".to_owned();
        request_body("openai", &request)
    };
    let comparison = Comparison {
        provider: "openai",
        model: "openai/gpt-5",
        ours: &ours,
        normalize: &normalize,
        known_differences: &KNOWN_DIFFERENCES,
    };
    comparison.run();
}
