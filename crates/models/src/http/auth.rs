//! `Auth`: the credentials of a call, added just before it is sent.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use retain_runtime::ModelError;

use super::{Http, Secret};

/// How a call is authorized.
#[derive(Debug, Clone)]
pub(crate) enum Auth {
    /// No credentials: a self-hosted server.
    None,
    /// An API key in a separate header, e.g. `x-goog-api-key`.
    Header(&'static str, Secret),
    /// An API key as `Authorization: Bearer`.
    Bearer(Secret),
    /// A token that is fetched and expires.
    Tokens(Arc<dyn TokenSource>),
}

/// Provides tokens that expire.
#[async_trait]
pub(crate) trait TokenSource: fmt::Debug + Send + Sync + 'static {
    /// Returns a valid token.
    async fn token(&self, http: &Http) -> Result<Secret, ModelError>;

    /// Reports that the provider rejected this token; it must not be returned again.
    fn refused(&self, token: &Secret);
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
        // Discard the error, because it contains the value.
        let Ok(mut value) = HeaderValue::from_str(&text) else {
            return Err(
                ModelError::new("the API key has characters that a header does not allow")
                    .with_code("InvalidKey"),
            );
        };
        value.set_sensitive(true);
        Ok(Some(AuthHeader {
            name,
            value,
            secret,
        }))
    }

    /// Whether fetching a new token may help after this token was rejected.
    pub(super) fn renew(&self, token: &Secret) -> bool {
        match self {
            Auth::Tokens(source) => {
                source.refused(token);
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
