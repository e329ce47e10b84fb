//! `Auth`: how a call says who pays for it. The last thing that is added before it is sent.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use retain_runtime::ModelError;

use super::{Http, Secret};

/// How a call is authorized.
#[derive(Debug, Clone)]
pub(crate) enum Auth {
    /// Not at all: a server of one's own.
    None,
    /// By a key in a header of its own, e.g. `x-goog-api-key`.
    Header(&'static str, Secret),
    /// By a key as `Authorization: Bearer`.
    Bearer(Secret),
    /// By a token that is fetched and ends after a while.
    Tokens(Arc<dyn TokenSource>),
}

/// Gives tokens that end after a while.
#[async_trait]
pub(crate) trait TokenSource: fmt::Debug + Send + Sync + 'static {
    /// A token that is good for now.
    async fn token(&self, http: &Http) -> Result<Secret, ModelError>;

    /// The provider has refused this token: it is not to be given again.
    fn refused(&self, token: &Secret);
}

/// The header that authorizes one call, and its secret part.
#[derive(Debug)]
pub(super) struct AuthHeader {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
    pub(super) secret: Secret,
}

impl Auth {
    /// The header for a call that is made now.
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
        // The error would tell the value.
        let Ok(mut value) = HeaderValue::from_str(&text) else {
            return Err(
                ModelError::new("the key has characters that cannot be sent in a header")
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

    /// Whether a refusal of this token may be cured by fetching another.
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
