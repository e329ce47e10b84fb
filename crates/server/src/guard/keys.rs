//! Authentication: find the API key of a request and verify it.

mod recheck;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use retain_core::{ApiKey, Clock, KeyRejection, KeyStore, KeyText, SessionError, is_same_secret};

use super::{
    caller::{Caller, Scope},
    fault,
    rate::Rates,
};
use crate::failures::reasons;

pub(crate) use recheck::{KeyStatus, KeyWatch};

/// Record the use of a key at most once per minute, so that reads do not become writes.
const NOTE_EVERY_US: i64 = 60_000_000;

/// The API keys that the server accepts.
#[derive(Debug, Default)]
pub struct Keys {
    /// The key store; other processes may change it at any time.
    store: Option<Arc<dyn KeyStore>>,
    /// One key from the settings, with all permissions.
    single: Option<String>,
    /// Whether a key is required.
    required: bool,
    requests_per_second: Option<f64>,
    rates: Rates,
    wrong_per_second: Option<f64>,
    /// Failed attempts by client address.
    wrong: Rates,
    /// When the use of each key was last recorded.
    noted: Mutex<HashMap<String, i64>>,
}

/// The id of a verified key.
#[derive(Debug, Clone)]
pub(super) struct KeyId(pub(super) String);

impl Keys {
    /// Accept the keys of a store, and optionally one from the settings. `required`: reject
    /// requests without a key.
    pub fn new(store: Arc<dyn KeyStore>, single: Option<String>, required: bool) -> Keys {
        Keys {
            store: Some(store),
            single,
            required,
            ..Keys::default()
        }
    }

    /// Limit the requests per second of each key.
    pub fn with_rate_limit(mut self, requests_per_second: f64) -> Keys {
        self.requests_per_second = Some(requests_per_second);
        self
    }

    /// Limit the failed attempts per second of each address.
    pub fn with_rejection_limit(mut self, per_second: f64) -> Keys {
        self.wrong_per_second = Some(per_second);
        self
    }

    /// Whether a key is required.
    pub fn are_required(&self) -> bool {
        self.required
    }

    /// Identify the caller, or return the response that rejects the request.
    pub(super) async fn caller(
        &self,
        headers: &HeaderMap,
        path: &str,
        peer: Option<IpAddr>,
        clock: &dyn Clock,
    ) -> Result<(Caller, Option<KeyId>), Box<Response>> {
        let Some(sent) = read_key(headers) else {
            // The route decides later whether an anonymous caller may use it.
            return match self.required {
                true => Ok((unauthenticated(), None)),
                false => Ok((Caller::default(), None)),
            };
        };
        if self.is_single(sent) {
            self.check_peer(peer, SINGLE, path, clock.now_us())?;
            self.record_valid_use(SINGLE, clock.now_us());
            self.check_rate(SINGLE, path, clock.now_us())?;
            let caller = Caller {
                scopes: Some(vec![Scope::Admin]),
                ..Caller::default()
            };
            return Ok((caller, Some(KeyId(SINGLE.to_owned()))));
        }
        if !self.required && KeyText::parse(sent).is_none() {
            // No key is required, and this one is not in our format: it is meant for another
            // program.
            return Ok((Caller::default(), None));
        }
        let id = KeyText::parse(sent).map(|text| text.id);
        // A key in another format was never valid.
        let id = id.as_deref().unwrap_or("-");
        self.check_peer(peer, id, path, clock.now_us())?;
        match self.stored(sent, clock.now_us()).await {
            Ok(Ok(key)) => {
                self.check_rate(&key.id, path, clock.now_us())?;
                self.note_use(&key, clock.now_us());
                let caller = Caller {
                    scopes: Some(key.scopes),
                    app: key.app,
                    user: key.user,
                };
                Ok((caller, Some(KeyId(key.id))))
            }
            Ok(Err(refused)) => {
                self.record_rejection(peer, clock.now_us());
                Err(Box::new(unauthorized(path, &refused.to_string())))
            }
            Err(error) => {
                tracing::error!(error = ?reasons(&error), "failed to look up an API key");
                let detail = "API keys cannot be verified right now; try again later";
                Err(Box::new(fault(path, 503, detail)))
            }
        }
    }

