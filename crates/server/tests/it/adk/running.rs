//! Runs: framing, partial events, events with artifacts, failures, heartbeats, and disconnects.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http_body_util::BodyExt as _;
use retain_core::{Content, Json, LlmResponse};
use retain_runtime::{LlmAgent, LlmRequest, Model, ModelStream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::adk::support::{
    GatedModel, PIECES, ask, filing_agent, gated_agent, listen, message, read, request, send,
    server, sse_events, with_session,
};

/// A timeout that only a hanging test reaches.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn run_returns_events_as_a_list() {
    let server = server(filing_agent());
    with_session(&server).await;
    let answer = ask(&server, "POST", "/run", &message("hi", "")).await;
    assert_eq!(
        (answer.status, answer.kind.as_str()),
        (200, "application/json")
    );
    let events = answer.json();
    let events = events.as_array().expect("a list");
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(
        events[1]["actions"]["artifactDelta"]["notes/today.txt"],
        Json::from(0)
    );
    assert_eq!(events[2]["content"]["parts"][0]["text"], "Filed.");
}

#[tokio::test]
async fn partial_events_have_the_id_of_the_complete_event_and_are_not_stored() {
    let model = GatedModel::new();
    let server = server(gated_agent(&model));
    let path = with_session(&server).await;
    model.open(4);
    let body = message("hi", r#","streaming":true"#);
    let answer = ask(&server, "POST", "/run_sse", &body).await;
    assert_eq!(answer.kind, "text/event-stream; charset=utf-8");
    let events = sse_events(&answer.text);
    assert_eq!(events.len(), 4, "{}", answer.text);
    let partial: Vec<&Json> = events.iter().map(|event| &event["partial"]).collect();
    assert_eq!(
        partial,
        [&Json::from(true), &true.into(), &true.into(), &false.into()]
    );
    assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
    let stored = ask(&server, "GET", path, "").await.json();
    assert_eq!(stored["events"].as_array().map(<[Json]>::len), Some(2));
    assert_eq!(
        stored["events"][1]["content"]["parts"][0]["text"],
        PIECES.concat().as_str()
    );
}

#[tokio::test]
async fn event_with_content_and_artifacts_is_sent_twice_and_stored_once() {
    let server = server(filing_agent());
    let path = with_session(&server).await;
    let events = ask(&server, "POST", "/run_sse", &message("hi", "")).await;
    let events = sse_events(&events.text);
    assert_eq!(events.len(), 4);
    let (content, artifacts) = (&events[1], &events[2]);
    assert_eq!(content["id"], artifacts["id"]);
    assert!(content.get("content").is_some() && artifacts.get("content").is_none());
    assert_eq!(content["actions"]["artifactDelta"].to_string(), "{}");
    assert_eq!(
        artifacts["actions"]["artifactDelta"]["notes/today.txt"],
        Json::from(0)
    );
    let stored = ask(&server, "GET", path, "").await.json();
    assert_eq!(stored["events"].as_array().map(<[Json]>::len), Some(4));

    // A client that answers a function call gets each event unsplit.
    let body = message("hi", r#","functionCallEventId":"e""#);
    let events = ask(&server, "POST", "/run_sse", &body).await;
    assert_eq!(sse_events(&events.text).len(), 3);
}

#[tokio::test]
async fn run_failure_is_sent_in_the_stream_or_as_a_plain_500() {
    let server = server(gated_agent(&GatedModel::new()));
    with_session(&server).await;
    let answer = ask(&server, "POST", "/run_sse", &message("fail", "")).await;
    assert_eq!(answer.status, 200);
    let events = sse_events(&answer.text);
    let last = events.last().expect("an event");
    assert_eq!(last["error"], "RuntimeError: out of service");
    assert_eq!(last["error_details"]["error_type"], "RuntimeError");
    assert_eq!(last["error_details"]["error_message"], "out of service");
    assert!(last["error_details"]["timestamp"].as_f64().is_some());
    assert_eq!(events[0]["errorCode"], "RuntimeError");

    let answer = ask(&server, "POST", "/run", &message("fail", "")).await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.kind, "text/plain; charset=utf-8");
    assert_eq!(answer.text, "Internal Server Error");
}

/// A model that returns a partial event without a JSON form, and then a complete answer.
#[derive(Debug)]
struct UnserializableModel;

impl Model for UnserializableModel {
    fn name(&self) -> &str {
        "unwritable"
    }

    fn generate(&self, _: Arc<LlmRequest>, _: bool) -> ModelStream {
        let mut piece = LlmResponse::from_content(Content::model("a"));
        piece.partial = Some(true);
        piece.custom_metadata = Some([("score", f64::NAN)].into());
        let whole = LlmResponse::from_content(Content::model("ab"));
        Box::pin(futures_util::stream::iter([Ok(piece), Ok(whole)]))
    }
}

#[tokio::test]
async fn unserializable_partial_event_is_reported() {
    let agent = LlmAgent::builder("clerk")
        .model(UnserializableModel)
        .build();
    let server = server(agent.expect("an agent"));
    with_session(&server).await;
    let body = message("hi", r#","streaming":true"#);
    let answer = ask(&server, "POST", "/run_sse", &body).await;
    let events = sse_events(&answer.text);
    let last = events.last().expect("a line");
    assert!(last.get("error").is_some(), "{}", answer.text);
}

#[tokio::test(start_paused = true)]
async fn silent_run_sends_heartbeat_comments() {
    let model = GatedModel::new();
    let server = server(gated_agent(&model));
    with_session(&server).await;
    let response = send(&server, request("POST", "/run_sse", &message("hi", ""))).await;
    let mut body = response.into_body();
    let begin = tokio::time::Instant::now();
    for pings in 1..=3 {
        let frame = body.frame().await.expect("a frame").expect("a frame");
        assert_eq!(frame.into_data().expect("data").as_ref(), b": ping\n\n");
        // The clock is paused, so that the time is exact.
        assert_eq!(begin.elapsed().as_secs(), 15 * pings);
    }
    model.open(4);
    let frame = body.frame().await.expect("a frame").expect("a frame");
    let frame = frame.into_data().expect("data");
    assert!(frame.starts_with(b"data: {") && frame.ends_with(b"}\n\n"));
    assert!(body.frame().await.is_none(), "the stream ends with the run");
}

#[tokio::test]
async fn model_chunks_are_requested_only_as_the_client_reads() {
    let model = GatedModel::new();
    let server = server(gated_agent(&model));
    with_session(&server).await;
    model.open(4);
    let body = message("hi", r#","streaming":true"#);
    let response = send(&server, request("POST", "/run_sse", &body)).await;
    let mut body = response.into_body();
    for taken in 1..=4 {
        let frame = body.frame().await.expect("a frame").expect("a frame");
        assert!(frame.into_data().expect("data").starts_with(b"data: "));
        tokio::task::yield_now().await;
        // The runner requests one more chunk to learn whether there is one.
        assert!(model.made.load(Ordering::SeqCst) <= taken + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn busy_session_is_a_conflict() {
    let model = GatedModel::new();
    let server = server(gated_agent(&model));
    with_session(&server).await;
    let first = send(&server, request("POST", "/run_sse", &message("hi", ""))).await;
    let second = ask(&server, "POST", "/run_sse", &message("me too", "")).await;
    assert_eq!(second.status, 409, "{}", second.text);
    assert!(
        second.json()["detail"]
            .as_str()
            .is_some_and(|it| it.contains("busy"))
    );
    model.open(8);
    assert_eq!(sse_events(&read(first).await.text).len(), 1);
    let third = ask(&server, "POST", "/run", &message("now", "")).await;
    assert_eq!(third.status, 200, "{}", third.text);
}

/// Sends a run request over a new connection, and reads until the response contains `until`.
async fn run_over_socket(address: std::net::SocketAddr, path: &str, until: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    let body = message("hi", r#","streaming":true"#);
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.expect("sent");
    let mut got = String::new();
    while !got.contains(until) {
        let mut some = [0; 4096];
        let n = socket.read(&mut some).await.expect("read");
        assert!(n > 0, "closed after {got}");
        got.push_str(std::str::from_utf8(&some[..n]).expect("text"));
    }
    socket
}

#[tokio::test]
async fn client_disconnect_cancels_its_run() {
    for path in ["/run_sse", "/run"] {
        let model = GatedModel::new();
        let server = server(gated_agent(&model));
        let session = with_session(&server).await;
        let address = listen(&server).await;
        let until = match path {
            "/run_sse" => "one ",
            _ => "",
        };
        model.open(1);
        let socket = run_over_socket(address, path, until).await;
        while model.made.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        drop(socket);
        let dropped = tokio::time::timeout(PATIENCE, model.dropped.acquire()).await;
        dropped
            .expect("the answer of the model is dropped")
            .expect("open")
            .forget();
        let recorded = async {
            loop {
                let stored = ask(&server, "GET", session, "").await.json();
                let events = stored["events"].as_array().unwrap_or_default().to_vec();
                let last = events.last().map(|event| event["errorCode"].clone());
                if last == Some("INVOCATION_ABORTED".into()) {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, recorded)
            .await
            .expect("the run is stored as interrupted");
        // The session is free for the next run.
        model.open(4);
        let next = ask(&server, "POST", "/run", &message("again", "")).await;
        assert_eq!(next.status, 200, "{path}");
    }
}

#[tokio::test]
async fn each_sse_event_is_sent_as_one_chunk() {
    let model = GatedModel::new();
    let server = server(gated_agent(&model));
    with_session(&server).await;
    model.open(4);
    let body = message("hi", r#","streaming":true"#);
    let response = send(&server, request("POST", "/run_sse", &body)).await;
    let mut body = response.into_body();
    let mut frames = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.expect("a frame").into_data().expect("data");
        assert!(frame.starts_with(b"data: {") && frame.ends_with(b"}\n\n"));
        let lines = frame.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, 2);
        frames += 1;
    }
    assert_eq!(frames, 4);
}

#[tokio::test]
async fn run_request_sets_state_delta_and_custom_metadata() {
    let server = server(filing_agent());
    let path = with_session(&server).await;
    let more = r#","state_delta":{"lang":"de"},"custom_metadata":{"trace":7}"#;
    let answer = ask(&server, "POST", "/run", &message("hi", more)).await;
    assert_eq!(answer.json()[0]["customMetadata"]["trace"], Json::from(7));
    let stored = ask(&server, "GET", path, "").await.json();
    assert_eq!(stored["state"]["lang"], "de");
    assert_eq!(stored["events"][0]["actions"]["stateDelta"]["lang"], "de");
}

#[tokio::test]
async fn invalid_run_is_rejected_before_the_stream_starts() {
    let server = server(filing_agent());
    with_session(&server).await;
    let run = |body: &str| {
        let (server, body) = (server.clone(), body.to_owned());
        async move { ask(&server, "POST", "/run_sse", &body).await }
    };
    let cases = [
        (
            r#"{"userId":"ada","sessionId":"s"}"#,
            400,
            "app_name is required",
        ),
        (
            r#"{"appName":"no","userId":"ada","sessionId":"s"}"#,
            404,
            "Agent not found: 'no'.",
        ),
        (
            r#"{"appName":"__a","userId":"ada","sessionId":"s"}"#,
            403,
            "special agents",
        ),
        (
            r#"{"appName":"desk","userId":"ada","sessionId":"x","newMessage":{"parts":[{"text":"a"}]}}"#,
            404,
            "Session not found: x",
        ),
        (
            r#"{"appName":"desk","userId":"ada","sessionId":"s","newMessage":{"parts":[]}}"#,
            400,
            "has no parts",
        ),
        (
            r#"{"appName":"desk","userId":"ada","sessionId":"s"}"#,
            400,
            "newMessage",
        ),
        (
            r#"{"appName":"desk","userId":"ada"}"#,
            422,
            "Field required",
        ),
    ];
    for (body, status, expected) in cases {
        let answer = run(body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text);
        assert!(answer.text.contains(expected), "{body}: {}", answer.text);
    }
}
