//! Documented streams, split at every byte.

use retain_core::{Json, LlmResponse};
use retain_runtime::ModelError;

use super::{
    call_texts, last, parts,
    recorded::{self, ALL},
};
use crate::{
    http::{Sse, malformed},
    openai::stream::ChunkReader,
    provider::StreamReader as _,
};

/// Reads bytes in these chunks.
fn read_bytes<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let (mut sse, mut reader) = (Sse::default(), ChunkReader::default());
    let mut answers = Vec::new();
    let read = || -> Result<(), ModelError> {
        for bytes in chunks {
            for event in sse.push(bytes) {
                answers.extend(reader.push(&event)?);
            }
            if let Some(error) = sse.error() {
                return Err(malformed(error.message()));
            }
        }
        answers.extend(reader.finish()?);
        Ok(())
    };
    let error = read().err().map(|error| (error.code, error.message));
    Outcome { answers, error }
}

#[derive(Debug, PartialEq)]
struct Outcome {
    answers: Vec<LlmResponse>,
    error: Option<(Option<String>, String)>,
}

fn read(stream: &str) -> Vec<LlmResponse> {
    let outcome = read_bytes([stream.as_bytes()]);
    assert_eq!(outcome.error, None);
    outcome.answers
}

#[test]
fn parsed_stream_does_not_depend_on_chunk_boundaries() {
    for (name, stream) in ALL {
        let bytes = stream.as_bytes();
        let expected = read_bytes([bytes]);
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(read_bytes([first, second]), expected, "{name} at {at}");
        }
        assert_eq!(read_bytes(bytes.chunks(1)), expected, "{name} byte by byte");
    }
}

#[test]
fn streamed_text_ends_with_the_complete_text_and_usage() {
    let answers = read(recorded::TEXT);
    let pieces: Vec<String> = answers[..answers.len() - 1]
        .iter()
        .map(|piece| piece.content.as_ref().expect("words").text_concat())
        .collect();
    assert_eq!(pieces, ["Grüße, ", "世界 🌍!"]);
    let whole = last(&answers);
    assert_eq!(parts(whole)[0].text.as_deref(), Some("Grüße, 世界 🌍!"));
    assert_eq!(whole.finish_reason.as_deref(), Some("STOP"));
    assert_eq!(whole.error_code, None);
    assert_eq!(
        whole.model_version.as_deref(),
        Some("gpt-4o-mini-2024-07-18")
    );
    let usage = whole.usage_metadata.as_ref().expect("usage");
    assert_eq!(usage.prompt_token_count, Some(19));
    assert_eq!(usage.candidates_token_count, Some(6));
    assert_eq!(usage.total_token_count, Some(29));
    assert_eq!(usage.cached_content_token_count, Some(16));
    assert_eq!(usage.thoughts_token_count, Some(4));
}

#[test]
fn parallel_calls_are_separated_by_index() {
    let answers = read(recorded::PARALLEL_CALLS);
    let whole = last(&answers);
    assert_eq!(
        call_texts(whole),
        [
            r#"call_DdmO9pD3xa9XTPNJ32zg2hcA get_weather({"city":"Paris"})"#,
            // All digits of a large integer are kept.
            r#"call_B get_time({"zone":9007199254740993})"#,
        ]
    );
    assert_eq!(whole.finish_reason.as_deref(), Some("STOP"));
    assert_eq!(answers.len(), 1);
}

#[test]
fn thoughts_precede_text_and_calls() {
    let answers = read(recorded::THOUGHTS);
    let whole = last(&answers);
    let thoughts_and_texts: Vec<(Option<bool>, Option<&str>)> = parts(whole)
        .iter()
        .map(|part| (part.thought, part.text.as_deref()))
        .collect();
    assert_eq!(
        thoughts_and_texts,
        [
            (Some(true), Some("The user asks.")),
            (None, Some("Let me look.")),
            (None, None),
        ]
    );
    assert_eq!(call_texts(whole), ["call_0_x look({})"]);
    let usage = whole.usage_metadata.as_ref().expect("usage");
    assert_eq!(usage.cached_content_token_count, Some(3));
    let is_thought = |piece: &LlmResponse| parts(piece)[0].thought == Some(true);
    assert!(is_thought(&answers[0]) && is_thought(&answers[1]) && !is_thought(&answers[2]));
}

