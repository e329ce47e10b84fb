//! `Secret`: a key that cannot be printed by accident; `Secrets`: all that is secret about a call.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use retain_runtime::ModelError;

/// A key or a token, without the spaces and ends of lines around it. Neither `Debug` nor `Display`
/// tells anything of it.
///
/// ```
/// use retain_models::Secret;
/// let key = Secret::from("sk-123");
/// assert_eq!(format!("{key:?} {key}"), "[secret] [secret]");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// Shorter texts are not secrets, and would match ordinary words.
const SHORTEST_REDACTED: usize = 6;

impl Secret {
    /// The key itself, to be sent.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// All that is secret about one call, so that nothing of it is told of the call: its key, tokens
/// that were fetched for it, headers of the caller's own. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets(Arc<Mutex<Vec<Secret>>>);

impl Secrets {
    /// One more thing that nobody is to read.
    pub(crate) fn add(&self, secret: Secret) {
        let mut known = self.known();
        if secret.0.len() >= SHORTEST_REDACTED && !known.contains(&secret) {
            known.push(secret);
            // The longest first: one may be a part of another.
            known.sort_by_key(|secret| std::cmp::Reverse(secret.0.len()));
        }
    }

    /// `text` with every secret in it blotted out.
    pub(crate) fn redact(&self, text: &str) -> String {
        let known = self.known();
        known.iter().fold(text.to_owned(), |text, secret| {
            text.replace(&*secret.0, "[secret]")
        })
    }

    /// The error without secrets, should the provider have repeated them.
    pub(crate) fn clear(&self, mut error: ModelError) -> ModelError {
        // With what is below the cause.
        let said = error
            .source
            .as_ref()
            .map(|source| format!("{source} {source:?}"));
        if said.is_some_and(|said| self.redact(&said) != said) {
            error.source = None;
        }
        error.message = self.redact(&error.message);
        error.code = error.code.map(|code| self.redact(&code));
        error
    }

    fn known(&self) -> MutexGuard<'_, Vec<Secret>> {
        self.0.lock().unwrap_or_else(|held| held.into_inner())
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
