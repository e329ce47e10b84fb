//! A simple model of the contract: full copies and no index. It is slow and easy to verify.
//!
//! [`run_model_test`] runs the same random operations on a store and on the model; every answer,
//! including errors, must be equal.

use std::{collections::BTreeMap, time::Duration};

use retain_core::{
    Append, Event, JsonMap, ListSessions, Origin, RunToken, RunUse, ScopedDelta, SessionKey, State,
    Window, seconds,
};

pub use crate::driver::run_model_test;
use crate::fold::states_by_position;

/// The answer to an operation: a complete description as text, or the kind of the error.
pub(crate) type Answer = Result<String, String>;

/// All sessions and their shared state.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// The store's clock.
    pub(crate) now_us: i64,
    /// How long a run keeps its lease.
    run_ttl: Duration,
    sessions: BTreeMap<SessionKey, ModelSession>,
    apps: BTreeMap<String, JsonMap>,
    users: BTreeMap<(String, String), JsonMap>,
    /// Every token ever issued, so that none is issued twice.
    tokens: Vec<(SessionKey, RunToken)>,
}

#[derive(Debug, Clone, Default)]
struct ModelSession {
    initial: JsonMap,
    events: Vec<Event>,
    create_time: f64,
    last_update_time: f64,
    ttl: Option<Duration>,
    touched_us: i64,
    origin: Option<Origin>,
    holder: Option<RunToken>,
    held_until_us: i64,
    /// The run that ended last, if no other has begun since.
    ended: Option<RunToken>,
}

impl ModelSession {
    fn expires_us(&self) -> Option<i64> {
        self.ttl.map(|ttl| self.touched_us + ttl.as_micros() as i64)
    }

    fn position(&self) -> u64 {
        self.events.len() as u64
    }

    fn states(&self) -> Vec<JsonMap> {
        states_by_position(&self.initial, &self.events)
    }
}

impl Model {
    /// Creates an empty model in which a lease lasts `run_ttl`.
    pub(crate) fn new(run_ttl: Duration) -> Model {
        Model {
            run_ttl,
            ..Model::default()
        }
    }

    fn now(&self) -> f64 {
        seconds(self.now_us)
    }

    fn live(&self, key: &SessionKey) -> Result<&ModelSession, String> {
        let session = self.sessions.get(key);
        let live = session.filter(|session| self.is_alive(session));
        live.ok_or_else(|| "NotFound".to_owned())
    }

    fn is_alive(&self, session: &ModelSession) -> bool {
        session.expires_us().is_none_or(|at| self.now_us < at)
    }

    fn live_mut(&mut self, key: &SessionKey) -> &mut ModelSession {
        self.sessions
            .get_mut(key)
            .expect("the caller has checked that the session exists")
    }

    fn ensure_absent(&mut self, key: &SessionKey) -> Result<(), String> {
        match self.live(key) {
            Ok(_) => Err("AlreadyExists".to_owned()),
            Err(_) => Ok(()),
        }
    }

    fn set_shared_state(&mut self, key: &SessionKey, delta: &JsonMap) {
        let scoped = ScopedDelta::from_delta(delta);
        let app = self.apps.entry(key.app.clone()).or_default();
        app.extend(scoped.app);
        let user = (key.app.clone(), key.user.clone());
        self.users.entry(user).or_default().extend(scoped.user);
    }

    fn merged(&self, key: &SessionKey, own: JsonMap) -> State {
        let app = self.app_map(&key.app);
        State::merged(own, &app, &self.user_map(&key.app, &key.user))
    }

    fn app_map(&self, app: &str) -> JsonMap {
        self.apps.get(app).cloned().unwrap_or_default()
    }

    fn user_map(&self, app: &str, user: &str) -> JsonMap {
        let user = (app.to_owned(), user.to_owned());
        self.users.get(&user).cloned().unwrap_or_default()
    }

    pub(crate) fn app_state(&self, app: &str) -> Answer {
        Ok(state_text(&self.app_map(app).into()))
    }

    pub(crate) fn user_state(&self, app: &str, user: &str) -> Answer {
        Ok(state_text(&self.user_map(app, user).into()))
    }

