//! The raw floor: SQLite through rusqlite on one thread, without a service layer. It uses WAL,
//! `synchronous=FULL`, `BEGIN IMMEDIATE` and prepared statements. An append is one event insert,
//! one session row update and one state upsert in one transaction. Do not change this file without
//! need, because all ratios are relative to it.

use bench_common::{
    APP, BenchEvent, COUNTER, Done, Failure, Meter, Opened, Peer, Res, Store, USER, Writers,
    now_seconds, run,
};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::path::Path;

const SCHEMA: &str = "
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY, app TEXT NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL,
  length INTEGER NOT NULL, updated REAL NOT NULL, UNIQUE (app, user, name));
-- key = session * 2^32 + position
CREATE TABLE events (
  key INTEGER PRIMARY KEY, event_id TEXT NOT NULL, timestamp REAL NOT NULL, body BLOB NOT NULL);
CREATE TABLE state (
  session INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (session, key)) WITHOUT ROWID;
";

const INSERT_SESSION: &str =
    "INSERT INTO sessions (app, user, name, length, updated) VALUES (?1, ?2, ?3, ?4, ?5)";
const INSERT_EVENT: &str =
    "INSERT INTO events (key, event_id, timestamp, body) VALUES (?1, ?2, ?3, ?4)";
const UPDATE_SESSION: &str = "UPDATE sessions SET length = ?2, updated = ?3 WHERE id = ?1";
const UPSERT_STATE: &str = "INSERT INTO state (session, key, value) VALUES (?1, ?2, ?3)
  ON CONFLICT (session, key) DO UPDATE SET value = excluded.value";
const SELECT_SESSION: &str =
    "SELECT id, length, updated FROM sessions WHERE app = ?1 AND user = ?2 AND name = ?3";
const SELECT_STATE: &str = "SELECT key, value FROM state WHERE session = ?1";
const SELECT_EVENTS: &str = "SELECT body FROM events WHERE key > ?1 AND key <= ?2 ORDER BY key";

struct Raw;

struct RawStore {
    db: Connection,
    /// Row id and length of each session that has been appended to.
    live: HashMap<String, (i64, u64)>,
}

impl Peer for Raw {
    fn version(&self) -> String {
        format!("SQLite {}", rusqlite::version())
    }

    fn open(&mut self, dir: &Path, _variant: &str) -> Res<Opened> {
        let db = Connection::open(dir.join("raw.db"))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.set_prepared_statement_cache_capacity(32);
        db.execute_batch(SCHEMA)?;
        let mode: String = db.query_row("PRAGMA journal_mode", [], |r| r.get(0))?;
        let sync: i64 = db.query_row("PRAGMA synchronous", [], |r| r.get(0))?;
        let store = Box::new(RawStore {
            db,
            live: HashMap::new(),
        });
        Ok(Opened {
            store,
            durability: format!("journal={mode} synchronous={sync}"),
        })
    }
}

impl RawStore {
    fn begin(&self) -> rusqlite::Result<()> {
        self.db
            .prepare_cached("BEGIN IMMEDIATE")?
            .execute([])
            .map(drop)
    }

    fn commit(&self) -> rusqlite::Result<()> {
        self.db.prepare_cached("COMMIT")?.execute([]).map(drop)
    }

    fn insert_session(&self, name: &str, length: u64, now: f64) -> rusqlite::Result<i64> {
        let length = length as i64;
        self.db
            .prepare_cached(INSERT_SESSION)?
            .execute(params![APP, USER, name, length, now])?;
        let id = self.db.last_insert_rowid();
        self.set_counter(id, length as u64)?;
        Ok(id)
    }

    fn set_counter(&self, id: i64, value: u64) -> rusqlite::Result<()> {
        let value = value.to_string();
        self.db
            .prepare_cached(UPSERT_STATE)?
            .execute(params![id, COUNTER, value])
            .map(drop)
    }

    fn insert_event(&self, id: i64, position: u64, event: &BenchEvent) -> Res<()> {
        let body = serde_json::to_vec(event)?;
        let key = (id << 32) | position as i64;
        self.db.prepare_cached(INSERT_EVENT)?.execute(params![
            key,
            event.id,
            event.timestamp,
            body
        ])?;
        Ok(())
    }

    /// Appends one event in one transaction.
    fn append_one(&self, id: i64, position: u64) -> Res<()> {
        let event = BenchEvent::new(position, now_seconds());
        self.begin()?;
        self.insert_event(id, position, &event)?;
        let mut update = self.db.prepare_cached(UPDATE_SESSION)?;
        update.execute(params![id, position as i64, event.timestamp])?;
        self.set_counter(id, position)?;
        self.commit()?;
        Ok(())
    }

