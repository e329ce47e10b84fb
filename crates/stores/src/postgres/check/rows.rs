//! Decodes every row of shared state, memories, artifacts and API keys.

use retain_core::{ArtifactAddress, BoxError, Location, MemoryScope, Problem, Problems};
use tokio_postgres::Row;

use super::PAGE;
use crate::{
    postgres::{
        keys, memory,
        pool::{Failure, Transaction, statements},
        rows::unsigned,
    },
    sql::check::{
        ArtifactColumns, check_artifact, check_key, check_shared_value, root_cause, state_owner,
    },
};

statements! {
    /// Statements that read rows in pages.
    RowStatements {
        shared: "SELECT app, user_id, key, value FROM retain_shared_state \
                 WHERE (app, user_id, key) > ($1, $2, $3) ORDER BY app, user_id, key LIMIT $4",
        memories: memory::ALL_RECORDS,
        artifacts: "SELECT number, app, user_id, session, name, version, create_time, mime_type, \
                    custom_metadata, part, data IS NOT NULL, \
                    name_hash = sha256(name) FROM retain_artifacts \
                    WHERE number > $1 ORDER BY number LIMIT $2",
        keys: keys::ALL,
    }
}

pub(super) async fn check_shared_state(
    transaction: &Transaction,
    problems: &mut Problems,
) -> Result<(), Failure> {
    let statements = RowStatements::prepare(transaction).await?;
    let mut after = (String::new(), String::new(), String::new());
    loop {
        let (app, user, key) = &after;
        let rows = transaction.query(&statements.shared, [app, user, key, &PAGE]);
        let rows = rows.await?;
        for row in &rows {
            let owner = state_owner(row.try_get(0)?, row.try_get(1)?);
            let (name, value): (&str, &[u8]) = (row.try_get(2)?, row.try_get(3)?);
            problems.extend(check_shared_value(owner, name, value));
        }
        match rows.last() {
            Some(row) => after = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?),
            None => return Ok(()),
        }
    }
}

pub(super) async fn check_memories(
    transaction: &Transaction,
    problems: &mut Problems,
) -> Result<(), Failure> {
    let statements = RowStatements::prepare(transaction).await?;
    let mut after = (i64::MIN, i64::MIN);
    loop {
        let rows = transaction.query(&statements.memories, [&after.0, &after.1, &PAGE]);
        let rows = rows.await?;
        for row in &rows {
            let seq: i64 = row.try_get(0)?;
            let owner: (String, String, i64) =
                (row.try_get(20)?, row.try_get(21)?, row.try_get(22)?);
            after = (owner.2, seq);
            if let Some(error) = memory::check_record(row)? {
                let location = Location::Memory {
                    scope: MemoryScope::new(owner.0, owner.1),
                    seq: seq as u64,
                    id: row.try_get(1)?,
                };
                problems.push(Problem::unreadable(location, root_cause(&error)));
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

pub(super) async fn check_artifacts(
    transaction: &Transaction,
    problems: &mut Problems,
) -> Result<(), Failure> {
    let statements = RowStatements::prepare(transaction).await?;
    let mut after = i64::MIN;
    loop {
        let rows = transaction.query(&statements.artifacts, [&after, &PAGE]);
        let rows = rows.await?;
        for row in &rows {
            after = row.try_get(0)?;
            match check_artifact_row(row) {
                Ok(problem) => problems.extend(problem),
                Err(error) => {
                    let row = format!("row {after} of table retain_artifacts");
                    problems.push(Problem::unreadable(Location::Row { row }, error));
                }
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

fn check_artifact_row(row: &Row) -> Result<Option<Problem>, BoxError> {
    let session: String = row.try_get(3)?;
    let name = std::str::from_utf8(row.try_get(4)?)?.to_owned();
    let address = ArtifactAddress {
        app: row.try_get(1)?,
        user: row.try_get(2)?,
        session: Some(session).filter(|session| !session.is_empty()),
        filename: name.clone(),
        name,
    };
    if !row.try_get::<_, bool>(11)? {
        return Err("the hash of its name differs from the name".into());
    }
    let mime_type: Option<&[u8]> = row.try_get(7)?;
    let mime_type = mime_type.map(std::str::from_utf8).transpose()?;
    Ok(check_artifact(ArtifactColumns {
        address: &address,
        version: unsigned(row, 5)?,
        create_time: row.try_get(6)?,
        mime_type: mime_type.map(str::to_owned),
        custom_metadata: std::str::from_utf8(row.try_get(8)?)?,
        part: std::str::from_utf8(row.try_get(9)?)?,
        has_data: row.try_get(10)?,
    }))
}

pub(super) async fn check_keys(
    transaction: &Transaction,
    problems: &mut Problems,
) -> Result<(), Failure> {
    let statements = RowStatements::prepare(transaction).await?;
    for row in transaction.query(&statements.keys, []).await? {
        problems.extend(check_key(row.try_get(0)?, keys::decode(&row)));
    }
    Ok(())
}