#[test]
fn signed_reasoning_blocks_are_stored_as_the_thought_signature() {
    let answers = read(recorded::SIGNED_THOUGHTS);
    let thought = &parts(last(&answers))[0];
    assert_eq!(thought.text.as_deref(), Some("First, add."));
    let signature = thought.thought_signature.as_ref().expect("a signature");
    let blocks = Json::parse(std::str::from_utf8(signature).unwrap()).unwrap();
    let expected = r#"[
        {"type": "reasoning.text", "text": "First, add.", "format": "anthropic-claude-v1",
         "index": 0, "signature": "c2lnbmVk"},
        {"type": "reasoning.encrypted", "data": "b3BhcXVl", "index": 1}]"#;
    assert_eq!(blocks, Json::parse(expected).unwrap());
}

#[test]
fn filtered_or_refused_response_is_an_error_with_its_text() {
    let answers = read(recorded::FILTERED);
    let whole = last(&answers);
    assert_eq!(parts(whole)[0].text.as_deref(), Some("Well, "));
    assert_eq!(whole.finish_reason.as_deref(), Some("SAFETY"));
    assert_eq!(whole.error_code.as_deref(), Some("SAFETY"));
    let message = whole.error_message.as_deref();
    assert_eq!(message, Some("Finished with SAFETY"));

    let answers = read(recorded::REFUSAL);
    let whole = last(&answers);
    assert!(parts(whole).is_empty());
    assert_eq!(whole.error_code.as_deref(), Some("SAFETY"));
    let message = whole.error_message.as_deref();
    assert_eq!(message, Some("I'm sorry, I cannot assist."));
}

#[test]
fn empty_response_finishes_normally() {
    let answers = read(recorded::EMPTY);
    assert_eq!(answers.len(), 1);
    assert!(parts(&answers[0]).is_empty());
    assert_eq!(answers[0].finish_reason.as_deref(), Some("STOP"));
}

#[test]
fn log_probabilities_are_converted_to_geminis_format() {
    let answers = read(recorded::LOGPROBS);
    let whole = last(&answers);
    assert_eq!(whole.avg_logprobs, Some(-0.5));
    let expected = r#"{
        "chosenCandidates": [{"token": "Hi", "logProbability": -0.25},
                             {"token": "!", "logProbability": -0.75}],
        "topCandidates": [{"candidates": [{"token": "Hi", "logProbability": -0.25},
                                          {"token": "Yo", "logProbability": -1.5}]},
                          {"candidates": []}]}"#;
    let result = whole.logprobs_result.as_deref().expect("probabilities");
    assert_eq!(*result, Json::parse(expected).unwrap());
}

#[test]
fn error_event_ends_the_stream_with_its_code() {
    let outcome = read_bytes([recorded::BROKEN.as_bytes()]);
    assert_eq!(outcome.answers.len(), 1);
    let message = "Provider disconnected unexpectedly".to_owned();
    assert_eq!(
        outcome.error,
        Some((Some("server_error".to_owned()), message))
    );
}

#[test]
fn truncated_calls_are_dropped_and_reported() {
    let answers = read(recorded::TOO_LONG);
    let whole = last(&answers);
    assert!(call_texts(whole).is_empty());
    assert_eq!(parts(whole)[0].text.as_deref(), Some("I shall "));
    assert_eq!(whole.error_code.as_deref(), Some("MAX_TOKENS"));
    let message = whole.error_message.as_deref().expect("a message");
    assert!(
        message.starts_with("Maximum tokens reached. ") && message.ends_with(": write"),
        "{message}"
    );
}

#[test]
fn truncated_stream_is_an_error() {
    let stream = recorded::TEXT;
    let finish = stream.find("\"stop\"").unwrap();
    for end in stream.match_indices("\n\n").map(|(at, _)| at + 2) {
        let outcome = read_bytes([&stream.as_bytes()[..end]]);
        let code = outcome.error.map(|(code, _)| code);
        match end > finish {
            // A stream that ends after the finish reason is complete.
            true => assert_eq!(code, None, "{end}"),
            false => assert_eq!(code, Some(Some("CutOff".to_owned())), "{end}"),
        }
    }
}
