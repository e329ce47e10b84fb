//! Runs a script on one of Retain's session services and returns answers in ADK's form.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use retain_core::{
    Clock, Event, GetSessionConfig, Ids, Json, JsonMap, Session, SessionError, SessionKey,
    SessionLog, SessionMeta, State,
};

use super::script::{Op, Script};

/// A clock that the script sets.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptClock(Arc<AtomicI64>);

impl Clock for ScriptClock {
    fn now_us(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Generates ids from the number of the operation and a counter.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptIds(Arc<Mutex<(usize, usize)>>);

impl ScriptIds {
    fn begin(&self, op: usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (op, 0);
    }
}

impl Ids for ScriptIds {
    fn new_id(&self) -> String {
        let mut counter = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counter.1 += 1;
        format!("op{}-{}", counter.0, counter.1)
    }
}

/// The answer to an operation, and its session before and after.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The answer in ADK's form.
    pub(crate) result: Json,
    /// The session with its whole log, before the operation.
    pub(crate) before: Option<Json>,
    /// The session with its whole log, after the operation.
    pub(crate) after: Option<Json>,
}

/// Runs scripts on a session service, whose clock and ids it sets.
pub(crate) struct ScriptRunner<'a> {
    pub(crate) service: &'a dyn SessionLog,
    pub(crate) clock: ScriptClock,
    pub(crate) ids: ScriptIds,
}

/// The sessions that the script created, and its copies of sessions.
#[derive(Default)]
struct RunState {
    created: HashMap<usize, SessionKey>,
    slots: HashMap<usize, Session>,
}

type Answer = Result<JsonMap, SessionError>;

/// Returns the name of the corresponding error of ADK, or a name of our own if ADK has none.
fn error_name(error: &SessionError) -> &'static str {
    match error {
        SessionError::NotFound { .. } => "SessionNotFoundError",
        SessionError::AlreadyExists { .. } => "AlreadyExistsError",
        SessionError::InvocationNotFound { .. } => "InvocationNotFoundError",
        SessionError::Conflict { .. } => "Conflict",
        SessionError::Invalid { .. } => "Invalid",
        SessionError::TooLarge { .. } => "TooLarge",
        _ => "another error",
    }
}

fn answer(name: &str, value: impl Into<Json>) -> JsonMap {
    JsonMap::from([(name, value.into())])
}

fn json(text: Result<String, retain_core::JsonError>) -> Json {
    let text = text.expect("a stored value can be encoded");
    Json::parse(&text).expect("an encoded value can be parsed")
}

fn session_json(session: &Session) -> Json {
    json(session.to_json())
}

fn event_json(event: &Event) -> Json {
    json(event.to_json())
}

/// Converts a listed session to the form in which ADK lists it.
fn meta_json(meta: SessionMeta) -> Json {
    let mut session = Session::new(meta.app_name, meta.user_id, meta.id);
    session.state = meta.state.unwrap_or_default();
    session.last_update_time = meta.last_update_time;
    session_json(&session)
}

fn parse_event(json: &Json) -> Event {
    Event::from_json(&json.to_string()).expect("the script's events can be read")
}

