//! `Secret`, an API key that cannot be printed by accident, and `Secrets`, all secrets of a call.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use retain_runtime::ModelError;

/// An API key or a token, without surrounding whitespace. Neither `Debug` nor `Display` reveals it.
///
/// ```
/// use retain_models::Secret;
/// let key = Secret::from("sk-123");
/// assert_eq!(format!("{key:?} {key}"), "[secret] [secret]");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// Minimum length of a redacted secret. Shorter ones would match ordinary words.
const REDACTED_MIN: usize = 6;

impl Secret {
    /// Returns the secret itself, for sending it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the secret is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// All secrets of a call, which no error may contain: its API key, tokens fetched for it, and the
/// caller's headers. Clones share their contents.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Arc<Mutex<Vec<Secret>>>);

impl Secrets {
    /// Adds a secret.
    pub(crate) fn add(&self, secret: Secret) {
        let mut secrets = self.lock();
        if secret.0.len() >= REDACTED_MIN && !secrets.contains(&secret) {
            secrets.push(secret);
            // Redact the longest first, because one secret may be part of another.
            secrets.sort_by_key(|secret| std::cmp::Reverse(secret.0.len()));
        }
    }

    /// Redacts every secret in `text`.
    pub(crate) fn redact(&self, text: &str) -> String {
        let secrets = self.lock();
        secrets.iter().fold(text.to_owned(), |text, secret| {
            text.replace(&*secret.0, "[secret]")
        })
    }

    /// Redacts the secrets in an error, and drops its source if that contains one.
    pub(crate) fn redact_error(&self, mut error: ModelError) -> ModelError {
        // The `Debug` output includes the causes of the source.
        let text = error
            .source
            .as_ref()
            .map(|source| format!("{source} {source:?}"));
        if text.is_some_and(|text| self.redact(&text) != text) {
            error.source = None;
        }
        error.message = self.redact(&error.message);
        error.code = error.code.map(|code| self.redact(&code));
        error
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Secret>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret(text.trim().into())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret::from(text.as_str())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
