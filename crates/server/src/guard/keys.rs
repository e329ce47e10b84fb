//! Authentication: find the API key of a request and verify it.

mod recheck;

use std::{
    collections::HashMap,
    fmt,
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

/// Minimum time between two records of the use of a key, so that not every request writes.
const USE_INTERVAL_US: i64 = 60_000_000;

/// The API keys that the server accepts.
#[derive(Default)]
pub struct Keys {
    /// The key store; other processes may change it at any time.
    store: Option<Arc<dyn KeyStore>>,
    /// A key from the settings, with all permissions.
    settings_key: Option<String>,
    /// Whether a key is required.
    required: bool,
    requests_per_second: Option<f64>,
    rates: Rates,
    rejections_per_second: Option<f64>,
    /// Failed authentications by client address.
    rejections: Rates,
    /// When the use of each key was last recorded, by key id.
    recorded_uses: Mutex<HashMap<String, i64>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key from the settings must not appear in logs.
        let mut keys = f.debug_struct("Keys");
        keys.field("store", &self.store);
        keys.field("has_settings_key", &self.settings_key.is_some());
        keys.field("required", &self.required);
        keys.finish_non_exhaustive()
    }
}

/// The id of a verified key.
#[derive(Debug, Clone)]
pub(super) struct KeyId(pub(super) String);

impl Keys {
    /// Accepts the keys of a store, and optionally one from the settings. If `required`, rejects
    /// requests without a key, except on public routes.
    pub fn new(store: Arc<dyn KeyStore>, settings_key: Option<String>, required: bool) -> Keys {
        Keys {
            store: Some(store),
            settings_key,
            required,
            ..Keys::default()
        }
    }

    /// Limits the requests per second of each key.
    pub fn with_rate_limit(mut self, requests_per_second: f64) -> Keys {
        self.requests_per_second = Some(requests_per_second);
        self
    }

    /// Limits the failed authentications per second of each address.
    pub fn with_rejection_limit(mut self, per_second: f64) -> Keys {
        self.rejections_per_second = Some(per_second);
        self
    }

    /// Whether a key is required.
    pub fn are_required(&self) -> bool {
        self.required
    }

