//! The peer Retain: its durable SQLite session service, through its public API. `append` loads the
//! history, 1,000 events per batch; `append_event` appends single events to a live session. Writers
//! that share a session read its state and position, append with `expecting` that position, and
//! read again after a conflict. The variants "turns-memory" and "turns-sqlite" use its runner on
//! the in-memory or the SQLite service.

mod turns;

use bench_common::{
    APP, COUNTER, Deadline, Done, Failure, Meter, Opened, Peer, Res, Store, USER, Writers, new_id,
    now_seconds, run, text,
};
use retain_core::{
    Append, Conflict, Event, GetSessionConfig, Session, SessionError, SessionKey, SessionLog,
    SessionService, State, Window,
};
use retain_stores::SqliteSessionService;
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use turns::RunnerStore;

/// Events per append while loading: the maximum of the default limits.
const BATCH: u64 = 1000;

struct Retain {
    runtime: Arc<Runtime>,
}

struct RetainStore {
    runtime: Arc<Runtime>,
    service: SqliteSessionService,
    /// A connection of the benchmark, for the checkpoint after loading.
    side: Connection,
    live: HashMap<String, Session>,
}

/// Returns the event that sets the counter to `n`. Retain creates the id and the time.
fn event(n: u64) -> Event {
    let mut event = Event::model_text("agent", text(n));
    event.invocation_id = format!("e-{}", new_id());
    event.actions.state_delta.insert(COUNTER, n);
    event
}

fn counter(session: &Session) -> u64 {
    let value = session.state.get(COUNTER);
    value.and_then(|value| value.as_u64()).unwrap_or(0)
}

async fn get(service: &dyn SessionService, id: &str, newest: Option<u64>) -> Res<Session> {
    let config = GetSessionConfig {
        num_recent_events: newest.map(|n| n as usize),
        ..GetSessionConfig::default()
    };
    let found = service.get_session(APP, USER, id, config).await?;
    found.ok_or_else(|| Failure::Error(format!("session {id:?} not found")))
}

async fn create(service: &SqliteSessionService, id: &str) -> Res<Session> {
    let state = State::from([(COUNTER, 0)]);
    Ok(service
        .create_session(APP, USER, Some(state), Some(id))
        .await?)
}

impl Peer for Retain {
    fn version(&self) -> String {
        format!("SQLite {}", rusqlite::version())
    }

    fn open(&mut self, dir: &Path, variant: &str) -> Res<Opened> {
        if variant == "turns-memory" {
            return Ok(Opened {
                store: Box::new(RunnerStore::in_memory(self.runtime.clone())?),
                durability: "in memory".into(),
            });
        }
        let file = std::path::absolute(dir)?.join("retain.db");
        let uri = format!("sqlite:///{}", file.display());
        let service = self.runtime.block_on(SqliteSessionService::connect(&uri))?;
        // Retain's connections are private. The journal mode belongs to the file; `synchronous`
        // belongs to a connection, and this one has the default, FULL, which Retain sets too.
        let side = Connection::open(&file)?;
        let mode: String = side.query_row("PRAGMA journal_mode", [], |r| r.get(0))?;
        let sync: i64 = side.query_row("PRAGMA synchronous", [], |r| r.get(0))?;
        let runtime = self.runtime.clone();
        let store: Box<dyn Store> = if variant == "turns-sqlite" {
            Box::new(RunnerStore::sqlite(runtime, service, &file)?)
        } else {
            Box::new(RetainStore {
                runtime,
                service,
                side,
                live: HashMap::new(),
            })
        };
        Ok(Opened {
            store,
            durability: format!("journal={mode} synchronous={sync}"),
        })
    }
}

impl Store for RetainStore {
    fn load(&mut self, sessions: &[String], events: u64) -> Res<()> {
        let (now, service) = (now_seconds(), &self.service);
        self.runtime.block_on(async {
            for id in sessions {
                let key = create(service, id).await?.key();
                for first in (1..=events).step_by(BATCH as usize) {
                    let numbers = first..=events.min(first + BATCH - 1);
                    let batch = numbers.map(|n| {
                        let mut event = event(n);
                        event.timestamp = now - (events - n) as f64 * 0.001;
                        event
                    });
                    service
                        .append(&key, batch.collect::<Vec<_>>().into())
                        .await?;
                }
            }
            Ok::<_, Failure>(())
        })?;
        self.side
            .query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
        Ok(())
    }

