//! Errors, as documented on <https://platform.claude.com/docs/en/api/errors>.

use super::{ask, provider, recorded};
use crate::{
    provider::Provider as _,
    testing::{answer_with_status, event_stream},
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
async fn error_code_is_taken_from_anthropics_response() {
    for (status, code) in DOCUMENTED {
        for stream in [false, true] {
            let body = format!(
                r#"{{"type":"error","error":{{"type":"{code}","message":"No: {code}"}},"request_id":"req_1"}}"#
            );
            let (answers, _) = ask(answer_with_status(status, &[], &body), stream).await;
            let [Err(error)] = &answers[..] else {
                panic!("{answers:?}");
            };
            assert_eq!(error.code.as_deref(), Some(code));
            assert_eq!(error.message, format!("No: {code}"));
        }
    }
}

#[test]
fn unknown_error_body_is_reported_with_the_status_or_its_message() {
    let failure = |status, body| {
        let failure = provider().failure(status, body);
        (failure.code, failure.message)
    };
    let expected = |code: &str, message: &str| (code.to_owned(), message.to_owned());
    assert_eq!(failure(502, "<html>"), expected("502", "<html>"));
    assert_eq!(
        failure(503, " "),
        expected("503", "the provider returned HTTP status 503")
    );
    let google = r#"{"error":{"code":403,"message":"No access","status":"PERMISSION_DENIED"}}"#;
    assert_eq!(
        failure(403, google),
        expected("PERMISSION_DENIED", "No access")
    );
    assert_eq!(
        failure(400, r#"{"error":"odd"}"#),
        expected("400", r#""odd""#)
    );
}

#[tokio::test]
async fn error_event_ends_the_stream() {
    let (answers, _) = ask(event_stream(recorded::OVERLOADED.as_bytes(), &[]), true).await;
    let error = answers.last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.code.as_deref(), Some("overloaded_error"));
    assert_eq!(error.message, "Overloaded");
}

#[test]
fn malformed_response_is_an_error() {
    let code = |body| {
        provider()
            .read_answer(body)
            .unwrap_err()
            .error
            .code
            .unwrap()
    };
    assert_eq!(code("{"), "MalformedResponse");
    assert_eq!(code("{}"), "MalformedResponse");
    let error = r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#;
    assert_eq!(code(error), "api_error");
}
