//! Failures of the connection: silence, resets, half-closed sockets, invalid bytes.

use super::*;
use crate::testing::{answer, event_stream};

#[tokio::test]
async fn a_whole_answer_comes_as_sent() {
    let server = Server::playing([answer("Grüße")]).await;
    assert_eq!(ask(&model(&server, patient()), false).await, ["Grüße"]);
    let received = server.received();
    assert_eq!(received[0].line, "POST /ask HTTP/1.1");
    assert_eq!(received[0].header("content-type"), Some("application/json"));
    assert_eq!(received[0].header("accept"), Some("application/json"));
    assert_eq!(received[0].header("x-plain"), Some("false"));
    assert_eq!(received[0].body, r#"{"say":"something"}"#);
}

#[tokio::test]
async fn a_stream_comes_piece_by_piece() {
    let server = Server::playing([good_stream()]).await;
    let told = ask(&model(&server, patient()), true).await;
    assert_eq!(told, ["Hel", "lo", "Hello"]);
    let received = server.received();
    assert_eq!(received[0].header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn a_stream_is_the_same_wherever_it_is_cut() {
    let body = "data: Grü\r\n\r\nevent: x\ndata: ße\n\n: comment\n\ndata: end\n\n".as_bytes();
    for cut in 0..body.len() {
        let server = Server::playing([event_stream(body, &[cut])]).await;
        let told = ask(&model(&server, patient()), true).await;
        assert_eq!(told, ["Grü", "ße", "Grüße"], "cut at {cut}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_heard_too() {
    let server = Server::playing([answer("Hello")]).await;
    assert_eq!(ask(&model(&server, patient()), true).await, ["Hello"]);
}

#[tokio::test]
async fn a_compressed_answer_is_read() {
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
    assert_eq!(ask(&model(&server, patient()), false).await, ["Hello"]);
    let received = server.received();
    assert_eq!(received[0].header("accept-encoding"), Some("gzip"));
}

/// A timeout before the head leads to a retry, until no attempts are left.
#[tokio::test]
async fn a_server_that_says_nothing_is_asked_again() {
    let server = Server::playing([vec![Act::Stall], good_stream()]).await;
    let told = ask(&model(&server, hasty()), true).await;
    assert_eq!(told, ["Hel", "lo", "Hello"]);
    let server = Server::playing(vec![vec![Act::Stall]; 3]).await;
    assert_eq!(ask(&model(&server, hasty()), true).await, ["!TimeoutError"]);
    assert_eq!(server.received().len(), 3);
}

#[tokio::test]
async fn a_whole_answer_may_take_the_total_time_and_no_longer() {
    let late = vec![Act::Pause(Duration::from_millis(900))];
    let late = late.into_iter().chain(answer("late")).collect();
    let server = Server::playing([late]).await;
    assert_eq!(ask(&model(&server, hasty()), false).await, ["late"]);
    let settings = HttpSettings {
        total_timeout: Duration::from_millis(200),
        ..patient()
    };
    let server = Server::playing([vec![Act::Stall]]).await;
    assert_eq!(
        ask(&model(&server, settings), false).await,
        ["!TimeoutError"]
    );
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn silence_before_the_first_piece_is_tried_again() {
    let silent = vec![head(), chunk(": hold on\n\n"), Act::Stall];
    let server = Server::playing([silent, good_stream()]).await;
    let told = ask(&model(&server, hasty()), true).await;
    assert_eq!(told, ["Hel", "lo", "Hello"]);
}

/// A forwarded chunk cannot be revoked, so any later failure ends the call.
#[tokio::test]
async fn nothing_is_tried_again_after_the_first_piece() {
    let cases: [(&str, Vec<Act>, &str); 8] = [
        ("silence", vec![Act::Stall], "!TimeoutError"),
        ("a reset", vec![Act::Reset], "!ConnectionError"),
        (
            "a half-closed socket",
            vec![Act::HalfClose],
            "!ConnectionError",
        ),
        ("an end", vec![], "!ConnectionError"),
        (
            "an end of the stream",
            vec![last_chunk()],
            "!MalformedResponse",
        ),
        ("no chunk", vec![send("zzz\r\n")], "!ConnectionError"),
        (
            "an event that cannot be read",
            vec![chunk("data: broken\n\n"), last_chunk()],
            "!MalformedResponse",
        ),
        (
            "no UTF-8",
            vec![Act::Send(b"9\r\ndata: \xff\n\n\r\n".to_vec()), Act::Stall],
            "!MalformedResponse",
        ),
    ];
    for (name, acts, code) in cases {
        let script = [vec![head(), chunk("data: Hel\n\n"), pause()], acts].concat();
        let script = [script, vec![Act::Close]].concat();
        let server = Server::playing([script, good_stream()]).await;
        let told = ask(&model(&server, hasty()), true).await;
        assert_eq!(told, ["Hel", code], "{name}");
        assert_eq!(server.received().len(), 1, "{name}");
    }
}

/// Chunks before an error are forwarded, however the bytes were split.
#[tokio::test]
async fn pieces_that_come_with_an_error_are_handed_on_before_it() {
    for cuts in [&[][..], &[11], &[3, 14]] {
        let body = b"data: Hel\n\ndata: broken\n\n";
        let server = Server::playing([event_stream(body, cuts), good_stream()]).await;
        let told = ask(&model(&server, patient()), true).await;
        assert_eq!(told, ["Hel", "!MalformedResponse"], "{cuts:?}");
        assert_eq!(server.received().len(), 1);
    }
}

/// The same for invalid UTF-8, and for data after the end.
#[tokio::test]
async fn an_error_takes_nothing_with_it_that_came_before() {
    let not_text = b"data: Hel\n\ndata: \xff\n\n";
    let after_the_end = b"data: Hel\n\ndata: end\n\ndata: broken\n\n";
    for cuts in [&[][..], &[11], &[3, 17]] {
        let server = Server::playing([event_stream(not_text, cuts)]).await;
        let told = ask(&model(&server, patient()), true).await;
        assert_eq!(told, ["Hel", "!MalformedResponse"], "{cuts:?}");
        let server = Server::playing([event_stream(after_the_end, cuts)]).await;
        let told = ask(&model(&server, patient()), true).await;
        assert_eq!(told, ["Hel", "Hel"], "{cuts:?}");
    }
}

/// A busy provider often says so within the stream.
#[tokio::test]
async fn an_error_that_passes_is_tried_again_before_the_first_piece_only() {
    let busy = vec![head(), chunk("data: busy\n\n"), last_chunk()];
    let server = Server::playing([busy.clone(), good_stream()]).await;
    let told = ask(&model(&server, patient()), true).await;
    assert_eq!(told, ["Hel", "lo", "Hello"]);
    let server = Server::playing(vec![busy; 3]).await;
    assert_eq!(ask(&model(&server, patient()), true).await, ["!plain-busy"]);
    assert_eq!(server.received().len(), 3);
    let for_good = vec![head(), chunk("data: busy for good\n\n"), last_chunk()];
    let server = Server::playing([for_good, good_stream()]).await;
    assert_eq!(ask(&model(&server, patient()), true).await, ["!plain-busy"]);
    let late = vec![
        head(),
        chunk("data: Hel\n\n"),
        chunk("data: busy\n\n"),
        last_chunk(),
    ];
    let server = Server::playing([late, good_stream()]).await;
    let told = ask(&model(&server, patient()), true).await;
    assert_eq!(told, ["Hel", "!plain-busy"]);
    assert_eq!(server.received().len(), 1);
}

/// Let the client read what arrived before the connection breaks.
fn pause() -> Act {
    Act::Pause(Duration::from_millis(20))
}

#[tokio::test]
async fn failure_before_the_first_piece_is_retried() {
    let cases: [(&str, Vec<Act>); 5] = [
        ("a reset before the head", vec![Act::Reset]),
        ("an end before the head", vec![Act::Close]),
        ("a half-closed socket", vec![Act::HalfClose]),
        ("a reset after the head", vec![head(), pause(), Act::Reset]),
        ("an end after the head", vec![head(), pause(), Act::Close]),
    ];
    for (name, script) in cases {
        let server = Server::playing([script.clone(), good_stream()]).await;
        let told = ask(&model(&server, hasty()), true).await;
        assert_eq!(told, ["Hel", "lo", "Hello"], "{name}");
        let server = Server::playing([script, answer("Hello")]).await;
        assert_eq!(
            ask(&model(&server, hasty()), false).await,
            ["Hello"],
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_whole_answer_that_is_cut_off_is_asked_for_again() {
    let cut = vec![
        send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nHel"),
        pause(),
        Act::HalfClose,
    ];
    let server = Server::playing([cut.clone(), answer("Hello")]).await;
    assert_eq!(ask(&model(&server, patient()), false).await, ["Hello"]);
    let server = Server::playing([cut.clone(), cut.clone(), cut]).await;
    let told = ask(&model(&server, patient()), false).await;
    assert_eq!(told, ["!ConnectionError"]);
    assert_eq!(server.received().len(), 3);
}

/// The read timeout applies to streamed and complete answers.
#[tokio::test]
async fn a_whole_answer_that_falls_silent_is_asked_for_again() {
    for kind in ["text/plain", "application/json"] {
        let begun =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: 100\r\n\r\nHel");
        let silent = vec![send(&begun), Act::Stall];
        let server = Server::playing([silent, answer("Hello")]).await;
        let stream = kind == "application/json";
        let told = ask(&model(&server, hasty()), stream).await;
        assert_eq!(told, ["Hello"], "{kind}");
        assert_eq!(server.received().len(), 2);
    }
}

/// Nothing was forwarded and nothing received: it counts as a broken connection.
#[tokio::test]
async fn a_stream_that_ends_before_it_begins_is_asked_for_again() {
    let empty = vec![head(), chunk(": hold on\n\n"), last_chunk()];
    let server = Server::playing([empty.clone(), good_stream()]).await;
    let told = ask(&model(&server, patient()), true).await;
    assert_eq!(told, ["Hel", "lo", "Hello"]);
    let server = Server::playing(vec![empty; 3]).await;
    let told = ask(&model(&server, patient()), true).await;
    assert_eq!(told, ["!MalformedResponse"]);
    assert_eq!(server.received().len(), 3);
}

/// An error with status 200 is still an error.
#[tokio::test]
async fn an_error_that_passes_is_tried_again_where_an_answer_comes_whole() {
    for stream in [false, true] {
        let server = Server::playing([answer("busy"), answer("Hello")]).await;
        assert_eq!(ask(&model(&server, patient()), stream).await, ["Hello"]);
    }
}

#[tokio::test]
async fn an_answer_that_means_nothing_is_not_asked_for_again() {
    let server = Server::playing([answer(""), answer("Hello")]).await;
    let told = ask(&model(&server, patient()), false).await;
    assert_eq!(told, ["!MalformedResponse"]);
    let not_utf8 = Act::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\xff".to_vec());
    let server = Server::playing([vec![not_utf8], answer("Hello")]).await;
    let told = ask(&model(&server, patient()), false).await;
    assert_eq!(told, ["!MalformedResponse"]);
}

#[tokio::test]
async fn nobody_at_home_is_told_as_such() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let model = model_at(
        format!("http://user:pass@127.0.0.1:{port}"),
        patient(),
        Auth::None,
    );
    let answers = model.generate(Arc::new(LlmRequest::default()), false);
    let answers: Vec<_> = answers.collect().await;
    let error = answers[0].as_ref().expect_err("nobody");
    assert_eq!(error.code.as_deref(), Some("ConnectionError"));
    assert!(error.message.contains("127.0.0.1"), "{}", error.message);
    for hidden in ["pass", "/ask"] {
        assert!(!error.message.contains(hidden), "{}", error.message);
    }
}

#[tokio::test]
async fn an_address_that_is_none_is_told_as_such() {
    let model = model_at("not an address".to_owned(), patient(), Auth::None);
    assert_eq!(ask(&model, false).await, ["!InvalidRequest"]);
    assert_eq!(ask(&model, true).await, ["!InvalidRequest"]);
}

/// The server sees its connection end: dropping the stream cancels the call.
#[tokio::test]
async fn dropping_the_stream_cancels_the_call() {
    for script in [
        vec![Act::Stall],
        vec![head(), chunk("data: Hel\n\n"), Act::Stall],
    ] {
        let takes = script.len() > 1;
        let server = Server::playing([script]).await;
        let model = model(&server, patient());
        let mut answers = model.generate(Arc::new(LlmRequest::default()), true);
        if takes {
            assert_eq!(told(answers.next().await.expect("a piece")), "Hel");
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
    let model = model(&server, patient());
    let mut answers = model.generate(Arc::new(LlmRequest::default()), false);
    while server.received().is_empty() {
        let _ = tokio::time::timeout(Duration::from_millis(5), answers.next()).await;
    }
    drop(answers);
    server.connections_ended(1).await;
}

/// The time that the caller keeps a chunk does not count toward the provider's timeout.
#[tokio::test]
async fn a_caller_may_take_its_time() {
    let settings = HttpSettings {
        total_timeout: Duration::from_secs(2),
        ..patient()
    };
    let late = Act::Pause(Duration::from_millis(2900));
    let script = vec![head(), chunk("data: Hel\n\n"), late];
    let rest = vec![chunk("data: lo\n\ndata: end\n\n"), last_chunk()];
    let server = Server::playing([[script, rest].concat()]).await;
    let model = model(&server, settings);
    let mut answers = model.generate(Arc::new(LlmRequest::default()), true);
    assert_eq!(told(answers.next().await.expect("a piece")), "Hel");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(told(answers.next().await.expect("a piece")), "lo");
    assert_eq!(told(answers.next().await.expect("a piece")), "Hello");
    assert!(answers.next().await.is_none());
}

/// ADK's `http_options`.
#[tokio::test]
async fn a_request_may_have_headers_and_a_time_of_its_own() {
    let mut request = LlmRequest::default();
    let options = r#"{"headers":{"x-mine":"this"},"timeout":300}"#;
    request.config.http_options = Some(retain_core::Json::parse(options).expect("JSON"));
    let request = Arc::new(request);
    for stream in [false, true] {
        let server = Server::playing([vec![Act::Stall]]).await;
        let model = model(&server, patient());
        let answers = model.generate(Arc::clone(&request), stream);
        let told: Vec<_> = answers.map(told).collect().await;
        assert_eq!(told, ["!TimeoutError"]);
        assert_eq!(server.received()[0].header("x-mine"), Some("this"));
    }
}
