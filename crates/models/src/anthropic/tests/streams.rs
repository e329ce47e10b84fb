//! Streamed responses, split into chunks in many ways.

use futures_util::StreamExt as _;
use proptest::prelude::*;
use retain_core::{Json, LlmResponse, Part};
use retain_runtime::{Model as _, ModelError};

use super::{super::stream::Reader, ask, json, provider, recorded};
use crate::{
    http::Sse,
    provider::{Provider as _, StreamReader as _},
    testing::event_stream,
};

const ALL: [&str; 6] = [
    recorded::TEXT,
    recorded::THOUGHTS_AND_CALLS,
    recorded::CITED,
    recorded::STRUCTURED,
    recorded::EMPTY,
    recorded::OVERLOADED,
];

/// Reads a stream in these chunks. Returns all answers before an error, and the result of the whole
/// stream.
fn read(chunks: &[&[u8]]) -> (Vec<LlmResponse>, Result<(), ModelError>) {
    let mut sse = Sse::default();
    let mut reader = Reader::default();
    let mut answers = Vec::new();
    let mut read_all = || {
        for chunk in chunks {
            for event in sse.push(chunk) {
                answers.extend(reader.push(&event)?);
            }
        }
        for event in sse.finish() {
            answers.extend(reader.push(&event)?);
        }
        answers.extend(reader.finish()?);
        Ok(())
    };
    let result = read_all();
    (answers, result)
}

fn outcome_text((answers, result): (Vec<LlmResponse>, Result<(), ModelError>)) -> String {
    format!(
        "{answers:?} {:?}",
        result.map_err(|error| (error.code, error.message))
    )
}