    pub(crate) fn create(
        &mut self,
        key: &SessionKey,
        initial: &JsonMap,
        ttl: Option<Duration>,
    ) -> Answer {
        self.ensure_absent(key)?;
        let initial = State::trim_temp_keys(initial);
        self.set_shared_state(key, &initial);
        let session = ModelSession {
            initial,
            create_time: self.now(),
            last_update_time: self.now(),
            ttl,
            touched_us: self.now_us,
            ..ModelSession::default()
        };
        self.sessions.insert(key.clone(), session);
        self.read(key, Window::NONE)
    }

    pub(crate) fn read(&self, key: &SessionKey, window: Window) -> Answer {
        let Ok(session) = self.live(key) else {
            return Ok("none".to_owned());
        };
        let places = (1..).zip(&session.events);
        let mut events: Vec<(u64, &Event)> = places
            .filter(|(at, _)| (window.first..=window.last).contains(at))
            .filter(|(_, event)| window.after_timestamp.is_none_or(|t| event.timestamp >= t))
            .collect();
        if let Some(newest) = window.newest {
            events.drain(..events.len().saturating_sub(newest));
        }
        events.truncate(window.oldest.unwrap_or(usize::MAX));
        let own = session.states().pop().unwrap_or_default();
        Ok(session_text(
            key,
            session.position(),
            session.last_update_time,
            &self.merged(key, own),
            events.into_iter(),
        ))
    }

