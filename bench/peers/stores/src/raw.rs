//! The raw floor: tokio-postgres with prepared statements, without a service layer. An append is
//! one transaction (a session row update, an event insert, a state upsert) whose statements are
//! sent together, so that it costs one round trip. Do not change this file without need, because
//! all ratios are relative to it.

use crate::windows::Service;
use bench_common::{APP, BenchEvent, COUNTER, Res, USER, now_seconds};
use std::sync::{Arc, Mutex};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

type Params<'a, const N: usize> = [&'a (dyn ToSql + Sync); N];

const SCHEMA: &str = "
CREATE TABLE sessions (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  app text NOT NULL, user_id text NOT NULL, name text NOT NULL,
  length bigint NOT NULL, updated float8 NOT NULL, UNIQUE (app, user_id, name));
CREATE TABLE events (
  session bigint NOT NULL, position bigint NOT NULL, event_id text NOT NULL,
  timestamp float8 NOT NULL, body bytea NOT NULL,
  PRIMARY KEY (session, position), UNIQUE (session, event_id));
CREATE TABLE state (
  session bigint NOT NULL, key text NOT NULL, value bytea NOT NULL, PRIMARY KEY (session, key));
";

const INSERT_SESSION: &str = "INSERT INTO sessions (app, user_id, name, length, updated)
  VALUES ($1, $2, $3, 0, $4) RETURNING number";
const INSERT_EVENT: &str = "INSERT INTO events (session, position, event_id, timestamp, body)
  VALUES ($1, $2, $3, $4, $5)";
const UPDATE_SESSION: &str = "UPDATE sessions SET length = $2, updated = $3 WHERE number = $1";
const UPSERT_STATE: &str = "INSERT INTO state (session, key, value) VALUES ($1, $2, $3)
  ON CONFLICT (session, key) DO UPDATE SET value = excluded.value";
const SELECT_SESSION: &str = "SELECT number, length, updated FROM sessions
  WHERE app = $1 AND user_id = $2 AND name = $3";
const SELECT_STATE: &str = "SELECT key, value FROM state WHERE session = $1";
const SELECT_EVENTS: &str = "SELECT body FROM events WHERE session = $1 AND position > $2
  ORDER BY position";
const LIST: &str = "SELECT name, updated, key, value FROM sessions
  LEFT JOIN state ON session = number WHERE app = $1 AND user_id = $2 ORDER BY number";

/// One connection and its statements.
struct Connection {
    client: Client,
    begin: Statement,
    commit: Statement,
    insert_session: Statement,
    insert_event: Statement,
    update_session: Statement,
    upsert_state: Statement,
    select_session: Statement,
    select_state: Statement,
    select_events: Statement,
    list: Statement,
}

async fn connect(url: &str) -> Res<Client> {
    let (client, line) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(line);
    Ok(client)
}

impl Connection {
    async fn open(url: &str) -> Res<Connection> {
        let client = connect(url).await?;
        Ok(Connection {
            begin: client.prepare("BEGIN").await?,
            commit: client.prepare("COMMIT").await?,
            insert_session: client.prepare(INSERT_SESSION).await?,
            insert_event: client.prepare(INSERT_EVENT).await?,
            update_session: client.prepare(UPDATE_SESSION).await?,
            upsert_state: client.prepare(UPSERT_STATE).await?,
            select_session: client.prepare(SELECT_SESSION).await?,
            select_state: client.prepare(SELECT_STATE).await?,
            select_events: client.prepare(SELECT_EVENTS).await?,
            list: client.prepare(LIST).await?,
            client,
        })
    }
}

/// The floor, with a pool that serves requests in their order.
#[derive(Clone)]
pub struct Raw {
    pool: Arc<Pool>,
}

struct Pool {
    free: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

/// A connection that returns to the pool on drop.
struct PooledConnection<'a> {
    connection: Option<Connection>,
    pool: &'a Pool,
    _permit: SemaphorePermit<'a>,
}

impl std::ops::Deref for PooledConnection<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("a connection until drop")
    }
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().expect("the lock is not poisoned");
        free.extend(self.connection.take());
    }
}

