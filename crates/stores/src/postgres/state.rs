//! Computes which state rows a batch changes and how many bytes they have; reads and writes them.

use std::collections::HashMap;

use retain_core::{Changes, Json, JsonMap, LimitKind, Result, ScopedState, check_growth};
use tokio::join;
use tokio_postgres::{Error, Row};

use super::{
    pool::{Database, Failure, Transaction, if_some, statements},
    rows::{number_by_key, signed},
};

statements! {
    /// Statements that read and write state in a transaction.
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
        own_keys: concat!(
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

/// A state key, the position that set it, and its value.
type PastValue = (String, u64, Option<String>);

/// The changes that a batch makes to the session's own state.
#[derive(Debug, Default)]
pub(super) struct OwnStateChanges {
    /// Total bytes of the session's keys and values after the changes.
    pub(super) bytes: usize,
    /// Lengths of the stored values; `None` for a removed key.
    stored: HashMap<String, Option<usize>>,
    /// The last position that sets each key, and the value.
    current: HashMap<String, (u64, Option<String>)>,
    /// Values that an event of the batch sets and a later one replaces.
    past: Vec<PastValue>,
}

impl OwnStateChanges {
    /// Creates an empty set of changes. `bytes` is the size of the stored state, `rows` have the
    /// stored keys and the lengths of their values.
    pub(super) fn new(bytes: usize, rows: &[Row]) -> Result<OwnStateChanges, Error> {
        let mut stored = HashMap::new();
        for row in rows {
            let length: Option<i32> = row.try_get(1)?;
            let length = length.map(|length| length as usize);
            stored.insert(row.try_get(0)?, length);
        }
        Ok(OwnStateChanges {
            bytes,
            stored,
            ..OwnStateChanges::default()
        })
    }

    /// Sets keys at `position`. A value set by an earlier event of the batch becomes a past value.
    pub(super) fn set(&mut self, position: u64, changes: &Changes) {
        for (key, value) in &changes.session {
            let value = value.as_ref().map(Json::to_string);
            let entry_bytes = |length: Option<usize>| length.map_or(0, |length| key.len() + length);
            let length = value.as_ref().map(String::len);
            let before = match self.current.get(key) {
                Some((_, value)) => value.as_ref().map(String::len),
                None => self.stored.get(key).copied().flatten(),
            };
            self.bytes = self.bytes.saturating_sub(entry_bytes(before)) + entry_bytes(length);
            let replaced = self.current.insert(key.clone(), (position, value));
            if let Some((since, value)) = replaced
                && since != position
            {
                self.past.push((key.clone(), since, value));
            }
        }
    }

    /// Writes the changed rows.
    pub(super) async fn write(
        &self,
        transaction: &Transaction,
        statements: &StateStatements,
        log: i64,
    ) -> Result<(), Error> {
        if self.current.is_empty() {
            return Ok(());
        }
        // `stored` also has the keys of repeated events, which are not written again. Move only the
        // values that this batch replaces.
        let replaced = self.stored.keys();
        let replaced = replaced.filter(|key| self.current.contains_key(*key));
        let replaced: Vec<&String> = replaced.collect();
        let past = to_columns(self.past.iter().map(|(key, at, value)| (key, *at, value)));
        let current = self.current.iter();
        let current = to_columns(current.map(|(key, (at, value))| (key, *at, value)));
        let moved = transaction.execute(&statements.own_to_past, [&log, &replaced]);
        let between = transaction.execute(&statements.set_past, [&log, &past.0, &past.1, &past.2]);
        let (moved, between, set) = join!(
            biased;
            if_some((!replaced.is_empty()).then_some(moved)),
            if_some((!self.past.is_empty()).then_some(between)),
            transaction.execute(&statements.set_own, [&log, &current.0, &current.1, &current.2]),
        );
        moved?;
        between?;
        set.map(drop)
    }
}

/// Keys, positions and values, for `unnest`.
type Columns<'a> = (Vec<&'a str>, Vec<i64>, Vec<Option<&'a [u8]>>);

fn to_columns<'a>(
    rows: impl Iterator<Item = (&'a String, u64, &'a Option<String>)>,
) -> Columns<'a> {
    let mut columns = Columns::default();
    for (key, position, value) in rows {
        columns.0.push(key);
        columns.1.push(signed(position));
        columns.2.push(value.as_ref().map(String::as_bytes));
    }
    columns
}

