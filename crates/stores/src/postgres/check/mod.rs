//! Checks for corruption that the database cannot detect: the schema, then Retain's own invariants.

mod repair;
mod rows;
mod schema;
mod session;

use retain_core::{Problem, Problems};
use tokio_postgres::{Error, Row};

pub(super) use repair::{repair_rows, repair_schema, repair_session};

use super::{
    PostgresOptions,
    pool::{Database, Failure, Transaction},
};
use crate::sql::check::rules::{Dialect, Finding, RULES};

/// Maximum number of rows that one query reads.
const PAGE: i64 = 500;

/// Checks the whole database in one snapshot.
pub(super) async fn check(
    database: &Database,
    options: &PostgresOptions,
) -> Result<Vec<Problem>, Failure> {
    let mut problems = Problems::default();
    let differences = schema::differences(database, options).await?;
    problems.extend(differences.iter().map(|difference| difference.problem()));
    let transaction = database.transaction().await?;
    transaction.begin_snapshot().await?;
    match check_all(&transaction, &mut problems).await {
        Ok(()) => {}
        // The queries need tables or columns that are missing, which was reported.
        Err(Failure::Database(error)) if is_undefined(&error) && !problems.is_empty() => {}
        Err(failure) => return Err(failure),
    }
    transaction.roll_back().await?;
    Ok(problems.into_vec())
}

fn is_undefined(error: &Error) -> bool {
    let code = error.code().map(|code| code.code());
    matches!(code, Some("42P01" | "42703"))
}

async fn check_all(transaction: &Transaction, problems: &mut Problems) -> Result<(), Failure> {
    for rule in RULES {
        let find = transaction
            .prepare(&Dialect::Postgres.expand(rule.find))
            .await?;
        for row in transaction.query(&find, []).await? {
            problems.push((rule.problem)(read_finding(&row)?));
        }
    }
    session::check_sessions(transaction, problems).await?;
    rows::check_shared_state(transaction, problems).await?;
    rows::check_memories(transaction, problems).await?;
    rows::check_artifacts(transaction, problems).await?;
    rows::check_keys(transaction, problems).await
}

fn read_finding(row: &Row) -> Result<Finding, Error> {
    Ok(Finding {
        app: row.try_get(0)?,
        user: row.try_get(1)?,
        id: row.try_get(2)?,
        number: row.try_get(3)?,
        stored: row.try_get(4)?,
        derived: row.try_get(5)?,
    })
}
