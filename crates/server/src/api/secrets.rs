//! Remove credentials from responses to API keys that are bound to a user.
//!
//! Events and state may hold secrets of the app, such as the secret of its OAuth client. ADK's API
//! never shows them. This API shows them to programs that store sessions for an agent, because the
//! agent needs them, but not to the holder of a user's API key.

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures_util::TryStreamExt as _;
use retain_core::{redacted, try_redacted};

use super::problem::Problem;
use crate::guard::Caller;

/// Removes credentials from responses to API keys that are bound to a user.
pub(super) async fn without_secrets(request: Request, next: Next) -> Response {
    let is_bound = Caller::from_extensions(request.extensions()).user.is_some();
    let response = next.run(request).await;
    if !is_bound {
        return response;
    }
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind {
        "application/json" => redact_json(response).await,
        "text/event-stream" | "application/x-ndjson" => redact_lines(response),
        _ => response,
    }
}

async fn redact_json(response: Response) -> Response {
    let (parts, body) = response.into_parts();
    // Without a limit, because the handler has already written the whole response into memory.
    let bytes = axum::body::to_bytes(body, usize::MAX).await;
    let text = bytes
        .ok()
        .and_then(|bytes| String::from_utf8(bytes.into()).ok());
    match text {
        Some(text) => match try_redacted(text) {
            Ok(text) => Response::from_parts(parts, Body::from(text)),
            Err(error) => Problem::from(error).into_response(),
        },
        None => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "corrupt", "failed to write the response as JSON").into_response()
        }
    }
}

/// Redacts each line of a stream. Every chunk consists of whole lines, and each event is one line.
fn redact_lines(response: Response) -> Response {
    const DATA: &str = "data: ";
    let (parts, body) = response.into_parts();
    let pieces = body.into_data_stream().map_ok(|piece| {
        let text = String::from_utf8_lossy(&piece);
        let lines = text.split_inclusive('\n').map(|line| {
            let (start, rest) = line.split_at(match line.starts_with(DATA) {
                true => DATA.len(),
                false => 0,
            });
            match rest.strip_suffix('\n').filter(|it| it.starts_with('{')) {
                Some(json) => format!("{start}{}\n", redacted(json.to_owned())),
                None => line.to_owned(),
            }
        });
        Bytes::from(lines.collect::<String>())
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}
