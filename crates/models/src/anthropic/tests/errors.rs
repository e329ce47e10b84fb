//! Errors by Anthropic's codes: <https://platform.claude.com/docs/en/api/errors>.

use super::{asked, provider, recorded};
use crate::{
    provider::Provider as _,
    testing::{event_stream, refusal},
};

const DOCUMENTED: [(&str, &str); 9] = [
    ("400 Bad Request", "invalid_request_error"),
    ("401 Unauthorized", "authentication_error"),
    ("403 Forbidden", "permission_error"),
    ("404 Not Found", "not_found_error"),
    ("413 Content Too Large", "request_too_large"),
    ("429 Too Many Requests", "rate_limit_error"),
    ("500 Internal Server Error", "api_error"),
    ("504 Gateway Timeout", "timeout_error"),
    ("529 Overloaded", "overloaded_error"),
];

#[tokio::test]
async fn a_refusal_has_anthropics_own_code() {
    for (status, code) in DOCUMENTED {
        for stream in [false, true] {
            let body = format!(
                r#"{{"type":"error","error":{{"type":"{code}","message":"No: {code}"}},"request_id":"req_1"}}"#
            );
            let (answers, _) = asked(refusal(status, &[], &body), stream).await;
            let [Err(error)] = &answers[..] else {
                panic!("{answers:?}");
            };
            assert_eq!(error.code.as_deref(), Some(code));
            assert_eq!(error.message, format!("No: {code}"));
        }
    }
}

#[test]
fn other_bodies_are_read_as_far_as_they_go() {
    let failure = |status, body| {
        let failure = provider().failure(status, body);
        (failure.code, failure.message)
    };
    let told = |code: &str, message: &str| (code.to_owned(), message.to_owned());
    assert_eq!(failure(502, "<html>"), told("502", "<html>"));
    assert_eq!(
        failure(503, " "),
        told("503", "the provider answered with status 503")
    );
    let google = r#"{"error":{"code":403,"message":"No access","status":"PERMISSION_DENIED"}}"#;
    assert_eq!(failure(403, google), told("PERMISSION_DENIED", "No access"));
    assert_eq!(failure(400, r#"{"error":"odd"}"#), told("400", r#""odd""#));
}

#[tokio::test]
async fn an_error_in_the_stream_ends_it() {
    let (answers, _) = asked(event_stream(recorded::OVERLOADED.as_bytes(), &[]), true).await;
    let error = answers.last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.code.as_deref(), Some("overloaded_error"));
    assert_eq!(error.message, "Overloaded");
}

#[test]
fn malformed_answers_are_refused() {
    let code = |body| provider().whole(body).unwrap_err().error.code.unwrap();
    assert_eq!(code("{"), "MalformedResponse");
    assert_eq!(code("{}"), "MalformedResponse");
    let error = r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#;
    assert_eq!(code(error), "api_error");
}
