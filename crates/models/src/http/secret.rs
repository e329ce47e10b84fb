//! `Secret`: a key that cannot be printed by accident.

use std::{fmt, sync::Arc};

/// A key or a token. Neither `Debug` nor `Display` tells anything of it.
///
/// ```
/// use retain_models::Secret;
/// let key = Secret::from("sk-123");
/// assert_eq!(format!("{key:?} {key}"), "[secret] [secret]");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// Shorter texts are no secrets worth the name, and would be found in every other word.
const SHORTEST_REDACTED: usize = 6;

impl Secret {
    /// The key itself, to be sent.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// `text` with every occurrence of the key blotted out.
    pub(crate) fn redact(&self, text: &str) -> String {
        match self.0.len() < SHORTEST_REDACTED {
            true => text.to_owned(),
            false => text.replace(&*self.0, "[secret]"),
        }
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret(text.into())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text.into())
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
