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
    case::{Case, Recorded, list},
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
                Arc::new(opened.expect("SQLite in memory opens"))
            }
        }
    }
}

/// Replay a case; return the differences from `recorded`.
pub(crate) async fn replay(
    case: &Case,
    mode: StreamingMode,
    store: Store,
    recorded: &Recorded,
) -> Vec<Difference> {
    let sessions = store.open().await;
    let script = CaseScript::new(Recordings::new(recorded.recordings.clone()));
    // The tools are ADK's own, so they must return what ADK's returned.
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
        fill(&memory, seed).await;
    }
    runner = runner.memory_service(Arc::new(memory));
    let runner = runner.build().expect("the runner can be built");
    let session = create(&sessions, case).await;
    let failed = converse(&runner, &script, case, mode, &session.id).await;
    let mut found = replay.differences();
    // Report the error of the run only if no difference of the replay explains it.
    if found.is_empty() {
        found.extend(failed);
    }
    let session = sessions
        .get_session(case.app(), USER, &session.id, GetSessionConfig::default())
        .await;
    let session = session
        .expect("the session can be read")
        .expect("it is there");
    let theirs = comparable_session(&recorded_session(&recorded.session));
    found.extend(differences(
        "session",
        &theirs,
        &comparable_session(&session),
    ));
    found
}

async fn create(sessions: &Arc<dyn SessionService>, case: &Case) -> Session {
    let state = case.spec["initial_state"].as_object();
    let state: Option<State> = state.map(|state| state.clone().into());
    let created = sessions.create_session(case.app(), USER, state, None);
    created.await.expect("the session is created")
}

/// Send all messages of the user. A failed run ends the conversation.
async fn converse(
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
        let request = RunRequest::new(open.answer(message))
            .with_state_delta(delta.cloned().unwrap_or_default())
            .with_config(RunConfig::default().with_streaming_mode(mode));
        let events = match runner.run_with(USER, Some(session), request).await {
            Ok(run) => run.collect_events().await,
            Err(error) => Err(error),
        };
        match events {
            Ok(events) => events.iter().for_each(|event| open.note(event)),
            Err(error) => {
                let place = format!("message {number}");
                return Some(Difference::in_words(
                    place,
                    "a run without failure",
                    error.to_string(),
                ));
            }
        }
    }
    None
}

/// Call ids by name, oldest first: a recorded answer does not contain the id of its call.
#[derive(Default)]
struct OpenCalls(HashMap<String, VecDeque<String>>);

impl OpenCalls {
    fn note(&mut self, event: &Event) {
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

    /// Build the user's message with the ids of the calls that it answers.
    fn answer(&mut self, message: &Json) -> Content {
        if let Some(text) = message["text"].as_str() {
            return Content::user(text);
        }
        let mut said = content(&message["content"]);
        for part in said.parts.iter_mut().flatten() {
            if let Some(response) = &mut part.function_response {
                let name = response.name.as_deref().unwrap_or_default();
                let open = self.0.get_mut(name).and_then(VecDeque::pop_front);
                response.id = Some(open.unwrap_or_else(|| "no such call".to_owned()));
            }
        }
        said
    }
}

/// Ingest past sessions into memory.
async fn fill(memory: &InMemoryMemoryService, seed: &Json) {
    let name = |key: &str| seed[key].as_str().expect("a seed names its owner");
    for past in list(&seed["sessions"]) {
        let id = past["sessionId"].as_str().expect("a session has an id");
        let mut session = Session::new(name("app"), name("user"), id);
        let sessions = InMemorySessionService::new();
        sessions
            .create_session(name("app"), name("user"), None, Some(id))
            .await
            .expect("the past session is created");
        for event in list(&past["events"]) {
            let event = Event::from_json(&event.to_string()).expect("an event is seeded");
            session = sessions
                .get_session(name("app"), name("user"), id, GetSessionConfig::default())
                .await
                .expect("the past session can be read")
                .expect("it is there");
            let stored = sessions.append_event(&mut session, event).await;
            stored.expect("the event is stored");
        }
        let added = memory.add_session_to_memory(&session).await;
        added.expect("the past session is remembered");
    }
}
