//! The API key store on the session database. Servers and the `retain keys` commands share it.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{ApiKey, BoxError, KeyStore, Result, SessionError};

use tokio_postgres::{Error, Row};

use super::{
    NAME, PostgresStore,
    pool::{Database, Failure, Param, Transaction, retry, statements},
};
use crate::sql::{
    check::root_cause,
    keys::{encode_scopes, with_scopes},
};

/// The columns of an API key, in the order in which [`read_key`] reads them.
macro_rules! columns {
    () => {
        "id, name, hash, app, user_id, scopes, created_us, expires_us, revoked_us, last_used_us"
    };
}

/// An API key store on a [`PostgresStore`]. [`PostgresStore::keys`] creates it.
#[derive(Clone)]
pub struct PostgresKeyStore {
    database: Arc<Database>,
    uri: Arc<str>,
}

impl fmt::Debug for PostgresKeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresKeyStore").field(&self.uri).finish()
    }
}

impl PostgresStore {
    /// Returns the API keys on this database.
    pub fn keys(&self) -> PostgresKeyStore {
        PostgresKeyStore {
            database: Arc::clone(&self.database),
            uri: self.options.uri().into(),
        }
    }
}

/// Inserts the marker row, which records that API keys existed; see [`erase`].
const INSERT_MARKER: &str = "INSERT INTO retain_api_keys (id, name, hash, scopes, created_us) \
                             VALUES ('', '', '', '', 0) ON CONFLICT (id) DO NOTHING";

statements! {
    /// The statements that erase a user's API keys.
    KeyErasureStatements {
        keys: "DELETE FROM retain_api_keys WHERE app = $1 AND user_id = $2",
        marker: INSERT_MARKER,
    }
}

/// Removes the API keys that are limited to this user of this app. A marker row with an empty id
/// records that keys existed, and holds no personal data; no API key has an empty id.
pub(super) async fn erase(transaction: &Transaction, app: &str, user: &str) -> Result<u64, Error> {
    let statements = KeyErasureStatements::prepare(transaction).await?;
    let (app, user) = (app.as_bytes(), user.as_bytes());
    let erased = transaction.execute(&statements.keys, [&app, &user]).await?;
    if erased > 0 {
        transaction.execute(&statements.marker, []).await?;
    }
    Ok(erased)
}

/// Reads the bytes in column `at` as UTF-8 text.
fn text(row: &Row, at: usize) -> Result<Option<String>, BoxError> {
    let bytes: Option<Vec<u8>> = row.try_get(at)?;
    Ok(bytes.map(String::from_utf8).transpose()?)
}

fn read_key(row: &Row) -> Result<ApiKey, Failure> {
    let key = || -> Result<ApiKey, BoxError> {
        Ok(ApiKey {
            id: row.try_get(0)?,
            name: text(row, 1)?.ok_or("its name is missing")?,
            hash: row.try_get::<_, &[u8]>(2)?.try_into()?,
            app: text(row, 3)?,
            user: text(row, 4)?,
            scopes: Vec::new(),
            created_us: row.try_get(6)?,
            expires_us: row.try_get(7)?,
            revoked_us: row.try_get(8)?,
            last_used_us: row.try_get(9)?,
        })
    };
    let key = key().map_err(|source| SessionError::Store {
        store: NAME,
        operation: "read an API key",
        source,
    })?;
    Ok(with_scopes(key, row.try_get(5)?)?)
}

/// Selects all rows, for a check.
pub(super) const ALL: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM retain_api_keys ORDER BY number"
);

/// Decodes a row of [`ALL`]; an error says why it cannot be read.
pub(super) fn decode(row: &Row) -> Result<ApiKey, String> {
    let decoded = read_key(row);
    decoded.map_err(|failure| root_cause(&*failure.cause()))
}