    pub(crate) fn list(&self, query: &ListSessions) -> Answer {
        let mut found: Vec<_> = self
            .sessions
            .iter()
            .filter(|(key, session)| key.app == query.app_name && self.is_alive(session))
            .filter(|(key, _)| query.user_id.as_ref().is_none_or(|user| *user == key.user))
            .collect();
        found.sort_by(|(a, one), (b, two)| {
            let time = one.last_update_time.total_cmp(&two.last_update_time);
            time.then_with(|| (&a.user, &a.id).cmp(&(&b.user, &b.id)))
        });
        let lines = found.into_iter().map(|(key, session)| {
            let own = session.states().pop().unwrap_or_default();
            meta_text(
                key,
                (session.create_time, session.last_update_time),
                session.position(),
                session.origin.as_ref(),
                session.expires_us().map(seconds),
                &self.merged(key, own),
            )
        });
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    pub(crate) fn delete(&mut self, key: &SessionKey) -> Answer {
        self.sessions.remove(key);
        Ok(String::new())
    }

    /// Appends events; `given` is the token that the store issued, if any.
    pub(crate) fn append(
        &mut self,
        key: &SessionKey,
        append: &Append,
        given: Option<RunToken>,
    ) -> Answer {
        let whole = append.events.iter().filter(|event| !event.is_partial());
        let events: Vec<Event> = whole.map(without_temp).collect();
        if events.is_empty() && matches!(append.run, RunUse::Outside) {
            return Ok(appended_text(&[], false));
        }
        let session = self.live(key)?;
        let (positions, fresh) = locate_events(session, &events)?;
        let is_repeat = fresh.is_empty() && !events.is_empty();
        let held = session.held_until_us > self.now_us;
        let refused = match append.run {
            RunUse::Begin(_) if held => Some("RunBusy"),
            RunUse::Within(run) | RunUse::End(run) if session.holder != Some(run) => {
                Some("RunLost")
            }
            _ => None,
        };
        // A repeated append that begins a run needs a token, so it fails while the session is busy.
        let begins = matches!(append.run, RunUse::Begin(_));
        if let Some(refused) = refused.filter(|_| !is_repeat || begins) {
            return Err(refused.to_owned());
        }
        let found = session.position();
        if let (Some(expected), false) = (append.expected, is_repeat)
            && expected != found
        {
            return Err(format!("Position({expected}, {found})"));
        }
        let run = refused.is_none().then_some(append.run.clone());
        self.write(key, fresh);
        let has_run = match run {
            Some(run) => self.lease(key, run, given)?,
            None => false,
        };
        Ok(appended_text(&positions, has_run))
    }

    fn write(&mut self, key: &SessionKey, fresh: Vec<Event>) {
        let (now, now_us) = (self.now(), self.now_us);
        if !fresh.is_empty() {
            self.live_mut(key).touched_us = now_us;
        }
        for mut event in fresh {
            if event.timestamp == 0.0 {
                event.timestamp = now;
            }
            self.set_shared_state(key, &event.actions.state_delta);
            let session = self.live_mut(key);
            session.last_update_time = event.timestamp;
            session.events.push(event);
        }
    }

    /// Updates the lease for the run; returns true if the caller holds it now.
    fn lease(
        &mut self,
        key: &SessionKey,
        run: RunUse,
        given: Option<RunToken>,
    ) -> Result<bool, String> {
        let until_us = self.now_us + self.run_ttl.as_micros() as i64;
        match run {
            RunUse::Outside => return Ok(false),
            RunUse::Begin(_) => {
                let token = given.ok_or("expected a token for the new run")?;
                let known = (key.clone(), token);
                if self.tokens.contains(&known) {
                    return Err(format!(
                        "expected a new token, but {token:?} was issued before"
                    ));
                }
                self.tokens.push(known);
                self.live_mut(key).holder = Some(token);
                self.live_mut(key).ended = None;
            }
            RunUse::Within(_) => {}
            RunUse::End(run) => {
                self.live_mut(key).holder = None;
                self.live_mut(key).ended = Some(run);
            }
        }
        let continues = !matches!(run, RunUse::End(_));
        self.live_mut(key).held_until_us = if continues { until_us } else { 0 };
        Ok(continues)
    }

    /// Renews the lease of a run without an append, or ends the run if `continues` is false.
    pub(crate) fn renew(&mut self, key: &SessionKey, run: RunToken, continues: bool) -> Answer {
        let session = self.live(key)?;
        if session.ended == Some(run) && !continues {
            // Ending a run twice is allowed.
            return Ok(String::new());
        }
        if session.holder != Some(run) {
            return Err("RunLost".to_owned());
        }
        let run = match continues {
            true => RunUse::Within(run),
            false => RunUse::End(run),
        };
        self.lease(key, run, None).map(|_| String::new())
    }

    pub(crate) fn state_at(&self, key: &SessionKey, position: u64) -> Answer {
        let session = self.live(key)?;
        let last = session.position();
        let Some(own) = session.states().get(position as usize).cloned() else {
            return Err(format!("PositionNotFound({position}, {last})"));
        };
        Ok(state_text(&self.merged(key, own)))
    }

    /// Returns the delta that a rewind stores.
    pub(crate) fn rewind_delta(
        &self,
        key: &SessionKey,
        invocation: &str,
    ) -> Result<JsonMap, String> {
        let session = self.live(key)?;
        let of_it = |event: &Event| event.invocation_id == invocation;
        let first = session.events.iter().position(of_it);
        let first = first.ok_or_else(|| format!("InvocationNotFound({invocation})"))?;
        if session.held_until_us > self.now_us {
            return Err("RunBusy".to_owned());
        }
        let states = session.states();
        let (target, current) = (&states[first], states.last().expect("the initial state"));
        let changed = target.iter().filter(|(k, v)| current.get(k) != Some(v));
        let mut delta: JsonMap = changed.map(|(k, v)| (k, v.clone())).collect();
        let gone = current.keys().filter(|k| !target.contains_key(k));
        delta.extend(gone.map(|k| (k, retain_core::Json::Null)));
        Ok(delta)
    }

    /// Applies the event that a rewind has stored; returns its position.
    pub(crate) fn apply_rewind(&mut self, key: &SessionKey, event: Event) -> u64 {
        self.write(key, vec![event]);
        // The rewind was a run of its own, so the token of an earlier run is outdated.
        let session = self.live_mut(key);
        session.holder = None;
        session.ended = None;
        session.held_until_us = 0;
        session.position()
    }

    pub(crate) fn fork(&mut self, key: &SessionKey, position: Option<u64>, id: &str) -> Answer {
        let origin = self.live(key)?.clone();
        let last = origin.position();
        let position = position.unwrap_or(last);
        if position > last {
            return Err(format!("PositionNotFound({position}, {last})"));
        }
        let fork_key = SessionKey::new(&key.app, &key.user, id);
        self.ensure_absent(&fork_key)?;
        let fork = ModelSession {
            events: origin.events[..position as usize].to_vec(),
            create_time: self.now(),
            last_update_time: self.now(),
            touched_us: self.now_us,
            origin: Some(Origin {
                session_id: key.id.clone(),
                position,
            }),
            holder: None,
            held_until_us: 0,
            ended: None,
            ..origin
        };
        self.sessions.insert(fork_key.clone(), fork);
        self.read(&fork_key, Window::ALL)
    }

    pub(crate) fn sweep(&mut self) -> Answer {
        let before = self.sessions.len();
        let now_us = self.now_us;
        let is_alive = |s: &ModelSession| s.expires_us().is_none_or(|at| now_us < at);
        self.sessions.retain(|_, session| is_alive(session));
        Ok((before - self.sessions.len()).to_string())
    }

    pub(crate) fn erase(&mut self, app: &str, user: &str) -> Answer {
        let is_theirs = |key: &SessionKey| key.app == app && key.user == user;
        let theirs = self.sessions.iter().filter(|(key, _)| is_theirs(key));
        let (mut sessions, mut events, mut keys) = (0, 0, 0);
        for (_, session) in theirs {
            sessions += 1;
            events += session.events.len();
            keys += session.states().last().map_or(0, JsonMap::len);
        }
        self.sessions.retain(|key, _| !is_theirs(key));
        let user = self.users.remove(&(app.to_owned(), user.to_owned()));
        keys += user.map_or(0, |map| map.len());
        Ok(format!("{sessions} sessions, {events} events, {keys} keys"))
    }

    /// Exports, deletes and imports a session. Then it has no lease and a new expiry time, and is
    /// otherwise equal.
    pub(crate) fn export_and_import(&mut self, key: &SessionKey) -> Answer {
        let now_us = self.now_us;
        self.live(key)?;
        let session = self.live_mut(key);
        session.holder = None;
        session.ended = None;
        session.held_until_us = 0;
        session.touched_us = now_us;
        self.read(key, Window::ALL)
    }

    /// Returns the position of the last event, if the session exists.
    pub(crate) fn position(&self, key: &SessionKey) -> Option<u64> {
        self.live(key).ok().map(ModelSession::position)
    }

    /// Returns an event of the session, to append it again.
    pub(crate) fn event(&self, key: &SessionKey, position: u64) -> Option<Event> {
        let session = self.live(key).ok()?;
        session.events.get(position as usize - 1).cloned()
    }
}

fn without_temp(event: &Event) -> Event {
    let mut event = event.clone();
    event.actions.state_delta = State::trim_temp_keys(&event.actions.state_delta);
    event
}

/// Returns the position of each event after the append, and the events that are new.
fn locate_events(
    session: &ModelSession,
    events: &[Event],
) -> Result<(Vec<u64>, Vec<Event>), String> {
    let mut log = session.events.clone();
    let mut positions = Vec::new();
    for event in events {
        match log.iter().position(|known| known.id == event.id) {
            Some(at) if is_same(event, &log[at]) => positions.push(at as u64 + 1),
            Some(at) => return Err(format!("EventId({}, {})", event.id, at + 1)),
            None => {
                log.push(event.clone());
                positions.push(log.len() as u64);
            }
        }
    }
    Ok((positions, log.split_off(session.events.len())))
}

fn is_same(event: &Event, stored: &Event) -> bool {
    let mut event = event.clone();
    if event.timestamp == 0.0 {
        event.timestamp = stored.timestamp;
    }
    event == *stored
}

/// Returns a state as text, independent of the order of its keys.
pub(crate) fn state_text(state: &State) -> String {
    let sorted: BTreeMap<&str, String> = state.iter().map(|(k, v)| (k, v.to_string())).collect();
    format!("{sorted:?}")
}

/// Returns a session as text.
pub(crate) fn session_text<'a>(
    key: &SessionKey,
    position: u64,
    last_update_time: f64,
    state: &State,
    events: impl Iterator<Item = (u64, &'a Event)>,
) -> String {
    let state = state_text(state);
    let mut text = format!("{key} at {position}, {last_update_time:?}\n  state {state}");
    for (position, event) in events {
        let body = event.to_json().expect("an event that was stored");
        text.push_str(&format!("\n  {position}: {body}"));
    }
    text
}

/// Returns a list entry as text.
pub(crate) fn meta_text(
    key: &SessionKey,
    times: (f64, f64),
    position: u64,
    origin: Option<&Origin>,
    expire_time: Option<f64>,
    state: &State,
) -> String {
    let state = state_text(state);
    format!("{key} {times:?} at {position} from {origin:?} until {expire_time:?} state {state}")
}

/// Returns the answer to an append as text, without the token, whose number the store chooses.
pub(crate) fn appended_text(positions: &[u64], has_run: bool) -> String {
    let run = if has_run { ", a run" } else { "" };
    format!("{positions:?}{run}")
}
