//! Counts what an app or a user has stored.

use retain_core::{Result, SessionKey, Usage, store_rules::check_position};

use super::schema::{SessionLog, SessionTables};

pub(super) fn count(tables: &SessionTables, app: &str, user: Option<&str>, now_us: i64) -> Usage {
    let is_counted = |key: &SessionKey| key.app == app && user.is_none_or(|user| key.user == user);
    let logs = tables.logs.iter();
    let logs = logs.filter(|(key, log)| is_counted(key) && log.is_alive(now_us));
    logs.fold(Usage::default(), |usage, (_, log)| {
        let one = Usage::default().with_sessions(1);
        usage
            + one
                .with_events(log.position())
                .with_event_bytes(log.bytes_up_to(log.position()))
    })
}

pub(super) fn count_log_bytes(
    tables: &mut SessionTables,
    key: &SessionKey,
    position: u64,
    now_us: i64,
) -> Result<u64> {
    let log = tables.log_mut(key, now_us)?;
    check_position(key, position, log.position())?;
    Ok(log.bytes_up_to(position))
}

impl SessionLog {
    /// Returns the bytes of the events up to `position`.
    fn bytes_up_to(&self, position: u64) -> u64 {
        let counted = &self.bytes_to[..position as usize];
        counted.last().copied().unwrap_or_default()
    }
}
