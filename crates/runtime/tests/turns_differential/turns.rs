//! The turns of a script on our runner, whatever its agents are: what the user says, and what
//! happens.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use futures_util::StreamExt as _;
use retain_core::{
    Content, Event, FunctionResponse, GetSessionConfig, Json, JsonMap, Session, SessionService,
};
use retain_runtime::{Agent, RunConfig, RunRequest, Runner, StreamingMode};
use retain_sessions::InMemorySessionService;

use crate::script::map;

const USER: &str = "ada";
const CONFIRM: &str = "adk_request_confirmation";

/// Plays the turns of a script; tells what happened in the form of the other side. What the models
/// were asked is taken at the end.
pub(crate) async fn turns(
    script: &Json,
    agent: Arc<dyn Agent>,
    asked: impl FnOnce() -> Json,
) -> Json {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder()
        .app_name("app")
        .shared_agent(agent)
        .session_service(Arc::clone(&sessions));
    let runner = runner.build().expect("the runner can be built");
    let state = Some(map(&script["state"]).into());
    let created = sessions.create_session("app", USER, state, Some("s1"));
    created.await.expect("the session is created");
    let mut turns = Vec::new();
    let mut user = User::default();
    for said in script["turns"].as_array().unwrap_or_default() {
        let (events, failed) = turn(&runner, said, &mut user).await;
        let session = stored(&sessions).await;
        turns.push(Json::from(JsonMap::from([
            ("events", Json::from(events)),
            ("failed", failed.into()),
            ("state", session.state.to_delta().into()),
        ])));
    }
    let session = stored(&sessions).await;
    let stored = (0..session.events.len()).filter_map(|at| session.events.get_shared(at));
    let stored: Vec<Json> = stored.map(|event| json(&event)).collect();
    JsonMap::from([
        ("turns", Json::from(turns)),
        ("asked", asked()),
        ("stored", stored.into()),
    ])
    .into()
}

async fn stored(sessions: &Arc<dyn SessionService>) -> Session {
    let read = sessions.get_session("app", USER, "s1", GetSessionConfig::default());
    read.await.expect("it can be read").expect("it is there")
}

/// One turn: its events, and how it failed.
async fn turn(runner: &Runner, said: &Json, user: &mut User) -> (Vec<Json>, Option<String>) {
    let mode = match said["streaming"] == true {
        true => StreamingMode::Sse,
        false => StreamingMode::None,
    };
    let config = RunConfig::default();
    let limit = said["maxLlmCalls"].as_u64().map(|limit| limit as u32);
    let request = RunRequest::new(user.message(said))
        .state_delta(map(&said["stateDelta"]))
        .config(RunConfig {
            streaming_mode: mode,
            max_llm_calls: limit.or(config.max_llm_calls),
            custom_metadata: map(&said["metadata"]),
            ..config
        });
    let mut run = match runner.run_with(USER, Some("s1"), request).await {
        Ok(run) => run,
        Err(error) => return (Vec::new(), Some(error.code().to_owned())),
    };
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        match event {
            Ok(event) => {
                events.push(json(&event));
                user.saw(&event);
            }
            Err(error) => return (events, Some(error.code().to_owned())),
        }
    }
    (events, None)
}

/// What the user says: words, or an answer to a call that is open.
#[derive(Debug, Default)]
struct User {
    open: HashMap<String, VecDeque<String>>,
    answered: Option<FunctionResponse>,
}

impl User {
    fn saw(&mut self, event: &Event) {
        if event.is_partial() {
            return;
        }
        for call in event.function_calls() {
            if let (Some(name), Some(id)) = (&call.name, &call.id)
                && (name == "later" || name == CONFIRM)
            {
                let open = self.open.entry(name.clone()).or_default();
                open.push_back(id.clone());
            }
        }
    }

    fn message(&mut self, said: &Json) -> Content {
        let text = said["text"].as_str().unwrap_or_default();
        let (name, result) = match said["answers"].as_str() {
            Some("later") => ("later", JsonMap::from([("late", text)])),
            Some("approve") => (CONFIRM, [("confirmed", true)].into()),
            Some("reject") => (CONFIRM, [("confirmed", false)].into()),
            Some("again") => return self.answer_or(text),
            _ => return Content::user(text),
        };
        match self.open.get_mut(name).and_then(VecDeque::pop_front) {
            None => Content::user(text),
            Some(id) => {
                self.answered = Some(FunctionResponse::new(id, name, result));
                self.answer_or(text)
            }
        }
    }

    /// The last answer, else the words.
    fn answer_or(&self, text: &str) -> Content {
        match &self.answered {
            None => Content::user(text),
            Some(answer) => Content::new("user", vec![answer.clone().into()]),
        }
    }
}

fn json(event: &Event) -> Json {
    let text = event.to_json().expect("an event can be written");
    Json::parse(&text).expect("it can be read back")
}
