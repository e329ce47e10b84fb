//! Access tokens for Vertex AI: fetched on demand, cached, and renewed before they expire.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use base64::{
    Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD,
};
use form_urlencoded::{Serializer, byte_serialize};
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
    http::{Http, Secrets, TokenSource},
    provider::{Failure, plain_failure},
};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The requested lifetime of a token, which is Google's maximum.
const LIFETIME_S: i64 = 3600;
/// The remaining lifetime at which a token is renewed, so that it does not expire during a call.
const RENEWAL_MARGIN_US: i64 = 225 * 1_000_000;

/// Fetches access tokens with the credentials, and caches the current one.
#[derive(Debug)]
pub(super) struct Tokens {
    credentials: GoogleCredentials,
    /// Locked while one caller fetches a token, so that concurrent callers wait for it.
    cached: tokio::sync::Mutex<Option<CachedToken>>,
    /// The last token that the provider rejected.
    rejected: Mutex<Option<Secret>>,
}

#[derive(Debug, Clone)]
struct CachedToken {
    token: Secret,
    expires_us: i64,
}

impl Tokens {
    pub(super) fn new(credentials: GoogleCredentials) -> Tokens {
        Tokens {
            credentials,
            cached: tokio::sync::Mutex::default(),
            rejected: Mutex::default(),
        }
    }

    fn was_rejected(&self, token: &Secret) -> bool {
        let rejected = self.rejected.lock();
        let rejected = rejected.unwrap_or_else(PoisonError::into_inner);
        rejected.as_ref() == Some(token)
    }

    async fn fetch(&self, http: &Http) -> Result<CachedToken, ModelError> {
        let now_us = http.clock().now_us();
        let text = match &self.credentials {
            GoogleCredentials::AccessToken(token) => {
                return Ok(CachedToken {
                    token: token.clone(),
                    expires_us: i64::MAX,
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
            GoogleCredentials::MetadataServer { host } => request_machine_token(http, host).await?,
        };
        read_token(&text, now_us)
    }
}

#[async_trait]
impl TokenSource for Tokens {
    async fn token(&self, http: &Http) -> Result<Secret, ModelError> {
        let mut cached = self.cached.lock().await;
        let now_us = http.clock().now_us();
        let valid = cached.as_ref().filter(|cached| {
            let renewed_at_us = cached.expires_us.saturating_sub(RENEWAL_MARGIN_US);
            now_us < renewed_at_us && !self.was_rejected(&cached.token)
        });
        if let Some(valid) = valid {
            return Ok(valid.token.clone());
        }
        let fetched = self.fetch(http).await?;
        let token = fetched.token.clone();
        *cached = Some(fetched);
        Ok(token)
    }

    fn invalidate(&self, token: &Secret) {
        let rejected = self.rejected.lock();
        *rejected.unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
    }
}

fn read_token(text: &str, now_us: i64) -> Result<CachedToken, ModelError> {
    let json = Json::parse(text).unwrap_or_default();
    let Some(token) = json["access_token"].as_str() else {
        // The response may contain another kind of token, so the error does not quote it.
        return Err(unauthenticated(
            "Google's response to the token request has no access_token",
        ));
    };
    // Metadata servers pad tokens with dots.
    let token = token.trim_end_matches('.');
    let lifetime = json["expires_in"].as_f64().unwrap_or(0.0) as i64;
    Ok(CachedToken {
        token: token.into(),
        expires_us: now_us.saturating_add(lifetime.saturating_mul(1_000_000)),
    })
}

fn unauthenticated(message: impl Into<String>) -> ModelError {
    ModelError::new(message).with_code("UNAUTHENTICATED")
}

/// Parses the error of a token request: `{"error": "invalid_grant", "error_description": "…"}`.
fn token_failure(status: u16, body: &str) -> Failure {
    let json = Json::parse(body).unwrap_or_default();
    let description = json["error_description"].as_str();
    match json["error"].as_str() {
        Some(error) => {
            let description = description.unwrap_or("no reason given");
            Failure::new(
                "UNAUTHENTICATED",
                format!("Google rejected the token request: {error}: {description}"),
            )
        }
        None => {
            let plain = plain_failure(status, body);
            let message = format!("cannot get a token from Google: {}", plain.message);
            Failure::new("UNAUTHENTICATED", message)
        }
    }
}

/// Requests a token with a form. The form's secrets are redacted, because an error response may
/// repeat them.
async fn post_form(
    http: &Http,
    url: &str,
    form: String,
    secrets: &[&str],
) -> Result<String, ModelError> {
    let redacted = Secrets::default();
    for secret in secrets {
        redacted.add(Secret::from(*secret));
        let encoded: String = byte_serialize(secret.as_bytes()).collect();
        redacted.add(encoded.into());
    }
    let build = |client: &Client| -> RequestBuilder {
        let request = client.post(url).body(form.clone());
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded")
    };
    http.fetch(url, &build, &token_failure, &redacted).await
}

async fn request_machine_token(http: &Http, host: &str) -> Result<String, ModelError> {
    let path = "computeMetadata/v1/instance/service-accounts/default/token";
    let url = format!("http://{host}/{path}");
    // Bypass proxies: a proxy might reach its own machine's metadata server, which returns another
    // account's token.
    let direct = http.direct()?;
    let build = |_: &Client| direct.get(&url).header("metadata-flavor", "Google");
    http.fetch(&url, &build, &token_failure, &Secrets::default())
        .await
        .map_err(|error| {
            let message = format!(
                "{}; no credentials are configured, so the Google Cloud metadata server was asked \
                 for a token; outside Google Cloud, set GOOGLE_APPLICATION_CREDENTIALS",
                error.message
            );
            unauthenticated(message).with_source(error)
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

/// Creates an assertion, signed with the account's key, to exchange for a token. It is valid for
/// one hour, and as secret as the key.
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
        unauthenticated(format!(
            "cannot use the private key of {}: {why}",
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

/// Encodes `fields` as `application/x-www-form-urlencoded`.
fn form(fields: &[(&str, &str)]) -> String {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(fields).finish()
}
