//! Finds sessions with work that must follow their runs, and records that it is finished.
//!
//! No index has the column of pending work, so that appends can update it in place. A search
//! therefore reads the whole table of sessions.

use std::time::Duration;

use retain_core::{PendingStatistics, SessionKey, SessionWork};

use super::{
    pool::{Database, Failure},
    rows::{clock_us, count, signed},
};
use crate::sql::pending::{kept_kinds, remove_pending_work, session_work};

/// The condition that selects sessions with pending work that no run writes, at the time `now.us`.
macro_rules! is_waiting {
    () => {
        "pending_work <> 0 AND lease_until_us <= now.us \
         AND (ttl_us IS NULL OR touched_us > now.us - ttl_us)"
    };
}

/// The current time: $1, or else that of the database.
macro_rules! now {
    () => {
        concat!(
            "(SELECT coalesce($1::int8, ",
            clock_us!(),
            ") AS us) AS now"
        )
    };
}

/// Returns up to `limit` sessions with pending work and numbers above `after`.
pub(super) async fn find(
    database: &Database,
    after: u64,
    limit: usize,
    now_us: Option<i64>,
) -> Result<Vec<SessionWork>, Failure> {
    const SQL: &str = concat!(
        "SELECT number, app, user_id, id, pending_work FROM retain_sessions, ",
        now!(),
        " WHERE ",
        is_waiting!(),
        " AND number > $2 ORDER BY number LIMIT $3::int8"
    );
    let client = database.connection().await?;
    let statement = client.prepare_cached(SQL).await?;
    let (after, limit) = (signed(after), count(Some(limit)));
    let rows = client.query(&statement, &[&now_us, &after, &limit]).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let key: (String, String, String) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        let key = SessionKey::new(key.0, key.1, key.2);
        found.push(session_work(key, row.try_get(0)?, row.try_get(4)?));
    }
    Ok(found)
}

/// Counts the sessions with pending work.
pub(super) async fn statistics(
    database: &Database,
    now_us: Option<i64>,
) -> Result<PendingStatistics, Failure> {
    const SQL: &str = concat!(
        "SELECT count(*), max(now.us - touched_us) FROM retain_sessions, ",
        now!(),
        " WHERE ",
        is_waiting!()
    );
    let client = database.connection().await?;
    let statement = client.prepare_cached(SQL).await?;
    let row = client.query_opt(&statement, &[&now_us]).await?;
    let row = row.ok_or(Failure::Transient("PostgreSQL returned no count"))?;
    let age: Option<i64> = row.try_get(1)?;
    Ok(PendingStatistics {
        sessions: row.try_get::<_, i64>(0)?.unsigned_abs(),
        oldest: age.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
    })
}

/// Records that work is finished, unless a later event needs it too. The head keeps its revision,
/// because cached heads do not have this column.
pub(super) async fn finish(database: &Database, done: &SessionWork) -> Result<(), Failure> {
    const SQL: &str = concat!(
        "UPDATE retain_sessions SET ",
        remove_pending_work!("$2::int8"),
        " WHERE number = $1 AND pending_work <> 0 AND (pending_work >> 8) <= $3"
    );
    let client = database.connection().await?;
    let statement = client.prepare_cached(SQL).await?;
    let (number, position) = (done.incarnation as i64, signed(done.position));
    let kept = kept_kinds(done.work);
    client
        .execute(&statement, &[&number, &kept, &position])
        .await?;
    Ok(())
}
