//! The events of a run as server-sent events: `data: <JSON>` and an empty line each, in one write.
//!
//! The next event is requested after the last one was sent; heartbeat comments fill pauses. A
//! client that disconnects drops the stream, which cancels the run. The run is cancelled, too, when
//! its API key is no longer valid.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::{StreamExt as _, stream};
use retain_core::{Clock as _, Event, Json, JsonMap, SystemClock, python_text::python_json_ascii};
use retain_runtime::{RunError, RunStream, error_kind};

use super::{answers::event_text, errors::AdkError};
use crate::guard::{KeyStatus, KeyWatch, RunPermit};

/// Send a heartbeat after this long without an event, so that proxies keep the connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Creates the response that streams a run.
pub(super) fn response(
    run: RunStream,
    permit: RunPermit,
    key: Option<KeyWatch>,
    splits_artifacts: bool,
) -> Response {
    let streamed = StreamedRun {
        run: Some(run),
        key,
        _permit: permit,
        ready: VecDeque::new(),
        splits_artifacts,
    };
    let frames = stream::unfold(streamed, |mut streamed| async move {
        let frame = streamed.next().await?;
        Some((Ok::<Bytes, Infallible>(frame), streamed))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    let no_cache = HeaderValue::from_static("no-cache");
    headers.insert(header::CACHE_CONTROL, no_cache);
    response
}

/// A run being streamed.
struct StreamedRun {
    /// `None` when the run is over.
    run: Option<RunStream>,
    key: Option<KeyWatch>,
    _permit: RunPermit,
    /// Frames of the last event that are not sent yet.
    ready: VecDeque<Bytes>,
    splits_artifacts: bool,
}

impl StreamedRun {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.ready.pop_front() {
            return Some(frame);
        }
        let run = self.run.as_mut()?;
        let next = tokio::time::timeout(HEARTBEAT, run.next()).await;
        if let Some(key) = &mut self.key
            && !matches!(next, Ok(None))
            // If the key store is unavailable, the run continues.
            && let KeyStatus::Rejected(reason) = key.verify(next.is_err()).await
        {
            self.run = None;
            return Some(interrupted_frame(&reason));
        }
        match next {
            Err(_) => Some(Bytes::from_static(b": ping\n\n")),
            Ok(None) => {
                self.run = None;
                None
            }
            Ok(Some(Ok(event))) => {
                let events = split_event(event, self.splits_artifacts);
                let frames: Result<VecDeque<Bytes>, AdkError> = events.iter().map(frame).collect();
                self.ready = frames.unwrap_or_else(|_| {
                    self.run = None;
                    VecDeque::from([Bytes::from_static(UNWRITABLE)])
                });
                self.ready.pop_front()
            }
            Ok(Some(Err(error))) => {
                self.run = None;
                Some(failure_frame(&error))
            }
        }
    }
}

/// Splits an event with content and artifacts in two, because the web UI looks for artifacts in
/// events without content.
fn split_event(event: Event, splits_artifacts: bool) -> Vec<Event> {
    let has_parts = event
        .content()
        .is_some_and(|content| !content.parts().is_empty());
    if !splits_artifacts || event.actions.artifact_delta.is_empty() || !has_parts {
        return vec![event];
    }
    let mut content = event.clone();
    content.actions.artifact_delta = JsonMap::new();
    let mut artifacts = event;
    artifacts.response.content = None;
    vec![content, artifacts]
}

fn frame(event: &Event) -> Result<Bytes, AdkError> {
    let text = event_text(event)?;
    Ok(Bytes::from(format!("data: {text}\n\n")))
}

/// The last frame of a stream whose next event cannot be encoded as JSON. Only a partial event can
/// fail here: any other event would have failed the run when it was stored.
const UNWRITABLE: &[u8] =
    b"data: {\"error\": \"an event cannot be written as JSON; the run was interrupted\"}\n\n";

/// Returns the last frame of a run whose API key is no longer valid.
fn interrupted_frame(reason: &str) -> Bytes {
    let message = format!("{reason}; the run was interrupted");
    let body = JsonMap::from([("error", Json::from(message))]);
    Bytes::from(format!("data: {}\n\n", python_json_ascii(&body.into())))
}

/// Returns the last frame of a run that failed after its response started.
fn failure_frame(error: &RunError) -> Bytes {
    // Errors of models and tools may quote users, so details are logged only at debug level.
    tracing::error!(kind = error_kind(error), code = ?error.code(), "a run failed");
    tracing::debug!(error = ?error.to_string(), "a run failed");
    let (code, message) = (error.code(), error.cause());
    let details = JsonMap::from([
        ("error_type", Json::from(code)),
        ("error_message", Json::from(message.as_str())),
        ("timestamp", Json::from(SystemClock.now())),
    ]);
    let body = JsonMap::from([
        ("error", Json::from(format!("{code}: {message}"))),
        ("error_details", details.into()),
    ]);
    Bytes::from(format!("data: {}\n\n", python_json_ascii(&body.into())))
}
