//! API keys: who may use a server, for what, for whose data and until when. A key's secret is shown
//! once and only its hash is kept.
//!
//! The way of a key: its text → [`KeyText::parse`] → [`KeyStore::key`] → [`ApiKey::verify`].

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::error::{Result, SessionError};

/// What every key's text begins with, so that those who look for leaked secrets know one.
const PREFIX: &str = "retain_";

/// Bytes of a secret. So many that guessing is hopeless and hashing need not be slow.
pub const KEY_SECRET_BYTES: usize = 32;

/// What a key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyScope {
    /// Read sessions, state and artifacts.
    SessionsRead,
    /// Create, change and delete them.
    SessionsWrite,
    /// Search and list memories.
    MemoryRead,
    /// Add and change memories.
    MemoryWrite,
    /// Forget memories.
    MemoryDelete,
    /// Run agents.
    Run,
    /// Everything, for all users: import, erase, metrics.
    Admin,
}

impl KeyScope {
    /// All there are.
    pub const ALL: [KeyScope; 7] = [
        KeyScope::SessionsRead,
        KeyScope::SessionsWrite,
        KeyScope::MemoryRead,
        KeyScope::MemoryWrite,
        KeyScope::MemoryDelete,
        KeyScope::Run,
        KeyScope::Admin,
    ];

    /// Its name, e.g. `sessions:read`.
    pub fn name(self) -> &'static str {
        match self {
            KeyScope::SessionsRead => "sessions:read",
            KeyScope::SessionsWrite => "sessions:write",
            KeyScope::MemoryRead => "memory:read",
            KeyScope::MemoryWrite => "memory:write",
            KeyScope::MemoryDelete => "memory:delete",
            KeyScope::Run => "run",
            KeyScope::Admin => "admin",
        }
    }
}

impl fmt::Display for KeyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KeyScope {
    type Err = SessionError;

    fn from_str(name: &str) -> Result<KeyScope> {
        let found = KeyScope::ALL
            .into_iter()
            .find(|scope| scope.name() == name.trim());
        found.ok_or_else(|| {
            let known: Vec<_> = KeyScope::ALL.iter().map(|scope| scope.name()).collect();
            let reason = format!("is not known; there are: {}", known.join(", "));
            SessionError::invalid(format!("scope {name:?}"), reason)
        })
    }
}

/// A key as it is kept: everything but its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// What it is called by; part of its text, and no secret.
    pub id: String,
    /// What its maker calls it.
    pub name: String,
    /// The hash of its secret.
    pub hash: [u8; 32],
    /// The only app it may touch; `None`: every app.
    pub app: Option<String>,
    /// The only user it may touch; `None`: every user.
    pub user: Option<String>,
    /// What it may be used for.
    pub scopes: Vec<KeyScope>,
    /// When it was made, in microseconds since 1970.
    pub created_us: i64,
    /// From when it is no longer good.
    pub expires_us: Option<i64>,
    /// Since when it is no longer good.
    pub revoked_us: Option<i64>,
    /// When it was last used, to the minute or so.
    pub last_used_us: Option<i64>,
}

/// Why a key is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefused {
    /// There is no such key, or its secret is another one.
    #[error("this key is not known")]
    Unknown,
    /// Its time is over.
    #[error("this key has expired")]
    Expired,
    /// It was taken back.
    #[error("this key was revoked")]
    Revoked,
}

impl ApiKey {
    /// Whether the key makes sense. Say so before it is added.
    pub fn check(&self) -> Result<()> {
        if self.scopes.is_empty() {
            let reason = "are missing: a key without any is good for nothing";
            return Err(SessionError::invalid("scopes", reason));
        }
        let is_bound = self.app.is_some() || self.user.is_some();
        if is_bound && self.scopes.contains(&KeyScope::Admin) {
            let reason =
                "means everything of everybody; a key for it cannot be bound to an app or a user";
            return Err(SessionError::invalid("scope admin", reason));
        }
        Ok(())
    }

    /// Whether `secret` is this key's and the key is good now. In a time that does not tell how much
    /// of the secret was right.
    pub fn verify(&self, secret: &str, now_us: i64) -> Result<(), KeyRefused> {
        if !bool::from(self.hash[..].ct_eq(&hash_of(secret)[..])) {
            return Err(KeyRefused::Unknown);
        }
        if self.revoked_us.is_some() {
            return Err(KeyRefused::Revoked);
        }
        match self.expires_us {
            Some(expires_us) if expires_us <= now_us => Err(KeyRefused::Expired),
            _ => Ok(()),
        }
    }
}

/// A key's text, taken apart: `retain_` id `_` secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText {
    /// What the key is called by.
    pub id: String,
    secret: String,
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A secret is in no log.
        f.debug_tuple("KeyText").field(&self.id).finish()
    }
}

impl KeyText {
    /// The text of a new key: `id` without its dashes, and random bytes.
    pub fn new(id: &str, secret: [u8; KEY_SECRET_BYTES]) -> KeyText {
        let id = id.chars().filter(char::is_ascii_alphanumeric);
        let secret = secret.iter().map(|byte| format!("{byte:02x}"));
        KeyText {
            id: id.take(16).collect(),
            secret: secret.collect(),
        }
    }

