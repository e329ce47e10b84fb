//! Errors of the guards, each in the manner of the face that was asked.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use retain_core::{Json, JsonMap};

/// An error: `{"detail": …}` as ADK's API has it, or a problem (RFC 9457) for Retain's own.
pub(crate) fn fault(path: &str, status: u16, detail: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (content_type, body) = match path.starts_with("/api/") {
        true => ("application/problem+json", problem(status, detail)),
        false => ("application/json", JsonMap::from([("detail", detail)])),
    };
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type))];
    (status, content_type, Json::from(body).to_string()).into_response()
}

fn problem(status: StatusCode, detail: &str) -> JsonMap {
    let mut problem = JsonMap::from([
        ("type", "about:blank"),
        ("title", status.canonical_reason().unwrap_or_default()),
    ]);
    problem.insert("status", i64::from(status.as_u16()));
    problem.insert("detail", detail);
    problem
}
