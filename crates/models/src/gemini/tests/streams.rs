//! Streams in Gemini's format, split at every byte.

use proptest::prelude::*;

use super::*;

/// A stream, the number of its chunks, and its complete answer or (`Err`) its error code.
struct Stream {
    name: &'static str,
    bytes: &'static str,
    pieces: usize,
    whole: Result<&'static str, &'static str>,
}

/// Text in chunks, each with token counts.
/// Written from <https://ai.google.dev/api/generate-content> (streamGenerateContent, `alt=sse`).
const TEXT: Stream = Stream {
    name: "text",
    bytes: concat!(
        "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Grüße\"}],\"role\": \"model\"},\"index\": 0}],",
        "\"usageMetadata\": {\"promptTokenCount\": 4,\"candidatesTokenCount\": 2,\"totalTokenCount\": 6,",
        "\"promptTokensDetails\": [{\"modality\": \"TEXT\",\"tokenCount\": 4}]},\"modelVersion\": \"gemini-2.5-flash\",\"responseId\": \"r1\"}\r\n\r\n",
        "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \" aus Köln 🎈\"}],\"role\": \"model\"},\"finishReason\": \"STOP\",\"index\": 0}],",
        "\"usageMetadata\": {\"promptTokenCount\": 4,\"candidatesTokenCount\": 9,\"totalTokenCount\": 13,\"cachedContentTokenCount\": 3},",
        "\"modelVersion\": \"gemini-2.5-flash\",\"responseId\": \"r1\"}\r\n\r\n",
    ),
    pieces: 2,
    whole: Ok(concat!(
        r#"{"modelVersion":"gemini-2.5-flash","content":{"parts":[{"text":"Grüße aus Köln 🎈"}],"role":"model"},"#,
        r#""partial":false,"finishReason":"STOP","usageMetadata":{"cachedContentTokenCount":3,"candidatesTokenCount":9,"#,
        r#""promptTokenCount":4,"totalTokenCount":13}}"#
    )),
};

/// Thoughts, then the answer; the signature is on an empty part at the end.
/// Written from <https://ai.google.dev/gemini-api/docs/thinking> and
/// <https://ai.google.dev/gemini-api/docs/thought-signatures>.
const THOUGHTS: Stream = Stream {
    name: "thoughts",
    bytes: concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"I add\",\"thought\":true}],\"role\":\"model\"}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\" one.\",\"thought\":true},{\"text\":\"Tw\"}],\"role\":\"model\"}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"o.\"}],\"role\":\"model\"}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\",\"thoughtSignature\":\"c2lnbmVk\"}],\"role\":\"model\"},\"finishReason\":\"STOP\"}],",
        "\"usageMetadata\":{\"thoughtsTokenCount\":21}}\n\n",
    ),
    pieces: 4,
    whole: Ok(concat!(
        r#"{"content":{"parts":[{"text":"I add one.","thought":true},{"text":"Two."},{"text":"","thoughtSignature":"c2lnbmVk"}],"#,
        r#""role":"model"},"partial":false,"finishReason":"STOP","usageMetadata":{"thoughtsTokenCount":21}}"#
    )),
};

/// Parallel calls: the first carries the signature of all calls. One has an id from the model.
/// Written from <https://ai.google.dev/gemini-api/docs/thought-signatures> (parallel calls).
const CALLS: Stream = Stream {
    name: "parallel calls",
    bytes: concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"weather\",\"args\":{\"city\":\"Paris\"}},\"thoughtSignature\":\"QQ==\"},",
        "{\"functionCall\":{\"name\":\"weather\",\"args\":{\"city\":\"London\",\"days\":[1,2.50]},\"id\":\"c2\"}}],\"role\":\"model\"},\"index\":0}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}]}\n\n",
    ),
    pieces: 2,
    whole: Ok(concat!(
        r#"{"content":{"parts":[{"functionCall":{"id":"adk","args":{"city":"Paris"},"name":"weather"},"thoughtSignature":"QQ=="},"#,
        r#"{"functionCall":{"id":"c2","args":{"city":"London","days":[1,2.50]},"name":"weather"}},{"text":""}],"role":"model"},"#,
        r#""partial":false,"finishReason":"STOP"}"#
    )),
};

/// A call with streamed arguments. Written from
/// <https://googleapis.github.io/js-genai/release_docs/interfaces/types.PartialArg.html>.
const ARGUMENTS: Stream = Stream {
    name: "streamed arguments",
    bytes: concat!(
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"send\",\"id\":\"s1\",\"willContinue\":true}}]}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"partialArgs\":[{\"jsonPath\":\"$.to\",\"stringValue\":\"An\",\"willContinue\":true}],\"willContinue\":true}}]}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"partialArgs\":[{\"jsonPath\":\"$.to\",\"stringValue\":\"na\"},{\"jsonPath\":\"$.n\",\"numberValue\":3}],\"willContinue\":true}}]}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"functionCall\":{}}]},\"finishReason\":\"STOP\"}]}\n\n",
    ),
    pieces: 4,
    whole: Ok(concat!(
        r#"{"content":{"parts":[{"functionCall":{"id":"s1","args":{"to":"Anna","n":3},"name":"send"}}],"role":"model"},"#,
        r#""partial":false,"finishReason":"STOP"}"#
    )),
};

