//! The peer Retain in the suite `turns`: its runner with one `LlmAgent`, on its in-memory or its
//! SQLite session service. On SQLite, a second service on the same file appends the history, so
//! that the runner's service has not cached it. The timing includes a checkpoint of the WAL,
//! because the other stores defer no work.

use crate::{BATCH, get};
use bench_common::{
    AGENT, ANSWER, APP, CallLog, Failure, INSTRUCTION, PATTERN, Res, Store, TurnRunner, USER,
    new_id, now_seconds, text,
};
use futures_util::StreamExt;
use retain_core::{Content, Event, LlmResponse, SessionKey, SessionLog};
use retain_runtime::{LlmAgent, LlmRequest, Model, ModelStream, Runner};
use retain_stores::{InMemorySessionService, SqliteSessionService};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A runner on one store.
pub struct RunnerStore {
    runtime: Arc<Runtime>,
    runner: Runner,
    service: Arc<dyn SessionLog>,
    /// The service that writes the history.
    filler: Arc<dyn SessionLog>,
    /// A connection of the benchmark, for checkpoints. `None` in memory.
    side: Option<Connection>,
    seen: CallLog,
}

#[derive(Debug)]
struct MockModel(CallLog);

impl Model for MockModel {
    fn name(&self) -> &str {
        "mock"
    }

    fn generate(&self, request: Arc<LlmRequest>, _stream: bool) -> ModelStream {
        self.0.record(request.contents.len());
        let answer = LlmResponse::from_content(Content::model(ANSWER));
        Box::pin(futures_util::stream::iter([Ok(answer)]))
    }
}

impl RunnerStore {
    /// Creates a runner whose sessions are in memory.
    pub fn in_memory(runtime: Arc<Runtime>) -> Res<RunnerStore> {
        let service = Arc::new(InMemorySessionService::default());
        RunnerStore::new(runtime, service.clone(), service, None)
    }

    /// Creates a runner on the SQLite file that `service` has opened.
    pub fn sqlite(
        runtime: Arc<Runtime>,
        service: SqliteSessionService,
        file: &Path,
    ) -> Res<RunnerStore> {
        let uri = format!("sqlite:///{}", file.display());
        let filler = runtime.block_on(SqliteSessionService::connect(&uri))?;
        let side = Connection::open(file)?;
        RunnerStore::new(runtime, Arc::new(service), Arc::new(filler), Some(side))
    }

    fn new<S: SessionLog + 'static>(
        runtime: Arc<Runtime>,
        service: Arc<S>,
        filler: Arc<S>,
        side: Option<Connection>,
    ) -> Res<RunnerStore> {
        let seen = CallLog::default();
        let agent = LlmAgent::builder(AGENT)
            .model(MockModel(seen.clone()))
            .instruction(INSTRUCTION)
            .build()?;
        let runner = Runner::builder()
            .app_name(APP)
            .agent(agent)
            .session_service(service.clone())
            .build()?;
        Ok(RunnerStore {
            runtime,
            runner,
            service,
            filler,
            side,
            seen,
        })
    }

    /// Returns the two events of the session `PATTERN`.
    fn pattern(&self) -> Res<[Event; 2]> {
        let session = self.runtime.block_on(get(&*self.service, PATTERN, None))?;
        let events: Vec<Event> = session.events.iter().cloned().collect();
        let found = events.len();
        let events = events.try_into();
        events.map_err(|_| Failure::Error(format!("a turn stored {found} events, expected 2")))
    }

    fn checkpoint(&self, mode: &str) -> Res<()> {
        if let Some(side) = &self.side {
            side.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))?;
        }
        Ok(())
    }
}

/// Returns event `n` (1, 2, …) of a history, alternating between user and model.
fn copy(pattern: &[Event; 2], n: u64) -> Event {
    let turn = n.div_ceil(2);
    let mut event = pattern[usize::from(n.is_multiple_of(2))].clone();
    event.id = new_id();
    event.invocation_id = format!("e-{turn}-{}", event.invocation_id);
    if !n.is_multiple_of(2) {
        event.response.content = Some(Content::user(text(turn)));
    }
    event
}

impl Store for RunnerStore {
    fn turn_runner(&mut self) -> Res<&mut dyn TurnRunner> {
        Ok(self)
    }
}

impl TurnRunner for RunnerStore {
    fn fill(&mut self, sessions: &[String], turns: u64) -> Res<()> {
        let pattern = (turns > 0).then(|| self.pattern()).transpose()?;
        let (now, events) = (now_seconds(), 2 * turns);
        self.runtime.block_on(async {
            for id in sessions {
                self.filler
                    .create_session(APP, USER, None, Some(id))
                    .await?;
                let Some(pattern) = &pattern else { continue };
                let key = SessionKey::new(APP, USER, id);
                for first in (1..=events).step_by(BATCH as usize) {
                    let numbers = first..=events.min(first + BATCH - 1);
                    let batch = numbers.map(|n| {
                        let mut event = copy(pattern, n);
                        event.timestamp = now - (events - n) as f64 * 0.001;
                        event
                    });
                    let batch = batch.collect::<Vec<_>>();
                    self.filler.append(&key, batch.into()).await?;
                }
            }
            Ok::<_, Failure>(())
        })?;
        self.checkpoint("RESTART")
    }

    fn turn(&mut self, session: &str, text: &str) -> Res<()> {
        self.runtime.block_on(async {
            let mut events = self.runner.run(USER, Some(session), text).await?;
            while let Some(event) = events.next().await {
                event?;
            }
            Ok(())
        })
    }

    fn settle(&mut self) -> Res<()> {
        self.checkpoint("PASSIVE")
    }

    fn stored(&mut self, session: &str) -> Res<u64> {
        let session = self.runtime.block_on(get(&*self.service, session, None))?;
        Ok(session.events.len() as u64)
    }

    fn seen(&self) -> &CallLog {
        &self.seen
    }
}
