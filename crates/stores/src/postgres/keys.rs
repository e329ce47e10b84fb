//! API keys in the session database, which servers and the key commands share.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{ApiKey, BoxError, KeyStore, Result, SessionError};

use tokio_postgres::{Error, Row};

use super::{
    NAME, PostgresStore,
    pool::{Database, Failure, Param, Transaction, statements, tried},
};
use crate::sql::keys::{is_taken, scopes_text, with_scopes};

/// The columns of a key, in the order in which [`read`] reads them.
macro_rules! columns {
    () => {
        "id, name, hash, app, user_id, scopes, created_us, expires_us, revoked_us, last_used_us"
    };
}

/// The keys on a [`PostgresStore`]: [`PostgresStore::keys`] gives it.
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
    /// The API keys on this database.
    pub fn keys(&self) -> PostgresKeyStore {
        PostgresKeyStore {
            database: Arc::clone(&self.database),
            uri: self.options.uri().into(),
        }
    }
}

const MARK: &str = "INSERT INTO retain_api_keys (id, name, hash, scopes, created_us) \
                    VALUES ('', '', '', '', 0) ON CONFLICT (id) DO NOTHING";

statements! {
    /// What erases the keys of a user.
    Erasure {
        keys: "DELETE FROM retain_api_keys WHERE app = $1 AND user_id = $2",
        mark: MARK,
    }
}

/// Removes the keys that are good for nobody but this user of this app. What stays is a mark that
/// there were some: a row without an id, which tells nothing of anybody and which no key can be.
pub(super) async fn erase(transaction: &Transaction, app: &str, user: &str) -> Result<u64, Error> {
    let statements = Erasure::prepare(transaction).await?;
    let (app, user) = (app.as_bytes(), user.as_bytes());
    let erased = transaction.execute(&statements.keys, [&app, &user]).await?;
    if erased > 0 {
        transaction.execute(&statements.mark, []).await?;
    }
    Ok(erased)
}

/// The text that the bytes at column `at` are, if there are any.
fn text(row: &Row, at: usize) -> Result<Option<String>, BoxError> {
    let bytes: Option<Vec<u8>> = row.try_get(at)?;
    Ok(bytes.map(String::from_utf8).transpose()?)
}

fn read(row: &Row) -> Result<ApiKey, Failure> {
    let key = || -> Result<ApiKey, BoxError> {
        Ok(ApiKey {
            id: row.try_get(0)?,
            name: text(row, 1)?.ok_or("it has no name")?,
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
        operation: "read a key",
        source,
    })?;
    Ok(with_scopes(key, row.try_get(5)?)?)
}

async fn ask(database: &Database, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
    let client = database.connection().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

/// Adds a key. `is_sent`: an attempt before this one may have added it.
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
        &scopes_text(key),
        &key.created_us,
        &key.expires_us,
        &key.revoked_us,
        &key.last_used_us,
    ];
    let was_sent = std::mem::replace(is_sent, true);
    if !ask(database, ADD, params).await?.is_empty() {
        return Ok(());
    }
    // Nobody else has this secret.
    let there = find(database, &key.id).await?;
    match there.is_some_and(|there| was_sent && there.hash == key.hash) {
        true => Ok(()),
        false => Err(is_taken().into()),
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
    let found = ask(database, FIND, &[&id]).await?;
    found.first().map(read).transpose()
}

async fn all(database: &Database) -> Result<Vec<ApiKey>, Failure> {
    const ALL: &str = concat!(
        "SELECT ",
        columns!(),
        " FROM retain_api_keys WHERE id <> '' ORDER BY number"
    );
    ask(database, ALL, &[]).await?.iter().map(read).collect()
}

#[async_trait]
impl KeyStore for PostgresKeyStore {
    async fn add(&self, key: &ApiKey) -> Result<()> {
        key.check()?;
        if key.id.contains('\0') {
            return Err(SessionError::invalid("key id", "contains a NUL character"));
        }
        let mut is_sent = false;
        let added = tried!(add(&self.database, key, &mut is_sent));
        added.map_err(|failure: Failure| failure.told("add a key"))
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>> {
        tried!(find(&self.database, id)).map_err(|failure: Failure| failure.told("find a key"))
    }

    async fn keys(&self) -> Result<Vec<ApiKey>> {
        tried!(all(&self.database)).map_err(|failure: Failure| failure.told("list keys"))
    }

    async fn had_any(&self) -> Result<bool> {
        let sql = "SELECT 1 FROM retain_api_keys LIMIT 1";
        let found = tried!(ask(&self.database, sql, &[]));
        let found = found.map_err(|failure: Failure| failure.told("look for keys"))?;
        Ok(!found.is_empty())
    }

    async fn note_had_any(&self) -> Result<()> {
        let noted = tried!(ask(&self.database, MARK, &[]));
        let noted = noted.map_err(|failure: Failure| failure.told("note keys"));
        noted.map(drop)
    }

    async fn revoke(&self, id: &str, now_us: i64) -> Result<bool> {
        let sql = "UPDATE retain_api_keys SET revoked_us = coalesce(revoked_us, $2) \
                   WHERE id = $1 AND id <> '' RETURNING id";
        if id.contains('\0') {
            return Ok(false);
        }
        let revoked = tried!(ask(&self.database, sql, &[&id, &now_us]));
        let revoked = revoked.map_err(|failure: Failure| failure.told("revoke a key"))?;
        Ok(!revoked.is_empty())
    }

    async fn note_use(&self, id: &str, now_us: i64) -> Result<()> {
        let sql = "UPDATE retain_api_keys SET last_used_us = greatest($2, last_used_us) \
                   WHERE id = $1";
        if id.contains('\0') {
            return Ok(());
        }
        let noted = tried!(ask(&self.database, sql, &[&id, &now_us]));
        let noted = noted.map_err(|failure: Failure| failure.told("note a key's use"));
        noted.map(drop)
    }
}