/// A call with truncated arguments, in a stream that ends properly. The call is incomplete and must
/// not be executed.
const TRUNCATED_CALL: Stream = Stream {
    name: "truncated call",
    bytes: concat!(
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"name\":\"send\",\"id\":\"s1\",\"willContinue\":true}}]}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"partialArgs\":[{\"jsonPath\":\"$.to\",\"stringValue\":\"An\",\"willContinue\":true}],\"willContinue\":true}}]}}]}\n\n",
    ),
    pieces: 2,
    whole: Err("CutOff"),
};

/// Text without a finish reason, in a stream that ends properly: it was truncated in transit.
const NO_FINISH_REASON: Stream = Stream {
    name: "no finish reason",
    bytes: concat!(
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Do not\"}]}}]}\n\n",
        "data: {\"usageMetadata\":{\"totalTokenCount\":3}}\n\n",
    ),
    pieces: 2,
    whole: Err("CutOff"),
};

/// Text without a finish reason, but with the end marker that some proxies add.
const DONE: Stream = Stream {
    name: "done",
    bytes: concat!(
        "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Do not\"}]}}]}\n\n",
        "data:\n\ndata: [DONE]\n\n",
    ),
    pieces: 1,
    whole: Ok(r#"{"content":{"parts":[{"text":"Do not"}],"role":"model"},"partial":false}"#),
};

/// Code that Gemini executes itself, grounding and citations.
/// Written from <https://ai.google.dev/gemini-api/docs/code-execution> and
/// <https://ai.google.dev/gemini-api/docs/google-search>.
const CODE_AND_SOURCES: Stream = Stream {
    name: "code and sources",
    bytes: concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"print(1)\"}},",
        "{\"codeExecutionResult\":{\"outcome\":\"OUTCOME_OK\",\"output\":\"1\\n\"}},{\"text\":\"One\"}],\"role\":\"model\"},",
        "\"citationMetadata\":{\"citationSources\":[{\"startIndex\":0,\"endIndex\":3,\"uri\":\"https://example.org\"}]}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\".\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",",
        "\"groundingMetadata\":{\"webSearchQueries\":[\"one\"],\"groundingChunks\":[{\"web\":{\"uri\":\"https://example.org\",\"title\":\"One\"}}]}}]}\n\n",
    ),
    pieces: 2,
    whole: Ok(concat!(
        r#"{"content":{"parts":[{"executableCode":{"code":"print(1)","language":"PYTHON"}},"#,
        r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"}},{"text":"One."}],"role":"model"},"#,
        r#""groundingMetadata":{"webSearchQueries":["one"],"groundingChunks":[{"web":{"uri":"https://example.org","title":"One"}}]},"#,
        r#""partial":false,"finishReason":"STOP","citationMetadata":{"citations":[{"startIndex":0,"endIndex":3,"uri":"https://example.org"}]}}"#
    )),
};

/// An answer that the token limit truncated. It has both its text and an error. Written from
/// <https://ai.google.dev/api/generate-content#FinishReason>.
const TOO_LONG: Stream = Stream {
    name: "too long",
    bytes: concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Once upon\"}],\"role\":\"model\"}}]}\n\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\" a\"}],\"role\":\"model\"},\"finishReason\":\"MAX_TOKENS\",\"finishMessage\":\"limit\"}]}\n\n",
    ),
    pieces: 2,
    whole: Ok(concat!(
        r#"{"content":{"parts":[{"text":"Once upon a"}],"role":"model"},"partial":false,"finishReason":"MAX_TOKENS","#,
        r#""errorCode":"MAX_TOKENS","errorMessage":"limit"}"#
    )),
};

