//! Deletes sessions, finds and deletes expired ones, and purges their logs.
//!
//! A purge runs in chunks, each in its own transaction, so that appends run in between. Replicas may
//! purge concurrently: each skips logs that another has locked.

use retain_core::{ExpiredSession, ExpiryReceipt, Result, SessionKey};
use tokio::join;
use tokio_postgres::Error;

use super::{
    artifacts,
    pool::{Database, Failure, Param, Transaction, if_some, statements},
    rows::{CachedHead, by_key, clock_us, count, head_columns, signed, unsigned},
};

/// Maximum number of rows of one table that one transaction deletes.
const CHUNK: i64 = 2000;

statements! {
    /// Statements that delete locked sessions.
    DeleteStatements {
        artifacts: artifacts::DELETE_OF_SESSIONS,
        sessions: "DELETE FROM retain_sessions WHERE number = ANY($1)",
        logs: "UPDATE retain_logs SET purge_after_us = 0 WHERE number = ANY($1)",
    }
}

/// Deletes the heads and artifacts of sessions and marks their logs for purging. The caller has
/// locked the heads. Returns the number of artifact versions.
pub(super) async fn delete_sessions(
    transaction: &Transaction,
    deletion: &DeleteStatements,
    numbers: &[i64],
) -> Result<u64, Error> {
    let (artifacts, sessions, logs) = join!(
        biased;
        transaction.execute(&deletion.artifacts, [&numbers]),
        transaction.execute(&deletion.sessions, [&numbers]),
        transaction.execute(&deletion.logs, [&numbers]),
    );
    sessions?;
    logs?;
    artifacts
}

statements! {
    LockStatements {
        head: concat!(
            "SELECT ", head_columns!(), ", coalesce($4::int8, ", clock_us!(),
            ") FROM retain_sessions WHERE ", by_key!(), " FOR UPDATE"
        ),
    }
}

