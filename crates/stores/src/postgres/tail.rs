//! Waits until a session's log grows. Writers in this process notify the waiter; it polls for
//! writes by other processes.

use std::time::Duration;

use retain_core::{ChangeHub, SessionKey};
use tokio::time::{Instant, timeout};

use super::{
    pool::{Database, Failure},
    rows::{by_key, clock_us, unsigned},
};

/// The first and the longest pause between two polls. The pause doubles, so a waiter polls often at
/// first.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Maximum time that a caller waits before it reads again.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Selects the position and the number of a session that has not expired.
const POLL: &str = concat!(
    "SELECT position, number FROM retain_sessions WHERE ",
    by_key!(),
    " AND (ttl_us IS NULL OR touched_us > coalesce($4::int8, ",
    clock_us!(),
    ") - ttl_us)"
);

/// Waits until the session may have events after `position`, at most [`WAIT_MAX`].
pub(super) async fn changed(
    database: &Database,
    hub: &ChangeHub,
    key: &SessionKey,
    position: u64,
    now_us: impl Fn() -> Option<i64>,
) {
    let mut notification = hub.listen(key);
    let since = Instant::now();
    let (mut pause, mut first) = (PAUSES.0, None);
    loop {
        // The session was deleted, has expired, has grown or is unreadable: the caller must read
        // it.
        let number = match poll(database, key, now_us()).await {
            Ok(Some((last, number))) if last <= position => number,
            _ => return,
        };
        // The session was deleted, and a new one has the same key.
        if *first.get_or_insert(number) != number {
            return;
        }
        let is_notified = timeout(pause, notification.as_mut()).await.is_ok();
        if is_notified || since.elapsed() > WAIT_MAX {
            return;
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Reads the last position and the number of the session.
async fn poll(
    database: &Database,
    key: &SessionKey,
    now_us: Option<i64>,
) -> Result<Option<(u64, i64)>, Failure> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(POLL).await?;
    let rows = client
        .query(&statement, &[&key.app, &key.user, &key.id, &now_us])
        .await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some((unsigned(row, 0)?, row.try_get(1)?)))
}
