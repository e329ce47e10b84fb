//! The long work: deleting, purging, sweeping, erasing.
//!
//! What may take long is done in chunks, each a transaction of its own, so that appends get in
//! between. Replicas may do it at the same time: what one has locked, others pass over.

use retain_core::{EraseReceipt, Result, SessionKey};
use tokio::join;
use tokio_postgres::Error;

use super::{
    artifacts, keys, memory,
    pool::{Database, Failure, Param, Transaction, if_some, statements},
    rows::{Known, by_key, clock_us, head_columns, unsigned},
};

/// Rows that one transaction deletes.
const CHUNK: i64 = 2000;

statements! {
    /// What takes sessions off their logs.
    Burial {
        artifacts: artifacts::DELETE_OF_SESSIONS,
        sessions: "DELETE FROM retain_stores WHERE number = ANY($1)",
        logs: "UPDATE retain_logs SET purge_after_us = 0 WHERE number = ANY($1)",
    }
}

/// Takes sessions off their logs, marks the logs for purging and removes the sessions' artifacts.
/// Whoever calls this has locked the heads.
pub(super) async fn bury(
    transaction: &Transaction,
    burial: &Burial,
    numbers: &[i64],
) -> Result<(), Error> {
    let (artifacts, sessions, logs) = join!(
        biased;
        transaction.execute(&burial.artifacts, [&numbers]),
        transaction.execute(&burial.sessions, [&numbers]),
        transaction.execute(&burial.logs, [&numbers]),
    );
    artifacts?;
    sessions?;
    logs.map(drop)
}

statements! {
    Deletion {
        head: concat!(
            "SELECT ", head_columns!(), ", coalesce($4::int8, ", clock_us!(),
            ") FROM retain_stores WHERE ", by_key!(), " FOR UPDATE"
        ),
    }
}

