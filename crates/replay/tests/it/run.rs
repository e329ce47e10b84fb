//! Runs one case from beginning to end, on one session service and in one mode.

use std::{collections::HashMap, collections::VecDeque, sync::Arc};

use retain_core::{
    Content, Event, GetSessionConfig, Json, MemoryService, Session, SessionService, State,
};
use retain_memory::InMemoryMemoryService;
use retain_replay::{Difference, Recordings, Replay, differences};
use retain_runtime::{RunConfig, RunRequest, Runner, StreamingMode};
use retain_stores::{InMemoryArtifactService, InMemorySessionService, SqliteSessionService};

use crate::{
    agents::{content, root_agent},
    case::{Case, CaseRecording, list},
    compare::{comparable_session, recorded_session},
    replay::CaseScript,
};

const USER: &str = "adk_conformance_test_user";

/// The session service to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Memory,
    Sqlite,
}

impl Store {
    pub(crate) const ALL: [Store; 2] = [Store::Memory, Store::Sqlite];

    async fn open(self) -> Arc<dyn SessionService> {
        match self {
            Store::Memory => Arc::new(InMemorySessionService::new()),
            Store::Sqlite => {
                let opened = SqliteSessionService::connect("sqlite::memory:").await;
                Arc::new(opened.expect("SQLite in memory must open"))
            }
        }
    }
}

/// Replays a case and returns the differences from `recorded`.
pub(crate) async fn replay(
    case: &Case,
    mode: StreamingMode,
    store: Store,
    recorded: &CaseRecording,
) -> Vec<Difference> {
    let sessions = store.open().await;
    let script = CaseScript::new(Recordings::new(recorded.recordings.clone()));
    // The apps use only ADK's own tools, so Retain's versions of them must return the recorded
    // results.
    let replay = Replay::new(script.clone());
    let replay = replay
        .with_checked_results(true)
        .with_recorded_differences(true);
    let models = replay.clone();
    let agent = root_agent(case.app(), move |name| models.model(name, None));
    let mut runner = Runner::builder()
        .app_name(case.app())
        .agent(agent)
        .session_service(Arc::clone(&sessions))
        // ADK was recorded with an empty artifact service.
        .artifact_service(Arc::new(InMemoryArtifactService::new()))
        .plugin(replay.plugin());
    let memory = InMemoryMemoryService::new();
    if let Some(seed) = &case.seed {
        ingest_seed(&memory, seed).await;
    }
    runner = runner.memory_service(Arc::new(memory));
    let runner = runner.build().expect("the runner must build");
    let session = create_session(&sessions, case).await;
    let failed = send_messages(&runner, &script, case, mode, &session.id).await;
    let mut found = replay.differences();
    // Report the run's error only if no replay difference explains it.
    if found.is_empty() {
        found.extend(failed);
    }
    let session = sessions
        .get_session(case.app(), USER, &session.id, GetSessionConfig::default())
        .await;
    let session = session
        .expect("the session must be readable")
        .expect("the session must exist");
    let theirs = comparable_session(&recorded_session(&recorded.session));
    found.extend(differences(
        "session",
        &theirs,
        &comparable_session(&session),
    ));
    found
}

async fn create_session(sessions: &Arc<dyn SessionService>, case: &Case) -> Session {
    let state = case.spec["initial_state"].as_object();
    let state: Option<State> = state.map(|state| state.clone().into());
    let created = sessions.create_session(case.app(), USER, state, None);
    created.await.expect("the session must be created")
}

/// Sends all messages of the user. Stops at a failed run and returns its error.
async fn send_messages(
    runner: &Runner,
    script: &CaseScript,
    case: &Case,
    mode: StreamingMode,
    session: &str,
) -> Option<Difference> {
    let mut open = OpenCalls::default();
    for (number, message) in case.messages().iter().enumerate() {
        script.set_message(number);
        let delta = message["state_delta"].as_object();
        let request = RunRequest::new(open.user_content(message))
            .with_state_delta(delta.cloned().unwrap_or_default())
            .with_config(RunConfig::default().with_streaming_mode(mode));
        let events = match runner.run_with(USER, Some(session), request).await {
            Ok(run) => run.collect_events().await,
            Err(error) => Err(error),
        };
        match events {
            Ok(events) => events.iter().for_each(|event| open.add_calls(event)),
            Err(error) => {
                let location = format!("message {number}");
                return Some(Difference::in_words(
                    location,
                    "a run without failure",
                    error.to_string(),
                ));
            }
        }
    }
    None
}

/// The ids of unanswered calls by function name, oldest first. A recorded function response does
/// not contain the id of its call.
#[derive(Default)]
struct OpenCalls(HashMap<String, VecDeque<String>>);

impl OpenCalls {
    fn add_calls(&mut self, event: &Event) {
        if event.is_partial() {
            return;
        }
        for call in event.function_calls() {
            if let (Some(name), Some(id)) = (&call.name, &call.id) {
                self.0
                    .entry(name.clone())
                    .or_default()
                    .push_back(id.clone());
            }
        }
    }

    /// Builds the user's message with the ids of the calls that it answers.
    fn user_content(&mut self, message: &Json) -> Content {
        if let Some(text) = message["text"].as_str() {
            return Content::user(text);
        }
        let mut content = content(&message["content"]);
        for part in content.parts.iter_mut().flatten() {
            if let Some(response) = &mut part.function_response {
                let name = response.name.as_deref().unwrap_or_default();
                let id = self.0.get_mut(name).and_then(VecDeque::pop_front);
                response.id = Some(id.unwrap_or_else(|| "no such call".to_owned()));
            }
        }
        content
    }
}

/// Ingests past sessions into memory.
async fn ingest_seed(memory: &InMemoryMemoryService, seed: &Json) {
    let name = |key: &str| seed[key].as_str().expect("the seed must name its owner");
    for past in list(&seed["sessions"]) {
        let id = past["sessionId"]
            .as_str()
            .expect("a past session must have an id");
        let mut session = Session::new(name("app"), name("user"), id);
        let sessions = InMemorySessionService::new();
        sessions
            .create_session(name("app"), name("user"), None, Some(id))
            .await
            .expect("the past session must be created");
        for event in list(&past["events"]) {
            let event = Event::from_json(&event.to_string()).expect("a past event must be valid");
            session = sessions
                .get_session(name("app"), name("user"), id, GetSessionConfig::default())
                .await
                .expect("the past session must be readable")
                .expect("the past session must exist");
            let stored = sessions.append_event(&mut session, event).await;
            stored.expect("the event must be stored");
        }
        let added = memory.add_session_to_memory(&session).await;
        added.expect("the past session must be ingested");
    }
}
