//! The peer adk-rs: its durable SQLite session service. The default variant appends with
//! `append_event`, the cheapest public call; the variant "runner" with `append_event_locked`, which
//! its own Runner calls. The variants "turns-memory" and "turns-sqlite" use that Runner itself.

mod turns;

use adk_rs::core::{Event, GetSessionConfig, Session, SessionService, State};
use adk_rs::services::sql::SqliteSessionService;
use bench_common::{
    APP, COUNTER, Deadline, Done, Failure, Meter, Opened, Peer, Res, Store, USER, Writers, new_id,
    now_seconds, run, text,
};
use parking_lot::Mutex;
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;
use turns::RunnerStore;

struct AdkRs {
    runtime: Arc<Runtime>,
}

struct AdkRsStore {
    runtime: Arc<Runtime>,
    service: Arc<SqliteSessionService>,
    file: PathBuf,
    runner: bool,
    live: HashMap<String, Live>,
}

/// A live session in the type that the variant's append needs.
enum Live {
    Plain(Box<Session>),
    Locked(Arc<Mutex<Session>>),
}

impl Live {
    fn counter(&self) -> u64 {
        match self {
            Live::Plain(session) => counter(&session.state),
            Live::Locked(session) => counter(&session.lock().state),
        }
    }

    async fn append(&mut self, service: &SqliteSessionService) -> Res<()> {
        let event = event(self.counter() + 1);
        match self {
            Live::Plain(session) => service.append_event(session, event).await?,
            Live::Locked(session) => service.append_event_locked(session, event).await?,
        };
        Ok(())
    }
}

fn counter(state: &State) -> u64 {
    state.get(COUNTER).and_then(|v| v.as_u64()).unwrap_or(0)
}

fn event(n: u64) -> Event {
    let mut event = Event::model_text("agent", text(n));
    event.invocation_id = format!("e-{}", new_id());
    event.actions.state_delta.insert(COUNTER.into(), n.into());
    event
}

fn zero() -> Option<State> {
    Some(State::from_iter([(COUNTER.to_string(), 0.into())]))
}

async fn get(service: &dyn SessionService, id: &str, newest: Option<u64>) -> Res<Session> {
    let config = GetSessionConfig {
        num_recent_events: newest.map(|n| n as usize),
        ..Default::default()
    };
    let found = service.get_session(APP, USER, id, config).await?;
    found.ok_or_else(|| Failure::Error(format!("session {id:?} not found")))
}

impl Peer for AdkRs {
    fn version(&self) -> String {
        "0.6.0".into()
    }

    fn open(&mut self, dir: &Path, variant: &str) -> Res<Opened> {
        if variant == "turns-memory" {
            return Ok(Opened {
                store: Box::new(RunnerStore::new(self.runtime.clone(), None)?),
                durability: "in memory".into(),
            });
        }
        let file = dir.join("adk-rs.db");
        let url = format!("sqlite://{}?mode=rwc", file.display());
        let service = self.runtime.block_on(SqliteSessionService::connect(&url))?;
        // The pool of adk-rs is private and sets no pragma, so a new connection of the same SQLite
        // shows the same defaults.
        let db = Connection::open(&file)?;
        let mode: String = db.query_row("PRAGMA journal_mode", [], |r| r.get(0))?;
        let sync: i64 = db.query_row("PRAGMA synchronous", [], |r| r.get(0))?;
        let runtime = self.runtime.clone();
        let store: Box<dyn Store> = if variant == "turns-sqlite" {
            Box::new(RunnerStore::new(runtime, Some((service, file)))?)
        } else {
            Box::new(AdkRsStore {
                runtime,
                service: Arc::new(service),
                file,
                runner: variant == "runner",
                live: HashMap::new(),
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
    state: &State,
    events: u64,
    event: impl Fn(u64) -> Event,
) -> Res<()> {
    let mut db = Connection::open(file)?;
    let tx = db.transaction()?;
    let now = now_seconds();
    let state = serde_json::to_string(state)?;
    let mut insert_session = tx.prepare(
        "INSERT INTO sessions (app_name, user_id, id, state, last_update_time)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut insert_event = tx.prepare(
        "INSERT INTO events (app_name, user_id, session_id, id, invocation_id, author,
         branch, timestamp, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, ?8)",
    )?;
    for id in sessions {
        insert_session.execute(params![APP, USER, id, state, now])?;
        for n in 1..=events {
            let mut e = event(n);
            e.timestamp = now - (events - n) as f64 * 0.001;
            let body = serde_json::to_string(&e)?;
            insert_event.execute(params![
                APP,
                USER,
                id,
                e.id,
                e.invocation_id,
                e.author,
                e.timestamp,
                body
            ])?;
        }
    }
    drop((insert_session, insert_event));
    tx.commit()?;
    Ok(())
}

impl AdkRsStore {
    fn insert(&self, sessions: &[String], events: u64) -> Res<()> {
        let state = State::from_iter([(COUNTER.into(), events.into())]);
        insert(&self.file, sessions, &state, events, event)
    }
}

impl Store for AdkRsStore {
    fn load(&mut self, sessions: &[String], events: u64) -> Res<()> {
        self.insert(sessions, events)
    }

    fn create(&mut self, ids: &[String], meter: &mut Meter) -> Res<Done> {
        let service = self.service.clone();
        self.runtime.block_on(async {
            let mut done = Done::default();
            let deadline = meter.start();
            for id in ids {
                service.create_session(APP, USER, zero(), Some(id)).await?;
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
            live,
            runner,
            ..
        } = self;
        runtime.block_on(async {
            for id in sessions {
                if !live.contains_key(id) {
                    let session = get(&**service, id, None).await?;
                    let session = if *runner {
                        Live::Locked(Arc::new(Mutex::new(session)))
                    } else {
                        Live::Plain(Box::new(session))
                    };
                    live.insert(id.clone(), session);
                }
            }
            let mut done = Done::default();
            let deadline = meter.start();
            'all: for id in sessions {
                let session = live.get_mut(id).expect("inserted above");
                for _ in 0..count {
                    session.append(service).await?;
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
                done.events = Some(get(&*service, session, newest).await?.events.len() as u64);
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
        if self.runner {
            return Err(Failure::Unsupported(
                "the default variant measures writers".into(),
            ));
        }
        self.insert(&plan.sessions(), 0)?;
        let service = &self.service;
        self.runtime.block_on(async {
            let mut handles = Vec::new();
            for w in 0..plan.writers {
                handles.push(get(&**service, &plan.session(w), None).await?);
            }
            let mut tasks = tokio::task::JoinSet::new();
            let deadline = meter.start();
            for session in handles {
                let service = service.clone();
                let (each, own) = (plan.each, plan.own);
                tasks.spawn(async move { writer(&service, session, each, own, deadline).await });
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
                kept += session.events.len() as u64;
                sum += counter(&session.state);
            }
            done.kept = Some(kept);
            done.counter = Some(sum);
            Ok(done)
        })
    }
}

/// Runs one writer. It keeps its own session loaded. It loads a shared session again before each
/// append, because the service does not report that a session is stale.
async fn writer(
    service: &SqliteSessionService,
    mut session: Session,
    each: u64,
    own: bool,
    deadline: Deadline,
) -> Done {
    let mut done = Done {
        attempted: Some(0),
        ..Done::default()
    };
    for n in 1..=each {
        let step = async {
            if !own {
                session = get(service, &session.id, Some(1)).await?;
            }
            let next = event(counter(&session.state) + 1);
            service.append_event(&mut session, next).await?;
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
        AdkRs {
            runtime: Arc::new(runtime),
        }
    });
}
