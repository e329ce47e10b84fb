//! Errors of the guards, in the format of the requested API.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use retain_core::{Json, JsonMap};

use crate::api;

/// Creates an error response: `{"detail": …}` for ADK's API, an RFC 9457 problem for Retain's own.
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
