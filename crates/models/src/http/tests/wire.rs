//! Responses on the wire: complete ones, and those that stall, are reset, truncated or malformed.

use super::*;
use crate::testing::{answer, event_stream};

#[tokio::test]
async fn unstreamed_response_is_returned_unchanged() {
    let server = Server::playing([answer("Grüße")]).await;
    assert_eq!(ask(&model(&server, fast_retries()), false).await, ["Grüße"]);
    let received = server.received();
    assert_eq!(received[0].line, "POST /ask HTTP/1.1");
    assert_eq!(received[0].header("content-type"), Some("application/json"));
    assert_eq!(received[0].header("accept"), Some("application/json"));
    assert_eq!(received[0].header("x-plain"), Some("false"));
    assert_eq!(received[0].body, r#"{"say":"something"}"#);
}

#[tokio::test]
async fn streamed_response_is_returned_in_chunks_and_then_complete() {
    let server = Server::playing([good_stream()]).await;
    let output = ask(&model(&server, fast_retries()), true).await;
    assert_eq!(output, ["Hel", "lo", "Hello"]);
    let received = server.received();
    assert_eq!(received[0].header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn streamed_chunks_do_not_depend_on_http_chunks() {
    let body = "data: Grü\r\n\r\nevent: x\ndata: ße\n\n: comment\n\ndata: end\n\n".as_bytes();
    for cut in 0..body.len() {
        let server = Server::playing([event_stream(body, &[cut])]).await;
        let output = ask(&model(&server, fast_retries()), true).await;
        assert_eq!(output, ["Grü", "ße", "Grüße"], "cut at {cut}");
    }
}

#[tokio::test]
async fn unstreamed_response_to_a_streamed_call_is_accepted() {
    let server = Server::playing([answer("Hello")]).await;
    assert_eq!(ask(&model(&server, fast_retries()), true).await, ["Hello"]);
}

#[tokio::test]
async fn compressed_response_is_decoded() {
    // gzip of `Hello`.
    let body = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 243, 72, 205, 201, 201, 7, 0, 130, 137, 209, 247, 5, 0,
        0, 0,
    ];
    let mut bytes = format!(
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend(body);
    let server = Server::playing([vec![Act::Send(bytes)]]).await;
    assert_eq!(ask(&model(&server, fast_retries()), false).await, ["Hello"]);
    let received = server.received();
    assert_eq!(received[0].header("accept-encoding"), Some("gzip"));
}

/// A timeout before the response headers is retried until no attempts are left.
#[tokio::test]
async fn request_without_a_response_times_out_and_is_retried() {
    let server = Server::playing([vec![Act::Stall], good_stream()]).await;
    let output = ask(&model(&server, short_timeouts()), true).await;
    assert_eq!(output, ["Hel", "lo", "Hello"]);
    let server = Server::playing(vec![vec![Act::Stall]; 3]).await;
    assert_eq!(
        ask(&model(&server, short_timeouts()), true).await,
        ["!TimeoutError"]
    );
    assert_eq!(server.received().len(), 3);
}

#[tokio::test]
async fn unstreamed_response_times_out_after_the_total_timeout() {
    let late = vec![Act::Pause(Duration::from_millis(900))];
    let late = late.into_iter().chain(answer("late")).collect();
    let server = Server::playing([late]).await;
    assert_eq!(
        ask(&model(&server, short_timeouts()), false).await,
        ["late"]
    );
    let settings = HttpSettings {
        total_timeout: Duration::from_millis(200),
        ..fast_retries()
    };
    let server = Server::playing([vec![Act::Stall]]).await;
    assert_eq!(
        ask(&model(&server, settings), false).await,
        ["!TimeoutError"]
    );
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn idle_timeout_before_the_first_chunk_is_retried() {
    let silent = vec![head(), chunk(": hold on\n\n"), Act::Stall];
    let server = Server::playing([silent, good_stream()]).await;
    let output = ask(&model(&server, short_timeouts()), true).await;
    assert_eq!(output, ["Hel", "lo", "Hello"]);
}

/// The caller already has the first chunk, so any later failure ends the call.
#[tokio::test]
async fn failure_after_the_first_chunk_is_not_retried() {
    let cases: [(&str, Vec<Act>, &str); 8] = [
        ("a stall", vec![Act::Stall], "!TimeoutError"),
        ("a reset", vec![Act::Reset], "!ConnectionError"),
        (
            "a half-closed socket",
            vec![Act::HalfClose],
            "!ConnectionError",
        ),
        ("a closed connection", vec![], "!ConnectionError"),
        (
            "an end without the last event",
            vec![last_chunk()],
            "!MalformedResponse",
        ),
        (
            "an invalid chunk size",
            vec![send("zzz\r\n")],
            "!ConnectionError",
        ),
        (
            "a malformed event",
            vec![chunk("data: broken\n\n"), last_chunk()],
            "!MalformedResponse",
        ),
        (
            "invalid UTF-8",
            vec![Act::Send(b"9\r\ndata: \xff\n\n\r\n".to_vec()), Act::Stall],
            "!MalformedResponse",
        ),
    ];
    for (name, acts, code) in cases {
        let script = [vec![head(), chunk("data: Hel\n\n"), pause()], acts].concat();
        let script = [script, vec![Act::Close]].concat();
        let server = Server::playing([script, good_stream()]).await;
        let output = ask(&model(&server, short_timeouts()), true).await;
        assert_eq!(output, ["Hel", code], "{name}");
        assert_eq!(server.received().len(), 1, "{name}");
    }
}

/// Chunks before an error are forwarded, however the network splits the bytes.
#[tokio::test]
async fn chunks_before_an_error_are_returned_first() {
    for cuts in [&[][..], &[11], &[3, 14]] {
        let body = b"data: Hel\n\ndata: broken\n\n";
        let server = Server::playing([event_stream(body, cuts), good_stream()]).await;
        let output = ask(&model(&server, fast_retries()), true).await;
        assert_eq!(output, ["Hel", "!MalformedResponse"], "{cuts:?}");
        assert_eq!(server.received().len(), 1);
    }
}

/// Chunks before invalid UTF-8 are forwarded, and data after the last event is ignored.
#[tokio::test]
async fn chunks_before_invalid_utf8_are_returned_and_data_after_the_end_is_ignored() {
    let invalid_utf8 = b"data: Hel\n\ndata: \xff\n\n";
    let after_the_end = b"data: Hel\n\ndata: end\n\ndata: broken\n\n";
    for cuts in [&[][..], &[11], &[3, 17]] {
        let server = Server::playing([event_stream(invalid_utf8, cuts)]).await;
        let output = ask(&model(&server, fast_retries()), true).await;
        assert_eq!(output, ["Hel", "!MalformedResponse"], "{cuts:?}");
        let server = Server::playing([event_stream(after_the_end, cuts)]).await;
        let output = ask(&model(&server, fast_retries()), true).await;
        assert_eq!(output, ["Hel", "Hel"], "{cuts:?}");
    }
}

/// A busy provider often reports an overload within the stream.
#[tokio::test]
async fn transient_error_is_retried_only_before_the_first_chunk() {
    let busy = vec![head(), chunk("data: busy\n\n"), last_chunk()];
    let server = Server::playing([busy.clone(), good_stream()]).await;
    let output = ask(&model(&server, fast_retries()), true).await;
    assert_eq!(output, ["Hel", "lo", "Hello"]);
    let server = Server::playing(vec![busy; 3]).await;
    assert_eq!(
        ask(&model(&server, fast_retries()), true).await,
        ["!plain-busy"]
    );
    assert_eq!(server.received().len(), 3);
    let permanent = vec![head(), chunk("data: permanently busy\n\n"), last_chunk()];
    let server = Server::playing([permanent, good_stream()]).await;
    assert_eq!(
        ask(&model(&server, fast_retries()), true).await,
        ["!plain-busy"]
    );
    let late = vec![
        head(),
        chunk("data: Hel\n\n"),
        chunk("data: busy\n\n"),
        last_chunk(),
    ];
    let server = Server::playing([late, good_stream()]).await;
    let output = ask(&model(&server, fast_retries()), true).await;
    assert_eq!(output, ["Hel", "!plain-busy"]);
    assert_eq!(server.received().len(), 1);
}

/// Gives the client time to read the data before the connection breaks.
fn pause() -> Act {
    Act::Pause(Duration::from_millis(20))
}

#[tokio::test]
async fn failure_before_the_first_chunk_is_retried() {
    let cases: [(&str, Vec<Act>); 5] = [
        ("a reset before the headers", vec![Act::Reset]),
        ("a close before the headers", vec![Act::Close]),
        ("a half-closed socket", vec![Act::HalfClose]),
        (
            "a reset after the headers",
            vec![head(), pause(), Act::Reset],
        ),
        (
            "a close after the headers",
            vec![head(), pause(), Act::Close],
        ),
    ];
    for (name, script) in cases {
        let server = Server::playing([script.clone(), good_stream()]).await;
        let output = ask(&model(&server, short_timeouts()), true).await;
        assert_eq!(output, ["Hel", "lo", "Hello"], "{name}");
        let server = Server::playing([script, answer("Hello")]).await;
        assert_eq!(
            ask(&model(&server, short_timeouts()), false).await,
            ["Hello"],
            "{name}"
        );
    }
}

#[tokio::test]
async fn truncated_response_is_retried() {
    let cut = vec![
        send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nHel"),
        pause(),
        Act::HalfClose,
    ];
    let server = Server::playing([cut.clone(), answer("Hello")]).await;
    assert_eq!(ask(&model(&server, fast_retries()), false).await, ["Hello"]);
    let server = Server::playing([cut.clone(), cut.clone(), cut]).await;
    let output = ask(&model(&server, fast_retries()), false).await;
    assert_eq!(output, ["!ConnectionError"]);
    assert_eq!(server.received().len(), 3);
}

/// The idle timeout applies to the body of an unstreamed response too, even if a stream was
/// requested.
#[tokio::test]
async fn stalled_response_is_retried() {
    for kind in ["text/plain", "application/json"] {
        let begun =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: 100\r\n\r\nHel");
        let silent = vec![send(&begun), Act::Stall];
        let server = Server::playing([silent, answer("Hello")]).await;
        let stream = kind == "application/json";
        let output = ask(&model(&server, short_timeouts()), stream).await;
        assert_eq!(output, ["Hello"], "{kind}");
        assert_eq!(server.received().len(), 2);
    }
}

/// A stream without data counts as truncated, and truncation is a transient failure.
#[tokio::test]
async fn empty_stream_is_retried() {
    let empty = vec![head(), chunk(": hold on\n\n"), last_chunk()];
    let server = Server::playing([empty.clone(), good_stream()]).await;
    let output = ask(&model(&server, fast_retries()), true).await;
    assert_eq!(output, ["Hel", "lo", "Hello"]);
    let server = Server::playing(vec![empty; 3]).await;
    let output = ask(&model(&server, fast_retries()), true).await;
    assert_eq!(output, ["!MalformedResponse"]);
    assert_eq!(server.received().len(), 3);
}

/// A body with status 200 may contain an error.
#[tokio::test]
async fn transient_error_in_an_unstreamed_response_is_retried() {
    for stream in [false, true] {
        let server = Server::playing([answer("busy"), answer("Hello")]).await;
        assert_eq!(
            ask(&model(&server, fast_retries()), stream).await,
            ["Hello"]
        );
    }
}

#[tokio::test]
async fn malformed_response_is_not_retried() {
    let server = Server::playing([answer(""), answer("Hello")]).await;
    let output = ask(&model(&server, fast_retries()), false).await;
    assert_eq!(output, ["!MalformedResponse"]);
    let not_utf8 = Act::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\xff".to_vec());
    let server = Server::playing([vec![not_utf8], answer("Hello")]).await;
    let output = ask(&model(&server, fast_retries()), false).await;
    assert_eq!(output, ["!MalformedResponse"]);
}

#[tokio::test]
async fn refused_connection_error_names_only_the_host() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let model = model_at(
        format!("http://user:pass@127.0.0.1:{port}"),
        fast_retries(),
        Auth::None,
    );
    let answers = model.generate(Arc::new(LlmRequest::default()), false);
    let answers: Vec<_> = answers.collect().await;
    let error = answers[0].as_ref().expect_err("no server");
    assert_eq!(error.code.as_deref(), Some("ConnectionError"));
    assert!(error.message.contains("127.0.0.1"), "{}", error.message);
    for hidden in ["pass", "/ask"] {
        assert!(!error.message.contains(hidden), "{}", error.message);
    }
}

#[tokio::test]
async fn invalid_url_is_an_invalid_request() {
    let model = model_at("not an address".to_owned(), fast_retries(), Auth::None);
    assert_eq!(ask(&model, false).await, ["!InvalidRequest"]);
    assert_eq!(ask(&model, true).await, ["!InvalidRequest"]);
}

/// Dropping the stream cancels the call: the server sees the connection close.
#[tokio::test]
async fn dropping_the_stream_cancels_the_call() {
    for script in [
        vec![Act::Stall],
        vec![head(), chunk("data: Hel\n\n"), Act::Stall],
    ] {
        let reads_chunk = script.len() > 1;
        let server = Server::playing([script]).await;
        let model = model(&server, fast_retries());
        let mut answers = model.generate(Arc::new(LlmRequest::default()), true);
        if reads_chunk {
            assert_eq!(text_or_code(answers.next().await.expect("a chunk")), "Hel");
        } else {
            // Wait until the request has arrived.
            while server.received().is_empty() {
                let _ = tokio::time::timeout(Duration::from_millis(5), answers.next()).await;
            }
        }
        drop(answers);
        server.connections_ended(1).await;
    }
    let server = Server::playing([vec![Act::Stall]]).await;
    let model = model(&server, fast_retries());
    let mut answers = model.generate(Arc::new(LlmRequest::default()), false);
    while server.received().is_empty() {
        let _ = tokio::time::timeout(Duration::from_millis(5), answers.next()).await;
    }
    drop(answers);
    server.connections_ended(1).await;
}

/// The time until the caller requests the next chunk does not count toward the total timeout.
#[tokio::test]
async fn slow_caller_does_not_cause_a_timeout() {
    let settings = HttpSettings {
        total_timeout: Duration::from_secs(2),
        ..fast_retries()
    };
    let late = Act::Pause(Duration::from_millis(2900));
    let script = vec![head(), chunk("data: Hel\n\n"), late];
    let rest = vec![chunk("data: lo\n\ndata: end\n\n"), last_chunk()];
    let server = Server::playing([[script, rest].concat()]).await;
    let model = model(&server, settings);
    let mut answers = model.generate(Arc::new(LlmRequest::default()), true);
    assert_eq!(text_or_code(answers.next().await.expect("a chunk")), "Hel");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(text_or_code(answers.next().await.expect("a chunk")), "lo");
    assert_eq!(
        text_or_code(answers.next().await.expect("a chunk")),
        "Hello"
    );
    assert!(answers.next().await.is_none());
}

/// ADK's `http_options` set the timeout and headers of a call.
#[tokio::test]
async fn request_overrides_headers_and_timeout() {
    let mut request = LlmRequest::default();
    let options = r#"{"headers":{"x-mine":"this"},"timeout":300}"#;
    request.config.http_options = Some(retain_core::Json::parse(options).expect("JSON"));
    let request = Arc::new(request);
    for stream in [false, true] {
        let server = Server::playing([vec![Act::Stall]]).await;
        let model = model(&server, fast_retries());
        let answers = model.generate(Arc::clone(&request), stream);
        let output: Vec<_> = answers.map(text_or_code).collect().await;
        assert_eq!(output, ["!TimeoutError"]);
        assert_eq!(server.received()[0].header("x-mine"), Some("this"));
    }
}