    fn find(&self, name: &str) -> Res<(i64, u64)> {
        self.db
            .prepare_cached(SELECT_SESSION)?
            .query_row(params![APP, USER, name], |r| {
                Ok((r.get(0)?, r.get::<_, i64>(1)? as u64))
            })
            .optional()?
            .ok_or_else(|| Failure::Error(format!("session {name:?} not found")))
    }
}

impl Store for RawStore {
    fn load(&mut self, sessions: &[String], events: u64) -> Res<()> {
        let now = now_seconds();
        self.begin()?;
        for name in sessions {
            let id = self.insert_session(name, events, now)?;
            for position in 1..=events {
                let at = now - (events - position) as f64 * 0.001;
                self.insert_event(id, position, &BenchEvent::new(position, at))?;
            }
        }
        self.commit()?;
        // Checkpoint now, so that the next window does not. RESTART keeps the WAL file, because a
        // window that grows a new one would pay more for each flush.
        self.db
            .query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
        Ok(())
    }

    fn create(&mut self, ids: &[String], meter: &mut Meter) -> Res<Done> {
        let mut done = Done::default();
        let deadline = meter.start();
        for id in ids {
            self.begin()?;
            self.insert_session(id, 0, now_seconds())?;
            self.commit()?;
            done.ops += 1;
            if deadline.passed() {
                break;
            }
        }
        meter.stop();
        Ok(done)
    }

    fn append(&mut self, sessions: &[String], count: u64, meter: &mut Meter) -> Res<Done> {
        for name in sessions {
            if !self.live.contains_key(name) {
                let found = self.find(name)?;
                self.live.insert(name.clone(), found);
            }
        }
        let mut done = Done::default();
        let deadline = meter.start();
        'all: for name in sessions {
            let (id, mut length) = self.live[name];
            for _ in 0..count {
                length += 1;
                self.append_one(id, length)?;
                self.live.get_mut(name).expect("inserted above").1 = length;
                done.ops += 1;
                if deadline.passed() {
                    break 'all;
                }
            }
        }
        meter.stop();
        Ok(done)
    }

    fn read(
        &mut self,
        session: &str,
        newest: Option<u64>,
        repeat: u64,
        meter: &mut Meter,
    ) -> Res<Done> {
        let mut done = Done::default();
        let deadline = meter.start();
        for _ in 0..repeat {
            // One read transaction: session row, state, events.
            self.db.prepare_cached("BEGIN")?.execute([])?;
            let (id, length) = self.find(session)?;
            let mut state = serde_json::Map::new();
            let mut select = self.db.prepare_cached(SELECT_STATE)?;
            let mut rows = select.query([id])?;
            while let Some(row) = rows.next()? {
                let value = serde_json::from_str(row.get_ref(1)?.as_str()?)?;
                state.insert(row.get(0)?, value);
            }
            drop(rows);
            let first = newest.map_or(0, |n| length.saturating_sub(n));
            let (low, high) = ((id << 32) | first as i64, (id << 32) | length as i64);
            let mut events = Vec::with_capacity((length - first) as usize);
            let mut select = self.db.prepare_cached(SELECT_EVENTS)?;
            let mut rows = select.query([low, high])?;
            while let Some(row) = rows.next()? {
                let body = row.get_ref(0)?.as_blob()?;
                let body = std::str::from_utf8(body)?;
                events.push(serde_json::from_str::<serde_json::Value>(body)?);
            }
            drop(rows);
            self.commit()?;
            done.events = Some(events.len() as u64);
            std::hint::black_box((&state, &events));
            drop(events);
            done.ops += 1;
            if deadline.passed() {
                break;
            }
        }
        meter.stop();
        Ok(done)
    }

    /// Writes the sessions one after another, with one transaction per event, because the floor has
    /// one thread.
    fn writers(&mut self, plan: &Writers, meter: &mut Meter) -> Res<Done> {
        if !plan.own {
            return Err(Failure::Unsupported("the floor has only one thread".into()));
        }
        let names = plan.sessions();
        self.load(&names, 0)?;
        let mut done = self.append(&names, plan.each, meter)?;
        let mut kept = 0;
        for name in &names {
            kept += self.find(name)?.1;
        }
        done.attempted = Some(done.ops);
        done.kept = Some(kept);
        done.counter = Some(kept);
        Ok(done)
    }
}

fn main() {
    run(|| Raw);
}
