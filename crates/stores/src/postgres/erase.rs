//! Erases a user in chunks, each a transaction of its own.

use retain_core::{EraseReceipt, Result, SessionKey};
use tokio::join;

use super::{
    artifacts,
    delete::{Burial, bury},
    keys, memory,
    pool::{Database, Failure, Param, statements},
    rows::unsigned,
};

statements! {
    Erasure {
        // Before the heads: all writers lock in this order.
        owner: "DELETE FROM retain_shared_bytes WHERE app = $1 AND user_id = $2",
        keys: "DELETE FROM retain_shared_state WHERE app = $1 AND user_id = $2",
        sessions: "SELECT number, id, position, (SELECT count(*) FROM retain_state \
                   WHERE log = number AND value IS NOT NULL) FROM retain_sessions \
                   WHERE app = $1 AND user_id = $2 ORDER BY id LIMIT 64 FOR UPDATE",
        // Imports that were never finished.
        drafts: "UPDATE retain_logs SET purge_after_us = 0 \
                 WHERE app = $1 AND user_id = $2 AND purge_after_us <> 0",
    }
}

/// What an attempt erased whose commit was not confirmed.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedErase {
    numbers: Vec<i64>,
    receipt: EraseReceipt,
}

/// Makes some sessions and keys of a user invisible and counts them; zeros when nothing is left. What
/// an earlier unconfirmed attempt turns out to have erased is added to `total`.
pub(super) async fn erase_chunk(
    database: &Database,
    app: &str,
    user: &str,
    total: &mut EraseReceipt,
    unconfirmed: &mut UnconfirmedErase,
) -> Result<(EraseReceipt, Vec<SessionKey>), Failure> {
    // Before the sessions, whose deletion would not count them; and in a transaction of their own,
    // because all other writers lock the head of a session before its artifacts.
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
        // After the sessions: finishing an import locks the session at its address first.
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
    let before = std::mem::take(unconfirmed);
    if !before.numbers.is_empty() && before.numbers.iter().all(|it| !numbers.contains(it)) {
        *total += before.receipt;
    }
    bury(&transaction, &burial, &numbers).await?;
    keys::erase(&transaction, app, user).await?;
    receipt.memories = memory::erase_chunk(&transaction, app, user).await?;
    *unconfirmed = UnconfirmedErase { numbers, receipt };
    transaction.commit().await?;
    transaction.ended();
    *unconfirmed = UnconfirmedErase::default();
    Ok((receipt, erased))
}

async fn erase_artifacts(database: &Database, app: &str, user: &str) -> Result<u64, Failure> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(artifacts::ERASE_CHUNK).await?;
    Ok(client.execute(&statement, &[&app, &user]).await?)
}

/// Frees the space of deleted rows, as far as the role may. Uses a connection of its own, because it
/// takes long on large tables.
pub(super) async fn vacuum(database: &Database) -> Result<(), Failure> {
    const VACUUM: &str = "VACUUM (SKIP_LOCKED) retain_events, retain_state, retain_state_past, \
                          retain_shared_state, retain_shared_bytes, retain_sessions, \
                          retain_tickets, retain_logs, retain_artifacts, retain_memories, \
                          retain_memory_scopes, retain_memory_tombstones, retain_memory_touched, \
                          retain_api_keys";
    let client = database.apart().await?;
    Ok(client.batch_execute(VACUUM).await?)
}
