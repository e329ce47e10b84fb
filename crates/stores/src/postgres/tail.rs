//! Waits until a session's log grows: notified in this process, polled for others.

use std::time::Duration;

use retain_core::{ChangeHub, SessionKey};
use tokio::time::{Instant, timeout};

use super::{
    pool::{Database, Failure},
    rows::{by_key, clock_us, unsigned},
};

/// The first pause between two looks, and the longest. What has moved lately is looked at often.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// A waiter returns after this time, so that the caller reads again.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// One row, found by an index: of a session that has not expired.
const LOOK: &str = concat!(
    "SELECT position, number FROM retain_sessions WHERE ",
    by_key!(),
    " AND (ttl_us IS NULL OR touched_us > coalesce($4::int8, ",
    clock_us!(),
    ") - ttl_us)"
);

/// Waits until the session may have changed behind `position`, or for some time.
pub(super) async fn changed(
    database: &Database,
    hub: &ChangeHub,
    key: &SessionKey,
    position: u64,
    now_us: impl Fn() -> Option<i64>,
) {
    let mut ring = hub.listen(key);
    let since = Instant::now();
    let (mut pause, mut first) = (PAUSES.0, None);
    loop {
        // Gone, expired, further on, or unreadable: the caller must read again.
        let number = match look(database, key, now_us()).await {
            Ok(Some((here, number))) if here <= position => number,
            _ => return,
        };
        // Also if another session has the name now.
        if *first.get_or_insert(number) != number {
            return;
        }
        let rang = timeout(pause, ring.as_mut()).await.is_ok();
        if rang || since.elapsed() > WAIT_MAX {
            return;
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Where the log ends, and which session it is.
async fn look(
    database: &Database,
    key: &SessionKey,
    now_us: Option<i64>,
) -> Result<Option<(u64, i64)>, Failure> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(LOOK).await?;
    let rows = client
        .query(&statement, &[&key.app, &key.user, &key.id, &now_us])
        .await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some((unsigned(row, 0)?, row.try_get(1)?)))
}
