//! Computes the state rows that a batch changes and their bytes; reads and writes those rows.

use std::collections::HashMap;

use retain_core::{Changes, Json, JsonMap, LimitKind, Result, ScopedState, check_growth};
use tokio::join;
use tokio_postgres::{Error, Row};

use super::{
    pool::{Database, Failure, Transaction, if_some, statements},
    rows::{number_by_key, signed},
};

statements! {
    /// What reads and writes state in a transaction.
    StateStatements {
        lock_owner: "INSERT INTO retain_shared_bytes (app, user_id, bytes) VALUES ($1, $2, 0) \
                     ON CONFLICT DO NOTHING",
        owner: "SELECT bytes FROM retain_shared_bytes WHERE app = $1 AND user_id = $2 FOR UPDATE",
        owner_keys: "SELECT key, octet_length(value) FROM retain_shared_state \
                     WHERE app = $1 AND user_id = $2 AND key = ANY($3)",
        set_owner: "UPDATE retain_shared_bytes SET bytes = $3 WHERE app = $1 AND user_id = $2",
        set_owner_keys: "INSERT INTO retain_shared_state (app, user_id, key, value) \
                         SELECT $1::text, $2::text, key, value \
                         FROM unnest($3::text[], $4::bytea[]) AS new (key, value) \
                         ON CONFLICT (app, user_id, key) DO UPDATE SET value = excluded.value",
        state_text: concat!(
            "SELECT key, octet_length(value) FROM retain_state WHERE key = ANY($4) AND log = ",
            number_by_key!()
        ),
        own_to_past: "INSERT INTO retain_state_past (log, key, position, value) \
                      SELECT log, key, position, value FROM retain_state \
                      WHERE log = $1 AND key = ANY($2)",
        set_past: "INSERT INTO retain_state_past (log, key, position, value) \
                   SELECT $1::int8, key, position, value \
                   FROM unnest($2::text[], $3::int8[], $4::bytea[]) AS new (key, position, value)",
        set_own: "INSERT INTO retain_state (log, key, position, value) \
                  SELECT $1::int8, key, position, value \
                  FROM unnest($2::text[], $3::int8[], $4::bytea[]) AS new (key, position, value) \
                  ON CONFLICT (log, key) DO UPDATE \
                  SET position = excluded.position, value = excluded.value",
    }
}

/// A key as it was at a position.
type Version = (String, u64, Option<String>);

/// The session's own keys while a batch goes over them.
#[derive(Debug, Default)]
pub(super) struct SessionStateText {
    /// How many bytes all keys and values take.
    pub(super) bytes: usize,
    /// How long the stored values are; `None` for one that is absent.
    stored: HashMap<String, Option<usize>>,
    now: HashMap<String, (u64, Option<String>)>,
    past: Vec<Version>,
}

impl SessionStateText {
    /// The keys as they are stored: rows of (key, length).
    pub(super) fn new(bytes: usize, rows: &[Row]) -> Result<SessionStateText, Error> {
        let mut stored = HashMap::new();
        for row in rows {
            let length: Option<i32> = row.try_get(1)?;
            let length = length.map(|length| length as usize);
            stored.insert(row.try_get(0)?, length);
        }
        Ok(SessionStateText {
            bytes,
            stored,
            ..SessionStateText::default()
        })
    }

    /// Sets keys as of `position`, moving what they were to the past.
    pub(super) fn set(&mut self, position: u64, changes: &Changes) {
        for (key, value) in &changes.session {
            let value = value.as_ref().map(Json::to_string);
            let takes = |length: Option<usize>| length.map_or(0, |length| key.len() + length);
            let length = value.as_ref().map(String::len);
            let before = match self.now.get(key) {
                Some((_, value)) => value.as_ref().map(String::len),
                None => self.stored.get(key).copied().flatten(),
            };
            self.bytes = self.bytes.saturating_sub(takes(before)) + takes(length);
            let replaced = self.now.insert(key.clone(), (position, value));
            if let Some((since, value)) = replaced
                && since != position
            {
                self.past.push((key.clone(), since, value));
            }
        }
    }

