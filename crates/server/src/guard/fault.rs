//! Errors of the guards, each in the manner of the face that was asked.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use retain_core::{Json, JsonMap};

use crate::api;

/// An error: `{"detail": …}` as ADK's API has it, or a problem (RFC 9457) for Retain's own.
pub(crate) fn fault(path: &str, status: u16, detail: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if path.starts_with("/api/") {
        return api::refusal(status, detail);
    }
    let body = Json::from(JsonMap::from([("detail", detail)]));
    let content_type = HeaderValue::from_static("application/json");
    (
        status,
        [(header::CONTENT_TYPE, content_type)],
        body.to_string(),
    )
        .into_response()
}
