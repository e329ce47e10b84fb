//! Runs a script's turns on Retain's runner, with any agents: sends the user's messages and
//! collects the events.

use std::{collections::HashMap, sync::Arc};

use futures_util::StreamExt as _;
use retain_core::{
    Content, Event, FunctionResponse, GetSessionConfig, Json, JsonMap, Part, Session,
    SessionService,
};
use retain_runtime::{Agent, RunConfig, RunRequest, Runner, StreamingMode};
use retain_stores::InMemorySessionService;

use crate::turns_differential::script::map;

const USER: &str = "ada";
const LATER: &str = "later";
const CONFIRM: &str = "adk_request_confirmation";
const CHOICE: &str = "get_user_choice";
const INPUT: &str = "adk_request_input";

/// The calls that a user can answer.
const KINDS: [&str; 4] = [LATER, CONFIRM, CHOICE, INPUT];

/// Runs a script's turns. Returns the result in the same format as the oracle. `requests` returns
/// the models' requests at the end.
pub(crate) async fn turns(
    script: &Json,
    agent: Arc<dyn Agent>,
    requests: impl FnOnce() -> Json,
) -> Json {
    let sessions: Arc<dyn SessionService> = Arc::new(InMemorySessionService::new());
    let runner = Runner::builder()
        .app_name("app")
        .agent(agent)
        .session_service(Arc::clone(&sessions))
        .resumable(script["resumable"] == true);
    let runner = runner.build().expect("the runner is valid");
    let state = Some(map(&script["state"]).into());
    let created = sessions.create_session("app", USER, state, Some("s1"));
    created.await.expect("the session is created");
    let mut turns = Vec::new();
    let mut user = User::default();
    for turn in script["turns"].as_array().unwrap_or_default() {
        let before = count_messages(&stored(&sessions).await);
        let (events, failed) = run_turn(&runner, turn, &mut user).await;
        let session = stored(&sessions).await;
        turns.push(Json::from(JsonMap::from([
            ("events", Json::from(events)),
            ("failed", failed.into()),
            ("messages", (count_messages(&session) - before).into()),
            ("state", session.state.to_delta().into()),
        ])));
    }
    let session = stored(&sessions).await;
    let stored = (0..session.events.len()).filter_map(|at| session.events.get_shared(at));
    let stored: Vec<Json> = stored.map(|event| json(&event)).collect();
    JsonMap::from([
        ("turns", Json::from(turns)),
        ("requests", requests()),
        ("stored", stored.into()),
    ])
    .into()
}

async fn stored(sessions: &Arc<dyn SessionService>) -> Session {
    let read = sessions.get_session("app", USER, "s1", GetSessionConfig::default());
    read.await.expect("a readable session").expect("a session")
}

/// Returns the number of user events.
fn count_messages(session: &Session) -> usize {
    let messages = session.events.iter().filter(|event| event.author == "user");
    messages.count()
}

/// Runs one turn. Returns its events and its error code.
async fn run_turn(runner: &Runner, turn: &Json, user: &mut User) -> (Vec<Json>, Option<String>) {
    let mode = match turn["streaming"] == true {
        true => StreamingMode::Sse,
        false => StreamingMode::None,
    };
    let config = RunConfig::default();
    let max_llm_calls = config.max_llm_calls;
    let limit = turn["maxLlmCalls"].as_u64().map(|limit| limit as u32);
    let request = RunRequest::new(user.message(turn))
        .with_state_delta(map(&turn["stateDelta"]))
        .with_config(
            config
                .with_streaming_mode(mode)
                .with_max_llm_calls(limit.or(max_llm_calls))
                .with_custom_metadata(map(&turn["metadata"])),
        );
    let mut run = match runner.run_with(USER, Some("s1"), request).await {
        Ok(run) => run,
        Err(error) => return (Vec::new(), Some(error.code().to_owned())),
    };
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        match event {
            Ok(event) => {
                events.push(json(&event));
                user.record_calls(&event);
            }
            Err(error) => return (events, Some(error.code().to_owned())),
        }
    }
    (events, None)
}

/// The user's messages: text, or an answer to a pending call.
///
/// ```text
/// later, choice, input   answers the oldest open call of that kind
/// approve, reject        approves or rejects the oldest call that needs approval
/// newest                 answers the newest call of `later`
/// all                    answers the oldest call of every kind, in one message
/// again                  repeats the last answer
/// unknown                answers a call that was never made
/// with words             answers the oldest call of `later`, with text in the same message
/// ```
///
/// "Oldest" means the call of the first agent by name, and "newest" that of the last, because the
/// order of parallel agents differs between the sides.
#[derive(Debug, Default)]
struct User {
    /// Author and id of each pending call, by kind.
    open: HashMap<String, Vec<(String, String)>>,
    answered: Option<Vec<Part>>,
}

impl User {
    fn record_calls(&mut self, event: &Event) {
        if event.is_partial() {
            return;
        }
        for call in event.function_calls() {
            if let (Some(name), Some(id)) = (&call.name, &call.id)
                && KINDS.contains(&name.as_str())
            {
                let open = self.open.entry(name.clone()).or_default();
                open.push((event.author.clone(), id.clone()));
            }
        }
    }

    fn message(&mut self, turn: &Json) -> Content {
        let text = turn["text"].as_str().unwrap_or_default();
        let how = turn["answers"].as_str().unwrap_or_default();
        let mut parts = match how {
            "again" => self.answered.clone().unwrap_or_default(),
            "unknown" => vec![answer("no-such-call", LATER, how, text)],
            "later" | "newest" | "with words" => self.parts(&[LATER], how, text),
            "approve" | "reject" => self.parts(&[CONFIRM], how, text),
            "choice" => self.parts(&[CHOICE], how, text),
            "input" => self.parts(&[INPUT], how, text),
            "all" => self.parts(&KINDS, how, text),
            _ => Vec::new(),
        };
        if parts.is_empty() {
            return Content::user(text);
        }
        self.answered = Some(parts.clone());
        if how == "with words" {
            parts.push(Part::text(text));
        }
        Content::new("user", parts)
    }

    /// Returns answers to pending calls of these kinds.
    fn parts(&mut self, kinds: &[&str], how: &str, text: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        for kind in kinds {
            let open = self.open.entry((*kind).to_owned()).or_default();
            // The sort is stable, so calls of one agent keep their order.
            open.sort_by(|(one, _), (other, _)| one.cmp(other));
            let call = match how {
                "newest" => open.pop(),
                _ => (!open.is_empty()).then(|| open.remove(0)),
            };
            parts.extend(call.map(|(_, id)| answer(&id, kind, how, text)));
        }
        parts
    }
}

fn answer(id: &str, kind: &str, how: &str, text: &str) -> Part {
    let response = match kind {
        CONFIRM => JsonMap::from([("confirmed", how != "reject")]),
        LATER => [("late", text)].into(),
        _ => [("result", "that")].into(),
    };
    FunctionResponse::new(id, kind, response).into()
}

fn json(event: &Event) -> Json {
    let text = event.to_json().expect("an event is JSON");
    Json::parse(&text).expect("an event is JSON")
}