/// Changes to the shared state of an app or a user. The transaction has locked the owner's row.
#[derive(Debug)]
pub(super) struct OwnerKeys {
    limit: LimitKind,
    app: String,
    /// The user; empty for the app itself.
    user: String,
    bytes: usize,
    stored: HashMap<String, usize>,
    current: HashMap<String, String>,
}

impl OwnerKeys {
    /// Locks an owner and reads its total bytes and the lengths of `keys`. `user` is empty for the app
    /// itself.
    pub(super) async fn lock(
        transaction: &Transaction,
        statements: &StateStatements,
        app: &str,
        user: &str,
        keys: &[&str],
    ) -> Result<(Vec<Row>, Vec<Row>), Error> {
        let (locked, owner, found) = join!(
            biased;
            transaction.execute(&statements.lock_owner, [&app, &user]),
            transaction.query(&statements.owner, [&app, &user]),
            transaction.query(&statements.owner_keys, [&app, &user, &keys]),
        );
        locked?;
        Ok((owner?, found?))
    }

    /// Decodes the rows that [`lock`](Self::lock) returned.
    pub(super) fn new(
        app: &str,
        user: &str,
        (owner, found): (Vec<Row>, Vec<Row>),
    ) -> Result<OwnerKeys, Failure> {
        let Some(owner) = owner.first() else {
            return Err(Failure::Transient(
                "a concurrent erase deleted the shared state",
            ));
        };
        let bytes: i64 = owner.try_get(0)?;
        let mut stored = HashMap::new();
        for row in found {
            let length: i32 = row.try_get(1)?;
            stored.insert(row.try_get(0)?, length as usize);
        }
        Ok(OwnerKeys {
            limit: if user.is_empty() {
                LimitKind::AppState
            } else {
                LimitKind::UserState
            },
            app: app.to_owned(),
            user: user.to_owned(),
            bytes: bytes as usize,
            stored,
            current: HashMap::new(),
        })
    }

    /// Sets keys; fails if the total grows over `bytes_max`.
    pub(super) fn set(&mut self, keys: &JsonMap, bytes_max: usize) -> Result<()> {
        let before = self.bytes;
        for (key, value) in keys {
            self.set_one(key, value.to_string());
        }
        check_growth(self.limit, before, self.bytes, bytes_max)
    }

    /// Sets the keys that do not exist yet, without a size limit.
    pub(super) fn set_absent(&mut self, keys: &JsonMap) {
        for (key, value) in keys {
            if !self.stored.contains_key(key) {
                self.set_one(key, value.to_string());
            }
        }
    }

    fn set_one(&mut self, key: &str, value: String) {
        let before = self.current.get(key).map(String::len);
        let before = before.or_else(|| self.stored.get(key).copied());
        let freed = before.map_or(0, |length| key.len() + length);
        self.bytes = (self.bytes + key.len() + value.len()).saturating_sub(freed);
        self.current.insert(key.to_owned(), value);
    }

    /// Writes the changed rows.
    pub(super) async fn write(
        &self,
        transaction: &Transaction,
        statements: &StateStatements,
    ) -> Result<(), Error> {
        if self.current.is_empty() {
            return Ok(());
        }
        let keys: Vec<&String> = self.current.keys().collect();
        let values: Vec<&[u8]> = self.current.values().map(String::as_bytes).collect();
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

/// Locks the owners of shared state, the app first, and sets the keys that do not exist yet.
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
    transaction.release();
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
    fn value_that_a_later_event_of_the_batch_replaces_becomes_a_past_value() {
        let mut keys = OwnStateChanges {
            bytes: 10,
            stored: HashMap::from([("a".to_owned(), Some(4)), ("gone".to_owned(), None)]),
            ..OwnStateChanges::default()
        };
        keys.set(5, &changes(&[("a", Some("xx")), ("gone", Some(""))]));
        // "a" keeps its size; "gone" adds its name and two quotes.
        assert_eq!(keys.bytes, 16);
        keys.set(6, &changes(&[("a", None), ("b", None)]));
        assert_eq!(keys.bytes, 11);
        assert_eq!(keys.past, [("a".to_owned(), 5, Some("\"xx\"".to_owned()))]);
        assert_eq!(keys.current["a"], (6, None));
        assert_eq!(keys.current["b"], (6, None));
        assert_eq!(keys.current["gone"].0, 5);
    }
}
