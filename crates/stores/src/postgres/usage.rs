//! Counts what an app or a user has stored. Each session's row has the bytes of its log.

use retain_core::{Result, SessionError, SessionKey, Usage, store_rules::check_position};
use tokio_postgres::Row;

use super::{
    pool::{Database, Failure, Param, Transaction},
    rows::{CachedHead, by_key, clock_us, head_columns, signed, unsigned},
};
use crate::sql::SessionRow;

/// Counts the sessions of app $1 that have not expired, with their events. The inner sum is for
/// events that an older program has appended and not counted.
macro_rules! sums {
    ($and:literal) => {
        concat!(
            "SELECT count(*), coalesce(sum(position), 0)::int8, \
             coalesce(sum(log_bytes + CASE WHEN sized_to = position THEN 0 ELSE \
               (SELECT coalesce(sum(octet_length(body)), 0) FROM retain_events \
                WHERE log = number AND retain_events.position > sized_to \
                AND retain_events.position <= retain_sessions.position) END), 0)::int8 \
             FROM retain_sessions WHERE app = $1 \
             AND (ttl_us IS NULL OR touched_us > coalesce($2::int8, ",
            clock_us!(),
            ") - ttl_us)",
            $and
        )
    };
}

async fn query(database: &Database, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

/// Counts the sessions that have not expired, with their events.
pub(super) async fn count(
    database: &Database,
    app: &str,
    user: Option<&str>,
    now_us: Option<i64>,
) -> Result<Usage, Failure> {
    let found = match user {
        None => query(database, sums!(""), &[&app, &now_us]).await?,
        Some(user) => {
            let sql = sums!(" AND user_id = $3");
            query(database, sql, &[&app, &now_us, &user]).await?
        }
    };
    let Some(row) = found.first() else {
        return Err(Failure::Transient("PostgreSQL returned no counts"));
    };
    Ok(Usage::default()
        .with_sessions(unsigned(row, 0)?)
        .with_events(unsigned(row, 1)?)
        .with_event_bytes(unsigned(row, 2)?))
}

/// The bytes of the events of log $1 after position $2, up to $3.
const LOG_BYTES: &str = "SELECT coalesce(sum(octet_length(body)), 0) FROM retain_events \
                         WHERE log = $1 AND position > $2 AND position <= $3";

/// Sums the bytes of a session's events up to `position`.
pub(super) async fn count_log_bytes(
    database: &Database,
    key: &SessionKey,
    position: u64,
    now_us: Option<i64>,
) -> Result<u64, Failure> {
    const HEAD: &str = concat!(
        "SELECT ",
        head_columns!(),
        ", coalesce($4::int8, ",
        clock_us!(),
        ") FROM retain_sessions WHERE ",
        by_key!()
    );
    let found = query(database, HEAD, &[&key.app, &key.user, &key.id, &now_us]).await?;
    let head = found.first().map(CachedHead::read_with_time).transpose()?;
    let head = head.filter(|(head, now_us)| head.row.is_alive(*now_us));
    let (head, _) = head.ok_or_else(|| SessionError::NotFound { key: key.clone() })?;
    check_position(key, position, head.row.position)?;
    if let Some(bytes) = head.row.counted_bytes(position) {
        return Ok(bytes);
    }
    let bounds: &[Param<'_>] = &[&head.row.number, &0_i64, &signed(position)];
    sum_of(&query(database, LOG_BYTES, bounds).await?)
}

fn sum_of(rows: &[Row]) -> Result<u64, Failure> {
    match rows.first() {
        Some(row) => Ok(unsigned(row, 0)?),
        None => Err(Failure::Transient("PostgreSQL returned no sum")),
    }
}

/// Counts the events that an older program has appended. The caller has locked the head. This must
/// be a statement of its own: a sum in the statement that waited for the lock would not see them.
pub(super) async fn complete_size(
    transaction: &Transaction,
    row: &mut SessionRow,
) -> Result<(), Failure> {
    if row.sized_to == row.position {
        return Ok(());
    }
    let statement = transaction.prepare(LOG_BYTES).await?;
    let bounds: [Param<'_>; _] = [&row.number, &signed(row.sized_to), &signed(row.position)];
    let found = transaction.query(&statement, bounds).await?;
    row.log_bytes += sum_of(&found)?;
    row.sized_to = row.position;
    Ok(())
}
