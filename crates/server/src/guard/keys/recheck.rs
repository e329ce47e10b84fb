//! Verify the API key of a streamed response again while the stream is open.

use std::{sync::Arc, time::Duration};

use axum::http::HeaderMap;
use futures_util::{FutureExt as _, future::BoxFuture};
use retain_core::KeyText;
use tokio::time::Instant;

use super::{super::Guards, Keys, read_key};

/// The status of the API key that a request was admitted with.
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
    /// Verifies the key of an admitted request again. This neither counts as a request nor records
    /// a use. A request without a key of the store stays admitted.
    async fn status(&self, headers: &HeaderMap, now_us: i64) -> KeyStatus {
        let is_of_store =
            |sent: &&str| KeyText::parse(sent).is_some() && !self.is_settings_key(sent);
        let Some(sent) = read_key(headers).filter(is_of_store) else {
            return KeyStatus::Valid;
        };
        match self.look_up(sent, now_us).await {
            Ok(Ok(_)) => KeyStatus::Valid,
            Ok(Err(refused)) => KeyStatus::Rejected(refused.to_string()),
            Err(_) => KeyStatus::Unknown,
        }
    }
}

/// How long a valid status is cached while events arrive.
const STATUS_MAX_AGE: Duration = Duration::from_secs(5);

/// Watches the API key of a stream.
pub(crate) struct KeyWatch {
    lookup: Box<dyn Fn() -> BoxFuture<'static, KeyStatus> + Send + Sync>,
    verified_at: Instant,
}

impl KeyWatch {
    /// Watches the key of a request that was just verified.
    pub(crate) fn from_request(guards: &Arc<Guards>, headers: &HeaderMap) -> KeyWatch {
        let (guards, headers) = (Arc::clone(guards), headers.clone());
        KeyWatch::new(move || {
            let (guards, headers) = (Arc::clone(&guards), headers.clone());
            async move { guards.keys.status(&headers, guards.clock.now_us()).await }
        })
    }

    /// Watches a key whose status `lookup` returns.
    pub(crate) fn new<F: Future<Output = KeyStatus> + Send + 'static>(
        lookup: impl Fn() -> F + Send + Sync + 'static,
    ) -> KeyWatch {
        KeyWatch {
            lookup: Box::new(move || lookup().boxed()),
            verified_at: Instant::now(),
        }
    }

    /// Returns the status of the key. After a pause (`was_silent`) it is looked up; while events
    /// arrive, a valid status is cached for [`STATUS_MAX_AGE`].
    pub(crate) async fn verify(&mut self, was_silent: bool) -> KeyStatus {
        if !was_silent && self.verified_at.elapsed() < STATUS_MAX_AGE {
            return KeyStatus::Valid;
        }
        let status = (self.lookup)().await;
        self.verified_at = Instant::now();
        status
    }
}