    /// Sends the rows.
    pub(super) async fn write(
        &self,
        transaction: &Transaction,
        statements: &StateStatements,
        log: i64,
    ) -> Result<(), Error> {
        if self.now.is_empty() {
            return Ok(());
        }
        // Events of the batch that are repeats change nothing, so their keys stay what they are.
        let replaced = self.stored.keys().filter(|key| self.now.contains_key(*key));
        let replaced: Vec<&String> = replaced.collect();
        let past = columns(self.past.iter().map(|(key, at, value)| (key, *at, value)));
        let now = columns(self.now.iter().map(|(key, (at, value))| (key, *at, value)));
        let moved = transaction.execute(&statements.own_to_past, [&log, &replaced]);
        let between = transaction.execute(&statements.set_past, [&log, &past.0, &past.1, &past.2]);
        let (moved, between, set) = join!(
            biased;
            if_some((!replaced.is_empty()).then_some(moved)),
            if_some((!self.past.is_empty()).then_some(between)),
            transaction.execute(&statements.set_own, [&log, &now.0, &now.1, &now.2]),
        );
        moved?;
        between?;
        set.map(drop)
    }
}

/// Rows as columns, as `unnest` takes them.
type Columns<'a> = (Vec<&'a str>, Vec<i64>, Vec<Option<&'a [u8]>>);

fn columns<'a>(rows: impl Iterator<Item = (&'a String, u64, &'a Option<String>)>) -> Columns<'a> {
    let mut columns = Columns::default();
    for (key, position, value) in rows {
        columns.0.push(key);
        columns.1.push(signed(position));
        columns.2.push(value.as_ref().map(String::as_bytes));
    }
    columns
}

/// The keys of an app or of a user while a batch changes them. The holder has locked their row.
#[derive(Debug)]
pub(super) struct OwnerKeys {
    what: LimitKind,
    app: String,
    /// Empty for the app itself.
    user: String,
    bytes: usize,
    stored: HashMap<String, usize>,
    now: HashMap<String, String>,
}

impl OwnerKeys {
    /// Locks the keys of an owner and asks how long those are that `batch` sets. `user` is empty for
    /// the app itself.
    pub(super) async fn lock(
        transaction: &Transaction,
        statements: &StateStatements,
        app: &str,
        user: &str,
        keys: &[&str],
    ) -> Result<(Vec<Row>, Vec<Row>), Error> {
        let (there, owner, found) = join!(
            biased;
            transaction.execute(&statements.lock_owner, [&app, &user]),
            transaction.query(&statements.owner, [&app, &user]),
            transaction.query(&statements.owner_keys, [&app, &user, &keys]),
        );
        there?;
        Ok((owner?, found?))
    }

    /// What [`lock`](Self::lock) has found.
    pub(super) fn new(
        app: &str,
        user: &str,
        (owner, found): (Vec<Row>, Vec<Row>),
    ) -> Result<OwnerKeys, Failure> {
        let Some(owner) = owner.first() else {
            return Err(Failure::Again("the user was erased at this moment"));
        };
        let bytes: i64 = owner.try_get(0)?;
        let mut stored = HashMap::new();
        for row in found {
            let length: i32 = row.try_get(1)?;
            stored.insert(row.try_get(0)?, length as usize);
        }
        Ok(OwnerKeys {
            what: match user.is_empty() {
                true => LimitKind::AppState,
                false => LimitKind::UserState,
            },
            app: app.to_owned(),
            user: user.to_owned(),
            bytes: bytes as usize,
            stored,
            now: HashMap::new(),
        })
    }

    /// Sets keys; fails if all of them grow over `bytes_max`.
    pub(super) fn set(&mut self, keys: &JsonMap, bytes_max: usize) -> Result<()> {
        let before = self.bytes;
        for (key, value) in keys {
            self.set_one(key, value.to_string());
        }
        check_growth(self.what, before, self.bytes, bytes_max)
    }

    /// Sets the keys that are not there yet, however large all of them get.
    pub(super) fn set_absent(&mut self, keys: &JsonMap) {
        for (key, value) in keys {
            if !self.stored.contains_key(key) {
                self.set_one(key, value.to_string());
            }
        }
    }

