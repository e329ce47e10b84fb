//! Deletes sessions, and sweeps those that have expired.

use retain_core::SessionKey;

use super::schema::SessionTables;

/// Deletes a session. Returns false if it does not exist or has expired.
pub(super) fn delete(tables: &mut SessionTables, key: &SessionKey, now_us: i64) -> bool {
    let deleted = tables.logs.remove(key);
    deleted.is_some_and(|log| log.is_alive(now_us))
}

/// Deletes up to `limit` expired sessions and returns their keys.
pub(super) fn sweep(tables: &mut SessionTables, limit: usize, now_us: i64) -> Vec<SessionKey> {
    let expired = tables.logs.iter().filter(|(_, log)| !log.is_alive(now_us));
    let keys: Vec<SessionKey> = expired.take(limit).map(|(key, _)| key.clone()).collect();
    for key in &keys {
        tables.logs.remove(key);
    }
    keys
}
