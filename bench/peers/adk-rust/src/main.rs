//! The peer adk-rust: the SQLite session service of its session crate. An append names the session
//! (`append_event_for_identity`) and there is no live session, so a writer that needs the counter
//! must load the session. The variants "turns-memory" and "turns-sqlite" use its runner on the
//! in-memory or the SQLite service.

mod turns;

use adk_core::identity::{AdkIdentity, AppName, SessionId, UserId};
use adk_core::{Content, Event};
use adk_session::{
    AppendEventRequest, CreateRequest, GetRequest, Session, SessionService, SqliteSessionService,
};
use bench_common::{
    APP, COUNTER, Deadline, Done, Failure, Meter, Opened, Peer, Res, Store, USER, Writers, new_id,
    run, text,
};
use chrono::{TimeDelta, Utc};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;
use turns::RunnerStore;

struct AdkRust {
    runtime: Arc<Runtime>,
}

struct AdkRustStore {
    runtime: Arc<Runtime>,
    service: Arc<SqliteSessionService>,
    file: PathBuf,
    /// Counter values of sessions that only this peer appends to.
    counters: HashMap<String, u64>,
}

fn identity(id: &str) -> Res<AdkIdentity> {
    Ok(AdkIdentity::new(
        AppName::new(APP)?,
        UserId::new(USER)?,
        SessionId::new(id)?,
    ))
}

fn event(n: u64) -> Event {
    let mut event = Event::new(format!("e-{}", new_id()));
    event.author = "agent".into();
    event.llm_response.content = Some(Content::new("model").with_text(text(n)));
    event.actions.state_delta.insert(COUNTER.into(), n.into());
    event
}

fn counter(session: &dyn Session) -> u64 {
    session
        .state()
        .get(COUNTER)
        .and_then(|v| v.as_u64())
        .unwrap_or(0)
}

async fn create(service: &SqliteSessionService, id: &str) -> Res<()> {
    let request = CreateRequest {
        app_name: APP.into(),
        user_id: USER.into(),
        session_id: Some(id.into()),
        state: HashMap::from([(COUNTER.to_string(), json!(0))]),
    };
    service.create(request).await?;
    Ok(())
}

async fn get(service: &dyn SessionService, id: &str, newest: Option<u64>) -> Res<Box<dyn Session>> {
    let request = GetRequest {
        app_name: APP.into(),
        user_id: USER.into(),
        session_id: id.into(),
        num_recent_events: newest.map(|n| n as usize),
        after: None,
    };
    Ok(service.get(request).await?)
}

async fn append(service: &SqliteSessionService, id: &str, n: u64) -> Res<()> {
    let request = AppendEventRequest {
        identity: identity(id)?,
        event: event(n),
    };
    Ok(service.append_event_for_identity(request).await?)
}

impl Peer for AdkRust {
    fn version(&self) -> String {
        "2.3.0".into()
    }

    fn open(&mut self, dir: &Path, variant: &str) -> Res<Opened> {
        if variant == "turns-memory" {
            return Ok(Opened {
                store: Box::new(RunnerStore::new(self.runtime.clone(), None)?),
                durability: "in memory".into(),
            });
        }
        let file = dir.join("adk-rust.db");
        let url = format!("sqlite://{}?mode=rwc", file.display());
        let service = self.runtime.block_on(async {
            let service = SqliteSessionService::new(&url).await?;
            service.migrate().await?;
            Ok::<_, Failure>(service)
        })?;
        // adk-rust sets no pragma for durability, so a new connection of the same SQLite shows the
        // same defaults.
        let db = Connection::open(&file)?;
        let mode: String = db.query_row("PRAGMA journal_mode", [], |r| r.get(0))?;
        let sync: i64 = db.query_row("PRAGMA synchronous", [], |r| r.get(0))?;
        let runtime = self.runtime.clone();
        let store: Box<dyn Store> = if variant == "turns-sqlite" {
            Box::new(RunnerStore::new(runtime, Some((service, file)))?)
        } else {
            Box::new(AdkRustStore {
                runtime,
                service: Arc::new(service),
                file,
                counters: HashMap::new(),
            })
        };
        Ok(Opened {
            store,
            durability: format!("journal={mode} synchronous={sync}"),
        })
    }
}

/// Writes sessions of `events` events directly into its tables, in one transaction.
fn insert(
    file: &Path,
    sessions: &[String],
    state: &Value,
    events: u64,
    event: impl Fn(u64) -> Event,
) -> Res<()> {
    let mut db = Connection::open(file)?;
    let tx = db.transaction()?;
    let now = Utc::now();
    let at = now.to_rfc3339();
    tx.execute(
        "INSERT OR IGNORE INTO app_states (app_name, state, updated_at) VALUES (?1, '{}', ?2)",
        params![APP, at],
    )?;
    tx.execute(
        "INSERT OR IGNORE INTO user_states (app_name, user_id, state, updated_at)
         VALUES (?1, ?2, '{}', ?3)",
        params![APP, USER, at],
    )?;
    let state = state.to_string();
    let mut insert_session = tx.prepare(
        "INSERT INTO sessions (app_name, user_id, session_id, state, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
    )?;
    let mut insert_event = tx.prepare(
        "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, branch,
         author, timestamp, llm_response, actions, long_running_tool_ids)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    for id in sessions {
        insert_session.execute(params![APP, USER, id, state, at])?;
        for n in 1..=events {
            let mut e = event(n);
            e.timestamp = now - TimeDelta::milliseconds((events - n) as i64);
            insert_event.execute(params![
                e.id,
                APP,
                USER,
                id,
                e.invocation_id,
                e.branch,
                e.author,
                e.timestamp.to_rfc3339(),
                serde_json::to_string(&e.llm_response)?,
                serde_json::to_string(&e.actions)?,
                serde_json::to_string(&e.long_running_tool_ids)?
            ])?;
        }
    }
    drop((insert_session, insert_event));
    tx.commit()?;
    Ok(())
}

