//! One database per test on a throw-away PostgreSQL server, whose URI `scripts/test` sets.

use std::{
    fs::File,
    hash::{BuildHasher as _, RandomState},
    io::{Read as _, Seek as _, Write as _},
    sync::atomic::{AtomicU64, Ordering},
};

use futures_util::TryStreamExt as _;
use retain_core::BoxError;
use tokio_postgres::{Client, NoTls};

use crate::{oracle::skip, scratch};

/// Returns the URI of the server, from `TEST_POSTGRES_URL`, with a superuser. If the variable is
/// not set, records that tests were skipped.
pub fn server() -> Option<String> {
    let server = std::env::var("TEST_POSTGRES_URL").ok();
    let server = server.filter(|server| !server.is_empty());
    if server.is_none() {
        skip("PostgreSQL stores: no server is configured (TEST_POSTGRES_URL)");
    }
    server
}

/// Whether a server is available. If not, records that tests were skipped.
pub fn is_there() -> bool {
    server().is_some()
}

/// Connects to `uri`.
pub async fn connect(uri: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(uri, NoTls)
        .await
        .expect("a connection to the test server");
    tokio::spawn(connection);
    client
}

/// Number of databases created in this process.
static CREATED: AtomicU64 = AtomicU64::new(0);

/// A test database, initially empty. Dropping this value drops the database, even with open
/// connections. If `scripts/test` scans for API keys, its rows are dumped as text before that.
#[derive(Debug)]
pub struct TestDatabase {
    server: String,
    name: String,
}

impl TestDatabase {
    /// Creates a database on the server that [`server`] names.
    pub async fn new() -> TestDatabase {
        TestDatabase::create("template0").await
    }

    /// Creates a copy of this database. Ends all connections to it.
    pub async fn copy(&self) -> TestDatabase {
        let client = connect(&self.server).await;
        let sql = format!(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        );
        client.batch_execute(&sql).await.expect("ended connections");
        TestDatabase::create(&self.name).await
    }

    async fn create(template: &str) -> TestDatabase {
        let server = server().expect("TEST_POSTGRES_URL is set");
        let number = CREATED.fetch_add(1, Ordering::SeqCst);
        let random = RandomState::new().hash_one(number);
        let name = format!("retain_test_{random:016x}");
        let client = connect(&server).await;
        let sql = format!("CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE {template}");
        client.batch_execute(&sql).await.expect("a new database");
        TestDatabase { server, name }
    }

    /// Returns the URI of the database.
    pub fn uri(&self) -> String {
        let (address, query) = match self.server.split_once('?') {
            Some((address, query)) => (address, format!("?{query}")),
            None => (self.server.as_str(), String::new()),
        };
        let (host, _) = address
            .rsplit_once('/')
            .expect("an address with a database");
        format!("{host}/{}{query}", self.name)
    }

    /// Returns all rows of all tables as text. Ends the other connections to the database.
    pub async fn dump(&self) -> String {
        let mut file = scratch::file_named(".postgres");
        dump_tables(&self.uri(), &mut file)
            .await
            .expect("a readable database");
        let mut text = Vec::new();
        file.rewind().expect("a file");
        file.read_to_end(&mut text).expect("a readable file");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Opens a connection that inspects or changes tables directly.
    pub async fn client(&self) -> Client {
        connect(&self.uri()).await
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (server, name, uri) = (self.server.clone(), self.name.clone(), self.uri());
        // Use a separate runtime, because the runtime of the test may be shutting down.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let dump = match scratch::is_kept() {
                    true => dump_tables(&uri, &mut scratch::file_named(".postgres")).await,
                    false => Ok(()),
                };
                let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                let client = connect(&server).await;
                client.batch_execute(&sql).await.map(|()| dump)
            })
        });
        match dropped.join() {
            Ok(Ok(dump)) => {
                let has_failed = dump.is_err() && !std::thread::panicking();
                assert!(
                    !has_failed,
                    "failed to dump the database for the scan for API keys: {dump:?}"
                );
            }
            // If the server is gone, so is the database.
            _ => eprintln!("the test database {} was not dropped", self.name),
        }
    }
}

/// Dumps the content of all tables to a file, as text.
///
/// A scan of the server's own files would miss long values, which the server compresses.
async fn dump_tables(uri: &str, file: &mut File) -> Result<(), BoxError> {
    let (client, connection) = tokio_postgres::connect(uri, NoTls).await?;
    tokio::spawn(connection);
    // Write bytes as text, and end other connections, which may hold table locks.
    let settings = "SET bytea_output = 'escape'; SET lock_timeout = '60s'; \
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.batch_execute(settings).await?;
    let tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables \
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";
    for table in client.query(tables, &[]).await? {
        let table: String = table.try_get(0)?;
        writeln!(file, "{table}")?;
        let rows = client.copy_out(&format!("COPY {table} TO STDOUT")).await?;
        let mut rows = std::pin::pin!(rows);
        while let Some(row) = rows.try_next().await? {
            file.write_all(&row)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scripts/test` sets the variable and fails if its scan does not find the value in the dump.
    #[tokio::test]
    async fn database_dump_contains_stored_bytes_and_text() {
        if !is_there() {
            return;
        }
        let control = std::env::var("RETAIN_CONTROL_MARK");
        let control = control.unwrap_or_else(|_| "control-mark".to_owned());
        let database = TestDatabase::new().await;
        let client = database.client().await;
        let create =
            "CREATE SCHEMA \"Of its own\"; CREATE TABLE \"Of its own\".t (a bytea, b text)";
        client.batch_execute(create).await.unwrap();
        let insert = "INSERT INTO \"Of its own\".t VALUES ($1, $2)";
        // Long enough for the server to compress it.
        let long = format!("{}{control}", "x".repeat(100_000));
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&long.as_bytes(), &long];
        client.execute(insert, &values).await.unwrap();
        let mut file = scratch::file_named(".rows");
        dump_tables(&database.uri(), &mut file).await.unwrap();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text.matches(&control).count(), 2);
    }
}
