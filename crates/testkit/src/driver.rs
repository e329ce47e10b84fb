//! Chooses random operations and compares the answers of a store with those of the model.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use futures_util::TryStreamExt as _;
use retain_core::{
    Append, AppendReceipt, Clock as _, CreateSession, Event, ExportScope, Json, JsonMap,
    LineStream, ListSessions, Result, RunOptions, RunToken, RunUse, Session, SessionKey,
    SessionLog, Window,
};

use crate::{
    harness::{Harness, Settings},
    history::error_kind,
    model::{Answer, Model, appended_text, meta_text, session_text, state_text},
    random::Random,
};

const APPS: [&str; 2] = ["app", "app2"];
const USERS: [&str; 2] = ["ada", "grace"];
const IDS: [&str; 3] = ["s", "t", "fork"];
/// Number of operations that a failure prints.
const PRINTED_OPERATIONS: usize = 12;

/// One operation on the store and the model.
#[derive(Debug, Clone)]
enum Operation {
    Create(SessionKey, JsonMap, Option<Duration>),
    Read(SessionKey, Window),
    List(ListSessions, usize),
    Delete(SessionKey),
    Append(SessionKey, Box<Append>),
    Renew(SessionKey, RunToken, bool),
    StateAt(SessionKey, u64),
    Rewind(SessionKey, String),
    Fork(SessionKey, Option<u64>, &'static str),
    AppState(&'static str),
    UserState(&'static str, &'static str),
    Tick(Duration),
    Sweep,
    Erase(&'static str, &'static str),
    Move(SessionKey),
    Reopen,
}

impl Operation {
    /// Returns the session that the operation changes, if it changes one.
    fn key(&self) -> Option<&SessionKey> {
        match self {
            Operation::Append(key, _) | Operation::Rewind(key, _) | Operation::Fork(key, ..) => {
                Some(key)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operation::Append(key, append) = self else {
            return write!(f, "{self:?}");
        };
        write!(
            f,
            "Append to {key} {:?} at {:?}",
            append.run, append.expected
        )?;
        for event in &append.events {
            let body = event.to_json().map_err(|_| fmt::Error)?;
            write!(f, "\n      {body}")?;
        }
        Ok(())
    }
}

/// Runs the same random operations on a store and the model; fails at the first difference and
/// prints the seed.
pub async fn run_model_test(harness: Harness, seed: u64, operations: usize) {
    let mut driver = Driver {
        logs: vec![harness.service(), harness.second().await],
        harness,
        model: Model::new(Settings::default().run_ttl),
        random: Random::new(seed),
        runs: Vec::new(),
        events: 0,
        recent: VecDeque::new(),
    };
    for step in 0..operations {
        let operation = driver.choose();
        driver.recent.truncate(PRINTED_OPERATIONS - 1);
        driver.recent.push_front(operation.to_string());
        driver.model.now_us = driver.harness.clock.now_us();
        let changed_key = operation.key().cloned();
        let (mut found, mut expected) = driver.run_both(operation).await;
        if let (Some(key), true) = (changed_key, found == expected) {
            // Read immediately, because a wrong change that surfaces much later is hard to explain.
            (found, expected) = driver.run_both(Operation::Read(key, Window::ALL)).await;
        }
        assert!(
            found == expected,
            "seed {seed}, operation {step}:\n found    {found:#?}\n expected {expected:#?}\n \
             operations, newest first:\n  {}",
            Vec::from(driver.recent).join("\n  ")
        );
    }
    let problems = driver.harness.service().check().await;
    let problems = problems.expect("a check of the store");
    assert!(problems.is_empty(), "seed {seed}: {problems:#?}");
}

struct Driver {
    harness: Harness,
    logs: Vec<Arc<dyn SessionLog>>,
    model: Model,
    random: Random,
    /// Run tokens issued so far, current or outdated.
    runs: Vec<(SessionKey, RunToken)>,
    /// Number of events created.
    events: u64,
    recent: VecDeque<String>,
}

impl Driver {
    fn choose(&mut self) -> Operation {
        let key = self.key();
        match self.random.below(100) {
            0..=11 => {
                let ttl = [None, None, Some(Duration::from_secs(100))];
                let ttl = self.random.pick(&ttl);
                Operation::Create(key, self.delta(), ttl)
            }
            12..=23 => Operation::Read(key, self.window()),
            24..=27 => Operation::List(self.list(), 1 + self.random.below(4) as usize),
            28..=29 => Operation::Delete(key),
            30..=65 => self.append(key),
            66..=69 => match self.run() {
                Some((key, run)) => Operation::Renew(key, run, self.random.chance(50)),
                None => Operation::Sweep,
            },
            70..=76 => Operation::StateAt(key, self.random.below(12)),
            77..=80 => Operation::Rewind(key, self.invocation()),
            81..=84 => {
                let position = [None, Some(self.random.below(12))];
                let position = self.random.pick(&position);
                Operation::Fork(key, position, self.random.pick(&IDS))
            }
            85..=86 => Operation::AppState(self.random.pick(&APPS)),
            87..=88 => Operation::UserState(self.random.pick(&APPS), self.random.pick(&USERS)),
            89..=93 => Operation::Tick(Duration::from_millis(self.random.below(45_000))),
            94 => Operation::Sweep,
            95 => Operation::Erase(self.random.pick(&APPS), self.random.pick(&USERS)),
            96..=97 => Operation::Move(key),
            _ => Operation::Reopen,
        }
    }

    fn key(&mut self) -> SessionKey {
        let id = IDS[..2][self.random.below(2) as usize];
        let id = if self.random.chance(15) { IDS[2] } else { id };
        SessionKey::new(self.random.pick(&APPS), self.random.pick(&USERS), id)
    }

    fn invocation(&mut self) -> String {
        format!("i{}", self.random.below(6))
    }

    fn delta(&mut self) -> JsonMap {
        let names = ["a", "b", "c", "user:u", "user:a", "app:p", "temp:t", "x:y"];
        let values = [
            "null",
            "1",
            "1.0",
            r#""text""#,
            "[1,{}]",
            r#"{"z":1,"a":null}"#,
            "123456789012345678901",
        ];
        let mut delta = JsonMap::new();
        for _ in 0..self.random.below(4) {
            let value = Json::parse(self.random.pick(&values)).expect("a value");
            delta.insert(self.random.pick(&names), value);
        }
        delta
    }

    fn window(&mut self) -> Window {
        let mut window = Window::ALL;
        if self.random.chance(40) {
            window.first = self.random.below(8);
        }
        if self.random.chance(30) {
            window.last = self.random.below(12);
        }
        if self.random.chance(30) {
            let times = [10.0, 30.0, 70.0, 1.65e9, 1.75e9, 3e9 + 1.0];
            window.after_timestamp = Some(self.random.pick(&times));
        }
        if self.random.chance(40) {
            window.newest = Some(self.random.below(6) as usize);
        }
        if self.random.chance(20) {
            window.oldest = Some(self.random.below(6) as usize);
        }
        window
    }

    fn list(&mut self) -> ListSessions {
        let user_id = self.random.chance(50).then(|| self.random.pick(&USERS));
        let mut query = ListSessions::new(self.random.pick(&APPS)).include_state();
        query.user_id = user_id.map(str::to_owned);
        query
    }

    /// Returns a new event, a stored event again, or a different event with the id of a stored one.
    fn event(&mut self, key: &SessionKey) -> Event {
        let last = self.model.position(key).unwrap_or(0);
        if last > 0 && self.random.chance(15) {
            let position = 1 + self.random.below(last);
            let mut event = self.model.event(key, position).expect("an event");
            match self.random.below(4) {
                0 => event.author = "another".to_owned(),
                1 => event.timestamp = 0.0,
                _ => {}
            }
            return event;
        }
        self.events += 1;
        let mut event = Event::user_text("x");
        event.id = format!("e{}", self.events);
        // Equal, decreasing and distant times; 0 leaves the time to the store.
        event.timestamp = match self.random.below(9) {
            8 => 3e9 + self.random.below(3) as f64,
            time => 10.0 * time as f64,
        };
        event.invocation_id = self.invocation();
        event.actions.state_delta = self.delta();
        if self.random.chance(8) {
            event.response.partial = Some(true);
        }
        if self.random.chance(8) {
            event.actions.rewind_before_invocation_id = Some(self.invocation());
        }
        event
    }

    fn append(&mut self, key: SessionKey) -> Operation {
        let mut key = key;
        let mut run = match self.random.below(10) {
            0..=1 => RunUse::Begin(RunOptions::default().with_wait(Duration::ZERO)),
            _ => RunUse::Outside,
        };
        if self.random.chance(20)
            && let Some((of, token)) = self.run()
        {
            key = of;
            run = match self.random.chance(70) {
                true => RunUse::Within(token),
                false => RunUse::End(token),
            };
        }
        let count = [0, 1, 1, 1, 1, 2, 3][self.random.below(7) as usize];
        let last = self.model.position(&key).unwrap_or(0);
        let events: Vec<Event> = (0..count).map(|_| self.event(&key)).collect();
        let mut append = Append::from(events);
        append.expected = match self.random.below(10) {
            0..=2 => Some(last),
            3 => Some(self.random.below(10)),
            _ => None,
        };
        append.run = run;
        Operation::Append(key, Box::new(append))
    }

    fn run(&mut self) -> Option<(SessionKey, RunToken)> {
        let recent = self.runs.len().min(6);
        if recent == 0 {
            return None;
        }
        let back = 1 + self.random.below(recent as u64) as usize;
        Some(self.runs[self.runs.len() - back].clone())
    }

    /// Runs the operation on the store and on the model and returns both answers.
    async fn run_both(&mut self, operation: Operation) -> (Answer, Answer) {
        let log = self.random.pick(&self.logs);
        match operation {
            Operation::Create(key, initial, ttl) => {
                let found = create(&log, &key, &initial, ttl).await;
                (found, self.model.create(&key, &initial, ttl))
            }
            Operation::Read(key, window) => {
                let found = log.read(&key, window).await;
                let found = found.map(|found| found.map_or("none".to_owned(), loaded_session_text));
                (with_error_kind(found), self.model.read(&key, window))
            }
            Operation::List(query, limit) => {
                let found = list(&log, &query, limit).await;
                (with_error_kind(found), self.model.list(&query))
            }
            Operation::Delete(key) => {
                let found = log.delete_session(&key.app, &key.user, &key.id).await;
                (
                    with_error_kind(found.map(|()| String::new())),
                    self.model.delete(&key),
                )
            }
            Operation::Append(key, append) => self.append_both(&log, key, *append).await,
            Operation::Renew(key, run, continues) => {
                let found = match continues {
                    true => log.renew_run(&key, run).await,
                    false => log.end_run(&key, run).await,
                };
                let expected = self.model.renew(&key, run, continues);
                (with_error_kind(found.map(|()| String::new())), expected)
            }
            Operation::StateAt(key, position) => {
                let found = log.state_at(&key, position).await;
                let expected = self.model.state_at(&key, position);
                (
                    with_error_kind(found.map(|state| state_text(&state))),
                    expected,
                )
            }
            Operation::Rewind(key, invocation) => self.rewind_both(&log, &key, &invocation).await,
            Operation::Fork(key, position, id) => {
                let found = log.fork(&key, position, Some(id)).await;
                let expected = self.model.fork(&key, position, id);
                (with_error_kind(found.map(loaded_session_text)), expected)
            }
            other => self.run_both_shared(&log, other).await,
        }
    }

    /// Like `run_both`, for operations on several sessions or on shared state, and for those that
    /// move a session.
    async fn run_both_shared(
        &mut self,
        log: &Arc<dyn SessionLog>,
        operation: Operation,
    ) -> (Answer, Answer) {
        match operation {
            Operation::AppState(app) => {
                let found = log.get_app_state(app).await;
                let found = found.map(|state| state_text(&state.into()));
                (with_error_kind(found), self.model.app_state(app))
            }
            Operation::UserState(app, user) => {
                let found = log.get_user_state(app, user).await;
                let found = found.map(|state| state_text(&state.into()));
                (with_error_kind(found), self.model.user_state(app, user))
            }
            Operation::Tick(by) => {
                self.harness.clock.tick(by);
                (Ok(String::new()), Ok(String::new()))
            }
            Operation::Sweep => {
                let found = log.sweep().await.map(|count| count.to_string());
                (with_error_kind(found), self.model.sweep())
            }
            Operation::Erase(app, user) => {
                // Whether expired sessions count is unspecified, so sweep them first.
                let swept = log.sweep().await.map(|count| count.to_string());
                assert_eq!(with_error_kind(swept), self.model.sweep());
                let found = log.erase_user(app, user).await.map(|receipt| {
                    let (sessions, events) = (receipt.sessions, receipt.events);
                    let keys = receipt.state_keys;
                    format!("{sessions} sessions, {events} events, {keys} keys")
                });
                (with_error_kind(found), self.model.erase(app, user))
            }
            Operation::Move(key) => {
                let found = move_session(log, &key).await;
                (with_error_kind(found), self.model.export_and_import(&key))
            }
            _ => {
                self.reopen().await;
                (Ok(String::new()), Ok(String::new()))
            }
        }
    }

    async fn append_both(
        &mut self,
        log: &Arc<dyn SessionLog>,
        key: SessionKey,
        append: Append,
    ) -> (Answer, Answer) {
        let found = log.append(&key, append.clone()).await;
        let given = found.as_ref().ok().and_then(|appended| appended.run);
        let expected = self.model.append(&key, &append, given);
        let begins = matches!(append.run, RunUse::Begin(_));
        self.runs
            .extend(given.filter(|_| begins).map(|run| (key, run)));
        let found = found.map(|appended| {
            let positions: Vec<u64> = appended.events.iter().map(|(at, _)| *at).collect();
            appended_text(&positions, appended.run.is_some())
        });
        (with_error_kind(found), expected)
    }

    async fn rewind_both(
        &mut self,
        log: &Arc<dyn SessionLog>,
        key: &SessionKey,
        invocation: &str,
    ) -> (Answer, Answer) {
        let expected = self.model.rewind_delta(key, invocation);
        if expected == Err("RunBusy".to_owned()) {
            // A rewind would wait for the lease, and the test clock stands still.
            return (Ok(String::new()), Ok(String::new()));
        }
        let found: Result<AppendReceipt> = log.rewind(key, invocation).await;
        let text = |position: u64, delta: &JsonMap| {
            let delta = state_text(&delta.clone().into());
            format!("rewound at {position} with {delta}")
        };
        let event = found.as_ref().ok().map(|appended| &appended.events[0].1);
        let expected = match (expected, event) {
            (Ok(delta), Some(event)) => {
                let position = self.model.apply_rewind(key, Event::clone(event));
                Ok(text(position, &delta))
            }
            (expected, _) => expected.map(|delta| text(0, &delta)),
        };
        let found = found.map(|appended| {
            let (position, event) = &appended.events[0];
            text(*position, &event.actions.state_delta)
        });
        (with_error_kind(found), expected)
    }

    async fn reopen(&mut self) {
        if self.harness.is_durable() {
            self.logs.clear();
            self.logs.push(self.harness.reopen().await);
            self.logs.push(self.harness.second().await);
        }
    }
}

fn with_error_kind<T>(answer: Result<T>) -> std::result::Result<T, String> {
    answer.map_err(|error| error_kind(&error))
}

fn loaded_session_text(session: Session) -> String {
    let events = session.events.iter_with_positions();
    session_text(
        &session.key(),
        session.position,
        session.last_update_time,
        &session.state,
        events,
    )
}

async fn create(
    log: &Arc<dyn SessionLog>,
    key: &SessionKey,
    initial: &JsonMap,
    ttl: Option<Duration>,
) -> Answer {
    let mut new = CreateSession::new(&key.app, &key.user)
        .with_session_id(&key.id)
        .with_state(initial.clone().into());
    new.ttl = ttl;
    with_error_kind(log.create(new).await.map(loaded_session_text))
}

/// Returns a session list as text, read in pages of `limit`.
async fn list(log: &Arc<dyn SessionLog>, query: &ListSessions, limit: usize) -> Result<String> {
    let mut lines = Vec::new();
    let mut query = query.clone().with_limit(limit);
    loop {
        let page = log.list(query.clone()).await?;
        lines.extend(page.sessions.iter().map(|meta| {
            meta_text(
                &meta.key(),
                (meta.create_time, meta.last_update_time),
                meta.position,
                meta.origin.as_ref(),
                meta.expire_time,
                &meta.state.clone().unwrap_or_default(),
            )
        }));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(lines.join("\n")),
        }
    }
}

/// Exports, deletes and imports a session.
async fn move_session(log: &Arc<dyn SessionLog>, key: &SessionKey) -> Result<String> {
    let lines = log.export(ExportScope::Session(key.clone()));
    let lines: Vec<String> = lines.try_collect().await?;
    log.delete_session(&key.app, &key.user, &key.id).await?;
    let lines: LineStream = Box::pin(futures_util::stream::iter(lines.into_iter().map(Ok)));
    log.import(lines).await?;
    let read = log.read(key, Window::ALL).await?;
    Ok(read.map_or("none".to_owned(), loaded_session_text))
}
