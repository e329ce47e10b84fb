//! JSON bodies of requests and responses. Their types also generate the schemas of the API
//! description.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use retain_core::budget::{Meter, parsed_body_cost};
use serde::{Serialize, de::DeserializeOwned};

use super::problem::Problem;
use crate::{guard::Guards, services::Shared};

/// A JSON body. A missing body is read as an empty object.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Shared> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Shared) -> Result<JsonBody<T>, Problem> {
        let media_type = media_type(request.headers());
        let guards = request.extensions().get::<Arc<Guards>>().cloned();
        let limit = guards.as_ref().map(|guards| guards.limits.body_bytes);
        let bytes = Bytes::from_request(request, server).await;
        let bytes = bytes.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                let detail = match limit {
                    Some(limit) => format!("the body exceeds the limit of {limit} bytes"),
                    None => "the body is too large".to_owned(),
                };
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
            }
            _ => Problem::invalid_body(error.body_text()),
        })?;
        if bytes.is_empty() {
            return read(b"{}");
        }
        // A page of another origin can send other content types without a CORS preflight.
        let is_json = media_type == "application/json" || media_type.ends_with("+json");
        if !is_json {
            return Err(unsupported_media_type(&media_type, "application/json"));
        }
        if let Some(meter) = Meter::current() {
            meter.reserve(parsed_body_cost(&bytes)).await?;
        }
        match guards {
            Some(guards) => guards.large_work.run(bytes.len(), || read(&bytes)).await,
            None => read(&bytes),
        }
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<JsonBody<T>, Problem> {
    let read = serde_json::from_slice(bytes);
    read.map(JsonBody).map_err(Problem::invalid_body)
}

/// Returns the media type of a body, in lower case and without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = value.split(';').next().unwrap_or("");
    essence.trim().to_ascii_lowercase()
}

/// Returns the error for a body with the content type `found` where `expected` is required.
pub(super) fn unsupported_media_type(found: &str, expected: &str) -> Problem {
    let detail = format!("unsupported content type {found:?}; expected {expected:?}");
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Problem::new(status, "unsupported_media_type", detail)
}

/// Writes a JSON response.
pub(super) fn answer<T: Serialize>(status: StatusCode, body: &T) -> Result<Response, Problem> {
    let text = serde_json::to_vec(body).map_err(|error| {
        tracing::error!(error = ?error.to_string(), "failed to serialize a response");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Problem::new(status, "corrupt", "failed to write the response as JSON")
    })?;
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((status, headers, text).into_response())
}

/// Writes a JSON response with status 200.
pub(super) fn ok<T: Serialize>(body: &T) -> Result<Response, Problem> {
    answer(StatusCode::OK, body)
}

/// Returns 204 without a body.
pub(super) fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
