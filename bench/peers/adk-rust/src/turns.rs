//! The peer adk-rust in the suite `turns`: its Runner with one `LlmAgent`, on its in-memory or its
//! SQLite session service. On SQLite, the history is inserted into the tables. In memory, it is
//! appended event by event.

use crate::{get, identity, insert};
use adk_agent::LlmAgentBuilder;
use adk_core::{Content, Event, Llm, LlmRequest, LlmResponse, LlmResponseStream, RunConfig};
use adk_core::{SessionId, StreamingMode, UserId};
use adk_runner::Runner;
use adk_session::{
    AppendEventRequest, CreateRequest, InMemorySessionService, SessionService, SqliteSessionService,
};
use async_trait::async_trait;
use bench_common::{
    AGENT, ANSWER, APP, CallLog, Failure, INSTRUCTION, PATTERN, Res, Store, TurnRunner, USER,
    new_id, text,
};
use futures::StreamExt;
use serde_json::json;
use std::collections::HashMap;
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

struct MockModel(CallLog);

#[async_trait]
impl Llm for MockModel {
    fn name(&self) -> &str {
        "mock"
    }

    async fn generate_content(
        &self,
        request: LlmRequest,
        _stream: bool,
    ) -> adk_core::Result<LlmResponseStream> {
        // The agent sends the instruction as the first content. Do not count it as history.
        let instruction = request.contents.first().is_some_and(is_instruction);
        self.0
            .record(request.contents.len() - usize::from(instruction));
        let answer = LlmResponse::new(Content::new("model").with_text(ANSWER));
        Ok(Box::pin(futures::stream::iter([Ok(answer)])))
    }
}

fn is_instruction(content: &Content) -> bool {
    let only = match content.parts.as_slice() {
        [part] => part.text(),
        _ => None,
    };
    only == Some(INSTRUCTION)
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
        let agent = LlmAgentBuilder::new(AGENT)
            .model(Arc::new(MockModel(seen.clone())))
            .instruction(INSTRUCTION)
            .build()?;
        let config = RunConfig::builder().streaming_mode(StreamingMode::None);
        let runner = Runner::builder()
            .app_name(APP)
            .agent(Arc::new(agent))
            .session_service(service.clone())
            .run_config(config.build())
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
        let events = session.events().all();
        let found = events.len();
        let events = events.try_into();
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
        event.llm_response.content = Some(Content::new("user").with_text(text(turn)));
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
        if let (Some(file), Some(pattern)) = (&self.file, &pattern) {
            return insert(file, sessions, &json!({}), 2 * turns, |n| copy(pattern, n));
        }
        self.runtime.block_on(async {
            for id in sessions {
                let request = CreateRequest {
                    app_name: APP.into(),
                    user_id: USER.into(),
                    session_id: Some(id.into()),
                    state: HashMap::new(),
                };
                self.service.create(request).await?;
                let Some(pattern) = &pattern else { continue };
                for n in 1..=2 * turns {
                    let request = AppendEventRequest {
                        identity: identity(id)?,
                        event: copy(pattern, n),
                    };
                    self.service.append_event_for_identity(request).await?;
                }
            }
            Ok(())
        })
    }

    fn turn(&mut self, session: &str, text: &str) -> Res<()> {
        self.runtime.block_on(async {
            let message = Content::new("user").with_text(text);
            let (user, session) = (UserId::new(USER)?, SessionId::new(session)?);
            let mut events = self.runner.run(user, session, message).await?;
            while let Some(event) = events.next().await {
                event?;
            }
            Ok(())
        })
    }

    fn stored(&mut self, session: &str) -> Res<u64> {
        let session = self.runtime.block_on(get(&*self.service, session, None))?;
        Ok(session.events().len() as u64)
    }

    fn seen(&self) -> &CallLog {
        &self.seen
    }
}
