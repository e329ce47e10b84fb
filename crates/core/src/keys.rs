//! API keys: what a caller may do on a server, with which app's and user's data, and until when.
//! The secret of a key is shown once; only its hash is stored.
//!
//! How a key is checked: its text → [`KeyText::parse`] → [`KeyStore::key`] → [`ApiKey::verify`].

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::error::{Result, SessionError};

/// The prefix of every key text, so that secret scanners recognize a leaked key.
const PREFIX: &str = "retain_";

/// Number of bytes of a secret. It is too long to guess, so a fast hash is safe.
pub const KEY_SECRET_BYTES: usize = 32;

/// What a key permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyScope {
    /// Read sessions, state and artifacts.
    SessionsRead,
    /// Create, change and delete sessions, state and artifacts.
    SessionsWrite,
    /// Search and list memories.
    MemoryRead,
    /// Add and change memories.
    MemoryWrite,
    /// Delete memories.
    MemoryDelete,
    /// Run agents.
    Run,
    /// Everything, for all users: import, erase, metrics.
    Admin,
}

impl KeyScope {
    /// All scopes.
    pub const ALL: [KeyScope; 7] = [
        KeyScope::SessionsRead,
        KeyScope::SessionsWrite,
        KeyScope::MemoryRead,
        KeyScope::MemoryWrite,
        KeyScope::MemoryDelete,
        KeyScope::Run,
        KeyScope::Admin,
    ];

    /// Returns the name of the scope, e.g. `sessions:read`.
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
            let names: Vec<_> = KeyScope::ALL.iter().map(|scope| scope.name()).collect();
            let reason = format!("unknown; expected one of: {}", names.join(", "));
            SessionError::invalid(format!("scope {name:?}"), reason)
        })
    }
}

/// An API key as stored, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The id of the key. It is part of the key text and not secret.
    pub id: String,
    /// The display name that its creator chose.
    pub name: String,
    /// The hash of its secret.
    pub hash: [u8; 32],
    /// The only app that the key may access; `None` allows every app.
    pub app: Option<String>,
    /// The only user whose data the key may access; `None` allows every user.
    pub user: Option<String>,
    /// What the key permits.
    pub scopes: Vec<KeyScope>,
    /// When it was created, in microseconds since 1970.
    pub created_us: i64,
    /// When it expires, in microseconds since 1970.
    pub expires_us: Option<i64>,
    /// When it was revoked, in microseconds since 1970.
    pub revoked_us: Option<i64>,
    /// When it was last used, in microseconds since 1970, accurate to about a minute.
    pub last_used_us: Option<i64>,
}

/// Why a key was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRejection {
    /// The key does not exist, or the secret is wrong.
    #[error("this API key is unknown")]
    Unknown,
    /// The key has expired.
    #[error("this API key has expired")]
    Expired,
    /// The key was revoked.
    #[error("this API key was revoked")]
    Revoked,
}

impl ApiKey {
    /// Checks that the key is valid. Call this before adding a key.
    pub fn check(&self) -> Result<()> {
        if self.scopes.is_empty() {
            let reason = "are missing; name at least one";
            return Err(SessionError::invalid("scopes", reason));
        }
        let is_bound = self.app.is_some() || self.user.is_some();
        if is_bound && self.scopes.contains(&KeyScope::Admin) {
            let reason =
                "covers all apps and users; a key with it cannot be bound to an app or a user";
            return Err(SessionError::invalid("scope admin", reason));
        }
        Ok(())
    }

    /// Returns the error of a store that has a key with this id already.
    pub fn id_exists(&self) -> SessionError {
        let reason = "already exists; create the key again to get a new id";
        SessionError::invalid(format!("API key id {:?}", self.id), reason)
    }

    /// Checks that `secret` belongs to this key and that the key is valid at `now_us`. Compares in
    /// constant time, so that timing reveals nothing about the secret.
    pub fn verify(&self, secret: &str, now_us: i64) -> Result<(), KeyRejection> {
        if !bool::from(self.hash[..].ct_eq(&hash_secret(secret)[..])) {
            return Err(KeyRejection::Unknown);
        }
        if self.revoked_us.is_some() {
            return Err(KeyRejection::Revoked);
        }
        match self.expires_us {
            Some(expires_us) if expires_us <= now_us => Err(KeyRejection::Expired),
            _ => Ok(()),
        }
    }
}

