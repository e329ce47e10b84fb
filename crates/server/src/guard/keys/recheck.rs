//! Verify the API key of a long response again while it lasts.

use std::{sync::Arc, time::Duration};

use axum::http::HeaderMap;
use futures_util::{FutureExt as _, future::BoxFuture};
use retain_core::KeyText;
use tokio::time::Instant;

use super::{super::Guards, Keys, read_key};

/// The state of the API key that a request was admitted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyStatus {
    /// Still valid.
    Valid,
    /// Revoked, expired or deleted.
    Rejected(String),
    /// The key store is unavailable.
    Unknown,
}

impl Keys {
    /// Verify the key of an admitted request. This neither counts as a request nor records a use. A
    /// caller without one of our keys stays admitted.
    async fn status(&self, headers: &HeaderMap, now_us: i64) -> KeyStatus {
        let ours = |sent: &&str| KeyText::parse(sent).is_some() && !self.is_single(sent);
        let Some(sent) = read_key(headers).filter(ours) else {
            return KeyStatus::Valid;
        };
        match self.stored(sent, now_us).await {
            Ok(Ok(_)) => KeyStatus::Valid,
            Ok(Err(refused)) => KeyStatus::Rejected(refused.to_string()),
            Err(_) => KeyStatus::Unknown,
        }
    }
}

/// How long a verification is cached while events arrive.
const KEY_HOLDS: Duration = Duration::from_secs(5);

/// Watches the API key of a stream.
pub(crate) struct KeyWatch {
    lookup: Box<dyn Fn() -> BoxFuture<'static, KeyStatus> + Send + Sync>,
    verified_at: Instant,
}

impl KeyWatch {
    /// Watch the key of a request that was just verified.
    pub(crate) fn from_request(guards: &Arc<Guards>, headers: &HeaderMap) -> KeyWatch {
        let (guards, headers) = (Arc::clone(guards), headers.clone());
        KeyWatch::new(move || {
            let (guards, headers) = (Arc::clone(&guards), headers.clone());
            async move { guards.keys.status(&headers, guards.clock.now_us()).await }
        })
    }

    /// Watch a key with this lookup.
    pub(crate) fn new<F: Future<Output = KeyStatus> + Send + 'static>(
        lookup: impl Fn() -> F + Send + Sync + 'static,
    ) -> KeyWatch {
        KeyWatch {
            lookup: Box::new(move || lookup().boxed()),
            verified_at: Instant::now(),
        }
    }

    /// Return the state of the key: verified now after a pause, or cached while events arrive.
    pub(crate) async fn verify(&mut self, was_silent: bool) -> KeyStatus {
        if !was_silent && self.verified_at.elapsed() < KEY_HOLDS {
            return KeyStatus::Valid;
        }
        let status = (self.lookup)().await;
        self.verified_at = Instant::now();
        status
    }
}
