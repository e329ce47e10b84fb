//! A stream gives the same complete answer, however the answer is split into chunks and reads.

use proptest::{collection::vec, prelude::*, test_runner::RngSeed};
use retain_core::{Json, LlmResponse};

use crate::{
    http::Sse,
    openai::{
        answer::Answer,
        json::{list, object},
        stream::ChunkReader,
    },
    provider::StreamReader as _,
};

/// A model's answer.
#[derive(Debug, Clone)]
struct ModelAnswer {
    thoughts: String,
    text: String,
    calls: Vec<(String, String)>,
    reason: &'static str,
}

fn model_answer() -> impl Strategy<Value = ModelAnswer> {
    let argument = "[a-zé世🌍\"\\\\\n{}]{0,12}";
    let call = ("[a-z_]{1,8}", argument);
    let reason = prop::sample::select(vec!["stop", "length", "tool_calls", "content_filter"]);
    ("\\PC{0,24}", "\\PC{0,24}", vec(call, 0..4), reason).prop_map(
        |(thoughts, text, calls, reason)| ModelAnswer {
            thoughts,
            text,
            calls,
            reason,
        },
    )
}

impl ModelAnswer {
    fn arguments(text: &str) -> String {
        object([("x", text.into())]).to_string()
    }

    /// Returns the answer as a complete response.
    fn message(&self) -> Json {
        let calls = self.calls.iter().zip(0..).map(|((name, text), at)| {
            let function = object([
                ("name", name.as_str().into()),
                ("arguments", ModelAnswer::arguments(text).into()),
            ]);
            let id = Json::from(format!("call_{at}"));
            object([("id", id), ("function", function)])
        });
        let message = object([
            ("content", self.text.as_str().into()),
            ("reasoning_content", self.thoughts.as_str().into()),
            ("tool_calls", list(calls)),
        ]);
        let choice = object([("message", message), ("finish_reason", self.reason.into())]);
        object([("model", "m".into()), ("choices", list([choice]))])
    }

    /// Returns the answer in chunks of `step` characters each, with the arguments of all calls
    /// interleaved.
    fn chunks(&self, step: usize) -> Vec<Json> {
        let mut deltas: Vec<Json> = Vec::new();
        let of = |field: &str, text: &str| object([(field, text.into())]);
        deltas.extend(pieces(&self.thoughts, step).map(|it| of("reasoning_content", &it)));
        deltas.extend(pieces(&self.text, step).map(|it| of("content", &it)));
        let call = |at: usize, more: [(&str, Json); 2]| {
            let [id, function] = more;
            let call = object([("index", at.into()), id, function]);
            object([("tool_calls", list([call]))])
        };
        let mut rounds: Vec<Vec<Json>> = Vec::new();
        for (at, (name, text)) in self.calls.iter().enumerate() {
            let id = Json::from(format!("call_{at}"));
            let begin = object([("name", name.as_str().into()), ("arguments", "".into())]);
            deltas.push(call(at, [("id", id), ("function", begin)]));
            let more = pieces(&ModelAnswer::arguments(text), step).map(|piece| {
                let function = object([("arguments", piece.into())]);
                call(at, [("id", Json::Null), ("function", function)])
            });
            for (round, piece) in more.enumerate() {
                rounds.resize(rounds.len().max(round + 1), Vec::new());
                rounds[round].push(piece);
            }
        }
        deltas.extend(rounds.into_iter().flatten());
        let choice = |delta: Json, reason: Json| {
            let choice = object([("delta", delta), ("finish_reason", reason)]);
            object([("model", "m".into()), ("choices", list([choice]))])
        };
        let mut chunks: Vec<Json> = deltas
            .into_iter()
            .map(|it| choice(it, Json::Null))
            .collect();
        chunks.push(choice(object([]), self.reason.into()));
        chunks
    }
}

fn pieces(text: &str, step: usize) -> std::vec::IntoIter<String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(step).map(|it| it.iter().collect()).collect();
    pieces.into_iter()
}

/// Reads bytes in parts whose lengths repeat `lengths`. Returns the complete answer.
fn streamed(bytes: &[u8], lengths: &[usize]) -> LlmResponse {
    let (mut sse, mut reader) = (Sse::default(), ChunkReader::default());
    let (mut rest, mut lengths) = (bytes, lengths.iter().cycle());
    while !rest.is_empty() {
        let length = (*lengths.next().expect("a length")).min(rest.len());
        let (now, later) = rest.split_at(length);
        for event in sse.push(now) {
            reader.push(&event).expect("a chunk");
        }
        rest = later;
    }
    let mut last = reader.finish().expect("an answer");
    last.pop().expect("the whole")
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
    fn streamed_response_equals_the_unstreamed_one_for_any_content(model_answer in model_answer(), step in 1usize..6, lengths in vec(1usize..40, 1..6)) {
        let mut whole = Answer::default();
        whole.push(&model_answer.message());
        let whole = whole.finish();
        let events = model_answer.chunks(step).iter().map(|chunk| format!("data: {chunk}\n\n")).collect::<String>();
        let bytes = events + "data: [DONE]\n\n";
        prop_assert_eq!(streamed(bytes.as_bytes(), &lengths), whole);
    }

    #[test]
    fn random_server_response_causes_no_panic(data in vec("[\\PC\n]{0,40}|\\{\"choices\":\\[\\{\"delta\":\\{\"tool_calls\":\\[[\\PC]{0,20}", 0..4)) {
        let _ = super::read(data.iter().map(String::as_str));
        let _ = super::read_answer(&data.concat());
    }
}