impl AdkRustStore {
    fn insert(&self, sessions: &[String], events: u64) -> Res<()> {
        let state = json!({ COUNTER: events });
        insert(&self.file, sessions, &state, events, event)
    }
}

impl Store for AdkRustStore {
    fn load(&mut self, sessions: &[String], events: u64) -> Res<()> {
        self.insert(sessions, events)?;
        self.counters
            .extend(sessions.iter().map(|id| (id.clone(), events)));
        Ok(())
    }

    fn create(&mut self, ids: &[String], meter: &mut Meter) -> Res<Done> {
        let service = self.service.clone();
        self.runtime.block_on(async {
            let mut done = Done::default();
            let deadline = meter.start();
            for id in ids {
                create(&service, id).await?;
                done.ops += 1;
                if deadline.passed() {
                    break;
                }
            }
            meter.stop();
            Ok(done)
        })
    }

    fn append(&mut self, sessions: &[String], count: u64, meter: &mut Meter) -> Res<Done> {
        let Self {
            runtime,
            service,
            counters,
            ..
        } = self;
        runtime.block_on(async {
            let mut done = Done::default();
            let deadline = meter.start();
            'all: for id in sessions {
                let value = counters.entry(id.clone()).or_insert(0);
                for _ in 0..count {
                    append(service, id, *value + 1).await?;
                    *value += 1;
                    done.ops += 1;
                    if deadline.passed() {
                        break 'all;
                    }
                }
            }
            meter.stop();
            Ok(done)
        })
    }

    fn read(
        &mut self,
        session: &str,
        newest: Option<u64>,
        repeat: u64,
        meter: &mut Meter,
    ) -> Res<Done> {
        let service = self.service.clone();
        self.runtime.block_on(async {
            let mut done = Done::default();
            let deadline = meter.start();
            for _ in 0..repeat {
                done.events = Some(get(&*service, session, newest).await?.events().len() as u64);
                done.ops += 1;
                if deadline.passed() {
                    break;
                }
            }
            meter.stop();
            Ok(done)
        })
    }

    fn writers(&mut self, plan: &Writers, meter: &mut Meter) -> Res<Done> {
        self.insert(&plan.sessions(), 0)?;
        let service = &self.service;
        self.runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            let deadline = meter.start();
            for w in 0..plan.writers {
                let (service, id) = (service.clone(), plan.session(w));
                let (each, own) = (plan.each, plan.own);
                tasks.spawn(async move { writer(&service, &id, each, own, deadline).await });
            }
            let mut done = Done {
                attempted: Some(0),
                ..Done::default()
            };
            while let Some(part) = tasks.join_next().await {
                let part = part?;
                done.ops += part.ops;
                done.attempted = done.attempted.zip(part.attempted).map(|(a, b)| a + b);
                done.errors += part.errors;
                done.first_error = done.first_error.or(part.first_error);
            }
            meter.stop();
            let (mut kept, mut sum) = (0, 0);
            for id in plan.sessions() {
                let session = get(&**service, &id, None).await?;
                kept += session.events().len() as u64;
                sum += counter(&*session);
            }
            done.kept = Some(kept);
            done.counter = Some(sum);
            Ok(done)
        })
    }
}

/// Runs one writer. It knows the counter of its own session. It loads a shared session before each
/// append, because the service does not report that a session is stale.
async fn writer(
    service: &SqliteSessionService,
    id: &str,
    each: u64,
    own: bool,
    deadline: Deadline,
) -> Done {
    let mut done = Done {
        attempted: Some(0),
        ..Done::default()
    };
    let mut value = 0;
    for n in 1..=each {
        let step = async {
            if !own {
                value = counter(&*get(service, id, Some(1)).await?);
            }
            append(service, id, value + 1).await?;
            value += 1;
            Ok::<_, Failure>(())
        };
        done.attempted = Some(n);
        match step.await {
            Ok(()) => done.ops += 1,
            Err(Failure::Error(e) | Failure::Unsupported(e)) => {
                done.errors += 1;
                done.first_error.get_or_insert(e);
            }
        }
        if deadline.passed() {
            break;
        }
    }
    done
}

fn main() {
    run(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("tokio runtime");
        AdkRust {
            runtime: Arc::new(runtime),
        }
    });
}
