//! Access tokens for Vertex AI: fetched on demand, cached, and renewed before they expire.

use std::sync::Mutex;

use async_trait::async_trait;
use base64::{
    Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD,
};
use reqwest::{Client, RequestBuilder, header::CONTENT_TYPE};
use retain_core::{Clock, Json, JsonMap};
use retain_runtime::ModelError;
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};

use super::credentials::{GoogleCredentials, ServiceAccount, UserCredentials};
use crate::{
    Secret,
    http::{Http, Secrets, TokenSource, percent_encode},
    provider::{Failure, plain_failure},
};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The requested lifetime of a token, which is Google's maximum.
const LIFETIME_S: i64 = 3600;
/// How long before its expiry a token is renewed, so that none expires during a call.
const AHEAD_US: i64 = 225 * 1_000_000;

/// Provides tokens for credentials.
#[derive(Debug)]
pub(super) struct Tokens {
    credentials: GoogleCredentials,
    /// One caller fetches the token; concurrent callers wait for it.
    cached: tokio::sync::Mutex<Option<CachedToken>>,
    refused: Mutex<Option<Secret>>,
}

#[derive(Debug, Clone)]
struct CachedToken {
    token: Secret,
    ends_us: i64,
}

impl Tokens {
    pub(super) fn new(credentials: GoogleCredentials) -> Tokens {
        Tokens {
            credentials,
            cached: tokio::sync::Mutex::default(),
            refused: Mutex::default(),
        }
    }

    fn was_refused(&self, token: &Secret) -> bool {
        let refused = self.refused.lock().unwrap_or_else(|held| held.into_inner());
        refused.as_ref() == Some(token)
    }

    async fn fetch(&self, http: &Http) -> Result<CachedToken, ModelError> {
        let now_us = http.clock().now_us();
        let text = match &self.credentials {
            GoogleCredentials::AccessToken(token) => {
                return Ok(CachedToken {
                    token: token.clone(),
                    ends_us: i64::MAX,
                });
            }
            GoogleCredentials::ServiceAccount(account) => {
                let assertion = assertion(account, http.clock().as_ref())?;
                let form = assertion_form(&assertion);
                post_form(http, &account.token_uri, form, &[&assertion]).await?
            }
            GoogleCredentials::User(user) => {
                let secrets = [user.client_secret.expose(), user.refresh_token.expose()];
                post_form(http, &user.token_uri, refresh_form(user), &secrets).await?
            }
            GoogleCredentials::MetadataServer { host } => ask_metadata(http, host).await?,
        };
        read_token(&text, now_us)
    }
}

#[async_trait]
impl TokenSource for Tokens {
    async fn token(&self, http: &Http) -> Result<Secret, ModelError> {
        let mut held = self.cached.lock().await;
        let now_us = http.clock().now_us();
        let good = held.as_ref().filter(|held| {
            now_us < held.ends_us.saturating_sub(AHEAD_US) && !self.was_refused(&held.token)
        });
        if let Some(good) = good {
            return Ok(good.token.clone());
        }
        let fetched = self.fetch(http).await?;
        let token = fetched.token.clone();
        *held = Some(fetched);
        Ok(token)
    }

    fn refused(&self, token: &Secret) {
        let mut refused = self.refused.lock().unwrap_or_else(|held| held.into_inner());
        *refused = Some(token.clone());
    }
}

fn read_token(text: &str, now_us: i64) -> Result<CachedToken, ModelError> {
    let said = Json::parse(text).unwrap_or_default();
    let Some(token) = said["access_token"].as_str() else {
        // The response may contain another kind of token, so the error does not quote it.
        return Err(not_given(
            "Google's answer to the token request has no token",
        ));
    };
    // Metadata servers pad their tokens with dots.
    let token = token.trim_end_matches('.');
    let lifetime = said["expires_in"].as_f64().unwrap_or(0.0) as i64;
    Ok(CachedToken {
        token: token.into(),
        ends_us: now_us.saturating_add(lifetime.saturating_mul(1_000_000)),
    })
}

fn not_given(message: impl Into<String>) -> ModelError {
    ModelError::new(message).with_code("UNAUTHENTICATED")
}

