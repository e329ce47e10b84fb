//! The caller of a request, for handlers that treat callers differently.

use std::convert::Infallible;

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};

use super::problem::Problem;
use crate::{
    guard::{AccessDenied, Caller},
    services::Shared,
};

/// The caller of a request.
pub(super) struct RequestCaller(pub(super) Caller);

impl FromRequestParts<Shared> for RequestCaller {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &Shared,
    ) -> Result<RequestCaller, Infallible> {
        Ok(RequestCaller(Caller::from_extensions(&parts.extensions)))
    }
}

impl From<AccessDenied> for Problem {
    fn from(refused: AccessDenied) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", refused)
    }
}
