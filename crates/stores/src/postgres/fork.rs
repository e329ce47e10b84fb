//! Forks a session: copies its log up to a position, in one transaction.

use retain_core::{Head, Origin, Result, SessionError, SessionKey, store_rules};
use tokio::join;
use tokio_postgres::Row;

use super::{
    draft::{AdoptStatements, AdoptedLog, adopt, clear_key, commit_or_roll_back, decode_adopted},
    pool::{Database, Failure, Param, Transaction, statements},
    rows::{CachedHead, by_key, clock_us, head_columns, signed},
};
use crate::sql::SessionRow;

/// Columns and rows of an insert that copies state values of log $1 up to position $3 to log $2.
macro_rules! copied_values {
    ($which:literal) => {
        concat!(
            "(log, key, position, value) SELECT $2::int8, key, position, value FROM (
               SELECT key, position, value,
                      position = max(position) OVER (PARTITION BY key) AS is_last
               FROM (
                 SELECT key, position, value FROM retain_state
                 WHERE log = $1 AND position <= $3
                 UNION ALL
                 SELECT key, position, value FROM retain_state_past
                 WHERE log = $1 AND position <= $3
               ) versions
             ) known WHERE ",
            $which
        )
    };
}

statements! {
    /// Statements that copy a log.
    ForkStatements {
        // The lock makes a concurrent erase of the user wait, so that it erases the fork too.
        // Appends do not wait for it.
        head: concat!(
            "SELECT ", head_columns!(), ", coalesce($4::int8, ", clock_us!(),
            ") FROM retain_sessions WHERE ", by_key!(), " FOR KEY SHARE"
        ),
        new_log: "INSERT INTO retain_logs DEFAULT VALUES RETURNING number",
        copy_events: "INSERT INTO retain_events \
                      (log, position, event_id, invocation, timestamp, body) \
                      SELECT $2::int8, position, event_id, invocation, timestamp, body \
                      FROM retain_events WHERE log = $1 AND position <= $3",
        // Up to the position, the last value of a key becomes current; the others are past values.
        copy_state: concat!("INSERT INTO retain_state ", copied_values!("is_last")),
        copy_past: concat!("INSERT INTO retain_state_past ", copied_values!("NOT is_last")),
    }
}

