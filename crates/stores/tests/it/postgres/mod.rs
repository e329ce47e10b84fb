//! Tests of the PostgreSQL store alone: its schema, its locks, its retries.
//!
//! - `connect`: URIs, schemas, and error messages
//! - `connection`: connections that end before or after COMMIT is acknowledged
//! - `locks`: which operations wait for each other
//! - `memory`: memories written by several replicas, and corrupt memories
//! - `proxy`: cuts connections at a chosen message
//! - `replicas`: several processes on one database
//! - `tls`: which certificates each `sslmode` trusts
//! - `usage`: sizes of logs that an older program has extended

mod connect;
mod connection;
mod locks;
mod memory;
mod proxy;
mod replicas;
mod tls;
mod usage;

use std::time::Duration;

use retain_core::{Event, SessionKey, SessionLog as _, SessionService as _, Window};
use retain_stores::PostgresSessionService;
use retain_testkit::postgres::TestDatabase;
use tokio_postgres::Client;

/// Creates a database for one test; `None` if no server is available.
async fn create_database() -> Option<TestDatabase> {
    if !retain_testkit::postgres::is_there() {
        return None;
    }
    Some(TestDatabase::new().await)
}

async fn open(uri: &str) -> PostgresSessionService {
    PostgresSessionService::connect(uri).await.unwrap()
}

/// Creates the session ("app", "ada", `id`).
async fn create(sessions: &PostgresSessionService, id: &str) -> SessionKey {
    let created = sessions.create_session("app", "ada", None, Some(id)).await;
    created.unwrap().key()
}

/// Returns an event that sets a session-scoped state key.
fn event(text: &str) -> Event {
    let mut event = Event::user_text(text);
    event.actions.state_delta.insert("last", text);
    event
}

/// Returns the texts of a session's events, in order.
async fn read_texts(sessions: &PostgresSessionService, key: &SessionKey) -> Vec<String> {
    let session = sessions.read(key, Window::ALL).await.unwrap().unwrap();
    let events = session.events.iter();
    events
        .map(|event| event.to_json().unwrap())
        .map(|json| {
            let text = json.split(r#""text":""#).nth(1).unwrap();
            text.split('"').next().unwrap().to_owned()
        })
        .collect()
}

/// Waits until `sql` returns true.
async fn wait_until(client: &Client, sql: &str) {
    for _ in 0..2000 {
        if client.query_one(sql, &[]).await.unwrap().get(0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("timed out waiting until this query returns true: {sql}");
}