/// Makes a session invisible. Its log is purged afterwards. `found`: the session that an attempt
/// before this one has found, and whether it was alive. Another one that has its name since stays.
pub(super) async fn delete(
    database: &Database,
    key: &SessionKey,
    now_us: Option<i64>,
    found: &mut Option<(i64, bool)>,
) -> Result<(), Failure> {
    let transaction = database.transaction().await?;
    let (deletion, burial) = join!(
        biased; Deletion::prepare(&transaction), Burial::prepare(&transaction)
    );
    let (deletion, burial) = (deletion?, burial?);
    let params: [Param<'_>; _] = [&key.app, &key.user, &key.id, &now_us];
    let (begun, head) = join!(
        biased; transaction.begin(), transaction.query(&deletion.head, params)
    );
    begun?;
    let head = head?;
    let Some(row) = head.first() else {
        return Ok(transaction.roll_back().await?);
    };
    let (known, now_us): (Known, i64) = (Known::read(row)?, row.try_get(13)?);
    let number = known.row.number;
    let (meant, _) = found.get_or_insert((number, known.row.is_alive(now_us)));
    if *meant != number {
        return Ok(transaction.roll_back().await?);
    }
    let numbers = [number];
    let (buried, ended) = join!(
        biased; bury(&transaction, &burial, &numbers), transaction.commit()
    );
    buried?;
    ended?;
    transaction.ended();
    Ok(())
}

statements! {
    Purge {
        next: concat!(
            "SELECT number FROM retain_logs WHERE purge_after_us <= coalesce($1::int8, ",
            clock_us!(), ") ORDER BY purge_after_us LIMIT 1 FOR UPDATE SKIP LOCKED"
        ),
        // An import that wakes up now must not find its log half there.
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

/// Removes some rows of a log that is marked for purging; false when there is none left.
pub(super) async fn purge_chunk(database: &Database, now_us: Option<i64>) -> Result<bool, Failure> {
    let transaction = database.transaction().await?;
    let purge = Purge::prepare(&transaction).await?;
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
    transaction.ended();
    Ok(true)
}

statements! {
    Sweep {
        expired: concat!(
            "SELECT number, app, user_id, id FROM retain_stores \
             WHERE ttl_us IS NOT NULL AND touched_us <= coalesce($1::int8, ", clock_us!(),
            ") - ttl_us LIMIT $2 FOR UPDATE SKIP LOCKED"
        ),
    }
}

/// Makes up to `limit` expired sessions invisible and says which.
pub(super) async fn sweep(
    database: &Database,
    limit: usize,
    now_us: Option<i64>,
) -> Result<Vec<SessionKey>, Failure> {
    let transaction = database.transaction().await?;
    let (sweep, burial) = join!(
        biased; Sweep::prepare(&transaction), Burial::prepare(&transaction)
    );
    let (sweep, burial) = (sweep?, burial?);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let (begun, expired) = join!(
        biased; transaction.begin(), transaction.query(&sweep.expired, [&now_us, &limit])
    );
    begun?;
    let (mut numbers, mut swept) = (Vec::new(), Vec::new());
    for row in expired? {
        let key: (String, String, String) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        numbers.push(row.try_get(0)?);
        swept.push(SessionKey::new(key.0, key.1, key.2));
    }
    let (buried, ended) = join!(
        biased; bury(&transaction, &burial, &numbers), transaction.commit()
    );
    buried?;
    ended?;
    transaction.ended();
    Ok(swept)
}

statements! {
    Erasure {
        // Before the heads, as everybody locks.
        owner: "DELETE FROM retain_shared_bytes WHERE app = $1 AND user_id = $2",
        keys: "DELETE FROM retain_shared_state WHERE app = $1 AND user_id = $2",
        sessions: "SELECT number, id, position, (SELECT count(*) FROM retain_state \
                   WHERE log = number AND value IS NOT NULL) FROM retain_stores \
                   WHERE app = $1 AND user_id = $2 ORDER BY id LIMIT 64 FOR UPDATE",
        // Imports that were never finished.
        drafts: "UPDATE retain_logs SET purge_after_us = 0 \
                 WHERE app = $1 AND user_id = $2 AND purge_after_us <> 0",
    }
}

/// Sessions that an attempt has erased whose end was not heard of, and what it would have told.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    numbers: Vec<i64>,
    receipt: EraseReceipt,
}

/// What was erased, added up.
pub(super) fn add_up(total: &mut EraseReceipt, more: EraseReceipt) {
    total.sessions += more.sessions;
    total.events += more.events;
    total.state_keys += more.state_keys;
    total.artifacts += more.artifacts;
    total.memories += more.memories;
}

/// Makes some sessions and keys of a user invisible and counts them; zeros when nothing is left. What
/// turns out to have been erased unheard by an attempt before this one is counted in `total`.
pub(super) async fn erase_chunk(
    database: &Database,
    app: &str,
    user: &str,
    total: &mut EraseReceipt,
    unheard: &mut Unheard,
) -> Result<(EraseReceipt, Vec<SessionKey>), Failure> {
    // Before the sessions, which would take theirs along without counting them; and by themselves,
    // for everybody else locks the head of a session before its artifacts.
    let artifacts = erase_artifacts(database, app, user).await?;
    if artifacts > 0 {
        let receipt = EraseReceipt {
            artifacts,
            ..EraseReceipt::default()
        };
        return Ok((receipt, Vec::new()));
    }
    let transaction = database.transaction().await?;
    let (erasure, burial) = join!(
        biased; Erasure::prepare(&transaction), Burial::prepare(&transaction)
    );
    let (erasure, burial) = (erasure?, burial?);
    let whose: [Param<'_>; _] = [&app, &user];
    let (begun, owner, keys, found, drafts) = join!(
        biased;
        transaction.begin(),
        transaction.execute(&erasure.owner, whose),
        transaction.execute(&erasure.keys, whose),
        transaction.query(&erasure.sessions, whose),
        // Behind the sessions: who finishes an import locks what stands at its address first.
        transaction.execute(&erasure.drafts, whose),
    );
    begun?;
    let mut receipt = EraseReceipt::default();
    owner?;
    receipt.state_keys = keys?;
    drafts?;
    let (mut numbers, mut erased) = (Vec::new(), Vec::new());
    for row in &found? {
        numbers.push(row.try_get(0)?);
        erased.push(SessionKey::new(app, user, row.try_get::<_, String>(1)?));
        receipt.sessions += 1;
        receipt.events += unsigned(row, 2)?;
        receipt.state_keys += unsigned(row, 3)?;
    }
    // Sessions come in order: those of an attempt that was not done would be among these.
    let before = std::mem::take(unheard);
    if !before.numbers.is_empty() && before.numbers.iter().all(|it| !numbers.contains(it)) {
        add_up(total, before.receipt);
    }
    bury(&transaction, &burial, &numbers).await?;
    keys::erase(&transaction, app, user).await?;
    receipt.memories = memory::erase_chunk(&transaction, app, user).await?;
    *unheard = Unheard { numbers, receipt };
    transaction.commit().await?;
    transaction.ended();
    *unheard = Unheard::default();
    Ok((receipt, erased))
}

async fn erase_artifacts(database: &Database, app: &str, user: &str) -> Result<u64, Failure> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(artifacts::ERASE_CHUNK).await?;
    Ok(client.execute(&statement, &[&app, &user]).await?)
}

/// Lets the space of what was deleted be used again, as far as the role may and others let us. On a
/// connection of its own: it takes as long as all tables are large.
pub(super) async fn vacuum(database: &Database) -> Result<(), Failure> {
    const VACUUM: &str = "VACUUM (SKIP_LOCKED) retain_events, retain_state, retain_state_past, \
                          retain_shared_state, retain_shared_bytes, retain_stores, \
                          retain_tickets, retain_logs, retain_artifacts, retain_memories, \
                          retain_memory_scopes, retain_memory_tombstones, retain_memory_touched, \
                          retain_api_keys";
    let client = database.apart().await?;
    Ok(client.batch_execute(VACUUM).await?)
}

#[cfg(test)]
mod tests {
    use retain_core::{Changes, ConnectStore as _, NewSession, SessionStore as _, Want, Window};
    use retain_testkit::postgres::{TestDatabase, is_there};

    use super::*;
    use crate::postgres::PostgresStore;

    /// An attempt whose end was not heard of has deleted the session; another one has its name since.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_delete_that_is_tried_again_spares_the_next_session_of_that_name() {
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
            let read = store.read(&key, Window::NONE, Want::EventsOnly).await;
            assert_eq!(read.unwrap().is_some(), stays);
        }
    }
}
