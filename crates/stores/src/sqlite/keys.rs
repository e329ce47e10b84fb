//! The API key store on the session database. The server and the `retain keys` commands share it.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use retain_core::{ApiKey, KeyStore, Result};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{SqliteStore, failed, readers::Readers, writer::Writer};
use crate::sql::keys::{encode_scopes, with_scopes};

const COLUMNS: &str = "id, name, hash, app, user, scopes, created_us, expires_us, revoked_us, \
                       last_used_us";

/// Selects all rows, for a check.
pub(super) const ALL: &str = "SELECT id, name, hash, app, user, scopes, created_us, expires_us, \
                              revoked_us, last_used_us FROM api_keys ORDER BY number";

/// Decodes a row of [`ALL`]; an error says why it cannot be read.
pub(super) fn decode(row: &Row<'_>) -> Result<ApiKey, String> {
    let (key, scopes) = read_key(row).map_err(|e| e.to_string())?;
    with_scopes(key, &scopes).map_err(|e| e.to_string())
}

/// An API key store on a [`SqliteStore`]. [`SqliteStore::keys`] creates it.
#[derive(Clone)]
pub struct SqliteKeyStore {
    writer: Arc<Writer>,
    readers: Arc<Readers>,
    uri: Arc<str>,
}

impl fmt::Debug for SqliteKeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteKeyStore").field(&self.uri).finish()
    }
}

impl SqliteStore {
    /// Returns the API keys on this database.
    pub fn keys(&self) -> SqliteKeyStore {
        SqliteKeyStore {
            writer: Arc::clone(&self.writer),
            readers: Arc::clone(&self.readers),
            uri: self.options.uri().into(),
        }
    }
}

/// Removes the API keys that are limited to this user of this app. A marker row with an empty id
/// records that keys existed, and holds no personal data; no API key has an empty id.
pub(super) fn erase(connection: &Connection, app: &str, user: &str) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM api_keys WHERE app = ?1 AND user = ?2";
    let erased = connection.prepare_cached(sql)?.execute((app, user))?;
    if erased > 0 {
        insert_marker(connection)?;
    }
    Ok(erased)
}

fn insert_marker(connection: &Connection) -> rusqlite::Result<usize> {
    let sql = "INSERT INTO api_keys (id, name, hash, scopes, created_us) \
               VALUES ('', '', x'', '', 0) ON CONFLICT (id) DO NOTHING";
    connection.prepare_cached(sql)?.execute([])
}

/// Reads an API key without its scopes, and the text of its scopes.
fn read_key(row: &Row<'_>) -> rusqlite::Result<(ApiKey, String)> {
    let key = ApiKey {
        id: row.get(0)?,
        name: row.get(1)?,
        hash: row.get(2)?,
        app: row.get(3)?,
        user: row.get(4)?,
        scopes: Vec::new(),
        created_us: row.get(6)?,
        expires_us: row.get(7)?,
        revoked_us: row.get(8)?,
        last_used_us: row.get(9)?,
    };
    Ok((key, row.get(5)?))
}

fn insert(connection: &Connection, key: &ApiKey) -> rusqlite::Result<usize> {
    let sql = format!(
        "INSERT INTO api_keys ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
         ON CONFLICT (id) DO NOTHING"
    );
    connection.prepare_cached(&sql)?.execute(params![
        key.id,
        key.name,
        key.hash,
        key.app,
        key.user,
        encode_scopes(key),
        key.created_us,
        key.expires_us,
        key.revoked_us,
        key.last_used_us,
    ])
}

#[async_trait]
impl KeyStore for SqliteKeyStore {
    async fn add(&self, key: &ApiKey) -> Result<()> {
        key.check()?;
        let key = key.clone();
        let add = move |connection: &Connection| match insert(connection, &key)
            .map_err(|e| failed("add an API key", e))?
        {
            0 => Err(key.id_exists()),
            _ => Ok(()),
        };
        self.writer.write("add an API key", add).await
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>> {
        let id = id.to_owned();
        let find = move |connection: &Connection| {
            let sql = format!("SELECT {COLUMNS} FROM api_keys WHERE id = ?1 AND id <> ''");
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row([&id], read_key).optional()
        };
        let read = move |connection: &Connection| {
            let found = find(connection).map_err(|e| failed("find an API key", e))?;
            let found = found.map(|(key, scopes)| with_scopes(key, &scopes));
            found.transpose()
        };
        self.readers.read_small("find an API key", read).await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>> {
        let find = |connection: &Connection| -> rusqlite::Result<Vec<_>> {
            let sql = format!("SELECT {COLUMNS} FROM api_keys WHERE id <> '' ORDER BY number");
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_map([], read_key)?.collect()
        };
        let read = move |connection: &Connection| {
            let found = find(connection).map_err(|e| failed("list API keys", e))?;
            let found = found.into_iter();
            found
                .map(|(key, scopes)| with_scopes(key, &scopes))
                .collect()
        };
        self.readers.read("list API keys", read).await
    }

    async fn had_any(&self) -> Result<bool> {
        let read = |connection: &Connection| {
            let sql = "SELECT EXISTS (SELECT 1 FROM api_keys)";
            let found = connection.query_row(sql, [], |row| row.get(0));
            found.map_err(|e| failed("check for API keys", e))
        };
        self.readers.read_small("check for API keys", read).await
    }

    async fn note_had_any(&self) -> Result<()> {
        let note = |connection: &Connection| {
            let noted = insert_marker(connection);
            noted
                .map(drop)
                .map_err(|e| failed("record that API keys existed", e))
        };
        self.writer
            .write("record that API keys existed", note)
            .await
    }

    async fn revoke(&self, id: &str, now_us: i64) -> Result<bool> {
        let id = id.to_owned();
        let revoke = move |connection: &Connection| {
            let sql = "UPDATE api_keys SET revoked_us = ifnull(revoked_us, ?2) \
                       WHERE id = ?1 AND id <> ''";
            let mut statement = connection.prepare_cached(sql)?;
            Ok(statement.execute(params![id, now_us])? > 0)
        };
        let revoke = move |connection: &Connection| {
            revoke(connection).map_err(|e: rusqlite::Error| failed("revoke an API key", e))
        };
        self.writer.write("revoke an API key", revoke).await
    }

    async fn note_use(&self, id: &str, now_us: i64) -> Result<()> {
        let id = id.to_owned();
        let note = move |connection: &Connection| {
            let sql = "UPDATE api_keys SET last_used_us = max(?2, ifnull(last_used_us, ?2)) \
                       WHERE id = ?1";
            let noted = connection
                .prepare_cached(sql)
                .and_then(|mut statement| statement.execute(params![id, now_us]));
            noted
                .map(drop)
                .map_err(|e| failed("record the use of an API key", e))
        };
        self.writer
            .write("record the use of an API key", note)
            .await
    }
}
