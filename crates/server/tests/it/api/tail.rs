//! The tail: history, then new events, from any position, until the session is deleted.

use std::time::Duration;

use axum::{
    body::{Body, BodyDataStream},
    http::{Method, Request},
};
use futures_util::StreamExt as _;
use retain_core::Json;
use tokio::time::timeout;

use crate::api::client::{Client, SESSION, SESSIONS, event, request};

const TAIL: &str = "/api/v1/apps/demo/users/ada/sessions/s1/tail";

/// The frames of an event stream.
struct Frames {
    body: BodyDataStream,
    text: String,
}

impl Frames {
    async fn open(client: &Client, request: Request<Body>) -> Frames {
        let response = client.open(request).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Frames {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }

    /// Reads the next frame that is not a comment; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let frame: String = self.text.drain(..end + 2).collect();
                if !frame.starts_with(':') {
                    return Some(frame);
                }
            }
            let next = timeout(Duration::from_secs(60), self.body.next()).await;
            match next.expect("the next frame arrives") {
                Some(bytes) => self.text += std::str::from_utf8(&bytes.unwrap()).unwrap(),
                None => return None,
            }
        }
    }

    /// Reads the next event: its position and id.
    async fn event(&mut self) -> (u64, String) {
        let frame = self.next().await.unwrap();
        let (id, data) = frame.trim_end().split_once('\n').unwrap();
        let id = id.strip_prefix("id: ").unwrap().parse().unwrap();
        let data = Json::parse(data.strip_prefix("data: ").unwrap()).unwrap();
        (id, data["id"].as_str().unwrap().to_owned())
    }
}

#[tokio::test]
async fn tail_sends_history_then_new_events_until_the_session_is_deleted() {
    for client in [Client::in_memory(), Client::sqlite().await] {
        let client = client.with_session().await;
        client.say(SESSION, "e1", "before").await;
        client.say(SESSION, "e2", "line\nbreak").await;
        let mut frames = Frames::open(&client, request(Method::GET, TAIL, "")).await;
        assert_eq!(frames.event().await, (1, "e1".to_owned()));
        assert_eq!(frames.event().await, (2, "e2".to_owned()));
        client.say(SESSION, "e3", "after").await;
        assert_eq!(frames.event().await, (3, "e3".to_owned()));
        client.delete(SESSION).await.expect(204);
        let end = frames.next().await.unwrap();
        assert_eq!(end, "event: end\ndata: {\"reason\":\"deleted\"}\n\n");
        assert_eq!(frames.next().await, None);
    }
}

#[tokio::test]
async fn disconnected_client_resumes_at_its_position() {
    let client = Client::in_memory().with_session().await;
    for n in 1..=4 {
        client.say(SESSION, &format!("e{n}"), "text").await;
    }
    let path = format!("{TAIL}?after=3");
    let mut frames = Frames::open(&client, request(Method::GET, &path, "")).await;
    assert_eq!(frames.event().await.0, 4);
    // A browser reconnects with the original URL and sends its last position in a header.
    let path = format!("{TAIL}?after=0");
    let mut resumed = request(Method::GET, &path, "");
    resumed
        .headers_mut()
        .insert("last-event-id", "2".parse().unwrap());
    let mut frames = Frames::open(&client, resumed).await;
    assert_eq!(frames.event().await.0, 3);
}

#[tokio::test]
async fn tail_of_a_missing_session_or_invalid_position_has_an_error_status() {
    let client = Client::in_memory().with_session().await;
    let none = client.get(&format!("{SESSIONS}/none/tail")).await;
    none.problem(404, "session_not_found");
    for id in ["x", "-1", "", "1.5", "99999999999999999999"] {
        let mut request = request(Method::GET, TAIL, "");
        request
            .headers_mut()
            .insert("last-event-id", id.parse().unwrap());
        let problem = client.send(request).await.problem(400, "invalid_parameter");
        assert_eq!(problem["parameter"], "Last-Event-ID");
    }
}

#[tokio::test]
async fn tail_sends_events_in_order_while_they_are_appended() {
    let client = Client::in_memory().with_session().await;
    let mut frames = Frames::open(&client, request(Method::GET, TAIL, "")).await;
    let write = async {
        for batch in 0..20 {
            let events: Vec<String> = (0..50)
                .map(|n| event(&format!("e{}", batch * 50 + n), "x"))
                .collect();
            let body = format!(r#"{{"events":[{}]}}"#, events.join(","));
            client
                .post(&format!("{SESSION}/events"), &body)
                .await
                .expect(200);
        }
    };
    let read = async {
        for n in 0..1000 {
            assert_eq!(frames.event().await, (n + 1, format!("e{n}")));
        }
    };
    tokio::join!(write, read);
}