    async fn stored(
        &self,
        sent: &str,
        now_us: i64,
    ) -> Result<Result<ApiKey, KeyRejection>, SessionError> {
        let (Some(store), Some(text)) = (&self.store, KeyText::parse(sent)) else {
            return Ok(Err(KeyRejection::Unknown));
        };
        let Some(key) = store.key(&text.id).await? else {
            return Ok(Err(KeyRejection::Unknown));
        };
        Ok(key.verify(text.secret(), now_us).map(|()| key))
    }

    fn check_rate(&self, key: &str, path: &str, now_us: i64) -> Result<(), Box<Response>> {
        let Some(per_second) = self.requests_per_second else {
            return Ok(());
        };
        self.rates.take(key, per_second, now_us).map_err(|seconds| {
            let detail = "too many requests with this API key; see Retry-After";
            Box::new(too_many(path, detail, seconds))
        })
    }

    /// Check whether an address with many failed attempts may try again. Keys that were valid
    /// before pass: behind a proxy, all requests come from one address.
    fn check_peer(
        &self,
        peer: Option<IpAddr>,
        key: &str,
        path: &str,
        now_us: i64,
    ) -> Result<(), Box<Response>> {
        let (Some(per_second), Some(peer)) = (self.wrong_per_second, peer) else {
            return Ok(());
        };
        let Err(seconds) = self.wrong.look(&rate_limit_key(peer), per_second, now_us) else {
            return Ok(());
        };
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.contains_key(key) {
            return Ok(());
        }
        let detail = "too many failed attempts from this address; see Retry-After";
        Err(Box::new(too_many(path, detail, seconds)))
    }

    fn record_rejection(&self, peer: Option<IpAddr>, now_us: i64) {
        if let (Some(per_second), Some(peer)) = (self.wrong_per_second, peer) {
            // The remaining tokens are checked before the next attempt is verified.
            let _ = self.wrong.take(&rate_limit_key(peer), per_second, now_us);
        }
    }

    /// Remember a valid key. Return when it was recorded before, or `None` if that was within a
    /// minute.
    fn record_valid_use(&self, key: &str, now_us: i64) -> Option<Option<i64>> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let last = noted.get(key).copied();
        if last.is_some_and(|last| now_us - last < NOTE_EVERY_US) {
            return None;
        }
        noted.insert(key.to_owned(), now_us);
        Some(last)
    }

    /// Whether this is the key from the settings.
    fn is_single(&self, sent: &str) -> bool {
        let single = self.single.as_deref();
        single.is_some_and(|single| is_same_secret(single, sent))
    }

    /// Record the use of the key, without delaying the request.
    fn note_use(&self, key: &ApiKey, now_us: i64) {
        let Some(store) = self.store.clone() else {
            return;
        };
        let Some(last) = self.record_valid_use(&key.id, now_us) else {
            return;
        };
        tracing::debug!(key = key.id, ?last, "API key used");
        let id = key.id.clone();
        tokio::spawn(async move {
            if let Err(error) = store.note_use(&id, now_us).await {
                tracing::warn!(error = ?error.to_string(), key = id, "failed to record the use of an API key");
            }
        });
    }
}

/// The id of the key from the settings; keys of the store have longer ids.
const SINGLE: &str = "";

/// An IPv4 address, or the /64 network of an IPv6 address: one client owns a whole network.
fn rate_limit_key(peer: IpAddr) -> String {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("{:x?}", &address.segments()[..4]),
    }
}

fn too_many(path: &str, detail: &str, seconds: u64) -> Response {
    let mut response = fault(path, 429, detail);
    let seconds = HeaderValue::from(seconds);
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

/// A caller without the required key: only public routes are open.
fn unauthenticated() -> Caller {
    Caller {
        scopes: Some(Vec::new()),
        ..Caller::default()
    }
}

/// Read the API key of a request from `Authorization: Bearer …` or `x-api-key`.
fn read_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    // An unreadable value counts as a wrong key.
    let plain = headers.get("x-api-key");
    bearer.or_else(|| plain.map(|value| value.to_str().unwrap_or_default()))
}

/// The response that asks for a key, or for a valid one.
pub(crate) fn unauthorized(path: &str, detail: &str) -> Response {
    let mut response = fault(path, 401, detail);
    let challenge = HeaderValue::from_static("Bearer realm=\"retain\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}