/// An answer that a safety filter blocked, without content. Written from
/// <https://ai.google.dev/api/generate-content#FinishReason>.
const BLOCKED_ANSWER: Stream = Stream {
    name: "an answer that is blocked",
    bytes: "data: {\"candidates\":[{\"finishReason\":\"SAFETY\",\"index\":0,\"safetyRatings\":[{\"category\":\"HARM_CATEGORY_HARASSMENT\",\"probability\":\"HIGH\"}]}]}\n\n",
    pieces: 1,
    whole: Ok(r#"{"partial":false,"finishReason":"SAFETY","errorCode":"SAFETY"}"#),
};

/// A blocked prompt.
/// Written from <https://ai.google.dev/api/generate-content#PromptFeedback>.
const BLOCKED_PROMPT: Stream = Stream {
    name: "a prompt that is blocked",
    bytes: "data: {\"promptFeedback\":{\"blockReason\":\"PROHIBITED_CONTENT\",\"blockReasonMessage\":\"no\"},\"usageMetadata\":{\"promptTokenCount\":7},\"modelVersion\":\"m\"}\n\n",
    pieces: 1,
    whole: Ok(
        r#"{"modelVersion":"m","partial":false,"errorCode":"PROHIBITED_CONTENT","errorMessage":"no","usageMetadata":{"promptTokenCount":7}}"#,
    ),
};

/// An error in the middle of a stream.
/// Written from <https://cloud.google.com/apis/design/errors> (`google.rpc.Status` in JSON).
const ERROR_IN_THE_MIDDLE: Stream = Stream {
    name: "an error in the middle",
    bytes: concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Once\"}],\"role\":\"model\"}}]}\n\n",
        "data: {\"error\":{\"code\":503,\"message\":\"The model is overloaded.\",\"status\":\"UNAVAILABLE\"}}\n\n",
    ),
    pieces: 1,
    whole: Err("UNAVAILABLE"),
};

/// A second candidate that was not requested, with its own token counts.
/// Written from <https://ai.google.dev/api/generate-content#Candidate> (`index`).
const TWO_ANSWERS: Stream = Stream {
    name: "two answers",
    bytes: concat!(
        "data: {\"candidates\":[{\"index\":1,\"content\":{\"parts\":[{\"text\":\"B\"}],\"role\":\"model\"}},{\"content\":{\"parts\":[{\"text\":\"A\"}],\"role\":\"model\"},\"finishReason\":\"STOP\"}]}\n\n",
        "data: {\"candidates\":[{\"index\":1,\"content\":{\"parts\":[{\"text\":\"B\"}],\"role\":\"model\"}}],\"usageMetadata\":{\"totalTokenCount\":5}}\n\n",
    ),
    pieces: 1,
    whole: Ok(concat!(
        r#"{"content":{"parts":[{"text":"A"}],"role":"model"},"partial":false,"finishReason":"STOP","#,
        r#""usageMetadata":{"totalTokenCount":5}}"#
    )),
};

/// An answer with only a finish reason and unknown fields.
const EMPTY: Stream = Stream {
    name: "empty",
    bytes: ": hello\n\ndata: {\"candidates\":[{\"finishReason\":\"STOP\",\"newField\":{\"a\":1}}],\"usageMetadata\":{\"totalTokenCount\":1,\"newCount\":2},\"other\":[]}\n\n",
    pieces: 1,
    whole: Ok(
        r#"{"partial":false,"finishReason":"STOP","usageMetadata":{"totalTokenCount":1,"newCount":2}}"#,
    ),
};

/// A stream without events.
const NOTHING: Stream = Stream {
    name: "nothing",
    bytes: ": hello\n\n",
    pieces: 0,
    whole: Err("CutOff"),
};

const STREAMS: [&Stream; 15] = [
    &TEXT,
    &THOUGHTS,
    &CALLS,
    &ARGUMENTS,
    &TRUNCATED_CALL,
    &NO_FINISH_REASON,
    &DONE,
    &CODE_AND_SOURCES,
    &TOO_LONG,
    &BLOCKED_ANSWER,
    &BLOCKED_PROMPT,
    &ERROR_IN_THE_MIDDLE,
    &TWO_ANSWERS,
    &EMPTY,
    &NOTHING,
];

/// Returns the responses of each stream that has an answer and that ADK can parse.
pub(super) fn responses() -> Vec<(&'static str, Vec<Json>)> {
    let with_answer = STREAMS.iter().filter(|stream| stream.whole.is_ok());
    // ADK fails on unknown fields.
    let known = with_answer
        .filter(|stream| !stream.bytes.contains("newField") && !stream.bytes.contains("[DONE]"));
    known
        .map(|stream| {
            let lines = stream.bytes.lines();
            let data = lines.filter_map(|line| line.strip_prefix("data: "));
            (stream.name, data.map(json).collect())
        })
        .collect()
}

/// Checks that the answers equal the expected JSON or have the expected error.
fn check(stream: &Stream, answers: &Result<Vec<String>, ModelError>, how: &str) {
    let name = stream.name;
    match (stream.whole, answers) {
        (Ok(whole), Ok(answers)) => {
            let (last, pieces) = answers.split_last().expect("a whole answer");
            assert_eq!(json(last), json(whole), "{name} {how}");
            assert_eq!(pieces.len(), stream.pieces, "{name} {how}");
            let is_piece = |piece: &String| json(piece)["partial"] == true;
            assert!(pieces.iter().all(is_piece), "{name} {how}");
        }
        (Err(code), Err(error)) => assert_eq!(error.code.as_deref(), Some(code), "{name} {how}"),
        (expected, found) => panic!("{name} {how}: {expected:?}, but {found:?}"),
    }
}

