//! A stream gives the same complete answer, however the answer is split into deltas.

use proptest::{collection::vec, prelude::*, test_runner::RngSeed};
use retain_core::{Json, JsonMap, LlmResponse};

use super::{super::stream::Reader, provider};
use crate::{
    http::SseEvent,
    provider::{Provider as _, StreamReader as _},
};

/// A block that Claude may return.
#[derive(Debug, Clone)]
enum Block {
    Text(String),
    Thought(String, String),
    Redacted(String),
    Call(String, String),
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        "\\PC{0,24}".prop_map(Block::Text),
        ("\\PC{0,24}", "[a-zA-Z0-9+/]{0,40}").prop_map(|(text, sign)| Block::Thought(text, sign)),
        "[a-zA-Z0-9+/]{1,40}".prop_map(Block::Redacted),
        ("[a-z_]{1,8}", "[a-zé世🌍\"\\\\\n{}]{0,12}")
            .prop_map(|(name, argument)| Block::Call(name, argument)),
    ]
}

fn map<const N: usize>(fields: [(&str, &str); N]) -> Json {
    JsonMap::from(fields).into()
}

fn with(block: Json, field: &str, value: Json) -> Json {
    let mut block = block.as_object().cloned().unwrap_or_default();
    block.insert(field, value);
    block.into()
}

impl Block {
    fn input(argument: &str) -> Json {
        map([("x", argument)])
    }

    /// Returns the block in the form that a complete response has.
    fn complete(&self, at: usize) -> Json {
        match self {
            Block::Text(text) => map([("type", "text"), ("text", text)]),
            Block::Thought(text, sign) => map([
                ("type", "thinking"),
                ("thinking", text),
                ("signature", sign),
            ]),
            Block::Redacted(data) => map([("type", "redacted_thinking"), ("data", data)]),
            Block::Call(name, argument) => {
                let id = format!("toolu_{at}");
                let call = map([("type", "tool_use"), ("id", &id), ("name", name)]);
                with(call, "input", Block::input(argument))
            }
        }
    }

    /// Returns the start of the block, and its deltas of `step` characters each.
    fn pieces(&self, at: usize, step: usize) -> (Json, Vec<Json>) {
        let deltas = |kind: &str, field: &str, text: &str| -> Vec<Json> {
            let chars: Vec<char> = text.chars().collect();
            let pieces = chars.chunks(step).map(|it| it.iter().collect::<String>());
            pieces
                .map(|it| map([("type", kind), (field, &it)]))
                .collect()
        };
        match self {
            Block::Text(text) => (
                map([("type", "text"), ("text", "")]),
                deltas("text_delta", "text", text),
            ),
            Block::Thought(text, sign) => {
                let mut all = deltas("thinking_delta", "thinking", text);
                all.extend(deltas("signature_delta", "signature", sign));
                (map([("type", "thinking"), ("thinking", "")]), all)
            }
            Block::Redacted(_) => (self.complete(at), Vec::new()),
            Block::Call(_, argument) => {
                let input = Block::input(argument).to_string();
                let begin = with(self.complete(at), "input", JsonMap::new().into());
                (begin, deltas("input_json_delta", "partial_json", &input))
            }
        }
    }
}

const USAGE: &str = r#"{"input_tokens":3,"output_tokens":9}"#;

fn message(blocks: &[Block], reason: &str) -> String {
    let content = blocks.iter().enumerate().map(|(at, it)| it.complete(at));
    let content = Json::from(content.collect::<Vec<_>>());
    format!(
        r#"{{"type":"message","model":"m","content":{content},"stop_reason":"{reason}","usage":{USAGE}}}"#
    )
}

fn events(blocks: &[Block], reason: &str, step: usize) -> Vec<String> {
    let mut events = vec![
        r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":3,"output_tokens":1}}}"#
            .to_owned(),
    ];
    for (at, block) in blocks.iter().enumerate() {
        let (begin, deltas) = block.pieces(at, step);
        events.push(format!(
            r#"{{"type":"content_block_start","index":{at},"content_block":{begin}}}"#
        ));
        events.extend(deltas.iter().map(|delta| {
            format!(r#"{{"type":"content_block_delta","index":{at},"delta":{delta}}}"#)
        }));
        events.push(format!(r#"{{"type":"content_block_stop","index":{at}}}"#));
    }
    events.push(format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{"output_tokens":9}}}}"#
    ));
    events.push(r#"{"type":"message_stop"}"#.to_owned());
    events
}

/// Returns the complete answer that results from the events, and the text of all chunks before it.
fn streamed(events: Vec<String>) -> (LlmResponse, String) {
    let mut reader = Reader::default();
    let mut text = String::new();
    for data in events {
        let event = SseEvent { event: None, data };
        for piece in reader.push(&event).expect("an event") {
            let content = piece.content.expect("a content");
            let texts = content.parts().iter().filter_map(|it| it.text.as_deref());
            text.extend(texts);
        }
    }
    let mut last = reader.finish().expect("an answer");
    (last.pop().expect("the whole"), text)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 192,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn streamed_response_equals_the_unstreamed_one_for_any_content(
        blocks in vec(block(), 0..5),
        reason in prop::sample::select(vec!["end_turn", "tool_use", "max_tokens", "refusal"]),
        step in 1usize..6,
    ) {
        let whole = provider().read_answer(&message(&blocks, reason)).expect("an answer");
        let (streamed, pieces) = streamed(events(&blocks, reason, step));
        prop_assert_eq!(LlmResponse { partial: None, ..streamed }, whole);
        let texts = blocks.iter().filter_map(|it| match it {
            Block::Text(text) | Block::Thought(text, _) => Some(text.as_str()),
            Block::Redacted(_) | Block::Call(..) => None,
        });
        prop_assert_eq!(pieces, texts.collect::<String>());
    }
}
