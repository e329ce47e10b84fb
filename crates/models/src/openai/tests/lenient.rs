//! Servers that deviate from the specification.

use retain_core::Json;

use super::{call_texts, last, parts, read, read_answer};

fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#)
}

fn end(reason: &str) -> String {
    format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

/// Returns the calls in the answer that results from these deltas.
fn calls_of(deltas: &[&str]) -> Vec<String> {
    let mut events: Vec<String> = deltas.iter().map(|it| delta(it)).collect();
    events.push(end("tool_calls"));
    let answers = read(events.iter().map(String::as_str)).unwrap();
    call_texts(last(&answers))
}

#[test]
fn streamed_calls_are_separated_by_index_or_id() {
    let two = ["1 a({})", "2 b({\"x\":1})"];
    let variants: [&[&str]; 6] = [
        // Indexes separate the calls.
        &[
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{}"}},
                              {"index":1,"id":"2","function":{"name":"b","arguments":"{\"x\""}}]}"#,
            r#"{"tool_calls":[{"index":1,"function":{"arguments":":1}"}}]}"#,
        ],
        // The calls have no indexes.
        &[
            r#"{"tool_calls":[{"id":"1","function":{"name":"a","arguments":""}}]}"#,
            r#"{"tool_calls":[{"id":"2","function":{"name":"b","arguments":"{\"x\""}}]}"#,
            r#"{"tool_calls":[{"function":{"arguments":":1}"}}]}"#,
        ],
        // Every call has the index 0.
        &[
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{}"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"2","function":{"name":"b","arguments":"{\"x\""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}"#,
        ],
        // Arguments as an object.
        &[
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":{}}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"2","function":{"name":"b","arguments":{"x":1}}}]}"#,
        ],
        // Id and name in every chunk, `null` for missing values.
        &[
            r#"{"content":null,"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"a","arguments":null}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"2","function":{"name":"b","arguments":"{\"x\""}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"2","function":{"name":"b","arguments":":1}"}}]}"#,
        ],
        // A different id in every chunk, the name only in the first.
        &[
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{}"}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"2","function":{"name":"b","arguments":"{\"x\""}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"3","function":{"name":null,"arguments":":1}"}}]}"#,
        ],
    ];
    for deltas in variants {
        assert_eq!(calls_of(deltas), two, "{deltas:?}");
    }
}

#[test]
fn calls_without_ids_are_returned_without_ids() {
    let deltas = [
        r#"{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{\"x\":1}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{\"x\":2}"}}]}"#,
    ];
    assert_eq!(calls_of(&deltas), ["- a({\"x\":1})", "- a({\"x\":2})"]);
    let deltas = [
        r#"{"function_call":{"name":"old","arguments":"{"}}"#,
        r#"{"function_call":{"arguments":"}"}}"#,
    ];
    assert_eq!(calls_of(&deltas), ["- old({})"]);
}

#[test]
fn malformed_call_discards_all_calls_of_the_response() {
    let events = [
        delta(
            r#"{"content":"Hm.","tool_calls":[{"index":0,"id":"1","function":{"name":"good","arguments":"{}"}},
                  {"index":1,"id":"2","function":{"name":"bad","arguments":"{\"x\": "}}]}"#,
        ),
        end("stop"),
    ];
    let answers = read(events.iter().map(String::as_str)).unwrap();
    let whole = last(&answers);
    assert!(call_texts(whole).is_empty());
    assert_eq!(parts(whole).len(), 1);
    assert_eq!(
        whole.finish_reason.as_deref(),
        Some("MALFORMED_FUNCTION_CALL")
    );
    let message = whole.error_message.as_deref().unwrap();
    assert!(
        message.contains("bad") && !message.contains("good"),
        "{message}"
    );
}

#[test]
fn stream_ends_with_a_finish_reason_or_done() {
    let text = delta(r#"{"content":"Hi"}"#);
    let reasons = [
        ("stop", "STOP", None),
        ("STOP", "STOP", None),
        ("tool_calls", "STOP", None),
        ("function_call", "STOP", None),
        ("length", "MAX_TOKENS", Some("Maximum tokens reached")),
        ("content_filter", "SAFETY", Some("Finished with SAFETY")),
        (
            "insufficient_resource",
            "OTHER",
            Some("Finished with OTHER"),
        ),
    ];
    for (theirs, ours, error) in reasons {
        let answers = read([text.as_str(), &end(theirs)]).unwrap();
        let whole = last(&answers);
        assert_eq!(whole.finish_reason.as_deref(), Some(ours), "{theirs}");
        assert_eq!(whole.error_message.as_deref(), error, "{theirs}");
        assert_eq!(whole.error_code.is_some(), error.is_some(), "{theirs}");
    }
    let answers = read([text.as_str(), "[DONE]", "not read any more"]).unwrap();
    assert_eq!(last(&answers).finish_reason.as_deref(), Some("STOP"));
    assert_eq!(
        read([text.as_str()]).unwrap_err().code.as_deref(),
        Some("CutOff")
    );
}

#[test]
fn content_is_parsed_from_text_or_blocks() {
    let blocks = r#"{"choices":[{"message":{"content":[
        {"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},
        {"type":"text","text":"Yes"},{"type":"text","text":"!"}]}}]}"#;
    let answer = read_answer(blocks).unwrap();
    assert_eq!(parts(&answer)[0].text.as_deref(), Some("Hm."));
    assert_eq!(parts(&answer)[0].thought, Some(true));
    assert_eq!(parts(&answer)[1].text.as_deref(), Some("Yes!"));
    // Some servers send the same thoughts in both fields. Only one of the two counts.
    let both = r#"{"choices":[{"message":{"reasoning":"Hm.","reasoning_content":"Hm.","content":"Yes"}}]}"#;
    let answer = read_answer(both).unwrap();
    assert_eq!(parts(&answer)[0].text.as_deref(), Some("Hm."));
}

