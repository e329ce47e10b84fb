//! Error responses: which of them are retried, and what the error contains.

use super::*;
use crate::testing::{answer, answer_with_status};

/// Each status with the number of calls that it causes if three attempts are allowed.
const STATUSES: [(&str, usize); 18] = [
    ("400 Bad Request", 1),
    ("401 Unauthorized", 1),
    ("402 Payment Required", 1),
    ("403 Forbidden", 1),
    ("404 Not Found", 1),
    ("408 Request Timeout", 3),
    ("409 Conflict", 3),
    ("413 Payload Too Large", 1),
    ("422 Unprocessable Content", 1),
    ("425 Too Early", 3),
    ("429 Too Many Requests", 3),
    ("500 Internal Server Error", 3),
    ("501 Not Implemented", 1),
    ("502 Bad Gateway", 3),
    ("503 Service Unavailable", 3),
    ("504 Gateway Timeout", 3),
    ("505 HTTP Version Not Supported", 1),
    ("529 Overloaded", 3),
];

#[tokio::test]
async fn error_has_the_providers_code_and_is_retried_by_status() {
    for (status, attempts) in STATUSES {
        for stream in [false, true] {
            let script = answer_with_status(status, &[], "why");
            let server = Server::playing(vec![script; 3]).await;
            let code = format!("!plain-{}", &status[..3]);
            let model = model(&server, fast_retries());
            assert_eq!(ask(&model, stream).await, [code], "{status}");
            assert_eq!(server.received().len(), attempts, "{status} {stream}");
        }
    }
}

#[tokio::test]
async fn error_before_a_successful_retry_is_not_reported() {
    let refused = answer_with_status("503 Service Unavailable", &[("retry-after", "0")], "");
    let server = Server::playing([refused.clone(), refused.clone(), answer("Hello")]).await;
    assert_eq!(ask(&model(&server, fast_retries()), false).await, ["Hello"]);
    let server = Server::playing([refused.clone(), refused, good_stream()]).await;
    let output = ask(&model(&server, fast_retries()), true).await;
    assert_eq!(output, ["Hel", "lo", "Hello"]);
}

#[tokio::test]
async fn provider_decides_whether_to_retry() {
    let cases = [
        ("429 Too Many Requests", "x-should-retry", "false", "", 1),
        ("400 Bad Request", "x-should-retry", "true", "", 3),
        // The delay exceeds the retry budget: fail immediately.
        ("429 Too Many Requests", "retry-after", "3600", "", 1),
        ("429 Too Many Requests", "retry-after-ms", "3600000", "", 1),
        (
            "429 Too Many Requests",
            "retry-after",
            "Fri, 31 Dec 2100 23:59:59 GMT",
            "",
            1,
        ),
        // The delay is longer than a `Duration` can represent.
        (
            "429 Too Many Requests",
            "retry-after",
            "99999999999999999999",
            "",
            1,
        ),
        ("429 Too Many Requests", "retry-after", "1e300", "", 1),
        ("429 Too Many Requests", "retry-after-ms", "1e300", "", 1),
        ("429 Too Many Requests", "retry-after", "nan", "", 3),
        // A past date means now.
        (
            "429 Too Many Requests",
            "retry-after",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "",
            3,
        ),
        ("429 Too Many Requests", "retry-after", "0", "", 3),
        ("429 Too Many Requests", "retry-after-ms", "1", "", 3),
        // An invalid value counts as missing.
        ("429 Too Many Requests", "retry-after", "soon", "", 3),
        ("429 Too Many Requests", "retry-after", "-1", "", 3),
        // The body reports that a retry cannot succeed.
        ("429 Too Many Requests", "x-none", "", "never", 1),
    ];
    for (status, name, value, body, attempts) in cases {
        let script = answer_with_status(status, &[(name, value)], body);
        let server = Server::playing(vec![script; 3]).await;
        ask(&model(&server, fast_retries()), false).await;
        assert_eq!(
            server.received().len(),
            attempts,
            "{status} {name} {value} {body}"
        );
    }
}

#[tokio::test]
async fn truncated_error_response_is_reported_with_its_received_text() {
    let stalled = vec![
        send("HTTP/1.1 400 Bad Request\r\ncontent-length: 100\r\n\r\nonly this"),
        Act::Stall,
    ];
    let server = Server::playing([stalled]).await;
    let model = model(&server, short_timeouts());
    let answers: Vec<_> = model
        .generate(Arc::new(LlmRequest::default()), false)
        .collect()
        .await;
    let error = answers[0].as_ref().expect_err("refused");
    assert_eq!(error.code.as_deref(), Some("plain-400"));
    assert_eq!(error.message, "only this");
}

#[tokio::test]
async fn redirect_is_an_error_and_is_not_followed() {
    let elsewhere = Server::playing([answer("from elsewhere")]).await;
    let location = format!("{}/ask", elsewhere.url());
    let moved = answer_with_status("307 Temporary Redirect", &[("location", &location)], "");
    let server = Server::playing([moved]).await;
    assert_eq!(
        ask(&model(&server, fast_retries()), false).await,
        ["!plain-307"]
    );
    assert!(elsewhere.received().is_empty());
}