    /// Identifies the caller, or returns the response that rejects the request.
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
                true => Ok((unauthenticated_caller(), None)),
                false => Ok((Caller::default(), None)),
            };
        };
        if self.is_settings_key(sent) {
            self.check_peer(peer, SETTINGS_KEY_ID, path, clock.now_us())?;
            self.record_valid_use(SETTINGS_KEY_ID, clock.now_us());
            self.check_rate(SETTINGS_KEY_ID, path, clock.now_us())?;
            let caller = Caller {
                scopes: Some(vec![Scope::Admin]),
                ..Caller::default()
            };
            return Ok((caller, Some(KeyId(SETTINGS_KEY_ID.to_owned()))));
        }
        if !self.required && KeyText::parse(sent).is_none() {
            // No key is required, and this one does not have Retain's format: it is meant for
            // another program, such as a proxy.
            return Ok((Caller::default(), None));
        }
        let id = KeyText::parse(sent).map(|text| text.id);
        // A key in another format was never valid, so its id matches no recorded use.
        let id = id.as_deref().unwrap_or("-");
        self.check_peer(peer, id, path, clock.now_us())?;
        match self.look_up(sent, clock.now_us()).await {
            Ok(Ok(key)) => {
                self.check_rate(&key.id, path, clock.now_us())?;
                self.record_use(&key, clock.now_us());
                let caller = Caller {
                    scopes: Some(key.scopes),
                    app: key.app,
                    user: key.user,
                };
                Ok((caller, Some(KeyId(key.id))))
            }
            Ok(Err(refused)) => {
                self.record_rejection(peer, clock.now_us());
                Err(Box::new(unauthorized(path, &rejection_detail(refused))))
            }
            Err(error) => {
                tracing::error!(error = ?reasons(&error), "failed to look up an API key");
                let detail = "API keys cannot be verified right now; try again later";
                Err(Box::new(fault(path, 503, detail)))
            }
        }
    }

    async fn look_up(
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
            Box::new(too_many_requests(path, detail, seconds))
        })
    }

    /// Rejects an address with too many failed authentications. Keys that were valid before pass,
    /// because behind a proxy all requests come from one address.
    fn check_peer(
        &self,
        peer: Option<IpAddr>,
        key: &str,
        path: &str,
        now_us: i64,
    ) -> Result<(), Box<Response>> {
        let (Some(per_second), Some(peer)) = (self.rejections_per_second, peer) else {
            return Ok(());
        };
        let Err(seconds) = self
            .rejections
            .check(&rate_limit_key(peer), per_second, now_us)
        else {
            return Ok(());
        };
        let uses = self
            .recorded_uses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if uses.contains_key(key) {
            return Ok(());
        }
        let detail = "too many requests with invalid API keys from this address; see Retry-After";
        Err(Box::new(too_many_requests(path, detail, seconds)))
    }

    fn record_rejection(&self, peer: Option<IpAddr>, now_us: i64) {
        if let (Some(per_second), Some(peer)) = (self.rejections_per_second, peer) {
            // `check_peer` rejects the next attempt if no token is left.
            let _ = self
                .rejections
                .take(&rate_limit_key(peer), per_second, now_us);
        }
    }

    /// Records the time of a valid key's use in memory. Returns the time recorded before, or `None`
    /// if that was less than a minute ago.
    fn record_valid_use(&self, key: &str, now_us: i64) -> Option<Option<i64>> {
        let mut uses = self
            .recorded_uses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let last = uses.get(key).copied();
        if last.is_some_and(|last| now_us - last < USE_INTERVAL_US) {
            return None;
        }
        uses.insert(key.to_owned(), now_us);
        Some(last)
    }

    /// Whether this is the key from the settings.
    fn is_settings_key(&self, sent: &str) -> bool {
        let settings_key = self.settings_key.as_deref();
        settings_key.is_some_and(|key| is_same_secret(key, sent))
    }

    /// Records the use of a key in the store, without delaying the request.
    fn record_use(&self, key: &ApiKey, now_us: i64) {
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
const SETTINGS_KEY_ID: &str = "";

/// Returns an IPv4 address, or the /64 network of an IPv6 address, because one client can use all
/// addresses of the network.
fn rate_limit_key(peer: IpAddr) -> String {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("{:x?}", &address.segments()[..4]),
    }
}

fn too_many_requests(path: &str, detail: &str, seconds: u64) -> Response {
    let mut response = fault(path, 429, detail);
    let seconds = HeaderValue::from(seconds);
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

/// Returns a caller without the required key, who may use only public routes.
fn unauthenticated_caller() -> Caller {
    Caller {
        scopes: Some(Vec::new()),
        ..Caller::default()
    }
}

/// Reads the API key of a request from `Authorization: Bearer …` or `x-api-key`.
fn read_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    // A value that is not ASCII text counts as an invalid key.
    let plain = headers.get("x-api-key");
    bearer.or_else(|| plain.map(|value| value.to_str().unwrap_or_default()))
}

/// Returns the text of the response to a rejected key.
fn rejection_detail(rejection: KeyRejection) -> String {
    match rejection {
        KeyRejection::Unknown => format!(
            "{rejection}; send a key from `retain keys create` as `Authorization: Bearer KEY` or \
             `x-api-key: KEY`"
        ),
        _ => rejection.to_string(),
    }
}

/// Returns a 401 response, whose challenge asks the client for an API key.
pub(crate) fn unauthorized(path: &str, detail: &str) -> Response {
    let mut response = fault(path, 401, detail);
    let challenge = HeaderValue::from_static("Bearer realm=\"retain\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, challenge);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_of_keys_omits_the_key_from_the_settings() {
        let keys = Keys {
            settings_key: Some("secret-of-the-settings".to_owned()),
            ..Keys::default()
        };
        assert!(!format!("{keys:?}").contains("secret-of-the-settings"));
    }
}
