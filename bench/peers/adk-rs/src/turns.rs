//! The peer adk-rs in the suite `turns`: its Runner with one `LlmAgent`, on its in-memory or its
//! SQLite session service. On SQLite, the history is inserted into the tables. In memory, appending
//! the last event, through a session object that has all others, stores the whole history.

use crate::{get, insert};
use adk_rs::core::{Event, LlmRequest, LlmResponse, Model, Session, SessionService, State};
use adk_rs::genai_types::Content;
use adk_rs::services::mem::InMemorySessionService;
use adk_rs::services::sql::SqliteSessionService;
use adk_rs::{LlmAgent, Runner};
use async_trait::async_trait;
use bench_common::{
    AGENT, ANSWER, APP, CallLog, Failure, INSTRUCTION, PATTERN, Res, Store, TurnRunner, USER,
    new_id, text,
};
use futures::StreamExt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A runner on one store.
pub struct RunnerStore {
    runtime: Arc<Runtime>,
    runner: Runner,
    service: Arc<dyn SessionService>,
    /// The database file, unless in memory.
    file: Option<PathBuf>,
    seen: CallLog,
}

#[derive(Debug)]
struct MockModel(CallLog);

#[async_trait]
impl Model for MockModel {
    fn name(&self) -> &str {
        "mock"
    }

    fn supported_models(&self) -> &'static [&'static str] {
        &["mock"]
    }

    async fn generate_content(&self, request: LlmRequest) -> adk_rs::Result<LlmResponse> {
        self.0.record(request.contents.len());
        Ok(LlmResponse {
            content: Some(Content::model_text(ANSWER)),
            ..LlmResponse::default()
        })
    }
}

impl RunnerStore {
    /// Creates a runner on this SQLite service and its file, or in memory if `sqlite` is `None`.
    pub fn new(
        runtime: Arc<Runtime>,
        sqlite: Option<(SqliteSessionService, PathBuf)>,
    ) -> Res<RunnerStore> {
        let (service, file): (Arc<dyn SessionService>, _) = match sqlite {
            Some((service, file)) => (Arc::new(service), Some(file)),
            None => (Arc::new(InMemorySessionService::new()), None),
        };
        let seen = CallLog::default();
        let agent = LlmAgent::builder(AGENT)
            .model(Arc::new(MockModel(seen.clone())))
            .instruction(INSTRUCTION)
            .build()?;
        let runner = Runner::builder()
            .app_name(APP)
            .agent(Arc::new(agent))
            .session_service(service.clone())
            .build()?;
        Ok(RunnerStore {
            runtime,
            runner,
            service,
            file,
            seen,
        })
    }

    /// Returns the two events of the session `PATTERN`.
    fn pattern(&self) -> Res<[Event; 2]> {
        let session = self.runtime.block_on(get(&*self.service, PATTERN, None))?;
        let found = session.events.len();
        let events = session.events.try_into();
        events.map_err(|_| Failure::Error(format!("a turn stored {found} events, expected 2")))
    }
}

/// Returns event `n` (1, 2, …) of a history, alternating between user and model.
fn copy(pattern: &[Event; 2], n: u64) -> Event {
    let turn = n.div_ceil(2);
    let mut event = pattern[usize::from(n.is_multiple_of(2))].clone();
    event.id = new_id();
    event.invocation_id = format!("e-{turn}-{}", event.invocation_id);
    if !n.is_multiple_of(2) {
        event.response.content = Some(Content::user_text(text(turn)));
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
        if turns == 0 {
            return self.runtime.block_on(async {
                for id in sessions {
                    let service = &self.service;
                    service.create_session(APP, USER, None, Some(id)).await?;
                }
                Ok(())
            });
        }
        let pattern = self.pattern()?;
        if let Some(file) = &self.file {
            return insert(file, sessions, &State::new(), 2 * turns, |n| {
                copy(&pattern, n)
            });
        }
        for id in sessions {
            let mut session = Session::new(APP, USER, id);
            session.events = (1..2 * turns).map(|n| copy(&pattern, n)).collect();
            let last = copy(&pattern, 2 * turns);
            self.runtime
                .block_on(self.service.append_event(&mut session, last))?;
        }
        Ok(())
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

    fn stored(&mut self, session: &str) -> Res<u64> {
        let session = self.runtime.block_on(get(&*self.service, session, None))?;
        Ok(session.events.len() as u64)
    }

    fn seen(&self) -> &CallLog {
        &self.seen
    }
}
