//! Who asks, for handlers that treat callers differently.

use std::convert::Infallible;

use axum::{extract::FromRequestParts, http::request::Parts};

use crate::{guard::Caller, services::Shared};

/// The caller of a request.
pub(super) struct Asking(pub(super) Caller);

impl FromRequestParts<Shared> for Asking {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Asking, Infallible> {
        let caller = parts.extensions.get::<Caller>().cloned();
        Ok(Asking(caller.unwrap_or_default()))
    }
}
