//! Databases on a throw-away PostgreSQL server, one a test. `scripts/test` says where the server is.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use tokio_postgres::{Client, NoTls};

use crate::oracle::skip;

/// The address of a superuser of the server, in `TEST_POSTGRES_URL`. Without one, notes that tests
/// were skipped.
pub fn server() -> Option<String> {
    let server = std::env::var("TEST_POSTGRES_URL").ok();
    let server = server.filter(|server| !server.is_empty());
    if server.is_none() {
        skip("stores on PostgreSQL: there is no server (TEST_POSTGRES_URL)");
    }
    server
}

/// Whether there is a server. If not, notes that tests were skipped.
pub fn is_there() -> bool {
    server().is_some()
}

/// A connection to `uri`.
pub async fn connect(uri: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(uri, NoTls)
        .await
        .expect("a connection to the test server");
    tokio::spawn(connection);
    client
}

/// How many were made in this process.
static MADE: AtomicU64 = AtomicU64::new(0);

/// An empty database of its own. It is dropped with this, whoever is still connected.
#[derive(Debug)]
pub struct TestDatabase {
    server: String,
    name: String,
}

impl TestDatabase {
    /// Makes one on the server that [`server`] names.
    pub async fn new() -> TestDatabase {
        let server = server().expect("asked for only where there is a server");
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let random = RandomState::new().hash_one(number);
        let name = format!("retain_test_{random:016x}");
        let client = connect(&server).await;
        let sql = format!("CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0");
        client.batch_execute(&sql).await.expect("a new database");
        TestDatabase { server, name }
    }

    /// Its address.
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

    /// A connection to it, to look at tables or to change them by hand.
    pub async fn client(&self) -> Client {
        connect(&self.uri()).await
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A runtime of its own: that of the test may be ending.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                let client = connect(&server).await;
                client.batch_execute(&sql).await
            })
        });
        // A server that is gone by now has taken the database along.
        if !matches!(dropped.join(), Ok(Ok(()))) {
            eprintln!("the test database {} was not dropped", self.name);
        }
    }
}
