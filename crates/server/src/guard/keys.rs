//! Which key a request brings, and whose it is.

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
use retain_core::{ApiKey, Clock, KeyRefused, KeyStore, KeyText, SessionError, is_same_secret};

use super::{
    caller::{Caller, Scope},
    fault,
    rate::Rates,
};
use crate::failures::reasons;

pub(crate) use recheck::{KeyWatch, Standing};

/// A key's use is noted once in this time, so that reading does not become writing.
const NOTE_EVERY_US: i64 = 60_000_000;

/// The keys that open the server.
#[derive(Debug, Default)]
pub struct Keys {
    /// Where keys are; others may change them at any time.
    store: Option<Arc<dyn KeyStore>>,
    /// One key from the settings, for everything.
    single: Option<String>,
    /// Whether nobody comes in without one.
    required: bool,
    requests_per_second: Option<f64>,
    rates: Rates,
    wrong_per_second: Option<f64>,
    /// Wrong keys, by the address that they came from.
    wrong: Rates,
    /// When the use of a key was noted last.
    noted: Mutex<HashMap<String, i64>>,
}

/// The key that a request brought and that is good.
#[derive(Debug, Clone)]
pub(super) struct KeyId(pub(super) String);

impl Keys {
    /// The keys of a store, and perhaps one of the settings. `required`: nobody comes in without.
    pub fn new(store: Arc<dyn KeyStore>, single: Option<String>, required: bool) -> Keys {
        Keys {
            store: Some(store),
            single,
            required,
            ..Keys::default()
        }
    }

    /// Limits how often each may be used.
    pub fn limited(mut self, requests_per_second: f64) -> Keys {
        self.requests_per_second = Some(requests_per_second);
        self
    }

    /// Limits how many wrong ones may come from one address.
    pub fn limited_wrong(mut self, per_second: f64) -> Keys {
        self.wrong_per_second = Some(per_second);
        self
    }

    /// Whether nobody comes in without a key.
    pub fn are_required(&self) -> bool {
        self.required
    }

    /// Who makes this request, or the answer that refuses it.
    pub(super) async fn caller(
        &self,
        headers: &HeaderMap,
        path: &str,
        peer: Option<IpAddr>,
        clock: &dyn Clock,
    ) -> Result<(Caller, Option<KeyId>), Box<Response>> {
        let Some(sent) = sent_key(headers) else {
            // Who may do what is asked after that: what is for everybody needs no key.
            return match self.required {
                true => Ok((nobody(), None)),
                false => Ok((Caller::default(), None)),
            };
        };
        if self.is_single(sent) {
            self.check_peer(peer, SINGLE, path, clock.now_us())?;
            self.note_good(SINGLE, clock.now_us());
            self.check_rate(SINGLE, path, clock.now_us())?;
            let caller = Caller {
                scopes: Some(vec![Scope::Admin]),
                ..Caller::default()
            };
            return Ok((caller, Some(KeyId(SINGLE.to_owned()))));
        }
        if !self.required && KeyText::parse(sent).is_none() {
            // No key is needed here, and this is none of ours: it is meant for somebody else.
            return Ok((Caller::default(), None));
        }
        let id = KeyText::parse(sent).map(|text| text.id);
        // What is no key of ours was never good.
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
                self.note_wrong(peer, clock.now_us());
                Err(Box::new(unauthorized(path, &refused.to_string())))
            }
            Err(error) => {
                tracing::error!(error = ?reasons(&error), "a key could not be looked up");
                let detail = "keys cannot be looked up at this moment";
                Err(Box::new(fault(path, 503, detail)))
            }
        }
    }

    async fn stored(
        &self,
        sent: &str,
        now_us: i64,
    ) -> Result<Result<ApiKey, KeyRefused>, SessionError> {
        let (Some(store), Some(text)) = (&self.store, KeyText::parse(sent)) else {
            return Ok(Err(KeyRefused::Unknown));
        };
        let Some(key) = store.key(&text.id).await? else {
            return Ok(Err(KeyRefused::Unknown));
        };
        Ok(key.verify(text.secret(), now_us).map(|()| key))
    }

    fn check_rate(&self, key: &str, path: &str, now_us: i64) -> Result<(), Box<Response>> {
        let Some(per_second) = self.requests_per_second else {
            return Ok(());
        };
        self.rates.take(key, per_second, now_us).map_err(|seconds| {
            let detail = "this key makes too many requests; see Retry-After";
            Box::new(too_many(path, detail, seconds))
        })
    }

    /// Whether an address from which many wrong keys came may try another one. Keys that were good
    /// before pass: behind a proxy, all come from the same address.
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
        let Err(seconds) = self.wrong.look(&place_of(peer), per_second, now_us) else {
            return Ok(());
        };
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.contains_key(key) {
            return Ok(());
        }
        let detail = "too many wrong keys came from this address; see Retry-After";
        Err(Box::new(too_many(path, detail, seconds)))
    }

    fn note_wrong(&self, peer: Option<IpAddr>, now_us: i64) {
        if let (Some(per_second), Some(peer)) = (self.wrong_per_second, peer) {
            // Whether there was a token left is asked before the next one is looked up.
            let _ = self.wrong.take(&place_of(peer), per_second, now_us);
        }
    }

    /// Remembers a key that was good, and when that was noted before; `None`: just now.
    fn note_good(&self, key: &str, now_us: i64) -> Option<Option<i64>> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let last = noted.get(key).copied();
        if last.is_some_and(|last| now_us - last < NOTE_EVERY_US) {
            return None;
        }
        noted.insert(key.to_owned(), now_us);
        Some(last)
    }

    /// Whether it is the one key that the server was started with.
    fn is_single(&self, sent: &str) -> bool {
        let single = self.single.as_deref();
        single.is_some_and(|single| is_same_secret(single, sent))
    }

    /// Notes that the key was used, beside the request.
    fn note_use(&self, key: &ApiKey, now_us: i64) {
        let Some(store) = self.store.clone() else {
            return;
        };
        let Some(last) = self.note_good(&key.id, now_us) else {
            return;
        };
        tracing::debug!(key = key.id, ?last, "a key is used");
        let id = key.id.clone();
        tokio::spawn(async move {
            if let Err(error) = store.note_use(&id, now_us).await {
                tracing::warn!(error = ?error.to_string(), key = id, "the use of a key could not be noted");
            }
        });
    }
}

/// The id of the one key that the server was started with: keys of the store have longer ones.
const SINGLE: &str = "";

/// An address, or the net of one of IPv6: whoever has one there has all of them.
fn place_of(peer: IpAddr) -> String {
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

/// Somebody without a key, where one is needed: may do nothing but what is for everybody.
fn nobody() -> Caller {
    Caller {
        scopes: Some(Vec::new()),
        ..Caller::default()
    }
}

/// The key that a request brings: `Authorization: Bearer …` or `x-api-key`.
fn sent_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    // What cannot be read is a key nevertheless: a wrong one.
    let plain = headers.get("x-api-key");
    bearer.or_else(|| plain.map(|value| value.to_str().unwrap_or_default()))
}

/// The answer to who needs a key, or a better one.
pub(crate) fn unauthorized(path: &str, detail: &str) -> Response {
    let mut response = fault(path, 401, detail);
    let challenge = HeaderValue::from_static("Bearer realm=\"retain\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}