impl Raw {
    pub async fn connect(url: &str, connections: usize) -> Res<Raw> {
        connect(url).await?.batch_execute(SCHEMA).await?;
        let mut free = Vec::new();
        for _ in 0..connections {
            free.push(Connection::open(url).await?);
        }
        let pool = Arc::new(Pool {
            free: Mutex::new(free),
            permits: Semaphore::new(connections),
        });
        Ok(Raw { pool })
    }

    async fn connection_from_pool(&self) -> Res<PooledConnection<'_>> {
        let permit = self.pool.permits.acquire().await?;
        let mut free = self.pool.free.lock().expect("the lock is not poisoned");
        Ok(PooledConnection {
            connection: free.pop(),
            pool: &self.pool,
            _permit: permit,
        })
    }
}

/// A session to append to: its number and its length.
pub struct Live {
    number: i64,
    length: i64,
}

impl Service for Raw {
    type Live = Live;

    async fn create(&self, id: &str) -> Res<()> {
        let c = self.connection_from_pool().await?;
        let row = c
            .client
            .query_one(&c.insert_session, &[&APP, &USER, &id, &now_seconds()])
            .await?;
        let number: i64 = row.try_get(0)?;
        c.client
            .execute(&c.upsert_state, &[&number, &COUNTER, &b"0".as_slice()])
            .await?;
        Ok(())
    }

    async fn live(&self, id: &str) -> Res<Live> {
        let c = self.connection_from_pool().await?;
        let row = c
            .client
            .query_one(&c.select_session, &[&APP, &USER, &id])
            .await?;
        Ok(Live {
            number: row.try_get(0)?,
            length: row.try_get(1)?,
        })
    }

    async fn append(&self, live: &mut Live) -> Res<()> {
        let (number, position) = (live.number, live.length + 1);
        let event = BenchEvent::new(position as u64, now_seconds());
        let body = serde_json::to_vec(&event)?;
        let value = position.to_string().into_bytes();
        let c = self.connection_from_pool().await?;
        let head: Params<3> = [&number, &position, &event.timestamp];
        let row: Params<5> = [&number, &position, &event.id, &event.timestamp, &body];
        let state: Params<3> = [&number, &COUNTER, &value];
        // Poll these futures together, so that their statements are sent together.
        tokio::try_join!(
            c.client.execute(&c.begin, &[]),
            c.client.execute(&c.update_session, &head),
            c.client.execute(&c.insert_event, &row),
            c.client.execute(&c.upsert_state, &state),
            c.client.execute(&c.commit, &[]),
        )?;
        live.length = position;
        Ok(())
    }

    async fn read(&self, id: &str, newest: Option<u64>) -> Res<(u64, u64)> {
        let c = self.connection_from_pool().await?;
        let row = c
            .client
            .query_one(&c.select_session, &[&APP, &USER, &id])
            .await?;
        let (number, length): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let after = newest.map_or(0, |n| (length - n as i64).max(0));
        let (of_state, of_events): (Params<1>, Params<2>) = ([&number], [&number, &after]);
        let (state, rows) = tokio::try_join!(
            c.client.query(&c.select_state, &of_state),
            c.client.query(&c.select_events, &of_events),
        )?;
        let mut counter = 0;
        for row in state {
            let value: &[u8] = row.try_get(1)?;
            counter = serde_json::from_slice(value)?;
        }
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            events.push(serde_json::from_slice::<serde_json::Value>(
                row.try_get(0)?,
            )?);
        }
        Ok((std::hint::black_box(events).len() as u64, counter))
    }

    async fn list(&self) -> Res<u64> {
        let c = self.connection_from_pool().await?;
        let mut sessions = Vec::new();
        for row in c.client.query(&c.list, &[&APP, &USER]).await? {
            let value: &[u8] = row.try_get(3)?;
            let value: serde_json::Value = serde_json::from_slice(value)?;
            let (name, updated): (String, f64) = (row.try_get(0)?, row.try_get(1)?);
            sessions.push((name, updated, value));
        }
        Ok(std::hint::black_box(sessions).len() as u64)
    }
}