#[test]
fn missing_optional_fields_are_accepted() {
    let bare = read_answer(r#"{"choices":[{"message":{"content":"Hi"}}]}"#).unwrap();
    assert_eq!(parts(&bare)[0].text.as_deref(), Some("Hi"));
    assert_eq!((bare.usage_metadata, bare.model_version), (None, None));
    let nothing = read_answer(r#"{"choices":[{"index":0,"finish_reason":"stop"}]}"#).unwrap();
    assert!(parts(&nothing).is_empty());
    assert!(parts(&read_answer(r#"{"choices":[]}"#).unwrap()).is_empty());
    // Choices other than the first are ignored.
    let two = read_answer(
        r#"{"choices":[{"index":1,"message":{"content":"B"}},{"index":0,"message":{"content":"A"}}]}"#,
    );
    assert_eq!(parts(&two.unwrap())[0].text.as_deref(), Some("A"));
    let usage = r#"{"choices":null,"usage":{"prompt_tokens":2,"completion_tokens":3}}"#;
    let answers = read([end("stop").as_str(), usage, "[DONE]"]).unwrap();
    let usage = last(&answers).usage_metadata.clone().unwrap();
    assert_eq!(usage.total_token_count, Some(5));
    assert_eq!(usage.thoughts_token_count, None);
}

#[test]
fn call_signature_is_read_from_every_known_field() {
    let places = [
        r#""id":"c1","extra_content":{"google":{"thought_signature":"c2ln"}}"#,
        r#""id":"c1","provider_specific_fields":{"thought_signature":"c2ln"}"#,
        r#""id":"c1__thought__c2ln""#,
    ];
    for place in places {
        let body = format!(
            r#"{{"choices":[{{"message":{{"tool_calls":[{{{place},"function":{{"name":"f","arguments":"{{}}"}}}}]}}}}]}}"#
        );
        let answer = read_answer(&body).unwrap();
        assert_eq!(call_texts(&answer), ["c1 f({})"], "{place}");
        let signature = parts(&answer)[0].thought_signature.as_deref();
        assert_eq!(signature, Some(&b"sig"[..]), "{place}");
    }
}

#[test]
fn url_citations_are_converted_to_citation_metadata() {
    let body = r#"{"choices":[{"message":{"content":"See.","annotations":[{"type":"url_citation",
        "url_citation":{"start_index":0,"end_index":3,"url":"https://a.example","title":"A"}}]}}]}"#;
    let answer = read_answer(body).unwrap();
    let expected = r#"{"citations": [{"startIndex": 0, "endIndex": 3,
        "uri": "https://a.example", "title": "A"}]}"#;
    let found = answer.citation_metadata.as_deref().unwrap();
    assert_eq!(*found, Json::parse(expected).unwrap());
}

#[test]
fn malformed_response_is_reported() {
    for body in ["", "{", "[]", "{}", r#"{"choices":{}}"#, "<html>"] {
        let error = read_answer(body).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("MalformedResponse"), "{body}");
    }
    for data in ["{", "[]", "1", "\u{0}"] {
        let error = read([data]).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("MalformedResponse"), "{data}");
    }
}

/// A call that is truncated before its arguments looks the same as a call without arguments.
#[test]
fn answer_with_a_call_truncated_at_its_start_has_no_calls() {
    let answer = |reason: &str, calls: &str| {
        read_answer(&format!(
            r#"{{"choices":[{{"message":{{"tool_calls":[{calls}]}},"finish_reason":"{reason}"}}]}}"#
        ))
        .unwrap()
    };
    let first = r#"{"id":"a","function":{"name":"look","arguments":"{}"}}"#;
    let bare = r#"{"id":"b","function":{"name":"erase","arguments":""}}"#;
    let both = format!("{first},{bare}");
    assert_eq!(
        call_texts(&answer("tool_calls", &both)),
        ["a look({})", "b erase({})"]
    );
    let cut = answer("length", &both);
    assert!(call_texts(&cut).is_empty());
    assert_eq!(cut.error_code.as_deref(), Some("MAX_TOKENS"));
    assert!(cut.error_message.unwrap().contains("erase"));
    assert_eq!(call_texts(&answer("length", first)), ["a look({})"]);
}

/// Gemini's format counts thought tokens separately. OpenAI includes them in the completion tokens;
/// xAI does not, as its totals show.
#[test]
fn thought_tokens_are_counted_once() {
    for (completion, total, answer) in
        [(10, "30", 6), (10, "34", 10), (10, "null", 6), (3, "23", 0)]
    {
        let body = format!(
            r#"{{"choices":[],"usage":{{"prompt_tokens":20,"completion_tokens":{completion},
            "total_tokens":{total},"completion_tokens_details":{{"reasoning_tokens":4}}}}}}"#
        );
        let usage = super::read_answer(&body).unwrap().usage_metadata.unwrap();
        assert_eq!(usage.candidates_token_count, Some(answer), "{body}");
        assert_eq!(usage.thoughts_token_count, Some(4));
    }
}
