//! Connecting: Retain creates and checks its schema and leaves foreign tables unchanged; its errors
//! tell the user what to do.

use retain_core::{SessionError, SessionLog as _, SessionService as _};
use retain_stores::{PostgresOptions, PostgresSessionService, PostgresStore};

use super::{create, create_database, event, open};

async fn open_error(uri: &str) -> String {
    let error = PostgresSessionService::connect(uri).await.unwrap_err();
    assert!(matches!(error, SessionError::Open { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_replicas_create_one_schema() {
    let Some(database) = create_database().await else {
        return;
    };
    let replicas = (0..8).map(|n| {
        let uri = database.uri();
        tokio::spawn(async move {
            let sessions = open(&uri).await;
            let key = create(&sessions, &format!("s{n}")).await;
            sessions.append(&key, event("hello").into()).await.unwrap();
        })
    });
    for replica in replicas.collect::<Vec<_>>() {
        replica.await.unwrap();
    }
    let sessions = open(&database.uri()).await;
    let list = sessions.list_sessions("app", None).await.unwrap();
    assert_eq!(list.sessions.len(), 8);
    sessions.ready().await.unwrap();
    let client = database.client().await;
    let migrations = client
        .query(
            "SELECT version FROM retain_migrations ORDER BY version",
            &[],
        )
        .await;
    let versions: Vec<i64> = migrations.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(versions, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_rejects_a_newer_schema() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let sql = "INSERT INTO retain_migrations VALUES (4, 'from-the-future', 'x', 4, '9.9.9')";
    database.client().await.batch_execute(sql).await.unwrap();
    let message = open_error(&database.uri()).await;
    assert!(
        message.contains(
            "needs a program that supports schema version 4 or later, such as Retain 9.9.9"
        ),
        "{message}"
    );
    assert!(sessions.ready().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn open_rejects_a_migration_with_another_checksum() {
    let Some(database) = create_database().await else {
        return;
    };
    drop(open(&database.uri()).await);
    let sql = "UPDATE retain_migrations SET checksum = 'abc'";
    database.client().await.batch_execute(sql).await.unwrap();
    let message = open_error(&database.uri()).await;
    assert!(message.contains("checksum is abc"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn open_existing_creates_no_schema() {
    let Some(database) = create_database().await else {
        return;
    };
    let existing = || {
        let options = PostgresOptions::from_uri(&database.uri()).unwrap();
        PostgresStore::open(options.existing())
    };
    let message = existing().await.unwrap_err().to_string();
    assert!(message.contains("has no Retain tables"), "{message}");
    let tables = "SELECT count(*) = 0 FROM pg_tables WHERE tablename LIKE 'retain%'";
    super::wait_until(&database.client().await, tables).await;
    drop(open(&database.uri()).await);
    existing().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_and_erase_keep_foreign_tables() {
    let Some(database) = create_database().await else {
        return;
    };
    let client = database.client().await;
    let sql = "CREATE TABLE sessions (id text); INSERT INTO sessions VALUES ('adk'); \
               CREATE TABLE events (id text)";
    client.batch_execute(sql).await.unwrap();
    let sessions = open(&database.uri()).await;
    create(&sessions, "s").await;
    sessions.erase_user("app", "ada").await.unwrap();
    super::wait_until(&client, "SELECT count(*) = 1 FROM sessions").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_rejects_a_database_that_is_not_utf8() {
    let Some(database) = create_database().await else {
        return;
    };
    let client = database.client().await;
    let name = format!("{}_latin", database.uri().rsplit('/').next().unwrap());
    let sql = format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    client.batch_execute(&sql).await.unwrap();
    let message = open_error(&format!("{}_latin", database.uri())).await;
    client
        .batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))
        .await
        .unwrap();
    assert!(message.contains("ENCODING 'UTF8'"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn open_error_tells_what_to_do_and_hides_the_password() {
    let Some(database) = create_database().await else {
        return;
    };
    let message = open_error(&format!("{}_nowhere", database.uri())).await;
    assert!(message.contains("create it first"), "{message}");
    let message = open_error(&format!("{}?sslmode=require", database.uri())).await;
    assert!(message.contains("server"), "{message}");
    let uri = database.uri();
    let (_, server) = uri.split_once('@').unwrap();
    let message = open_error(&format!("postgresql://nobody_here:hunter2@{server}")).await;
    assert!(!message.contains("hunter2"), "{message}");
    assert!(message.contains("nobody_here"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_bodies_round_trip_byte_for_byte() {
    let Some(database) = create_database().await else {
        return;
    };
    let sessions = open(&database.uri()).await;
    let key = create(&sessions, "s").await;
    let mut odd = event("a\u{0}b \u{1f600}");
    odd.actions.state_delta.insert("nul", "x\u{0}y");
    odd.actions.state_delta.insert("user:nul", "x\u{0}y");
    let appended = sessions.append(&key, odd.into()).await.unwrap();
    let read = sessions
        .read(&key, retain_core::Window::ALL)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.events[0], *appended.events[0].1);
    assert_eq!(read.state["nul"], "x\u{0}y");
    assert_eq!(read.state["user:nul"], "x\u{0}y");
}

/// The host accepts the connection but never answers.
#[tokio::test(flavor = "multi_thread")]
async fn connect_skips_an_unresponsive_host() {
    let Some(database) = create_database().await else {
        return;
    };
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_address = silent.local_addr().unwrap();
    let uri = database.uri();
    let (owner, rest) = uri.split_once('@').unwrap();
    let uri = format!("{owner}@{silent_address},{rest}?connect_timeout=1&pool_size=1");
    let sessions = open(&uri).await;
    let key = create(&sessions, "s").await;
    sessions.append(&key, event("hello").into()).await.unwrap();
    // The connection to the silent host shows that the host was tried.
    silent.accept().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_does_not_wait_for_the_schema_lock_if_the_schema_is_current() {
    let Some(database) = create_database().await else {
        return;
    };
    drop(open(&database.uri()).await);
    let mut holder = database.client().await;
    let held = holder.transaction().await.unwrap();
    let lock = "SELECT pg_advisory_xact_lock(8224139420318976)";
    held.execute(lock, &[]).await.unwrap();
    let sessions = open(&database.uri()).await;
    create(&sessions, "s").await;
}
