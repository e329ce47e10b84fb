//! Requests from this very machine.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{StatusCode, request::Parts},
};

use super::super::errors::AdkError;
use crate::services::Shared;

/// Say that somebody else is behind a request.
const FORWARDING: [&str; 3] = ["forwarded", "x-forwarded-for", "x-forwarded-host"];

/// Handlers that take it answer only to who is on this machine.
pub(super) struct Local;

impl FromRequestParts<Shared> for Local {
    type Rejection = AdkError;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Local, AdkError> {
        match is_local(parts) {
            true => Ok(Local),
            false => Err(AdkError::new(
                StatusCode::FORBIDDEN,
                "This /dev endpoint only accepts requests from the machine running the server.",
            )),
        }
    }
}

/// Headers can say anything, so it is the connection that tells; without one, nobody is local.
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
