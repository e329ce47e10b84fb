//! Repairs what can be derived: indexes and constraints, rows that contradict each other, and views
//! of a log.

use retain_core::{SessionKey, SessionRepair, StateColumns};
use tokio_postgres::Error;

use super::{schema, session};
use crate::{
    postgres::{
        PostgresOptions,
        pool::{Database, Failure, Param, Transaction, statements},
        rows::signed,
    },
    sql::check::rules::{Dialect, RULES, Rule},
};

/// Creates the indexes and constraints that are missing or differ.
pub(in crate::postgres) async fn repair_schema(
    database: &Database,
    options: &PostgresOptions,
) -> Result<(), Failure> {
    for difference in schema::differences(database, options).await? {
        let Some((create, exists)) = &difference.create else {
            continue;
        };
        let transaction = database.transaction().await?;
        transaction.begin().await?;
        if *exists {
            let drop = format!("DROP INDEX \"{}\"", difference.name());
            execute(&transaction, &drop).await?;
        }
        execute(&transaction, create).await?;
        transaction.commit().await?;
        transaction.release();
    }
    Ok(())
}

async fn execute(transaction: &Transaction, sql: &str) -> Result<u64, Error> {
    let statement = transaction.prepare(sql).await?;
    transaction.execute(&statement, []).await
}

/// Repairs the rows that break a rule about several rows, one rule in a transaction.
pub(in crate::postgres) async fn repair_rows(database: &Database) -> Result<(), Failure> {
    for rule in RULES.iter().filter(|rule| !rule.repair.is_empty()) {
        repair_rule(database, rule).await?;
    }
    Ok(())
}

async fn repair_rule(database: &Database, rule: &Rule) -> Result<(), Failure> {
    let transaction = database.transaction().await?;
    transaction.begin().await?;
    for table in rule.locks {
        // Writers of these rows lock them first, so wait for all of them before reading.
        let table = Dialect::Postgres.expand(table);
        execute(
            &transaction,
            &format!("LOCK TABLE {table} IN EXCLUSIVE MODE"),
        )
        .await?;
    }
    for sql in rule.repair {
        execute(&transaction, &Dialect::Postgres.expand(sql)).await?;
    }
    transaction.commit().await?;
    transaction.release();
    Ok(())
}

statements! {
    /// Statements that write the repair of a session.
    RepairStatements {
        event: "UPDATE retain_events SET event_id = $3, invocation = $4, timestamp = $5 \
                WHERE log = $1 AND position = $2",
        delete_current: "DELETE FROM retain_state WHERE log = $1",
        delete_past: "DELETE FROM retain_state_past WHERE log = $1",
        current: "INSERT INTO retain_state (log, key, position, value) SELECT $1::int8, new.* \
                  FROM unnest($2::text[], $3::int8[], $4::bytea[]) AS new",
        past: "INSERT INTO retain_state_past (log, key, position, value) SELECT $1::int8, new.* \
               FROM unnest($2::text[], $3::int8[], $4::bytea[]) AS new",
        head: "UPDATE retain_sessions SET revision = revision + 1, position = $2, \
               last_update = $3, in_order = $4, state_bytes = $5, log_bytes = $6, sized_to = $7 \
               WHERE number = $1",
    }
}

/// Makes a session equal to the fold of its log. Appends to the session wait meanwhile.
pub(in crate::postgres) async fn repair_session(
    database: &Database,
    key: &SessionKey,
) -> Result<(), Failure> {
    let transaction = database.transaction().await?;
    transaction.begin().await?;
    // Check it again under the lock: it may have changed since.
    if let Some((number, verdict)) = session::check_locked(&transaction, key).await?
        && let Some(repair) = verdict.repair
    {
        write(&transaction, number, &repair).await?;
    }
    transaction.commit().await?;
    transaction.release();
    Ok(())
}

async fn write(
    transaction: &Transaction,
    number: i64,
    repair: &SessionRepair,
) -> Result<(), Failure> {
    let statements = RepairStatements::prepare(transaction).await?;
    for (position, id, invocation, timestamp) in &repair.events {
        let position = signed(*position);
        let event: [Param<'_>; _] = [&number, &position, id, invocation, timestamp];
        transaction.execute(&statements.event, event).await?;
    }
    if let Some(state) = &repair.state {
        transaction
            .execute(&statements.delete_current, [&number])
            .await?;
        transaction
            .execute(&statements.delete_past, [&number])
            .await?;
        for (statement, is_current) in [(&statements.current, true), (&statements.past, false)] {
            let rows: Vec<&StateColumns<String>> = state
                .iter()
                .filter(|row| row.is_current == is_current)
                .collect();
            let keys: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            let positions: Vec<i64> = rows.iter().map(|row| signed(row.position)).collect();
            let values: Vec<Option<&[u8]>> = rows
                .iter()
                .map(|row| row.value.as_ref().map(String::as_bytes))
                .collect();
            let columns: [Param<'_>; _] = [&number, &keys, &positions, &values];
            transaction.execute(statement, columns).await?;
        }
    }
    let facts = &repair.facts;
    let [position, state_bytes, log_bytes, sized_to] = [
        facts.position,
        facts.state_bytes,
        facts.log_bytes,
        facts.sized_to,
    ]
    .map(signed);
    let head: [Param<'_>; _] = [
        &number,
        &position,
        &facts.last_update_time,
        &facts.in_order,
        &state_bytes,
        &log_bytes,
        &sized_to,
    ];
    transaction.execute(&statements.head, head).await?;
    Ok(())
}
