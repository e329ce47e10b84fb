//! `Auth`: the credentials of a call, added just before it is sent.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use retain_runtime::ModelError;

use super::{Http, Secret};

/// The authorization of a call.
#[derive(Debug, Clone)]
pub(crate) enum Auth {
    /// No credentials, for a self-hosted server.
    None,
    /// An API key in a separate header, e.g. `x-goog-api-key`.
    Header(&'static str, Secret),
    /// An API key as `Authorization: Bearer`.
    Bearer(Secret),
    /// A token that expires and is fetched when needed.
    Tokens(Arc<dyn TokenSource>),
}

/// Provides tokens that expire.
#[async_trait]
pub(crate) trait TokenSource: fmt::Debug + Send + Sync + 'static {
    /// Returns a valid token.
    async fn token(&self, http: &Http) -> Result<Secret, ModelError>;

    /// Invalidates a token that the provider rejected: `token` must not return it again.
    fn invalidate(&self, token: &Secret);
}

/// The authorization header of one call, and its secret.
#[derive(Debug)]
pub(super) struct AuthHeader {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
    pub(super) secret: Secret,
}

impl Auth {
    /// Returns the header for a call that is made now.
    pub(super) async fn header(&self, http: &Http) -> Result<Option<AuthHeader>, ModelError> {
        let (name, secret, text) = match self {
            Auth::None => return Ok(None),
            Auth::Header(name, secret) => (
                HeaderName::from_static(name),
                secret.clone(),
                secret.expose().to_owned(),
            ),
            Auth::Bearer(secret) => bearer(secret.clone()),
            Auth::Tokens(source) => bearer(source.token(http).await?),
        };
        // Discard the original error, because it contains the value.
        let Ok(mut value) = HeaderValue::from_str(&text) else {
            let message = "the API key has characters that an HTTP header does not allow; check it \
                           for line breaks";
            return Err(ModelError::new(message).with_code("InvalidKey"));
        };
        value.set_sensitive(true);
        Ok(Some(AuthHeader {
            name,
            value,
            secret,
        }))
    }

    /// Invalidates a token that the provider rejected. Returns whether a new one can be fetched.
    pub(super) fn invalidate_token(&self, token: &Secret) -> bool {
        match self {
            Auth::Tokens(source) => {
                source.invalidate(token);
                true
            }
            _ => false,
        }
    }
}

fn bearer(secret: Secret) -> (HeaderName, Secret, String) {
    let text = format!("Bearer {}", secret.expose());
    (AUTHORIZATION, secret, text)
}
