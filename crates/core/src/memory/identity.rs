//! Hashes of memories: tombstones of forgotten ones, and body hashes that detect changes.

use sha2::{Digest as _, Sha256};

use super::record::MemoryScope;

/// The tombstone of a forgotten memory: a hash of its address, without any of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tombstone(pub [u8; 16]);

impl Tombstone {
    /// Returns the tombstone of one memory: its id in its session.
    pub fn of_entry(scope: &MemoryScope, session: Option<&str>, id: &str) -> Tombstone {
        let session = session.unwrap_or_default();
        Tombstone(hash(&["entry", &scope.app, &scope.user, session, id]))
    }

    /// Returns the tombstone of an id in all sessions.
    pub fn of_id(scope: &MemoryScope, id: &str) -> Tombstone {
        Tombstone(hash(&["id", &scope.app, &scope.user, id]))
    }

    /// Returns the tombstones of a memory in its session and of its id. Each of them prevents the
    /// ingest of the memory.
    pub fn excluding(scope: &MemoryScope, session: Option<&str>, id: &str) -> [Tombstone; 2] {
        [
            Tombstone::of_entry(scope, session, id),
            Tombstone::of_id(scope, id),
        ]
    }
}

/// Returns the hash of a body, for comparisons.
pub(super) fn body_hash(parts: &[&str]) -> u64 {
    let hash = hash(parts);
    let (first, _) = hash.split_at(8);
    first
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Derives an id for an event without one. It is deterministic, so that the event is ingested once.
pub fn derived_memory_id(author: &str, timestamp: f64, content: &str) -> String {
    let hash = hash(&[author, &timestamp.to_string(), content]);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash(parts: &[&str]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    for part in parts {
        // Hash the lengths too, so that different lists never give the same bytes.
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let whole = hasher.finalize();
    let mut short = [0; 16];
    short.copy_from_slice(&whole[..16]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_separate_their_parts() {
        let scope = |app, user| MemoryScope::new(app, user);
        let all = [
            Tombstone::of_entry(&scope("a", "b"), Some("c"), "d"),
            Tombstone::of_entry(&scope("ab", ""), Some("c"), "d"),
            Tombstone::of_entry(&scope("a", "b"), Some("cd"), ""),
            Tombstone::of_entry(&scope("a", "b"), None, "d"),
            Tombstone::of_id(&scope("a", "b"), "d"),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_ne!(body_hash(&["ab", ""]), body_hash(&["a", "b"]));
        assert_eq!(derived_memory_id("ada", 1.5, "x").len(), 32);
    }
}
