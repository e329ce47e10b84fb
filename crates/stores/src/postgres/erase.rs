//! Erases a user in chunks, each in its own transaction.

use retain_core::{EraseNote, EraseReceipt, Result, SessionKey, StoreLabel};
use tokio::join;

use super::{
    NAME, artifacts,
    delete::{DeleteStatements, delete_sessions},
    keys, memory,
    pool::{Database, Failure, Param, statements},
    rows::unsigned,
};

statements! {
    EraseStatements {
        // Must run before heads are locked: all writers lock shared state first.
        owner: "DELETE FROM retain_shared_bytes WHERE app = $1 AND user_id = $2",
        keys: "DELETE FROM retain_shared_state WHERE app = $1 AND user_id = $2",
        sessions: "SELECT number, id, position, (SELECT count(*) FROM retain_state \
                   WHERE log = number AND value IS NOT NULL) FROM retain_sessions \
                   WHERE app = $1 AND user_id = $2 ORDER BY id LIMIT 64 FOR UPDATE",
        // Marks the drafts of unfinished imports for purging.
        drafts: "UPDATE retain_logs SET purge_after_us = 0 \
                 WHERE app = $1 AND user_id = $2 AND purge_after_us <> 0",
    }
}

/// The identifier of the advisory lock that orders erasures and the writes that they refuse. An
/// advisory lock is fair: writers that keep sharing it do not keep an erasure waiting.
macro_rules! erasure_lock {
    () => {
        "8224139420318977"
    };
}

statements! {
    /// The statements that a write uses that must not follow an erasure.
    FenceStatements {
        // The statements that follow see the erasures of earlier lock holders.
        share: concat!("SELECT pg_advisory_xact_lock_shared(", erasure_lock!(), ")"),
        count: COUNT_ERASURES,
    }
}

const COUNT_ERASURES: &str = "SELECT count FROM retain_erasures";

/// Returns the label of the database at `uri`, which has no password.
pub(super) fn label(uri: &str) -> StoreLabel {
    StoreLabel::new(NAME)
        .with_address(uri)
        .with_erase_notes(&[EraseNote::DatabaseCopies])
}

/// Returns how often users were erased from the database.
pub(super) async fn count_erasures<E>(database: &Database) -> Result<u64, Failure<E>> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(COUNT_ERASURES).await?;
    let row = client.query_one(&statement, &[]).await?;
    Ok(row.try_get::<_, i64>(0)?.unsigned_abs())
}

/// Counts one more erasure, so that writes that were prepared before are refused. Waits for those
/// that are being made.
pub(super) async fn add_erasure<E>(database: &Database) -> Result<(), Failure<E>> {
    const SQL: &str = concat!(
        "WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(",
        erasure_lock!(),
        ")) UPDATE retain_erasures SET count = count + 1 FROM held"
    );
    let client = database.connection().await?;
    let statement = client.prepare_cached(SQL).await?;
    client.execute(&statement, &[]).await?;
    Ok(())
}

/// Frees the space of deleted rows, and returns a note if that fails.
pub(super) async fn vacuum_or_note(database: &Database) -> Option<EraseNote> {
    let failure = vacuum(database).await.err()?;
    let error = failure.into_session_error("vacuum the database");
    tracing::warn!("failed to free the space of erased rows: {error}");
    Some(EraseNote::NotVacuumed)
}

/// The sessions that an attempt erased without a confirmed commit.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedErase {
    numbers: Vec<i64>,
    receipt: EraseReceipt,
}

/// Erases some sessions and state keys of a user and counts them; zeros if nothing is left. If an
/// earlier, unconfirmed attempt was committed, its counts are added to `total`.
pub(super) async fn erase_chunk(
    database: &Database,
    app: &str,
    user: &str,
    total: &mut EraseReceipt,
    unconfirmed: &mut UnconfirmedErase,
) -> Result<(EraseReceipt, Vec<SessionKey>), Failure> {
    // Erase artifacts first: deleting a session deletes its artifacts without counting them. Use a
    // separate transaction: all other writers lock a session's head before its artifacts.
    let artifacts = erase_artifacts(database, app, user).await?;
    if artifacts > 0 {
        let mut receipt = EraseReceipt::default();
        receipt.artifacts = artifacts;
        return Ok((receipt, Vec::new()));
    }
    let transaction = database.transaction().await?;
    let (statements, deletion) = join!(
        biased; EraseStatements::prepare(&transaction), DeleteStatements::prepare(&transaction)
    );
    let (statements, deletion) = (statements?, deletion?);
    let owner_params: [Param<'_>; _] = [&app, &user];
    let (begun, owner, keys, found, drafts) = join!(
        biased;
        transaction.begin(),
        transaction.execute(&statements.owner, owner_params),
        transaction.execute(&statements.keys, owner_params),
        transaction.query(&statements.sessions, owner_params),
        // Must run after `sessions`: finishing an import locks the session before the draft.
        transaction.execute(&statements.drafts, owner_params),
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
    // Sessions are read in order, so if the earlier attempt was rolled back, this one finds the
    // same sessions.
    let before = std::mem::take(unconfirmed);
    if !before.numbers.is_empty() && before.numbers.iter().all(|it| !numbers.contains(it)) {
        *total += before.receipt;
    }
    delete_sessions(&transaction, &deletion, &numbers).await?;
    receipt.api_keys = keys::erase(&transaction, app, user).await?;
    receipt += memory::erase_chunk(&transaction, app, user).await?;
    *unconfirmed = UnconfirmedErase { numbers, receipt };
    transaction.commit().await?;
    transaction.release();
    *unconfirmed = UnconfirmedErase::default();
    Ok((receipt, erased))
}

async fn erase_artifacts(database: &Database, app: &str, user: &str) -> Result<u64, Failure> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(artifacts::ERASE_CHUNK).await?;
    Ok(client.execute(&statement, &[&app, &user]).await?)
}

/// Frees the space of deleted rows, in the tables that the database role may vacuum. Uses a
/// dedicated connection, because a vacuum of large tables takes long.
async fn vacuum(database: &Database) -> Result<(), Failure> {
    const VACUUM: &str = "VACUUM (SKIP_LOCKED) retain_events, retain_state, retain_state_past, \
                          retain_shared_state, retain_shared_bytes, retain_sessions, \
                          retain_tickets, retain_logs, retain_artifacts, retain_memories, \
                          retain_memory_scopes, retain_memory_tombstones, retain_memory_touched, \
                          retain_api_keys";
    let client = database.dedicated_connection().await?;
    Ok(client.batch_execute(VACUUM).await?)
}
