//! Restrict routes to requests from this machine.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{StatusCode, request::Parts},
};

use super::super::errors::AdkError;
use crate::services::Shared;

/// Headers that a proxy adds when it forwards a request.
const FORWARDING: [&str; 3] = ["forwarded", "x-forwarded-for", "x-forwarded-host"];

/// An extractor that accepts only requests from this machine.
pub(super) struct LocalOnly;

impl FromRequestParts<Shared> for LocalOnly {
    type Rejection = AdkError;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<LocalOnly, AdkError> {
        match is_local(parts) {
            true => Ok(LocalOnly),
            false => Err(AdkError::new(
                StatusCode::FORBIDDEN,
                "This /dev endpoint only accepts requests from the machine running the server.",
            )),
        }
    }
}

/// Whether the request came directly over a loopback connection. A request that a proxy forwarded,
/// or without a known peer address, is not local.
fn is_local(parts: &Parts) -> bool {
    let is_forwarded = FORWARDING
        .iter()
        .any(|name| parts.headers.contains_key(*name));
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let is_loopback = peer.is_some_and(|ConnectInfo(peer)| match peer.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
        }
    });
    is_loopback && !is_forwarded
}