/// A parsed key text: `retain_` id `_` secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText {
    /// The id of the key.
    pub id: String,
    secret: String,
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret must not appear in logs.
        f.debug_tuple("KeyText").field(&self.id).finish()
    }
}

impl KeyText {
    /// Creates the text of a new key. Its id is the first 16 letters and digits of `id`; its secret
    /// is `secret` in hexadecimal.
    pub fn new(id: &str, secret: [u8; KEY_SECRET_BYTES]) -> KeyText {
        let id = id.chars().filter(char::is_ascii_alphanumeric);
        let secret = secret.iter().map(|byte| format!("{byte:02x}"));
        KeyText {
            id: id.take(16).collect(),
            secret: secret.collect(),
        }
    }

    /// Parses the key text that a caller sent. Returns `None` if it is malformed.
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

    /// Returns the whole key text, to show once.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }

    /// Returns the secret alone.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns the hash of the secret. A store stores the hash instead of the secret.
    pub fn hash(&self) -> [u8; 32] {
        hash_secret(&self.secret)
    }
}

/// Compares two secrets in constant time, so that timing reveals nothing about them.
pub fn is_same_secret(one: &str, other: &str) -> bool {
    hash_secret(one)[..].ct_eq(&hash_secret(other)[..]).into()
}

fn hash_secret(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// A store of API keys. Changes by another process take effect immediately.
#[async_trait]
pub trait KeyStore: fmt::Debug + Send + Sync + 'static {
    /// Adds a key. Its id must be new.
    async fn add(&self, key: &ApiKey) -> Result<()>;

    /// Returns the current record of the key with this id.
    async fn key(&self, id: &str) -> Result<Option<ApiKey>>;

    /// Returns all keys, including expired and revoked ones, oldest first.
    async fn keys(&self) -> Result<Vec<ApiKey>>;

    /// Whether the store has ever held a key, even an expired, revoked or erased one. From then on
    /// a server requires a key.
    async fn had_any(&self) -> Result<bool>;

    /// Records that a key existed, without adding one. A migration calls this if the source store
    /// once had keys and all of them were erased.
    async fn note_had_any(&self) -> Result<()>;

    /// Revokes a key permanently. Returns false if it does not exist. Revoking a key twice changes
    /// nothing.
    async fn revoke(&self, id: &str, now_us: i64) -> Result<bool>;

    /// Records that the key was used.
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
    fn key_text_round_trips() {
        let text = KeyText::new("0a1b-2c3d-4e5f-6789-aaaa", [7; KEY_SECRET_BYTES]);
        assert_eq!(text.id, "0a1b2c3d4e5f6789");
        assert_eq!(KeyText::parse(&text.reveal()), Some(text.clone()));
        assert!(!format!("{text:?}").contains(text.secret()));
    }

    #[test]
    fn malformed_key_text_does_not_parse() {
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
    fn key_is_verified_by_secret_expiry_and_revocation() {
        let text = KeyText::new("a", [1; KEY_SECRET_BYTES]);
        let other = KeyText::new("a", [2; KEY_SECRET_BYTES]);
        let mut key = key(&text);
        assert_eq!(key.verify(text.secret(), 5), Ok(()));
        assert_eq!(key.verify(other.secret(), 5), Err(KeyRejection::Unknown));
        key.expires_us = Some(5);
        assert_eq!(key.verify(text.secret(), 4), Ok(()));
        assert_eq!(key.verify(text.secret(), 5), Err(KeyRejection::Expired));
        // A caller with a wrong secret does not learn that the key has expired.
        assert_eq!(key.verify(other.secret(), 5), Err(KeyRejection::Unknown));
        key.revoked_us = Some(1);
        assert_eq!(key.verify(text.secret(), 4), Err(KeyRejection::Revoked));
    }

    #[test]
    fn invalid_key_is_rejected() {
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
    fn key_scope_names_round_trip() {
        for scope in KeyScope::ALL {
            assert_eq!(scope.name().parse::<KeyScope>().unwrap(), scope);
        }
        let error = "root".parse::<KeyScope>().unwrap_err().to_string();
        assert!(error.contains("sessions:read"), "{error}");
    }

    #[test]
    fn secret_matches_only_an_equal_secret() {
        assert!(is_same_secret("abc", "abc"));
        assert!(!is_same_secret("abc", "abcd"));
        assert!(!is_same_secret("abc", ""));
    }
}