    fn create(&mut self, ids: &[String], meter: &mut Meter) -> Res<Done> {
        let service = &self.service;
        self.runtime.block_on(async {
            let mut done = Done::default();
            let deadline = meter.start();
            for id in ids {
                create(service, id).await?;
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
            ..
        } = self;
        runtime.block_on(async {
            for id in sessions {
                if !live.contains_key(id) {
                    live.insert(id.clone(), get(service, id, None).await?);
                }
            }
            let mut done = Done::default();
            let deadline = meter.start();
            'all: for id in sessions {
                let session = live.get_mut(id).expect("inserted above");
                for _ in 0..count {
                    let next = event(counter(session) + 1);
                    service.append_event(session, next).await?;
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
        let service = &self.service;
        self.runtime.block_on(async {
            let mut done = Done::default();
            let deadline = meter.start();
            for _ in 0..repeat {
                let read = get(service, session, newest).await?;
                done.events = Some(std::hint::black_box(&read).events.len() as u64);
                drop(read);
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
        let service = &self.service;
        self.runtime.block_on(async {
            for id in plan.sessions() {
                create(service, &id).await?;
            }
            let mut handles = Vec::new();
            for w in 0..plan.writers {
                handles.push(get(service, &plan.session(w), None).await?);
            }
            let mut tasks = JoinSet::new();
            let deadline = meter.start();
            for session in handles {
                let (service, plan) = (service.clone(), plan.clone());
                tasks.spawn(async move { writer(&service, session, &plan, deadline).await });
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
                done.retries += part.retries;
                done.first_error = done.first_error.or(part.first_error);
            }
            meter.stop();
            let (mut kept, mut sum) = (0, 0);
            for id in plan.sessions() {
                let session = get(service, &id, None).await?;
                kept += session.events.len() as u64;
                sum += counter(&session);
            }
            done.kept = Some(kept);
            done.counter = Some(sum);
            Ok(done)
        })
    }
}

/// Runs one writer. It keeps its own session loaded; on a shared session it uses `increment`.
async fn writer(
    service: &SqliteSessionService,
    mut session: Session,
    plan: &Writers,
    deadline: Deadline,
) -> Done {
    let mut done = Done::default();
    let (mut attempted, key) = (0, session.key());
    while attempted < plan.each {
        let step = if plan.own {
            let next = event(counter(&session) + 1);
            let appended = service.append_event(&mut session, next).await;
            appended.map(|_| true)
        } else {
            increment(service, &key, &mut done.retries, deadline).await
        };
        match step {
            Ok(true) => done.ops += 1,
            // The window ended during a retry, so the append counts neither as stored nor as lost.
            Ok(false) => break,
            Err(e) => {
                done.errors += 1;
                done.first_error.get_or_insert(e.to_string());
            }
        }
        attempted += 1;
        if deadline.passed() {
            break;
        }
    }
    done.attempted = Some(attempted);
    done
}

/// Increments the counter despite concurrent writers: if the log has grown since the read, reads it
/// again. Returns false if the window ended first.
async fn increment(
    service: &SqliteSessionService,
    key: &SessionKey,
    retries: &mut u64,
    deadline: Deadline,
) -> Result<bool, SessionError> {
    loop {
        let Some(session) = service.read(key, Window::NONE).await? else {
            return Err(SessionError::NotFound { key: key.clone() });
        };
        let next = Append::from(event(counter(&session) + 1)).expecting(session.position);
        match service.append(key, next).await {
            Ok(_) => return Ok(true),
            Err(SessionError::Conflict {
                conflict: Conflict::Position { .. },
                ..
            }) => *retries += 1,
            Err(e) => return Err(e),
        }
        if deadline.passed() {
            return Ok(false);
        }
    }
}

fn main() {
    run(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.enable_all().build().expect("tokio runtime");
        Retain {
            runtime: Arc::new(runtime),
        }
    });
}
