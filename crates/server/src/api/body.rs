//! JSON bodies: read into types that refuse what they do not know, and written from types that the
//! description of the API is made of.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::{Serialize, de::DeserializeOwned};

use super::problem::Problem;
use crate::services::Shared;

/// A body of JSON. No body at all is taken for an empty object.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Shared> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Shared) -> Result<JsonBody<T>, Problem> {
        let media_type = media_type(request.headers());
        let bytes = Bytes::from_request(request, server).await;
        let bytes = bytes.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                let detail = "the body exceeds the limit of the server";
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
            }
            _ => Problem::invalid_body(error.body_text()),
        })?;
        if bytes.is_empty() {
            return read(b"{}");
        }
        // Pages of other sites can send anything but this without being asked for leave.
        let is_json = media_type == "application/json" || media_type.ends_with("+json");
        match is_json {
            true => read(&bytes),
            false => Err(unsupported_media_type("application/json")),
        }
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<JsonBody<T>, Problem> {
    let read = serde_json::from_slice(bytes);
    read.map(JsonBody).map_err(Problem::invalid_body)
}

/// The media type of a body, in lower case and without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = value.split(';').next().unwrap_or("");
    essence.trim().to_ascii_lowercase()
}

/// A body of another type than `wanted`.
pub(super) fn unsupported_media_type(wanted: &str) -> Problem {
    let detail = format!("the body must come with content-type: {wanted}");
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Problem::new(status, "unsupported_media_type", detail)
}

/// An answer in JSON.
pub(super) fn answer<T: Serialize>(status: StatusCode, body: &T) -> Result<Response, Problem> {
    let text = serde_json::to_vec(body).map_err(|error| {
        tracing::error!(error = ?error.to_string(), "an answer could not be written");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Problem::new(status, "corrupt", "the answer could not be written")
    })?;
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((status, headers, text).into_response())
}

/// As [`answer`], if all is well.
pub(super) fn ok<T: Serialize>(body: &T) -> Result<Response, Problem> {
    answer(StatusCode::OK, body)
}

/// Done, and nothing to say about it.
pub(super) fn done() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
