//! Checks stored data for corruption that the database cannot detect.

use retain_core::{Result, SessionKey};

use super::{
    memory,
    pool::{Database, Failure, Transaction, statements},
    rows::unsigned,
};
use crate::sql::LogCheck;

/// Maximum number of rows that one query reads.
const PAGE: i64 = 1000;

statements! {
    /// Statements that read sessions and logs in pages.
    CheckStatements {
        sessions: "SELECT number, app, user_id, id, position FROM retain_sessions \
                   WHERE number > $1 ORDER BY number LIMIT $2",
        events: "SELECT position, body FROM retain_events WHERE log = $1 AND position > $2 \
                 ORDER BY position LIMIT $3",
    }
}

/// Checks that every log has each position once and that every event and memory is readable. Returns
/// the problems.
pub(super) async fn check(database: &Database) -> Result<Vec<String>, Failure> {
    let transaction = database.transaction().await?;
    let statements = CheckStatements::prepare(&transaction).await?;
    let mut problems = Vec::new();
    transaction.begin_snapshot().await?;
    let mut after = i64::MIN;
    loop {
        let sessions = transaction.query(&statements.sessions, [&after, &PAGE]);
        let sessions = sessions.await?;
        for row in &sessions {
            let key: (String, String, String) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
            let key = SessionKey::new(key.0, key.1, key.2);
            after = row.try_get(0)?;
            let position = unsigned(row, 4)?;
            check_log(
                &transaction,
                &statements,
                after,
                &key,
                position,
                &mut problems,
            )
            .await?;
        }
        if sessions.is_empty() {
            break;
        }
    }
    memory::check(&transaction, &mut problems).await?;
    transaction.roll_back().await?;
    Ok(problems)
}

async fn check_log(
    transaction: &Transaction,
    statements: &CheckStatements,
    log: i64,
    key: &SessionKey,
    position: u64,
    problems: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut check = LogCheck::new(key);
    let mut after = -1_i64;
    loop {
        let rows = transaction.query(&statements.events, [&log, &after, &PAGE]);
        let rows = rows.await?;
        for row in &rows {
            after = row.try_get(0)?;
            check.check_row(after as u64, row.try_get(1)?, problems);
        }
        if rows.len() < PAGE as usize {
            break;
        }
    }
    check.end(position, problems);
    Ok(())
}
