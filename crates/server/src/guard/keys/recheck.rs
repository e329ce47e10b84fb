//! Whether a key is still good: for answers that go on long after it was looked up.

use std::{sync::Arc, time::Duration};

use axum::http::HeaderMap;
use futures_util::{FutureExt as _, future::BoxFuture};
use retain_core::KeyText;
use tokio::time::Instant;

use super::{super::Guards, Keys, sent_key};

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

/// For so long what is known of a key holds while events come.
const KEY_HOLDS: Duration = Duration::from_secs(5);

/// Looks after the key of a stream.
pub(crate) struct KeyWatch {
    look: Box<dyn Fn() -> BoxFuture<'static, Standing> + Send + Sync>,
    looked: Instant,
}

impl KeyWatch {
    /// For the key of a request, which was looked up just now.
    pub(crate) fn of(guards: &Arc<Guards>, headers: &HeaderMap) -> KeyWatch {
        let (guards, headers) = (Arc::clone(guards), headers.clone());
        KeyWatch::new(move || {
            let (guards, headers) = (Arc::clone(&guards), headers.clone());
            async move { guards.keys.standing(&headers, guards.clock.now_us()).await }
        })
    }

    /// For a key that is looked up like this.
    pub(crate) fn new<F: Future<Output = Standing> + Send + 'static>(
        look: impl Fn() -> F + Send + Sync + 'static,
    ) -> KeyWatch {
        KeyWatch {
            look: Box::new(move || look().boxed()),
            looked: Instant::now(),
        }
    }

    /// How the key stands. After a silence it is looked up; where events come, what was found holds
    /// for a while.
    pub(crate) async fn standing(&mut self, was_silent: bool) -> Standing {
        if !was_silent && self.looked.elapsed() < KEY_HOLDS {
            return Standing::Good;
        }
        let standing = (self.look)().await;
        self.looked = Instant::now();
        standing
    }
}
