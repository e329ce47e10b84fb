//! Deletes sessions, and finds and deletes those that have expired.

use retain_core::{ExpiredSession, ExpiryReceipt, SessionKey};

use super::schema::{SessionLog, SessionTables};

/// Deletes a session. Returns false if it does not exist or has expired.
pub(super) fn delete(tables: &mut SessionTables, key: &SessionKey, now_us: i64) -> bool {
    let deleted = tables.logs.remove(key);
    deleted.is_some_and(|log| log.is_alive(now_us))
}

/// Returns up to `limit` expired sessions with incarnations above `after`.
pub(super) fn expired(
    tables: &SessionTables,
    after: u64,
    limit: usize,
    now_us: i64,
) -> Vec<ExpiredSession> {
    let logs = tables.logs.iter();
    let expired = logs.filter_map(|(key, log)| {
        let expired_us = log
            .expires_us()
            .filter(|expires_us| *expires_us <= now_us)?;
        Some(ExpiredSession {
            key: key.clone(),
            incarnation: log.incarnation,
            expired_us,
        })
    });
    let mut expired: Vec<_> = expired.filter(|it| it.incarnation > after).collect();
    expired.sort_unstable_by_key(|it| it.incarnation);
    expired.truncate(limit);
    expired
}

/// Deletes those of the sessions that exist and have expired.
pub(super) fn delete_expired(
    tables: &mut SessionTables,
    sessions: &[ExpiredSession],
    now_us: i64,
) -> ExpiryReceipt {
    let mut deleted = ExpiryReceipt::default();
    for session in sessions {
        let log = tables.logs.get(&session.key);
        let is_same = |log: &&SessionLog| log.incarnation == session.incarnation;
        if log.filter(is_same).is_some_and(|log| !log.is_alive(now_us)) {
            tables.logs.remove(&session.key);
            deleted.sessions += 1;
        }
    }
    deleted
}

/// Whether the session has expired and is not deleted yet.
pub(super) fn is_expired(tables: &SessionTables, key: &SessionKey, now_us: i64) -> bool {
    tables
        .logs
        .get(key)
        .is_some_and(|log| !log.is_alive(now_us))
}
