//! Waiting for a session to change: a bell for this process, a look now and then for the others.

use std::time::Duration;

use retain_core::{ChangeHub, SessionKey};
use tokio::time::{Instant, timeout};

use super::{
    pool::{Database, Failure},
    rows::{by_key, unsigned},
};

/// The first pause between two looks, and the longest. What has moved lately is looked at often.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// After so long a waiter looks for itself.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// One row, found by an index.
const LOOK: &str = concat!(
    "SELECT position, ttl_us IS NOT NULL FROM retain_sessions WHERE ",
    by_key!()
);

/// Waits until the session may have changed behind `position`, or for some time.
pub(super) async fn changed(database: &Database, hub: &ChangeHub, key: &SessionKey, position: u64) {
    let mut ring = hub.listen(key);
    let since = Instant::now();
    let mut pause = PAUSES.0;
    loop {
        // Gone, further on, or unreadable: whoever asked must look for himself.
        let expires = match look(database, key).await {
            Ok(Some((here, expires))) if here <= position => expires,
            _ => return,
        };
        let rang = timeout(pause, ring.as_mut()).await.is_ok();
        // That a session expires rings no bell.
        if rang || since.elapsed() > WAIT_MAX || (expires && pause >= PAUSES.1) {
            return;
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Where the log ends, and whether the session may expire.
async fn look(database: &Database, key: &SessionKey) -> Result<Option<(u64, bool)>, Failure> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(LOOK).await?;
    let rows = client
        .query(&statement, &[&key.app, &key.user, &key.id])
        .await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some((unsigned(row, 0)?, row.try_get(1)?)))
}