/// Copies a log up to `position` into a new session. `made` is the number of the session that an
/// earlier, unconfirmed attempt created.
pub(super) async fn fork(
    database: &Database,
    (origin, position): &(SessionKey, u64),
    key: &SessionKey,
    create_time: f64,
    now_us: Option<i64>,
    made: &mut Option<i64>,
) -> Result<Head, Failure> {
    let position = *position;
    let transaction = database.transaction().await?;
    let (statements, adoption) = join!(
        biased; ForkStatements::prepare(&transaction), AdoptStatements::prepare(&transaction)
    );
    let (statements, adoption) = (statements?, adoption?);
    let from: [Param<'_>; _] = [&origin.app, &origin.user, &origin.id, &now_us];
    let to: [Param<'_>; _] = [&key.app, &key.user, &key.id, &now_us];
    let (begun, head, existing, log) = join!(
        biased;
        // Use one snapshot, because a concurrent append moves values between the state tables.
        transaction.begin_repeatable(),
        transaction.query(&statements.head, from),
        transaction.query(&adoption.lock_existing, to),
        transaction.query(&statements.new_log, []),
    );
    begun?;
    let (head, existing, log) = (head?, existing?, log?);
    let forked = async {
        let from = read_origin(origin, &head)?;
        store_rules::check_position(origin, position, from.position)?;
        if let Some(head) = clear_key(&transaction, key, &existing, *made).await? {
            return Ok(head);
        }
        let number = read_log_number(&log)?;
        let copy = AdoptedLog {
            key,
            number,
            position,
            last_update: create_time,
            create_time,
            ttl_us: from.lifetime.ttl_us,
            touched_us: now_us,
            origin: Some(&Origin {
                session_id: origin.id.clone(),
                position,
            }),
        };
        let head = copy_log(&transaction, &statements, from.number, &copy).await?;
        // Set only now: until here, `made` may name the session of an earlier attempt.
        *made = Some(number);
        Ok(head)
    };
    let forked = forked.await;
    commit_or_roll_back(transaction, key, forked).await
}

/// Decodes the head of the origin, which must exist and must not have expired.
fn read_origin(origin: &SessionKey, rows: &[Row]) -> Result<SessionRow, Failure> {
    if let Some(row) = rows.first() {
        let (head, now_us) = CachedHead::read_with_time(row)?;
        if head.row.is_alive(now_us) {
            return Ok(head.row);
        }
    }
    let key = origin.clone();
    Err(SessionError::NotFound { key }.into())
}

fn read_log_number(rows: &[Row]) -> Result<i64, Failure> {
    let missing = Failure::Transient("PostgreSQL returned no number for the new log");
    Ok(rows.first().ok_or(missing)?.try_get(0)?)
}

/// Copies the log `from` and turns the copy into a session.
async fn copy_log(
    transaction: &Transaction,
    statements: &ForkStatements,
    from: i64,
    copy: &AdoptedLog<'_>,
) -> Result<CachedHead, Failure> {
    let position = signed(copy.position);
    let copied: [Param<'_>; _] = [&from, &copy.number, &position];
    let (events, state, past, row) = join!(
        biased;
        transaction.execute(&statements.copy_events, copied),
        transaction.execute(&statements.copy_state, copied),
        transaction.execute(&statements.copy_past, copied),
        adopt(transaction, copy),
    );
    events?;
    state?;
    past?;
    decode_adopted(copy.key, &row?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use retain_core::{Changes, ConnectStore as _, JsonMap, NewSession, SessionStore as _};
    use retain_testkit::postgres::{TestDatabase, is_there};

    use super::*;
    use crate::postgres::PostgresStore;

    /// The commit of an unconfirmed attempt arrives while the next attempt runs.
    #[tokio::test(flavor = "multi_thread")]
    async fn retried_fork_finds_the_session_of_a_late_commit() {
        if !is_there() {
            return;
        }
        let test = TestDatabase::new().await;
        let store = PostgresStore::connect(&test.uri()).await.unwrap();
        let (key, copy) = (
            SessionKey::new("app", "ada", "s"),
            SessionKey::new("app", "ada", "copy"),
        );
        let new = NewSession {
            key: key.clone(),
            initial: JsonMap::new(),
            changes: Changes::default(),
            create_time: 1.0,
            ttl: None,
            state_bytes_max: 1000,
        };
        store.create(new).await.unwrap();
        let mut late = test.client().await;
        let late = late.transaction().await.unwrap();
        let log = "INSERT INTO retain_logs DEFAULT VALUES RETURNING number";
        let number: i64 = late.query_one(log, &[]).await.unwrap().get(0);
        let row = "INSERT INTO retain_sessions (number, app, user_id, id, position, last_update, \
                   create_time, touched_us, lease_token, state_bytes) \
                   VALUES ($1, 'app', 'ada', 'copy', 0, 1, 1, 1, $1::int8 << 32, 0)";
        late.execute(row, &[&number]).await.unwrap();
        let (origin, mut made) = ((key, 0), Some(number));
        let next = async {
            let failed = fork(&store.database, &origin, &copy, 1.0, None, &mut made).await;
            assert!(matches!(failed, Err(Failure::Database(_))), "{failed:?}");
            fork(&store.database, &origin, &copy, 1.0, None, &mut made).await
        };
        let end = async {
            let observer = test.client().await;
            let waits = "SELECT count(*) = 1 FROM pg_stat_activity \
                         WHERE datname = current_database() AND wait_event_type = 'Lock'";
            while !observer
                .query_one(waits, &[])
                .await
                .unwrap()
                .get::<_, bool>(0)
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            late.commit().await.unwrap();
        };
        let (head, ()) = join!(next, end);
        assert_eq!(head.unwrap().incarnation, number as u64);
    }
}