#[test]
fn stream_can_be_split_at_every_byte() {
    for stream in ALL {
        let bytes = stream.as_bytes();
        let whole = outcome_text(read(&[bytes]));
        for cut in 0..bytes.len() {
            let (before, after) = bytes.split_at(cut);
            assert_eq!(outcome_text(read(&[before, after])), whole, "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(outcome_text(read(&single)), whole);
        let crlf = stream.replace('\n', "\r\n");
        assert_eq!(outcome_text(read(&[crlf.as_bytes()])), whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn parsed_stream_does_not_depend_on_chunk_boundaries(which in 0..ALL.len(), sizes in prop::collection::vec(1usize..90, 1..60)) {
        let bytes = ALL[which].as_bytes();
        let mut chunks = Vec::new();
        let mut rest = bytes;
        for size in sizes {
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        chunks.push(rest);
        prop_assert_eq!(outcome_text(read(&chunks)), outcome_text(read(&[bytes])));
    }
}

#[test]
fn truncated_response_is_an_error() {
    for stream in ALL.iter().take(5) {
        let end = stream.find("event: message_stop").unwrap();
        let (_, result) = read(&[&stream.as_bytes()[..end]]);
        assert_eq!(result.unwrap_err().code.as_deref(), Some("CutOff"));
    }
}

/// Returns the text of all chunks of a stream, and its complete answer.
fn chunks_and_answer(stream: &str) -> (String, LlmResponse) {
    let (mut answers, result) = read(&[stream.as_bytes()]);
    result.unwrap();
    let whole = answers.pop().unwrap();
    assert!(answers.iter().all(|chunk| chunk.partial == Some(true)));
    let parts = answers.iter().flat_map(|chunk| chunk.content.iter());
    let parts = parts.flat_map(|content| content.parts());
    let text = parts.filter_map(|part| part.text.clone()).collect();
    (text, whole)
}

#[test]
fn streamed_text_ends_with_the_complete_response() {
    let (chunks, whole) = chunks_and_answer(recorded::TEXT);
    assert_eq!(chunks, "Grüße, Ada 🙂");
    let expected = json(
        r#"{"modelVersion":"claude-test-20260101",
            "content":{"parts":[{"text":"Grüße, Ada 🙂"}],"role":"model"},
            "partial":false,"finishReason":"STOP",
            "usageMetadata":{"cachedContentTokenCount":100,"candidatesTokenCount":15,
                "promptTokenCount":135,"totalTokenCount":150}}"#,
    );
    assert_eq!(json(&whole.to_json().unwrap()), expected);
}

#[test]
fn streamed_thoughts_have_signatures_and_calls_have_ids() {
    let (chunks, whole) = chunks_and_answer(recorded::THOUGHTS_AND_CALLS);
    assert_eq!(chunks, "Two cities, two calls.");
    let content = whole.content.as_ref().unwrap();
    let [thought, redacted, first, second] = content.parts() else {
        panic!("{content:?}");
    };
    assert_eq!(thought.text.as_deref(), Some("Two cities, two calls."));
    let signature = |part: &Part| part.thought_signature.clone().unwrap().to_vec();
    assert_eq!(signature(thought), b"EqQBCgIYAhIM1gbcDa9GJwZA2b3h");
    assert_eq!((redacted.thought, &redacted.text), (Some(true), &None));
    assert_eq!(signature(redacted), b"EmwKAhgBEgy3va3pzix/LafPsn4a");
    let first = first.function_call.as_ref().unwrap();
    assert_eq!(first.id.as_deref(), Some("toolu_1"));
    let args = json(r#"{"city":"München","days":3}"#);
    assert_eq!(Json::from(first.args.clone().unwrap()), args);
    let second = second.function_call.as_ref().unwrap();
    assert_eq!(
        (second.id.as_deref(), second.name.as_deref()),
        (Some("toolu_2"), Some("get_time"))
    );
    assert!(second.args.as_ref().unwrap().is_empty());
    let usage = whole.usage_metadata.unwrap();
    assert_eq!(usage.thoughts_token_count, Some(40));
    assert_eq!(usage.candidates_token_count, Some(49));
    assert_eq!(usage.total_token_count, Some(472 + 89));
}

#[test]
fn stored_response_is_sent_back_unchanged() {
    let (_, whole) = chunks_and_answer(recorded::THOUGHTS_AND_CALLS);
    let stored = LlmResponse::from_json(&whole.to_json().unwrap()).unwrap();
    let body = super::body_of(&super::request_with([
        retain_core::Content::user("Weather?"),
        stored.content.unwrap(),
    ]));
    let expected = json(
        r#"[{"type":"thinking","thinking":"Two cities, two calls.",
             "signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"},
            {"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4a"},
            {"type":"tool_use","id":"toolu_1","name":"get_weather",
             "input":{"city":"München","days":3}},
            {"type":"tool_use","id":"toolu_2","name":"get_time","input":{}}]"#,
    );
    assert_eq!(body["messages"][1]["content"], expected);
}

#[test]
fn citation_offsets_are_byte_offsets() {
    let (_, whole) = chunks_and_answer(recorded::CITED);
    let expected = json(
        r#"{"citations":[
            {"startIndex":4,"endIndex":9,"title":"On grass"},
            {"startIndex":4,"endIndex":9,"title":"Green","uri":"https://example.org/g"}]}"#,
    );
    assert_eq!(**whole.citation_metadata.as_ref().unwrap(), expected);
}

#[test]
fn structured_response_is_returned_as_text() {
    let (chunks, whole) = chunks_and_answer(recorded::STRUCTURED);
    assert_eq!(chunks, r#"Here it is.{"tea":"Earl Grey"}"#);
    let content = whole.content.unwrap();
    assert_eq!(content.parts(), [Part::text(r#"{"tea": "Earl Grey"}"#)]);
}

#[test]
fn wrapped_structured_value_is_returned_as_text() {
    let body = r#"{"content":[{"type":"thinking","thinking":"Hm","signature":"c2ln"},
        {"type":"tool_use","id":"t","name":"retain_structured_value","input":{"response":["é",2]}}],
        "stop_reason":"tool_use"}"#;
    let content = provider().read_answer(body).unwrap().content.unwrap();
    assert_eq!(content.parts()[1], Part::text(r#"["é", 2]"#));
    assert_eq!(content.parts()[0].thought, Some(true));
}

#[test]
fn refusal_by_the_model_has_finish_reason_safety() {
    let (_, whole) = chunks_and_answer(recorded::EMPTY);
    assert_eq!(whole.finish_reason.as_deref(), Some("SAFETY"));
    assert_eq!(whole.error_code.as_deref(), Some("SAFETY"));
    assert!(whole.error_message.unwrap().contains("refus"));
    assert!(whole.content.unwrap().parts().is_empty());
    let body = r#"{"content":[{"type":"text","text":"No."}],"stop_reason":"refusal"}"#;
    let whole = provider().read_answer(body).unwrap();
    assert_eq!(whole.error_code.as_deref(), Some("SAFETY"));
    assert_eq!(whole.content.unwrap().text_concat(), "No.");
}

#[test]
fn call_truncated_by_max_tokens_is_dropped() {
    let cut = recorded::THOUGHTS_AND_CALLS
        .replace(r#", \"days\": 3}"#, "")
        .replace(
            r#""stop_reason":"tool_use""#,
            r#""stop_reason":"max_tokens""#,
        );
    let (_, whole) = chunks_and_answer(&cut);
    assert_eq!(whole.finish_reason.as_deref(), Some("MAX_TOKENS"));
    let content = whole.content.unwrap();
    assert_eq!(content.function_calls().count(), 0);
    let broken = recorded::THOUGHTS_AND_CALLS.replace(r#", \"days\": 3}"#, "");
    let (_, result) = read(&[broken.as_bytes()]);
    assert_eq!(
        result.unwrap_err().code.as_deref(),
        Some("MalformedResponse")
    );
}

/// A call that is truncated before its arguments looks the same as a call without arguments.
#[test]
fn call_truncated_at_its_start_is_dropped() {
    let cut = recorded::THOUGHTS_AND_CALLS.replace(
        r#""stop_reason":"tool_use""#,
        r#""stop_reason":"max_tokens""#,
    );
    let (_, whole) = chunks_and_answer(&cut);
    let content = whole.content.unwrap();
    let calls: Vec<_> = content.function_calls().map(|call| &call.name).collect();
    assert_eq!(calls, [&Some("get_weather".to_owned())]);
}

/// The token limit may have truncated the last call even if its arguments parse.
#[test]
fn last_call_of_a_truncated_response_is_dropped() {
    for reason in ["max_tokens", "model_context_window_exceeded"] {
        let body = format!(
            r#"{{"content":[{{"type":"text","text":"Well."}},
            {{"type":"tool_use","id":"t1","name":"look","input":{{"at":"a"}}}},
            {{"type":"tool_use","id":"t2","name":"remove","input":{{"path":"/"}}}}],
            "stop_reason":"{reason}"}}"#
        );
        let whole = provider().read_answer(&body).unwrap();
        let stream = recorded::THOUGHTS_AND_CALLS
            .replace(
                r#""stop_reason":"tool_use""#,
                &format!(r#""stop_reason":"{reason}""#),
            )
            .replace(
                r#""name":"get_time","input":{}"#,
                r#""name":"get_time","input":{"at":"a"}"#,
            );
        let (_, streamed) = chunks_and_answer(&stream);
        for (answer, called) in [(whole, "look"), (streamed, "get_weather")] {
            assert_eq!(
                answer.finish_reason.as_deref(),
                Some("MAX_TOKENS"),
                "{reason}"
            );
            let content = answer.content.unwrap();
            let calls: Vec<_> = content.function_calls().map(|call| &call.name).collect();
            assert_eq!(calls, [&Some(called.to_owned())], "{reason}");
        }
    }
}

/// Very large token counts do not overflow.
#[test]
fn extreme_token_counts_are_accepted() {
    for (input, output, thinking) in [
        (i64::MAX, i64::MAX, i64::MIN),
        (i64::MIN, i64::MIN, i64::MAX),
        (-1, i64::MAX, -1),
    ] {
        let body = format!(
            r#"{{"content":[],"usage":{{"input_tokens":{input},"cache_read_input_tokens":{input},
            "output_tokens":{output},"output_tokens_details":{{"thinking_tokens":{thinking}}}}}}}"#
        );
        assert!(
            provider()
                .read_answer(&body)
                .unwrap()
                .usage_metadata
                .is_some()
        );
    }
}

/// Anthropic often reports an overload only after a successful status.
#[tokio::test]
async fn overload_before_the_first_chunk_is_retried() {
    let begin = recorded::OVERLOADED
        .find("event: content_block_start")
        .unwrap();
    let error = recorded::OVERLOADED.find("event: error").unwrap();
    let busy = [
        &recorded::OVERLOADED[..begin],
        &recorded::OVERLOADED[error..],
    ]
    .concat();
    let scripts = [busy.as_str(), recorded::TEXT];
    let scripts = scripts.map(|script| event_stream(script.as_bytes(), &[]));
    let server = crate::testing::Server::playing(scripts).await;
    let mut settings = crate::HttpSettings::default();
    settings.retries.first_wait = std::time::Duration::from_millis(1);
    let http = crate::Http::new(settings).unwrap();
    let model = super::Claude::with_base_url(server.url(), "claude-test", "key-123".into(), http);
    let request = std::sync::Arc::new(super::request_with([retain_core::Content::user("Hi")]));
    let answers: Vec<_> = model.generate(request, true).collect().await;
    let last = answers.last().unwrap().as_ref().unwrap();
    assert_eq!(
        last.content.as_ref().unwrap().text_concat(),
        "Grüße, Ada 🙂"
    );
    assert_eq!(server.received().len(), 2);
}

#[test]
fn streamed_response_equals_the_unstreamed_one() {
    let whole = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-test-20260101",
        "content":[{"type":"thinking","thinking":"Two cities, two calls.","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"},
        {"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4a"},
        {"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"München","days":3}},
        {"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}},
        {"type":"tool_use","id":"toolu_2","name":"get_time","input":{}}],
        "stop_reason":"tool_use","unheard_of":1,
        "usage":{"input_tokens":472,"output_tokens":89,"output_tokens_details":{"thinking_tokens":40}}}"#;
    let whole = provider().read_answer(whole).unwrap();
    let (_, streamed) = chunks_and_answer(recorded::THOUGHTS_AND_CALLS);
    assert_eq!(
        LlmResponse {
            partial: None,
            ..streamed
        },
        whole
    );
}

#[tokio::test]
async fn streamed_call_is_sent_with_path_key_and_version() {
    let bytes = recorded::TEXT.as_bytes();
    let cuts: Vec<usize> = (1..bytes.len()).step_by(7).collect();
    let (answers, sent) = ask(event_stream(bytes, &cuts), true).await;
    let last = answers.last().unwrap().as_ref().unwrap();
    assert_eq!(
        last.content.as_ref().unwrap().text_concat(),
        "Grüße, Ada 🙂"
    );
    assert_eq!(sent.path(), "/v1/messages");
    assert_eq!(sent.header("x-api-key"), Some("sk-ant-test-key"));
    assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(json(&sent.body)["stream"], true);
    assert_eq!(json(&sent.body)["model"], "claude-test");
}

#[tokio::test]
async fn streamed_responses_do_not_depend_on_http_chunks() {
    let bytes = recorded::TEXT.as_bytes();
    let scripts = (0..bytes.len()).map(|cut| event_stream(bytes, &[cut]));
    let server = crate::testing::Server::playing(scripts).await;
    let http = crate::Http::new(crate::HttpSettings::default()).unwrap();
    let model = super::Claude::with_base_url(server.url(), "claude-test", "key-123".into(), http);
    let request = std::sync::Arc::new(super::request_with([retain_core::Content::user("Hi")]));
    let ask = || async {
        let answers = model.generate(std::sync::Arc::clone(&request), true);
        let answers: Vec<_> = answers.map(Result::unwrap).collect().await;
        answers
    };
    let first = ask().await;
    for cut in 1..bytes.len() {
        assert_eq!(ask().await, first, "cut at {cut}");
    }
}