async fn query(database: &Database, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

/// Adds an API key. `is_sent` is true if an earlier, unconfirmed attempt sent it.
async fn add(database: &Database, key: &ApiKey, is_sent: &mut bool) -> Result<(), Failure> {
    const ADD: &str = concat!(
        "INSERT INTO retain_api_keys (",
        columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
         ON CONFLICT (id) DO NOTHING RETURNING id"
    );
    let (app, user) = (key.app.as_ref(), key.user.as_ref());
    let params: &[Param<'_>] = &[
        &key.id,
        &key.name.as_bytes(),
        &key.hash.as_slice(),
        &app.map(String::as_bytes),
        &user.map(String::as_bytes),
        &encode_scopes(key),
        &key.created_us,
        &key.expires_us,
        &key.revoked_us,
        &key.last_used_us,
    ];
    let was_sent = std::mem::replace(is_sent, true);
    if !query(database, ADD, params).await?.is_empty() {
        return Ok(());
    }
    // Secrets are random, so an equal hash means that the earlier attempt succeeded.
    let existing = find(database, &key.id).await?;
    if existing.is_some_and(|existing| was_sent && existing.hash == key.hash) {
        Ok(())
    } else {
        Err(key.id_exists().into())
    }
}

async fn find(database: &Database, id: &str) -> Result<Option<ApiKey>, Failure> {
    const FIND: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM retain_api_keys WHERE id = $1 AND id <> ''"
    );
    if id.contains('\0') {
        return Ok(None);
    }
    let found = query(database, FIND, &[&id]).await?;
    found.first().map(read_key).transpose()
}

async fn list(database: &Database) -> Result<Vec<ApiKey>, Failure> {
    const LIST: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM retain_api_keys WHERE id <> '' ORDER BY number"
    );
    let rows = query(database, LIST, &[]).await?;
    rows.iter().map(read_key).collect()
}

#[async_trait]
impl KeyStore for PostgresKeyStore {
    async fn add(&self, key: &ApiKey) -> Result<()> {
        key.check()?;
        if key.id.contains('\0') {
            return Err(SessionError::invalid(
                "API key id",
                "contains a NUL character; remove it",
            ));
        }
        let mut is_sent = false;
        let added = retry!(add(&self.database, key, &mut is_sent));
        added.map_err(|failure: Failure| failure.into_session_error("add an API key"))
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>> {
        retry!(find(&self.database, id))
            .map_err(|failure: Failure| failure.into_session_error("find an API key"))
    }

    async fn keys(&self) -> Result<Vec<ApiKey>> {
        retry!(list(&self.database))
            .map_err(|failure: Failure| failure.into_session_error("list API keys"))
    }

    async fn had_any(&self) -> Result<bool> {
        let sql = "SELECT 1 FROM retain_api_keys LIMIT 1";
        let found = retry!(query(&self.database, sql, &[]));
        let found =
            found.map_err(|failure: Failure| failure.into_session_error("check for API keys"))?;
        Ok(!found.is_empty())
    }

    async fn note_had_any(&self) -> Result<()> {
        let noted = retry!(query(&self.database, INSERT_MARKER, &[]));
        let noted = noted
            .map_err(|failure: Failure| failure.into_session_error("record that API keys existed"));
        noted.map(drop)
    }

    async fn revoke(&self, id: &str, now_us: i64) -> Result<bool> {
        let sql = "UPDATE retain_api_keys SET revoked_us = coalesce(revoked_us, $2) \
                   WHERE id = $1 AND id <> '' RETURNING id";
        if id.contains('\0') {
            return Ok(false);
        }
        let revoked = retry!(query(&self.database, sql, &[&id, &now_us]));
        let revoked =
            revoked.map_err(|failure: Failure| failure.into_session_error("revoke an API key"))?;
        Ok(!revoked.is_empty())
    }

    async fn note_use(&self, id: &str, now_us: i64) -> Result<()> {
        let sql = "UPDATE retain_api_keys SET last_used_us = greatest($2, last_used_us) \
                   WHERE id = $1";
        if id.contains('\0') {
            return Ok(());
        }
        let noted = retry!(query(&self.database, sql, &[&id, &now_us]));
        let noted = noted
            .map_err(|failure: Failure| failure.into_session_error("record the use of an API key"));
        noted.map(drop)
    }
}