impl ScriptRunner<'_> {
    /// Runs the whole script.
    pub(crate) async fn run(&self, script: &Script) -> Vec<Outcome> {
        let mut state = RunState::default();
        let mut outcomes = Vec::new();
        for (number, step) in script.steps.iter().enumerate() {
            self.clock.0.store(step.now_us, Ordering::SeqCst);
            let subject = state.subject(&step.op);
            let before = self.read_json(subject.as_ref()).await;
            self.ids.begin(number);
            let result = match self.operate(&mut state, &step.op).await {
                Ok(answer) => answer,
                Err(error) => answer("error", error_name(&error)),
            };
            let after = self.read_json(subject.as_ref()).await;
            outcomes.push(Outcome {
                result: result.into(),
                before,
                after,
            });
        }
        outcomes
    }

    async fn read(&self, key: &SessionKey) -> Result<Option<Session>, SessionError> {
        let config = GetSessionConfig::default();
        let read = self
            .service
            .get_session(&key.app, &key.user, &key.id, config);
        read.await
    }

    async fn read_json(&self, key: Option<&SessionKey>) -> Option<Json> {
        let read = self.read(key?).await.expect("a session can be read");
        read.as_ref().map(session_json)
    }

    async fn operate(&self, state: &mut RunState, op: &Op) -> Answer {
        match op {
            Op::Create {
                app,
                user,
                id,
                state: initial,
                name,
                slot,
            } => {
                let initial = initial.clone().map(State::from);
                let create = self
                    .service
                    .create_session(app, user, initial, id.as_deref());
                let session = create.await?;
                if let Some(name) = name {
                    state.created.insert(*name, session.key());
                }
                Ok(state.hold(*slot, Some(session)))
            }
            Op::Get {
                target,
                recent,
                after,
                slot,
            } => {
                let config = GetSessionConfig {
                    num_recent_events: *recent,
                    after_timestamp: *after,
                };
                let key = &state.created[target];
                let get = self
                    .service
                    .get_session(&key.app, &key.user, &key.id, config);
                let session = get.await?;
                Ok(state.hold(*slot, session))
            }
            Op::GetById { app, user, id, .. } => {
                let session = self.read(&SessionKey::new(app, user, id)).await?;
                Ok(state.hold(None, session))
            }
            Op::List { app, user } => {
                let listed = self.service.list_sessions(app, user.as_deref()).await?;
                let sessions: Vec<Json> = listed.sessions.into_iter().map(meta_json).collect();
                Ok(answer("sessions", sessions))
            }
            Op::Delete { target } => {
                let key = &state.created[target];
                let delete = self.service.delete_session(&key.app, &key.user, &key.id);
                delete.await?;
                Ok(answer("done", true))
            }
            Op::UserState { app, user } => {
                let user_state = self.service.get_user_state(app, user).await?;
                Ok(answer("state", user_state))
            }
            Op::Append { slot, event, stale } => self.append(state, *slot, event, *stale).await,
            Op::Repeat { target, event, .. } => {
                let key = &state.created[target];
                let live = self.read(key).await?;
                let mut live = live.ok_or_else(|| SessionError::NotFound { key: key.clone() })?;
                let stored = self
                    .service
                    .append_event(&mut live, parse_event(event))
                    .await?;
                Ok(append_answer(&stored, &live))
            }
            Op::Rewind { target, before } => {
                let key = &state.created[target];
                let rewound = self.service.rewind(key, before).await?;
                let (_, event) = &rewound.events[0];
                let mut result = answer("event", event_json(event));
                let after = self.read_json(Some(key)).await;
                result.insert("session", after.unwrap_or_default());
                Ok(result)
            }
            Op::Probe {
                app,
                user,
                id,
                event,
                ..
            } => self.probe(app, user, id.as_deref(), event.as_ref()).await,
        }
    }

    async fn append(&self, state: &mut RunState, slot: usize, event: &Json, stale: bool) -> Answer {
        let mut live = state.slots[&slot].clone();
        let stored = self
            .service
            .append_event(&mut live, parse_event(event))
            .await?;
        let mut result = append_answer(&stored, &live);
        if stale {
            let fresh = self.read(&live.key()).await?;
            result.insert("fetched", fresh.as_ref().map_or(Json::Null, session_json));
            live = fresh.unwrap_or(live);
        }
        state.slots.insert(slot, live);
        Ok(result)
    }

    async fn probe(&self, app: &str, user: &str, id: Option<&str>, event: Option<&Json>) -> Answer {
        let mut session = match self.service.create_session(app, user, None, id).await {
            Ok(session) => session,
            Err(error) => return Ok(answer("created", error_name(&error))),
        };
        let mut result = answer("created", "ok");
        if let Some(event) = event {
            let appended = self
                .service
                .append_event(&mut session, parse_event(event))
                .await;
            let appended = appended.as_ref().map_or_else(error_name, |_| "ok");
            result.insert("appended", appended);
        }
        self.service.delete_session(app, user, &session.id).await?;
        Ok(result)
    }
}

fn append_answer(event: &Event, live: &Session) -> JsonMap {
    let mut result = answer("event", event_json(event));
    result.insert("live", session_json(live));
    result
}

impl RunState {
    /// Returns the session that an operation is about.
    fn subject(&self, op: &Op) -> Option<SessionKey> {
        match op {
            Op::GetById { target, .. } => self.created.get(&(*target)?).cloned(),
            Op::Get { target, .. }
            | Op::Delete { target }
            | Op::Repeat { target, .. }
            | Op::Rewind { target, .. } => self.created.get(target).cloned(),
            Op::Append { slot, .. } => self.slots.get(slot).map(Session::key),
            Op::Create { .. } | Op::List { .. } | Op::UserState { .. } | Op::Probe { .. } => None,
        }
    }

    /// Stores the session in the slot, and returns it as an answer.
    fn hold(&mut self, slot: Option<usize>, session: Option<Session>) -> JsonMap {
        let result = session.as_ref().map_or(Json::Null, session_json);
        if let (Some(slot), Some(session)) = (slot, session) {
            self.slots.insert(slot, session);
        }
        answer("session", result)
    }
}