    /// Reads what a caller has sent. `None` if it cannot be a key.
    pub fn parse(text: &str) -> Option<KeyText> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let is_id = (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric());
        let is_secret =
            secret.len() == 2 * KEY_SECRET_BYTES && secret.bytes().all(|b| b.is_ascii_hexdigit());
        (is_id && is_secret).then(|| KeyText {
            id: id.to_owned(),
            secret: secret.to_owned(),
        })
    }

    /// The whole text, to be shown once.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }

    /// The secret alone.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// What is kept of the secret.
    pub fn hash(&self) -> [u8; 32] {
        hash_of(&self.secret)
    }
}

/// Whether two secrets are the same, in a time that does not tell how much of them is.
pub fn is_same_secret(one: &str, other: &str) -> bool {
    hash_of(one)[..].ct_eq(&hash_of(other)[..]).into()
}

fn hash_of(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Where keys are kept. What another process changes counts at once.
#[async_trait]
pub trait KeyStore: fmt::Debug + Send + Sync + 'static {
    /// Adds a key. Its id must be new.
    async fn add(&self, key: &ApiKey) -> Result<()>;

    /// The key that is called so, as it is now.
    async fn key(&self, id: &str) -> Result<Option<ApiKey>>;

    /// All keys, also those that are no longer good, in the order in which they were made.
    async fn keys(&self) -> Result<Vec<ApiKey>>;

    /// Whether there was ever a key, also if it is no longer good or was erased. From then on a
    /// server asks for one.
    async fn had_any(&self) -> Result<bool>;

    /// Notes that there was a key once, without adding one: for a store that takes the place of
    /// another, of which all keys were erased.
    async fn note_had_any(&self) -> Result<()>;

    /// Takes a key back, for good. False if there is none. Once is enough: a second time changes
    /// nothing.
    async fn revoke(&self, id: &str, now_us: i64) -> Result<bool>;

    /// Notes that the key was used.
    async fn note_use(&self, id: &str, now_us: i64) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &KeyText) -> ApiKey {
        ApiKey {
            id: text.id.clone(),
            name: String::new(),
            hash: text.hash(),
            app: None,
            user: None,
            scopes: vec![KeyScope::Run],
            created_us: 0,
            expires_us: None,
            revoked_us: None,
            last_used_us: None,
        }
    }

    #[test]
    fn a_text_reads_as_it_was_shown() {
        let text = KeyText::new("0a1b-2c3d-4e5f-6789-aaaa", [7; KEY_SECRET_BYTES]);
        assert_eq!(text.id, "0a1b2c3d4e5f6789");
        assert_eq!(KeyText::parse(&text.reveal()), Some(text.clone()));
        assert!(!format!("{text:?}").contains(text.secret()));
    }

    #[test]
    fn what_is_no_key_is_not_looked_up() {
        let secret = "ab".repeat(KEY_SECRET_BYTES);
        for text in [
            "",
            "retain_",
            "retain_id",
            "retain_id_",
            "retain_id_abcd",
            &format!("retain__{secret}"),
            &format!("retain_i'd_{secret}"),
            &format!("retain_id_{secret}0"),
            &format!("retain_id_{}é", &secret[2..]),
            &format!("other_id_{secret}"),
        ] {
            assert_eq!(KeyText::parse(text), None, "{text}");
        }
        assert!(KeyText::parse(&format!("retain_id_{secret}")).is_some());
    }

    #[test]
    fn only_the_right_secret_in_its_time_is_good() {
        let text = KeyText::new("a", [1; KEY_SECRET_BYTES]);
        let other = KeyText::new("a", [2; KEY_SECRET_BYTES]);
        let mut key = key(&text);
        assert_eq!(key.verify(text.secret(), 5), Ok(()));
        assert_eq!(key.verify(other.secret(), 5), Err(KeyRefused::Unknown));
        key.expires_us = Some(5);
        assert_eq!(key.verify(text.secret(), 4), Ok(()));
        assert_eq!(key.verify(text.secret(), 5), Err(KeyRefused::Expired));
        // Who does not have the secret does not learn that its time is over.
        assert_eq!(key.verify(other.secret(), 5), Err(KeyRefused::Unknown));
        key.revoked_us = Some(1);
        assert_eq!(key.verify(text.secret(), 4), Err(KeyRefused::Revoked));
    }

    #[test]
    fn a_key_that_makes_no_sense_is_refused() {
        let mut key = key(&KeyText::new("a", [1; KEY_SECRET_BYTES]));
        assert!(key.check().is_ok());
        key.scopes = vec![KeyScope::Admin];
        assert!(key.check().is_ok());
        key.user = Some("ada".to_owned());
        assert!(key.check().is_err());
        key.scopes = Vec::new();
        assert!(key.check().is_err());
    }

    #[test]
    fn scopes_have_names() {
        for scope in KeyScope::ALL {
            assert_eq!(scope.name().parse::<KeyScope>().unwrap(), scope);
        }
        let error = "root".parse::<KeyScope>().unwrap_err().to_string();
        assert!(error.contains("sessions:read"), "{error}");
    }

    #[test]
    fn secrets_are_compared_as_wholes() {
        assert!(is_same_secret("abc", "abc"));
        assert!(!is_same_secret("abc", "abcd"));
        assert!(!is_same_secret("abc", ""));
    }
}
