//! Whether a key is still good: for answers that go on long after it was looked up.

use axum::http::HeaderMap;
use retain_core::KeyText;

use super::{Keys, sent_key};

/// How a key stands that let a request in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// As it did.
    Good,
    /// It was revoked, has expired, or is gone.
    Refused(String),
    /// It cannot be looked up at this moment.
    Unknown,
}

impl Keys {
    /// How the key stands now that a request came in with. This is no request: it is neither
    /// counted nor noted as a use. Who came in without one of our keys stays.
    pub(crate) async fn standing(&self, headers: &HeaderMap, now_us: i64) -> Standing {
        let ours = |sent: &&str| KeyText::parse(sent).is_some() && !self.is_single(sent);
        let Some(sent) = sent_key(headers).filter(ours) else {
            return Standing::Good;
        };
        match self.stored(sent, now_us).await {
            Ok(Ok(_)) => Standing::Good,
            Ok(Err(refused)) => Standing::Refused(refused.to_string()),
            Err(_) => Standing::Unknown,
        }
    }
}