    fn set_one(&mut self, key: &str, value: String) {
        let before = self.now.get(key).map(String::len);
        let before = before.or_else(|| self.stored.get(key).copied());
        let freed = before.map_or(0, |length| key.len() + length);
        self.bytes = (self.bytes + key.len() + value.len()).saturating_sub(freed);
        self.now.insert(key.to_owned(), value);
    }

    /// Sends the rows.
    pub(super) async fn write(
        &self,
        transaction: &Transaction,
        statements: &StateStatements,
    ) -> Result<(), Error> {
        if self.now.is_empty() {
            return Ok(());
        }
        let keys: Vec<&String> = self.now.keys().collect();
        let values: Vec<&[u8]> = self.now.values().map(String::as_bytes).collect();
        let (app, user, bytes) = (&self.app, &self.user, signed(self.bytes as u64));
        let (set, counted) = join!(
            biased;
            transaction.execute(&statements.set_owner_keys, [app, user, &keys, &values]),
            transaction.execute(&statements.set_owner, [app, user, &bytes]),
        );
        set?;
        counted.map(drop)
    }
}

/// Locks the owners of shared keys, the app first, and gives them with the keys that they lack set.
pub(super) async fn lock_owners(
    transaction: &Transaction,
    state: &StateStatements,
    app: &str,
    user: &str,
    shared: &ScopedState,
) -> Result<Vec<OwnerKeys>, Failure> {
    let app_keys: Vec<&str> = shared.app.keys().collect();
    let user_keys: Vec<&str> = shared.user.keys().collect();
    let lock_app = OwnerKeys::lock(transaction, state, app, "", &app_keys);
    let lock_user = OwnerKeys::lock(transaction, state, app, user, &user_keys);
    let (locked_app, locked_user) = join!(
        biased;
        if_some((!app_keys.is_empty()).then_some(lock_app)),
        if_some((!user_keys.is_empty()).then_some(lock_user)),
    );
    let mut owners = Vec::new();
    for (user, found, keys) in [
        ("", locked_app?, &shared.app),
        (user, locked_user?, &shared.user),
    ] {
        if let Some(found) = found {
            let mut owner = OwnerKeys::new(app, user, found)?;
            owner.set_absent(keys);
            owners.push(owner);
        }
    }
    Ok(owners)
}

/// Sets the keys that the app or the user does not have yet.
pub(super) async fn add_shared(
    database: &Database,
    app: &str,
    user: &str,
    shared: &ScopedState,
) -> Result<(), Failure> {
    let transaction = database.transaction().await?;
    let statements = StateStatements::prepare(&transaction).await?;
    let (begun, owners) = join!(
        biased;
        transaction.begin(),
        lock_owners(&transaction, &statements, app, user, shared),
    );
    begun?;
    for owner in &owners? {
        owner.write(&transaction, &statements).await?;
    }
    transaction.commit().await?;
    transaction.ended();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(keys: &[(&str, Option<&str>)]) -> Changes {
        let session = keys.iter();
        let session = session
            .map(|(key, value)| ((*key).to_owned(), value.map(|v| Json::from(v.to_owned()))));
        Changes {
            session: session.collect(),
            ..Changes::default()
        }
    }

    #[test]
    fn value_between_two_events_of_a_batch_is_past() {
        let mut keys = SessionStateText {
            bytes: 10,
            stored: HashMap::from([("a".to_owned(), Some(4)), ("gone".to_owned(), None)]),
            ..SessionStateText::default()
        };
        keys.set(5, &changes(&[("a", Some("xx")), ("gone", Some(""))]));
        // "a" has grown by nothing, "gone" takes its name and two quotes.
        assert_eq!(keys.bytes, 16);
        keys.set(6, &changes(&[("a", None), ("b", None)]));
        assert_eq!(keys.bytes, 11);
        assert_eq!(keys.past, [("a".to_owned(), 5, Some("\"xx\"".to_owned()))]);
        assert_eq!(keys.now["a"], (6, None));
        assert_eq!(keys.now["b"], (6, None));
        assert_eq!(keys.now["gone"].0, 5);
    }
}