#[test]
fn stream_can_be_split_at_every_byte() {
    for stream in STREAMS {
        let bytes = stream.bytes.as_bytes();
        for gemini in [api(), vertex()] {
            check(stream, &read(&gemini, bytes, &[]), "in one");
            for cut in 0..bytes.len() {
                check(
                    stream,
                    &read(&gemini, bytes, &[cut]),
                    &format!("cut at {cut}"),
                );
            }
            let every: Vec<usize> = (0..bytes.len()).collect();
            check(stream, &read(&gemini, bytes, &every), "byte by byte");
        }
    }
}

/// A stream that ends within an event has no complete answer.
#[test]
fn stream_that_ends_inside_an_event_is_an_error() {
    let bytes = TEXT.bytes.as_bytes();
    let second = TEXT
        .bytes
        .match_indices("data: ")
        .nth(1)
        .expect("two events")
        .0;
    for end in second + "data: ".len() + 1..bytes.len() - "\r\n\r\n".len() {
        assert!(read(&api(), &bytes[..end], &[]).is_err(), "up to {end}");
    }
    // The empty line after the last event may be missing.
    let all = bytes.len() - "\r\n\r\n".len();
    check(
        &TEXT,
        &read(&api(), &bytes[..all], &[]),
        "without its last lines",
    );
}

/// Generates a part of any kind.
fn part() -> impl Strategy<Value = String> {
    let text = "[a-zü🎈]{1,4}";
    prop_oneof![
        text.prop_map(|text| format!(r#"{{"text":"{text}"}}"#)),
        text.prop_map(|text| format!(r#"{{"text":"{text}","thought":true}}"#)),
        text.prop_map(|text| format!(r#"{{"text":"{text}","thoughtSignature":"QQ=="}}"#)),
        (text, 0..5).prop_map(|(name, id)| {
            format!(r#"{{"functionCall":{{"name":"{name}","args":{{"a":1}},"id":"c{id}"}}}}"#)
        }),
        text.prop_map(|name| format!(r#"{{"functionCall":{{"name":"{name}"}}}}"#)),
        text.prop_map(|code| format!(r#"{{"executableCode":{{"code":"{code}"}}}}"#)),
        Just(r#"{"text":"","thoughtSignature":"Qg=="}"#.to_owned()),
        Just(r#"{"inlineData":{"mimeType":"image/png","data":"AAAA"}}"#.to_owned()),
    ]
}

/// Returns a stream with one event per list of parts, and a last event with the finish reason.
fn stream_of(events: &[Vec<String>]) -> String {
    let mut stream = String::new();
    for parts in events {
        let parts = parts.join(",");
        stream.push_str(&format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{parts}],\"role\":\"model\"}}}}]}}\n\n"
        ));
    }
    stream + "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n"
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streamed_response_does_not_depend_on_chunk_boundaries(
        which in 0..STREAMS.len(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let bytes = STREAMS[which].bytes.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        check(STREAMS[which], &read(&api(), bytes, &cuts), &format!("cut at {cuts:?}"));
    }

    /// The answer is the same whether its parts arrive in one event or in several.
    #[test]
    fn streamed_response_does_not_depend_on_the_split_into_events(
        parts in proptest::collection::vec(part(), 1..12),
        ends in proptest::collection::vec(any::<bool>(), 12),
    ) {
        let mut events = vec![Vec::new()];
        for (part, ends) in parts.iter().zip(ends) {
            if let Some(event) = events.last_mut() {
                event.push(part.clone());
            }
            if ends {
                events.push(Vec::new());
            }
        }
        let split = read(&api(), stream_of(&events).as_bytes(), &[]).expect("a whole answer");
        let whole = read(&api(), stream_of(&[parts]).as_bytes(), &[]).expect("a whole answer");
        prop_assert_eq!(split.last(), whole.last());
    }

    /// A text that arrives in several events becomes one part.
    #[test]
    fn adjacent_texts_are_merged(texts in proptest::collection::vec("[a-zü🎈\\\\\"]{1,6}", 1..10)) {
        let mut stream = String::new();
        for text in &texts {
            let text = Json::from(text.as_str());
            stream.push_str(&format!(
                "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":{text}}}],\"role\":\"model\"}}}}]}}\n\n"
            ));
        }
        stream.push_str("data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n");
        let answers = read(&api(), stream.as_bytes(), &[]).expect("a whole answer");
        let whole = json(answers.last().expect("a whole answer"));
        prop_assert_eq!(whole["content"]["parts"][0]["text"].as_str(), Some(&*texts.concat()));
        prop_assert_eq!(whole["content"]["parts"].as_array().map(<[Json]>::len), Some(1));
    }
}
