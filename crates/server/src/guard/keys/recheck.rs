//! Verify the API key of a long response again while it lasts.

use std::{sync::Arc, time::Duration};

use axum::http::HeaderMap;
use futures_util::{FutureExt as _, future::BoxFuture};
use retain_core::KeyText;
use tokio::time::Instant;

use super::{super::Guards, Keys, sent_key};

/// The state of the API key that a request was admitted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Still valid.
    Good,
    /// Revoked, expired or deleted.
    Refused(String),
    /// The key store is unavailable.
    Unknown,
}

impl Keys {
    /// Verify the key of an admitted request. This neither counts as a request nor records a use. A
    /// caller without one of our keys stays admitted.
    async fn standing(&self, headers: &HeaderMap, now_us: i64) -> Standing {
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

/// How long a verification is cached while events arrive.
const KEY_HOLDS: Duration = Duration::from_secs(5);

/// Watches the API key of a stream.
pub(crate) struct KeyWatch {
    look: Box<dyn Fn() -> BoxFuture<'static, Standing> + Send + Sync>,
    looked: Instant,
}

impl KeyWatch {
    /// Watch the key of a request that was just verified.
    pub(crate) fn of(guards: &Arc<Guards>, headers: &HeaderMap) -> KeyWatch {
        let (guards, headers) = (Arc::clone(guards), headers.clone());
        KeyWatch::new(move || {
            let (guards, headers) = (Arc::clone(&guards), headers.clone());
            async move { guards.keys.standing(&headers, guards.clock.now_us()).await }
        })
    }

    /// Watch a key with this lookup.
    pub(crate) fn new<F: Future<Output = Standing> + Send + 'static>(
        look: impl Fn() -> F + Send + Sync + 'static,
    ) -> KeyWatch {
        KeyWatch {
            look: Box::new(move || look().boxed()),
            looked: Instant::now(),
        }
    }

    /// Return the state of the key: verified now after a pause, or cached while events arrive.
    pub(crate) async fn standing(&mut self, was_silent: bool) -> Standing {
        if !was_silent && self.looked.elapsed() < KEY_HOLDS {
            return Standing::Good;
        }
        let standing = (self.look)().await;
        self.looked = Instant::now();
        standing
    }
}
