//! Live tail of a session as server-sent events. `id` is the position, so that a disconnected
//! client can resume.
//!
//! A stream may last for days: the server verifies its API key periodically and ends the stream
//! when the key is no longer valid.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{Extension, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, stream};
use retain_core::{EventStream, SessionError, Window};
use tokio::time::timeout;

use super::{
    Api,
    operation::{self, Operation},
    path::SessionPath,
    problem::Problem,
    query::{INTEGER_MAX, Kind, Param, Params},
    sessions::read,
};
use crate::{
    guard::{Guards, KeyStatus, KeyWatch, Scope},
    routes::Access,
    services::Shared,
};

/// Send a comment after this long without an event, so that proxies keep the connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The last frame of a deleted session: the client must not reconnect. A server that stops sends
/// `event: restart` instead.
const ENDED: &str = "event: end\ndata: {\"reason\":\"deleted\"}\n\n";

const LAST_EVENT_ID: &str = "last-event-id";

const AFTER: Param = Param::new(
    "after",
    Kind::Integer(0, INTEGER_MAX),
    "Send the events after this position, then each new one. The header Last-Event-ID takes precedence.",
);
const TAIL: &[Param] = &[AFTER];

pub(super) fn routes(api: Api) -> Api {
    const PATH: &str = "/api/v1/apps/{app}/users/{user}/sessions/{session}/tail";
    let tail_it = Operation::new(
        Method::GET,
        PATH,
        "tailSession",
        "Stream events as they are stored; `event: end` when the session is deleted, `event: \
         restart` when the server stops, `event: error` when the API key is no longer valid",
    );
    let tail_it = tail_it
        .query(TAIL)
        .headers(&[("Last-Event-ID", "The position of the last received event.")])
        .answers_body(200, operation::Body::stream("text/event-stream"))
        .fails(&[404]);
    api.add(tail_it, Access::Path(Scope::SessionsRead), tail)
}

async fn tail(
    State(server): State<Shared>,
    SessionPath(key): SessionPath,
    params: Params,
    Extension(guards): Extension<Arc<Guards>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = params.only(TAIL)?.integer(&AFTER)?;
    let after = last_event_id(&headers)?.or(after).unwrap_or(0);
    // Read before the response starts, so that a missing session is a 404.
    read(&server, &key, Window::NONE).await?;
    let events = server.services.sessions.tail(&key, after);
    let key = KeyWatch::from_request(&guards, &headers);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::from_stream(frames(events, key, HEARTBEAT))).into_response())
}

/// Returns the problem that ends a stream; `None` while its API key is valid.
fn key_problem(status: KeyStatus) -> Option<Problem> {
    match status {
        KeyStatus::Valid => None,
        KeyStatus::Rejected(reason) => {
            let status = StatusCode::UNAUTHORIZED;
            Some(Problem::new(status, "unauthorized", reason))
        }
        KeyStatus::Unknown => {
            let detail = "API keys cannot be verified right now; try again later";
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Some(Problem::new(status, "unavailable", detail))
        }
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID) else {
        return Ok(None);
    };
    let position = value.to_str().ok().and_then(|text| text.parse().ok());
    let position = position.filter(|position| *position <= INTEGER_MAX);
    let reason = "must be the `id` of an event of this stream";
    let invalid = || Problem::invalid_parameter("Last-Event-ID", reason);
    position.ok_or_else(invalid).map(Some)
}

/// Returns the frames to send: an event, a heartbeat or the end, each in one chunk.
fn frames(
    events: EventStream,
    key: KeyWatch,
    heartbeat: Duration,
) -> impl futures_core::Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(Some((events, key)), move |state| async move {
        let (mut events, mut key) = state?;
        let next = timeout(heartbeat, events.next()).await;
        if let Some(problem) = key_problem(key.verify(next.is_err()).await) {
            return Some((Ok(Bytes::from(error_frame(&problem))), None));
        }
        let (frame, continues) = match next {
            Err(_) => (":\n\n".to_owned(), true),
            Ok(Some(Ok((position, event)))) => match event.to_json() {
                Ok(text) => (format!("id: {position}\ndata: {text}\n\n"), true),
                Err(error) => (error_frame(&Problem::invalid_body(error)), false),
            },
            Ok(Some(Err(SessionError::NotFound { .. })) | None) => (ENDED.to_owned(), false),
            Ok(Some(Err(error))) => (error_frame(&Problem::from(error)), false),
        };
        Some((Ok(Bytes::from(frame)), continues.then_some((events, key))))
    })
}

fn error_frame(problem: &Problem) -> String {
    format!("event: error\ndata: {}\n\n", problem.to_json())
}

#[cfg(test)]
mod tests {
    use retain_core::{BoxError, Event, SessionKey};

    use super::*;

    /// Reads up to `count` frames of an event stream.
    async fn received_frames(events: EventStream, count: usize) -> Vec<String> {
        let key = KeyWatch::new(|| async { KeyStatus::Valid });
        let frames = frames(events, key, Duration::from_millis(1)).take(count);
        let received_frames = frames.map(|frame| {
            let Ok(bytes) = frame;
            String::from_utf8(bytes.to_vec()).unwrap_or_default()
        });
        received_frames.collect().await
    }

    #[tokio::test]
    async fn tail_without_events_sends_heartbeats() {
        let silent: EventStream = Box::pin(stream::pending());
        assert_eq!(received_frames(silent, 3).await, [":\n\n"; 3]);
    }

    #[tokio::test]
    async fn deletion_and_failure_end_a_tail_with_different_frames() {
        let key = SessionKey::new("a", "u", "s");
        let gone = SessionError::NotFound { key };
        let event = Event::user_text("a\nb");
        let events = stream::iter([Ok((7, event.into())), Err(gone)]);
        let frames = received_frames(Box::pin(events), 9).await;
        assert_eq!(frames.len(), 2);
        assert!(frames[0].starts_with("id: 7\ndata: {"));
        assert_eq!(
            frames[0].matches('\n').count(),
            3,
            "the data is on one line"
        );
        assert_eq!(frames[1], ENDED);
        let failed = SessionError::Store {
            store: "sqlite",
            operation: "read",
            source: BoxError::from("no"),
        };
        let frames = received_frames(Box::pin(stream::iter([Err(failed)])), 9).await;
        assert_eq!(frames.len(), 1);
        assert!(frames[0].starts_with("event: error\ndata: {\"type\":"));
    }

    #[tokio::test(start_paused = true)]
    async fn tail_verifies_its_key_after_silence_and_periodically() {
        let revoked_key = || KeyWatch::new(|| async { KeyStatus::Rejected("revoked".to_owned()) });
        let beat = Duration::from_secs(15);
        let silent: EventStream = Box::pin(stream::pending());
        let frames: Vec<_> = frames(silent, revoked_key(), beat).collect().await;
        assert_eq!(frames.len(), 1, "{frames:?}");
        let is_error = |bytes: &Bytes| bytes.starts_with(b"event: error\n");
        assert!(frames[0].as_ref().is_ok_and(is_error), "{frames:?}");

        let late = stream::unfold(0, |at| async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Some((Ok((at, Event::user_text("hi").into())), at + 1))
        });
        let frames: Vec<_> = super::frames(Box::pin(late), revoked_key(), beat)
            .collect()
            .await;
        // The key is not verified after 2 and 4 seconds, but after 6.
        assert_eq!(frames.len(), 3, "{frames:?}");
    }
}