/// Parses the error of a token request: `{"error": "invalid_grant", "error_description": "…"}`.
fn token_failure(status: u16, body: &str) -> Failure {
    let said = Json::parse(body).unwrap_or_default();
    let words = said["error_description"].as_str();
    match said["error"].as_str() {
        Some(error) => {
            let words = words.unwrap_or("no reason given");
            Failure::new(
                "UNAUTHENTICATED",
                format!("Google refused the token request: {error}: {words}"),
            )
        }
        None => {
            let plain = plain_failure(status, body);
            let message = format!("cannot get a token from Google: {}", plain.message);
            Failure::new("UNAUTHENTICATED", message)
        }
    }
}

/// Requests a token with a form. An error response may repeat the form's secrets.
async fn post_form(
    http: &Http,
    url: &str,
    form: String,
    secrets: &[&str],
) -> Result<String, ModelError> {
    let redacted = Secrets::default();
    for secret in secrets {
        redacted.add(Secret::from(*secret));
        redacted.add(percent_encode(secret).to_string().into());
    }
    let ask = |client: &Client| -> RequestBuilder {
        let request = client.post(url).body(form.clone());
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded")
    };
    http.fetch(url, &ask, &token_failure, &redacted).await
}

async fn ask_metadata(http: &Http, host: &str) -> Result<String, ModelError> {
    let path = "computeMetadata/v1/instance/service-accounts/default/token";
    let url = format!("http://{host}/{path}");
    // Bypass proxies: a proxy's metadata server, if any, would return another account's token.
    let direct = http.direct()?;
    let ask = |_: &Client| direct.get(&url).header("metadata-flavor", "Google");
    http.fetch(&url, &ask, &token_failure, &Secrets::default())
        .await
        .map_err(|error| {
            let message = format!(
                "{}; no credentials are configured, so the Google Cloud metadata server was asked \
                 for a token; outside Google Cloud, set GOOGLE_APPLICATION_CREDENTIALS",
                error.message
            );
            not_given(message).with_source(error)
        })
}

fn refresh_form(user: &UserCredentials) -> String {
    form(&[
        ("grant_type", "refresh_token"),
        ("client_id", &user.client_id),
        ("client_secret", user.client_secret.expose()),
        ("refresh_token", user.refresh_token.expose()),
    ])
}

/// Returns the form with a signed assertion (RFC 7523).
fn assertion_form(assertion: &str) -> String {
    form(&[
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("assertion", assertion),
    ])
}

/// Creates an assertion signed by the account. For one hour it is as sensitive as the key.
fn assertion(account: &ServiceAccount, clock: &dyn Clock) -> Result<String, ModelError> {
    let now = clock.now_us() / 1_000_000;
    let mut header = JsonMap::from([("alg", "RS256"), ("typ", "JWT")]);
    if let Some(id) = &account.key_id {
        header.insert("kid", id.as_str());
    }
    let claims = JsonMap::from([
        ("iss", Json::from(account.email.as_str())),
        ("scope", SCOPE.into()),
        ("aud", account.token_uri.as_str().into()),
        ("iat", now.into()),
        ("exp", (now + LIFETIME_S).into()),
    ]);
    let part = |map: JsonMap| URL_SAFE_NO_PAD.encode(Json::from(map).to_string());
    let claim = format!("{}.{}", part(header), part(claims));
    let signature = sign(account, claim.as_bytes())?;
    Ok(format!("{claim}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn sign(account: &ServiceAccount, message: &[u8]) -> Result<Vec<u8>, ModelError> {
    let unusable = |why: String| {
        not_given(format!(
            "the private key of {} cannot be used: {why}",
            account.email
        ))
    };
    let pem = account.private_key.expose();
    let body: String = pem
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    let body: String = body.split_whitespace().collect();
    let der = STANDARD
        .decode(body)
        .map_err(|_| unusable("it is not valid PEM".to_owned()))?;
    let key = match pem.contains("BEGIN RSA PRIVATE KEY") {
        true => RsaKeyPair::from_der(&der),
        false => RsaKeyPair::from_pkcs8(&der),
    };
    let key = key.map_err(|error| unusable(error.to_string()))?;
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        message,
        &mut signature,
    )
    .map_err(|_| unusable("signing failed".to_owned()))?;
    Ok(signature)
}

/// Encode `fields` as `application/x-www-form-urlencoded`.
fn form(fields: &[(&str, &str)]) -> String {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", percent_encode(value)));
    fields.collect::<Vec<_>>().join("&")
}