/// Deletes a session; its log is purged later. `found` is the result of an earlier attempt: the
/// session's number, and whether it was alive. A newer session with this key is not deleted.
pub(super) async fn delete(
    database: &Database,
    key: &SessionKey,
    now_us: Option<i64>,
    found: &mut Option<(i64, bool)>,
) -> Result<(), Failure> {
    let transaction = database.transaction().await?;
    let (lock, deletion) = join!(
        biased; LockStatements::prepare(&transaction), DeleteStatements::prepare(&transaction)
    );
    let (lock, deletion) = (lock?, deletion?);
    let params: [Param<'_>; _] = [&key.app, &key.user, &key.id, &now_us];
    let (begun, head) = join!(
        biased; transaction.begin(), transaction.query(&lock.head, params)
    );
    begun?;
    let head = head?;
    let Some(row) = head.first() else {
        return Ok(transaction.roll_back().await?);
    };
    let (head, now_us) = CachedHead::read_with_time(row)?;
    let number = head.row.number;
    let (target, _) = found.get_or_insert((number, head.row.is_alive(now_us)));
    if *target != number {
        return Ok(transaction.roll_back().await?);
    }
    let numbers = [number];
    let (deleted, ended) = join!(
        biased; delete_sessions(&transaction, &deletion, &numbers), transaction.commit()
    );
    deleted?;
    ended?;
    transaction.release();
    Ok(())
}

statements! {
    PurgeStatements {
        next: concat!(
            "SELECT number FROM retain_logs WHERE purge_after_us <= coalesce($1::int8, ",
            clock_us!(), ") ORDER BY purge_after_us LIMIT 1 FOR UPDATE SKIP LOCKED"
        ),
        // Expire the draft, so that a late import cannot extend a half-purged log.
        mark: "UPDATE retain_logs SET purge_after_us = 0 WHERE number = $1 AND purge_after_us <> 0",
        events: "DELETE FROM retain_events WHERE log = $1 AND position IN \
                 (SELECT position FROM retain_events WHERE log = $1 ORDER BY position LIMIT $2)",
        state: "DELETE FROM retain_state WHERE log = $1 AND key IN \
                (SELECT key FROM retain_state WHERE log = $1 ORDER BY key LIMIT $2)",
        past: "DELETE FROM retain_state_past WHERE log = $1 AND (key, position) IN \
               (SELECT key, position FROM retain_state_past WHERE log = $1 \
                ORDER BY key, position LIMIT $2)",
        done: "DELETE FROM retain_logs WHERE number = $1",
    }
}

/// Deletes a chunk of a log that must be purged. Returns false if no such log is left.
pub(super) async fn purge_chunk(database: &Database, now_us: Option<i64>) -> Result<bool, Failure> {
    let transaction = database.transaction().await?;
    let purge = PurgeStatements::prepare(&transaction).await?;
    let (begun, next) = join!(
        biased; transaction.begin(), transaction.query(&purge.next, [&now_us])
    );
    begun?;
    let next = next?;
    let Some(row) = next.first() else {
        transaction.roll_back().await?;
        return Ok(false);
    };
    let log: i64 = row.try_get(0)?;
    let (marked, events, state, past) = join!(
        biased;
        transaction.execute(&purge.mark, [&log]),
        transaction.execute(&purge.events, [&log, &CHUNK]),
        transaction.execute(&purge.state, [&log, &CHUNK]),
        transaction.execute(&purge.past, [&log, &CHUNK]),
    );
    marked?;
    let chunk = CHUNK as u64;
    let (events, state, past) = (events?, state?, past?);
    let is_done = events < chunk && state < chunk && past < chunk;
    let (done, ended) = join!(
        biased;
        if_some(is_done.then_some(transaction.execute(&purge.done, [&log]))),
        transaction.commit(),
    );
    done?;
    ended?;
    transaction.release();
    Ok(true)
}

/// Returns up to `limit` expired sessions with numbers above `after`.
pub(super) async fn expired(
    database: &Database,
    after: u64,
    limit: usize,
    now_us: Option<i64>,
) -> Result<Vec<ExpiredSession>, Failure> {
    const EXPIRED: &str = concat!(
        "SELECT number, app, user_id, id, touched_us + ttl_us FROM retain_sessions \
         WHERE ttl_us IS NOT NULL AND touched_us <= coalesce($1::int8, ",
        clock_us!(),
        ") - ttl_us AND number > $2 ORDER BY number LIMIT $3::int8"
    );
    let client = database.connection().await?;
    let statement = client.prepare_cached(EXPIRED).await?;
    let (after, limit) = (signed(after), count(Some(limit)));
    let rows = client.query(&statement, &[&now_us, &after, &limit]).await?;
    let mut expired = Vec::with_capacity(rows.len());
    for row in &rows {
        let key: (String, String, String) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        expired.push(ExpiredSession {
            key: SessionKey::new(key.0, key.1, key.2),
            incarnation: unsigned(row, 0)?,
            expired_us: row.try_get(4)?,
        });
    }
    Ok(expired)
}

statements! {
    ExpiredStatements {
        lock: concat!(
            "SELECT number FROM retain_sessions WHERE number = ANY($1) AND ttl_us IS NOT NULL \
             AND touched_us <= coalesce($2::int8, ", clock_us!(),
            ") - ttl_us ORDER BY number FOR UPDATE SKIP LOCKED"
        ),
    }
}

/// Deletes those of the sessions that exist and have expired. `sent` is what an earlier, unconfirmed
/// attempt deleted.
pub(super) async fn delete_expired(
    database: &Database,
    sessions: &[ExpiredSession],
    now_us: Option<i64>,
    sent: &mut ExpiryReceipt,
) -> Result<ExpiryReceipt, Failure> {
    let transaction = database.transaction().await?;
    let (lock, deletion) = join!(
        biased; ExpiredStatements::prepare(&transaction), DeleteStatements::prepare(&transaction)
    );
    let (lock, deletion) = (lock?, deletion?);
    let numbers = sessions.iter().map(|session| session.incarnation as i64);
    let numbers: Vec<i64> = numbers.collect();
    let (begun, locked) = join!(
        biased; transaction.begin(), transaction.query(&lock.lock, [&numbers, &now_us])
    );
    begun?;
    let locked = locked?;
    if locked.is_empty() {
        transaction.roll_back().await?;
        return Ok(*sent);
    }
    let numbers = locked.iter().map(|row| row.try_get(0));
    let numbers = numbers.collect::<Result<Vec<i64>, Error>>()?;
    sent.sessions = numbers.len() as u64;
    let (deleted, ended) = join!(
        biased; delete_sessions(&transaction, &deletion, &numbers), transaction.commit()
    );
    sent.artifacts = deleted?;
    ended?;
    transaction.release();
    Ok(*sent)
}

/// Whether the session has expired and is not deleted yet.
pub(super) async fn is_expired(
    database: &Database,
    key: &SessionKey,
    now_us: Option<i64>,
) -> Result<bool, Failure> {
    const IS_EXPIRED: &str = concat!(
        "SELECT 1 FROM retain_sessions WHERE ",
        by_key!(),
        " AND ttl_us IS NOT NULL AND touched_us <= coalesce($4::int8, ",
        clock_us!(),
        ") - ttl_us"
    );
    let client = database.connection().await?;
    let statement = client.prepare_cached(IS_EXPIRED).await?;
    let params: [Param<'_>; _] = [&key.app, &key.user, &key.id, &now_us];
    Ok(client.query_opt(&statement, &params).await?.is_some())
}

#[cfg(test)]
mod tests {
    use retain_core::{
        Changes, ConnectStore as _, NewSession, ReadDetail, SessionStore as _, Window,
    };
    use retain_testkit::postgres::{TestDatabase, is_there};

    use super::*;
    use crate::postgres::PostgresStore;

    /// An unconfirmed attempt deleted the session, and a new session has the same key.
    #[tokio::test(flavor = "multi_thread")]
    async fn retried_delete_does_not_delete_a_newer_session_with_the_same_key() {
        if !is_there() {
            return;
        }
        let database = TestDatabase::new().await;
        let store = PostgresStore::connect(&database.uri()).await.unwrap();
        let key = SessionKey::new("app", "ada", "s");
        let new = NewSession {
            key: key.clone(),
            initial: retain_core::JsonMap::new(),
            changes: Changes::default(),
            create_time: 1.0,
            ttl: None,
            state_bytes_max: 1000,
        };
        let head = store.create(new).await.unwrap().head;
        for (found, stays) in [
            (Some((head.incarnation as i64 - 1, true)), true),
            (None, false),
        ] {
            let mut found = found;
            delete(&store.database, &key, None, &mut found)
                .await
                .unwrap();
            let read = store.read(&key, Window::NONE, ReadDetail::EventsOnly).await;
            assert_eq!(read.unwrap().is_some(), stays);
        }
    }
}
