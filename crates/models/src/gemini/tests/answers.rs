//! Complete responses, and errors.

use std::time::Duration;

use super::*;
use crate::provider::Failure;

fn read_answer(body: &str) -> Result<String, String> {
    match api().read_answer(body) {
        Ok(answer) => Ok(answer_text(&answer)),
        Err(error) => Err(error.error.code.unwrap_or_default()),
    }
}

#[test]
fn response_is_parsed_as_in_adk() {
    let cases = [
        (
            r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"STOP","avgLogprobs":-0.25,
                "logprobsResult":{"chosenCandidates":[{"token":"Hi","logProbability":-0.25}]}}],
                "usageMetadata":{"promptTokenCount":1,"thoughtsTokenCount":2,"cachedContentTokenCount":1},"modelVersion":"m"}"#,
            r#"{"modelVersion":"m","content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"STOP","avgLogprobs":-0.25,
                "logprobsResult":{"chosenCandidates":[{"token":"Hi","logProbability":-0.25}]},
                "usageMetadata":{"cachedContentTokenCount":1,"promptTokenCount":1,"thoughtsTokenCount":2}}"#,
        ),
        // A text truncated by the token limit is not an error.
        (
            r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"MAX_TOKENS"}]}"#,
            r#"{"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"MAX_TOKENS"}"#,
        ),
        // A finish reason without content becomes an error.
        (
            r#"{"candidates":[{"content":{"role":"model"},"finishReason":"RECITATION","finishMessage":"found elsewhere"}]}"#,
            r#"{"finishReason":"RECITATION","errorCode":"RECITATION","errorMessage":"found elsewhere"}"#,
        ),
        // The finish reason `STOP` without content is not an error.
        (
            r#"{"candidates":[{"content":{"role":"model"},"finishReason":"STOP"}]}"#,
            r#"{"content":{"role":"model"},"finishReason":"STOP"}"#,
        ),
        (
            r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#,
            r#"{"errorCode":"SAFETY"}"#,
        ),
        (r#"{}"#, r#"{"content":{"parts":[],"role":"model"}}"#),
        (
            r#"{"candidates":[],"usageMetadata":{"totalTokenCount":3}}"#,
            r#"{"content":{"parts":[],"role":"model"},"usageMetadata":{"totalTokenCount":3}}"#,
        ),
        // A citation field with Vertex AI's name, and a part with an unknown field.
        (
            r#"{"candidates":[{"content":{"parts":[{"text":"Hi","newField":1}]},"citationMetadata":{"citations":[{"uri":"u"}]}}]}"#,
            r#"{"content":{"parts":[{"text":"Hi","newField":1}]},"citationMetadata":{"citations":[{"uri":"u"}]}}"#,
        ),
        // Invalid metadata is dropped, and the rest is kept.
        (
            r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"avgLogprobs":"none","groundingMetadata":7}],"usageMetadata":{"totalTokenCount":"x"}}"#,
            r#"{"content":{"parts":[{"text":"Hi"}]}}"#,
        ),
        // A proxy has collected the stream into a list.
        (
            r#"[{"candidates":[{"content":{"parts":[{"text":"H"}]}}]},{"candidates":[{"content":{"parts":[{"text":"i"}]},"finishReason":"STOP"}]}]"#,
            r#"{"content":{"parts":[{"text":"Hi"}],"role":"model"},"partial":false,"finishReason":"STOP"}"#,
        ),
    ];
    for (body, expected) in cases {
        let answer = read_answer(body).expect("an answer");
        assert_eq!(json(&answer), json(expected), "{body}");
    }
}

#[test]
fn malformed_response_is_an_error() {
    for body in [
        "",
        "{",
        "[]",
        "7",
        "<html>",
        r#"{"candidates":[{"content":{"parts":[7]}}]}"#,
    ] {
        assert_eq!(
            read_answer(body),
            Err("MalformedResponse".to_owned()),
            "{body}"
        );
    }
    let failed = r#"{"error":{"code":500,"message":"oh","status":"INTERNAL"}}"#;
    assert_eq!(read_answer(failed), Err("INTERNAL".to_owned()));
    assert_eq!(
        read_answer(&format!("[{failed}]")),
        Err("INTERNAL".to_owned())
    );
}

#[test]
fn error_code_and_message_are_taken_from_googles_response() {
    let failure = |status, body: &str| api().failure(status, body);
    let error = r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[]}}"#;
    let expected = Failure::new("INVALID_ARGUMENT", "API key not valid.");
    assert_eq!(failure(400, error), expected);
    assert_eq!(failure(400, &format!("[{error}]")), expected);
    assert_eq!(failure(404, r#"{"error":{"code":404}}"#).code, "404");
    assert_eq!(failure(502, "<html>Bad gateway</html>").code, "502");
    assert_eq!(
        failure(502, "<html>Bad gateway</html>").message,
        "<html>Bad gateway</html>"
    );
    assert_eq!(
        failure(503, "").message,
        "the provider returned HTTP status 503"
    );
    assert_eq!(failure(500, &"x".repeat(9999)).message.len(), 500);
}

/// Written from <https://cloud.google.com/apis/design/errors> (RetryInfo, QuotaFailure).
#[test]
fn retry_delay_is_taken_from_googles_response() {
    let body = r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[
        {"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},
        {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}"#;
    let failure = api().failure(429, body);
    assert_eq!(failure.code, "RESOURCE_EXHAUSTED");
    assert_eq!(failure.retry_after, Some(Duration::from_millis(34_500)));
    assert!(!failure.is_final);
    let daily = body.replace("PerMinute", "PerDay");
    assert!(api().failure(429, &daily).is_final);
    let forever = body.replace("34.5s", "1e30s");
    assert_eq!(
        api().failure(429, &forever).retry_after,
        Some(Duration::MAX)
    );
    // With a successful status, the same error is also final and has the delay.
    let error = api().read_answer(&daily).unwrap_err();
    assert!(error.is_final && error.after == Some(Duration::from_millis(34_500)));
}
