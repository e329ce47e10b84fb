//! Reads the rows of sessions for a check.

use retain_core::{
    EventColumns, Location, Origin, Problem, Problems, SessionCheck, SessionFacts, SessionKey,
    SessionVerdict, StateColumns,
};
use tokio_postgres::{Error, Row};

use super::PAGE;
use crate::postgres::{
    pool::{Failure, Transaction, statements},
    rows::{by_key, unsigned},
};

macro_rules! columns {
    () => {
        "number, app, user_id, id, position, create_time, last_update, in_order, state_bytes, \
         log_bytes, sized_to, origin_id, origin_position"
    };
}

statements! {
    /// Statements that read sessions, logs and states in pages.
    CheckStatements {
        sessions: concat!(
            "SELECT ", columns!(), " FROM retain_sessions WHERE number > $1 ORDER BY number LIMIT $2"
        ),
        lock: concat!("SELECT ", columns!(), " FROM retain_sessions WHERE ", by_key!(), " FOR UPDATE"),
        events: "SELECT position, event_id, invocation, timestamp, body FROM retain_events \
                 WHERE log = $1 AND position > $2 ORDER BY position LIMIT $3",
        current: "SELECT key, position, value, true FROM retain_state \
                  WHERE log = $1 AND (key, position) > ($2, $3) ORDER BY key, position LIMIT $4",
        past: "SELECT key, position, value, false FROM retain_state_past \
               WHERE log = $1 AND (key, position) > ($2, $3) ORDER BY key, position LIMIT $4",
    }
}

pub(super) async fn check_sessions(
    transaction: &Transaction,
    problems: &mut Problems,
) -> Result<(), Failure> {
    let statements = CheckStatements::prepare(transaction).await?;
    let mut after = i64::MIN;
    loop {
        let sessions = transaction.query(&statements.sessions, [&after, &PAGE]);
        let sessions = sessions.await?;
        for row in &sessions {
            after = row.try_get(0)?;
            let facts = read_facts(row)?;
            let verdict = check_log(transaction, &statements, after, facts).await?;
            problems.extend(verdict.problems);
        }
        if sessions.is_empty() {
            return Ok(());
        }
    }
}

/// Locks the session with this key and checks it; `None` if it does not exist.
pub(super) async fn check_locked(
    transaction: &Transaction,
    key: &SessionKey,
) -> Result<Option<(i64, SessionVerdict)>, Failure> {
    let statements = CheckStatements::prepare(transaction).await?;
    let found = transaction.query(&statements.lock, [&key.app, &key.user, &key.id]);
    let found = found.await?;
    let Some(row) = found.first() else {
        return Ok(None);
    };
    let number = row.try_get(0)?;
    let verdict = check_log(transaction, &statements, number, read_facts(row)?).await?;
    Ok(Some((number, verdict)))
}

fn read_facts(row: &Row) -> Result<SessionFacts, Error> {
    let key: (String, String, String) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    let origin: Option<String> = row.try_get(11)?;
    let origin = match origin {
        Some(session_id) => Some(Origin {
            session_id,
            position: unsigned(row, 12)?,
        }),
        None => None,
    };
    Ok(SessionFacts {
        key: SessionKey::new(key.0, key.1, key.2),
        position: unsigned(row, 4)?,
        create_time: row.try_get(5)?,
        last_update_time: row.try_get(6)?,
        in_order: row.try_get(7)?,
        state_bytes: unsigned(row, 8)?,
        log_bytes: unsigned(row, 9)?,
        sized_to: unsigned(row, 10)?,
        origin,
    })
}

async fn check_log(
    transaction: &Transaction,
    statements: &CheckStatements,
    number: i64,
    facts: SessionFacts,
) -> Result<SessionVerdict, Failure> {
    let key = facts.key.clone();
    let mut check = SessionCheck::new(facts);
    let mut after = -1_i64;
    loop {
        let rows = transaction.query(&statements.events, [&number, &after, &PAGE]);
        let rows = rows.await?;
        for row in &rows {
            after = row.try_get(0)?;
            check.check_event(EventColumns {
                position: after as u64,
                id: row.try_get(1)?,
                invocation: row.try_get(2)?,
                timestamp: row.try_get(3)?,
                body: row.try_get(4)?,
            });
        }
        if rows.len() < PAGE as usize {
            break;
        }
    }
    let mut unreadable = Vec::new();
    for statement in [&statements.current, &statements.past] {
        let mut after = (String::new(), -1_i64);
        loop {
            let rows = transaction.query(statement, [&number, &after.0, &after.1, &PAGE]);
            let rows = rows.await?;
            for row in &rows {
                match read_state(row)? {
                    Ok(state) => check.check_state(state),
                    Err(problem) => unreadable.push(problem),
                }
            }
            match rows.last() {
                Some(row) if rows.len() == PAGE as usize => {
                    after = (row.try_get(0)?, row.try_get(1)?);
                }
                _ => break,
            }
        }
    }
    let mut verdict = check.end();
    let problem = |(name, error): (String, std::str::Utf8Error)| {
        let key = key.clone();
        Problem::unreadable(Location::StateKey { key, name }, error)
    };
    verdict.problems.extend(unreadable.into_iter().map(problem));
    Ok(verdict)
}

/// Reads a value; the inner error says that it is not text.
type ReadState<'a> = Result<StateColumns<&'a str>, (String, std::str::Utf8Error)>;

fn read_state(row: &Row) -> Result<ReadState<'_>, Error> {
    let (name, value): (&str, Option<&[u8]>) = (row.try_get(0)?, row.try_get(2)?);
    let position: i64 = row.try_get(1)?;
    let is_current = row.try_get(3)?;
    Ok(match value.map(std::str::from_utf8).transpose() {
        Ok(value) => Ok(StateColumns {
            name,
            position: position as u64,
            value,
            is_current,
        }),
        Err(error) => Err((name.to_owned(), error)),
    })
}
