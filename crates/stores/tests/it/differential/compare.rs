//! Compares the answers of one of our services with those of one of ADK's services.
//!
//! Each of our answers is translated into the answer that ADK must have given, and the two must be
//! equal. A [`Rule`] translates an intended difference; it states exactly what ADK does instead, so
//! it also fails where ADK does the same as Retain.

mod adk;
mod equal;
mod parts;
mod rules;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use retain_core::{Json, JsonMap, SessionKey, StateScope, micros, seconds};

use super::{
    run::Outcome,
    script::{Op, Probe, Script},
};
use adk::{adk_rewind, adk_window, equal_in_python, newest, refuses, sorted};
use parts::{events_of, fields, fields_mut, id_of, ids, key_of, put, set_all, state_text, time_of};

pub(crate) use adk::Service;
pub(crate) use rules::{Rule, Used};

/// A difference that no rule explains.
#[derive(Debug)]
pub(crate) struct Mismatch {
    pub(crate) op: usize,
    place: String,
    expected: Json,
    found: Json,
    ours: Json,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "operation {}, at {}", self.op, self.place)?;
        writeln!(f, "  ADK should say: {}", self.expected)?;
        writeln!(f, "  ADK says:       {}", self.found)?;
        write!(f, "  Retain says:    {}", self.ours)
    }
}

/// Where two values differ.
struct Difference {
    place: String,
    expected: Json,
    found: Json,
}

type Checked<T = ()> = Result<T, Difference>;

fn differ<T>(place: &str, expected: impl Into<Json>, found: &Json) -> Checked<T> {
    Err(Difference {
        place: place.to_owned(),
        expected: expected.into(),
        found: found.clone(),
    })
}

/// State keys whose value differs in ADK, and why. `None`: no such state key.
type Overlay = BTreeMap<String, (Option<Json>, Rule)>;

/// What ADK stores differently for one session.
#[derive(Debug, Default)]
struct Twin {
    /// The id of the session in ADK.
    id: Option<(String, Rule)>,
    overlay: Overlay,
    /// Events that differ, by id.
    bodies: HashMap<String, (Json, Rule)>,
    /// The time of its last update in ADK.
    time: Option<f64>,
    /// The state it was created with.
    initial: JsonMap,
    /// Its log holds a rewind event that a client appended.
    has_foreign_rewind: bool,
}

/// A copy of a session that both sides hold.
#[derive(Debug, Default)]
struct Held {
    id: Option<(String, Rule)>,
    /// The session-scoped state in our copy, and where ADK's differs.
    state: JsonMap,
    overlay: Overlay,
    /// The time of the last update in our copy, and in ADK's if it differs.
    our_time: f64,
    time: Option<f64>,
    /// The events at the time of the read, in Retain and in ADK.
    our_events: Vec<Json>,
    adk_events: Vec<Json>,
}

/// Compares the answers to one script.
pub(crate) struct Comparison<'a> {
    service: Service,
    used: &'a mut Used,
    twins: HashMap<SessionKey, Twin>,
    slots: HashMap<usize, Held>,
    /// The current operation, and the time of the clock.
    op: usize,
    now_us: i64,
}

impl<'a> Comparison<'a> {
    /// Compare `ours` with `theirs`, operation by operation.
    pub(crate) fn run(
        service: Service,
        script: &Script,
        ours: &[Outcome],
        theirs: &[Json],
        used: &'a mut Used,
    ) -> Result<(), Mismatch> {
        let mut comparison = Comparison {
            service,
            used,
            twins: HashMap::new(),
            slots: HashMap::new(),
            op: 0,
            now_us: 0,
        };
        for (op, step) in script.steps.iter().enumerate() {
            (comparison.op, comparison.now_us) = (op, step.now_us);
            let (our, their) = (&ours[op], &theirs[op]);
            let checked = comparison.check(&step.op, our, their);
            checked.map_err(|difference| Mismatch {
                op,
                place: difference.place,
                expected: difference.expected,
                found: difference.found,
                ours: our.result.clone(),
            })?;
        }
        Ok(())
    }

    fn check(&mut self, op: &Op, ours: &Outcome, theirs: &Json) -> Checked {
        let result = &ours.result;
        match op {
            Op::Repeat { event, same, .. } => return self.repeat(event, *same, ours, theirs),
            Op::Append { slot, event, stale } if result.get("error").is_none() => {
                return self.append(*slot, event, *stale, ours, theirs);
            }
            Op::Probe { kind, .. } => return self.probe(*kind, result, theirs),
            Op::Look { id, of: None, .. } => return self.impossible(id, result, theirs),
            _ => {}
        }
        if let (Op::Append { slot, event, .. }, Some(_)) = (op, result.get("error")) {
            if ours.after.is_some() {
                return self.gone(*slot, event, ours, theirs);
            }
            self.failed(*slot, event);
        }
        if result.get("error").is_some() || theirs.get("error").is_some() {
            return self.same("error", result, theirs);
        }
        match op {
            Op::Create {
                id, state, slot, ..
            } => {
                let session = &result["session"];
                self.created(id.as_deref(), state.as_ref(), session, &theirs["session"])?;
                let expected = self.session(session, Vec::new());
                self.keep(*slot, session, &expected);
                self.same_session("session", &expected, &theirs["session"])
            }
            Op::Get {
                recent,
                after,
                slot,
                ..
            } => {
                let session = &result["session"];
                let Some(whole) = ours.before.as_ref().filter(|_| !session.is_null()) else {
                    return self.same("session", session, &theirs["session"]);
                };
                let expected = self.read(whole, session, *recent, *after)?;
                self.keep(*slot, session, &expected);
                self.same_session("session", &expected, &theirs["session"])
            }
            Op::Look { .. } => match &ours.before {
                Some(whole) if self.service != Service::Database => {
                    self.used.add(Rule::IdsAreNotTrimmed);
                    let expected = self.read(whole, whole, None, None)?;
                    self.same_session("session", &expected, &theirs["session"])
                }
                _ => self.same("session", &result["session"], &theirs["session"]),
            },
            Op::List { .. } => self.list(result, theirs),
            Op::UserState { .. } => self.same_map("state", &result["state"], &theirs["state"]),
            Op::Delete { .. } => {
                if let Some(before) = &ours.before {
                    self.twins.remove(&key_of(before));
                }
                self.same("result", result, theirs)
            }
            Op::Rewind { before, .. } => self.rewind(before, ours, theirs),
            Op::Append { .. } | Op::Repeat { .. } | Op::Probe { .. } => Ok(()),
        }
    }

    fn created(
        &mut self,
        given: Option<&str>,
        state: Option<&JsonMap>,
        ours: &Json,
        theirs: &Json,
    ) -> Checked {
        let key = key_of(ours);
        let mut twin = Twin {
            initial: state.cloned().unwrap_or_default(),
            ..Twin::default()
        };
        let given = given.unwrap_or(&key.id);
        let is_blank = given.trim().is_empty();
        if is_blank && self.service == Service::Database {
            twin.id = Some((given.to_owned(), Rule::BlankIdsAreMade));
        } else if !is_blank && given.trim() != given && self.service != Service::Database {
            twin.id = Some((given.trim().to_owned(), Rule::IdsAreNotTrimmed));
        }
        if theirs.is_null() {
            return differ("session", ours.clone(), theirs);
        }
        self.twins.insert(key, twin);
        Ok(())
    }

    /// A full or partial read as ADK returns it; `whole` holds the log in order of arrival.
    fn read(
        &mut self,
        whole: &Json,
        session: &Json,
        recent: Option<usize>,
        after: Option<f64>,
    ) -> Checked<Json> {
        let log = events_of(whole);
        let promised = our_window(log.clone(), recent, after);
        let read = events_of(session);
        if ids(&promised) != ids(&read) {
            return differ("our window", promised, &read.into());
        }
        let key = key_of(whole);
        let log: Vec<Json> = log.iter().map(|event| self.event(&key, event)).collect();
        let by_time = sorted(log.clone(), Service::Sqlite);
        let expected = adk_window(self.service, log.clone(), recent, after);
        if ids(&expected) != ids(&read) {
            let rule = match self.service {
                Service::Memory => Rule::WindowIsByTimeThenCount,
                Service::Database if ids(&by_time) == ids(&log) => Rule::EqualTimesStayInOrder,
                Service::Sqlite | Service::Database => Rule::OrderIsArrival,
            };
            self.used.add(rule);
        }
        Ok(self.session(session, expected))
    }

    /// Convert our session with these events to the form of ADK.
    fn session(&mut self, ours: &Json, events: Vec<Json>) -> Json {
        let key = key_of(ours);
        let Some(twin) = self.twins.get(&key) else {
            return ours.clone();
        };
        let (id, overlay, time) = (twin.id.clone(), twin.overlay.clone(), twin.time);
        self.translate(ours, id, &overlay, time, events)
    }

    fn translate(
        &mut self,
        ours: &Json,
        id: Option<(String, Rule)>,
        overlay: &Overlay,
        time: Option<f64>,
        events: Vec<Json>,
    ) -> Json {
        let mut session = ours.clone();
        let session_fields = fields_mut(&mut session);
        if let Some((id, rule)) = id {
            self.used.add(rule);
            session_fields.insert("id", id.as_str());
        }
        let mut state = fields(&ours["state"]).clone();
        for (key, (value, rule)) in overlay {
            self.used.add(*rule);
            put(&mut state, key, value.as_ref());
        }
        session_fields.insert("state", state);
        session_fields.insert("events", events);
        let ours_time = ours["lastUpdateTime"].as_f64().unwrap_or_default();
        let time = time.unwrap_or(ours_time);
        session_fields.insert("lastUpdateTime", self.update_time(time));
        session
    }

    /// Convert a last update time to that of ADK.
    fn update_time(&mut self, time: f64) -> f64 {
        if self.service != Service::Database {
            return time;
        }
        let cut = seconds(micros(time));
        if cut != time {
            self.used.add(Rule::LastUpdateTimeIsExact);
        }
        cut
    }

    /// Convert our event to the form of ADK.
    fn event(&mut self, key: &SessionKey, ours: &Json) -> Json {
        let body = self
            .twins
            .get(key)
            .and_then(|twin| twin.bodies.get(id_of(ours)));
        if let Some((body, rule)) = body {
            let (body, rule) = (body.clone(), *rule);
            self.used.add(rule);
            return body;
        }
        self.new_event(ours)
    }

    fn new_event(&mut self, ours: &Json) -> Json {
        let mut event = JsonMap::new();
        // ADK writes `nodeInfo` before the first of these fields.
        let behind = [
            "longRunningToolIds",
            "branch",
            "isolationScope",
            "id",
            "timestamp",
        ];
        let has_node = ours.get("nodeInfo").is_some();
        for (name, value) in fields(ours) {
            if name == "fromTheFuture" {
                self.used.add(Rule::UnknownFieldsAreKept);
                continue;
            }
            if !has_node && behind.contains(&name) && !event.contains_key("nodeInfo") {
                self.used.add(Rule::NodeInfoIsNotInvented);
                event.insert("nodeInfo", JsonMap::from([("path", "")]));
            }
            let value = match name {
                "longRunningToolIds" => self.id_set(value),
                _ => value.clone(),
            };
            event.insert(name, value);
        }
        event.into()
    }

    fn id_set(&mut self, ours: &Json) -> Json {
        let mut ids = ours.as_array().unwrap_or_default().to_vec();
        ids.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        let sorted = Json::from(ids);
        if sorted != *ours {
            self.used.add(Rule::IdSetsKeepTheirOrder);
        }
        sorted
    }

    fn keep(&mut self, slot: Option<usize>, ours: &Json, expected: &Json) {
        let Some(slot) = slot.filter(|_| !ours.is_null()) else {
            return;
        };
        let twin = self.twins.get(&key_of(ours));
        let held = Held {
            id: twin.and_then(|twin| twin.id.clone()),
            state: state_text(&ours["state"]),
            overlay: twin.map(|twin| twin.overlay.clone()).unwrap_or_default(),
            our_time: ours["lastUpdateTime"].as_f64().unwrap_or_default(),
            time: twin.and_then(|twin| twin.time),
            our_events: events_of(ours),
            adk_events: events_of(expected),
        };
        self.slots.insert(slot, held);
    }

    fn list(&mut self, ours: &Json, theirs: &Json) -> Checked {
        let sessions = ours["sessions"].as_array().unwrap_or_default();
        let mut expected: Vec<Json> = sessions
            .iter()
            .map(|session| self.session(session, Vec::new()))
            .collect();
        let time = |session: &Json| session["lastUpdateTime"].as_f64().unwrap_or_default();
        expected.sort_by(|a, b| {
            let name = |session: &Json| {
                let key = key_of(session);
                (key.user, key.id)
            };
            time(a).total_cmp(&time(b)).then(name(a).cmp(&name(b)))
        });
        let found = theirs["sessions"].as_array().unwrap_or_default();
        if expected.len() != found.len() {
            return differ("sessions", expected, &theirs["sessions"]);
        }
        for (expected, found) in expected.iter().zip(found) {
            self.same_session("sessions", expected, found)?;
        }
        Ok(())
    }

    fn append(
        &mut self,
        slot: usize,
        given: &Json,
        stale: bool,
        ours: &Outcome,
        theirs: &Json,
    ) -> Checked {
        let result = &ours.result;
        let key = key_of(&result["live"]);
        let is_refused = !event_is_partial(given) && self.is_refused(slot, ours);
        let mut event = self.new_event(&result["event"]);
        let is_partial = event_is_partial(given);
        let is_zero = !is_partial && given.get("timestamp").and_then(Json::as_f64) == Some(0.0);
        if is_zero {
            self.used.add(Rule::ZeroTimeIsNow);
            fields_mut(&mut event).insert("timestamp", 0.0);
        }
        if is_partial {
            self.fill_in(given, &mut event);
        } else {
            self.stored(&key, &result["event"], &event, is_zero, ours)?;
        }
        if is_refused {
            self.used.add(Rule::StaleWritersAreAccepted);
            self.same("error", &"StaleSessionError".into(), &theirs["error"])?;
            self.same("event, after reading again", &event, &theirs["retried"])?;
        } else {
            self.same("event", &event, &theirs["event"])?;
            self.live(slot, &event, is_partial, is_zero, result, theirs)?;
        }
        if !stale {
            return Ok(());
        }
        let fetched = &result["fetched"];
        let Some(whole) = ours.after.as_ref() else {
            return self.same("fetched", fetched, &theirs["fetched"]);
        };
        let expected = self.read(whole, fetched, None, None)?;
        self.keep(Some(slot), fetched, &expected);
        self.same_session("fetched", &expected, &theirs["fetched"])
    }

    /// An append that both sides rejected.
    fn failed(&mut self, slot: usize, given: &Json) {
        let (Some(held), true) = (self.slots.get_mut(&slot), self.service != Service::Memory)
        else {
            return;
        };
        let delta = given["actions"]["stateDelta"].as_object();
        for (key, value) in delta.into_iter().flatten() {
            if StateScope::of(key) == StateScope::Temp {
                let left = (Some(value.clone()), Rule::FailedAppendsChangeNothing);
                held.overlay.insert(key.to_owned(), left);
            }
        }
    }

    /// An append through a copy of a deleted session whose id was reused. ADK stores the event in
    /// the new session, so nothing after this can be compared.
    fn gone(&mut self, slot: usize, given: &Json, ours: &Outcome, theirs: &Json) -> Checked {
        if ours.result["error"] != "SessionNotFoundError" || ours.before != ours.after {
            return differ(
                "our answer to a copy that is gone",
                Json::Null,
                &ours.result,
            );
        }
        self.used.add(Rule::CopiesDieWithTheirSession);
        if self.is_refused(slot, ours) {
            self.same("error", &"StaleSessionError".into(), &theirs["error"])?;
            return self.same("event", &given["id"], &theirs["retried"]["id"]);
        }
        self.same("event", &given["id"], &theirs["event"]["id"])
    }

    /// Set the id and time that ADK gives to an event without them.
    fn fill_in(&mut self, given: &Json, event: &mut Json) {
        let (op, now_us) = (self.op, self.now_us);
        let event = fields_mut(event);
        if given.get("id").is_none() {
            self.used.add(Rule::PartialEventsAreNotFilledIn);
            event.insert("id", format!("op{op}-1").as_str());
        }
        if given.get("timestamp").is_none() {
            self.used.add(Rule::PartialEventsAreNotFilledIn);
            event.insert("timestamp", seconds(now_us));
        }
    }

    /// Whether ADK rejects the copy as stale.
    fn is_refused(&self, slot: usize, ours: &Outcome) -> bool {
        let (Some(before), Some(held)) = (&ours.before, self.slots.get(&slot)) else {
            return false;
        };
        let stored = before["lastUpdateTime"].as_f64().unwrap_or_default();
        let twin = self.twins.get(&key_of(before));
        let stored = twin.and_then(|twin| twin.time).unwrap_or(stored);
        refuses(self.service, stored, held.time.unwrap_or(held.our_time))
    }

    /// Record what ADK holds after an append of `ours`, which it stored as `event`.
    fn stored(
        &mut self,
        key: &SessionKey,
        ours: &Json,
        event: &Json,
        is_zero: bool,
        outcome: &Outcome,
    ) -> Checked {
        let (Some(before), Some(after)) = (&outcome.before, &outcome.after) else {
            return differ("event", Json::Null, event);
        };
        let twin = self.twins.entry(key.clone()).or_default();
        let states = (&state_text(&before["state"]), &state_text(&after["state"]));
        twin.overlay = overlay_after(&twin.overlay, states, ours)?;
        let is_rewind = ours["actions"].get("rewindBeforeInvocationId").is_some();
        twin.has_foreign_rewind |= is_rewind;
        twin.time = is_zero.then_some(0.0);
        if is_zero {
            let body = (event.clone(), Rule::ZeroTimeIsNow);
            twin.bodies.insert(id_of(event).to_owned(), body);
        }
        Ok(())
    }

    /// Compare the copy through which the event was appended.
    fn live(
        &mut self,
        slot: usize,
        event: &Json,
        is_partial: bool,
        is_zero: bool,
        ours: &Json,
        theirs: &Json,
    ) -> Checked {
        let live = &ours["live"];
        let mut held = self.slots.remove(&slot).unwrap_or_default();
        if !is_partial {
            held.our_events.push(ours["event"].clone());
            held.adk_events.push(event.clone());
            held.our_time = time_of(&ours["event"]);
            held.time = is_zero.then_some(0.0);
            let state = state_text(&live["state"]);
            held.overlay = overlay_after(&held.overlay, (&held.state, &state), &ours["event"])?;
            held.state = state;
        }
        let our_events = events_of(live);
        if our_events != held.our_events {
            return differ("our live events", held.our_events, &our_events.into());
        }
        let id = held.id.clone();
        let (overlay, events) = (held.overlay.clone(), held.adk_events.clone());
        let expected = self.translate(live, id, &overlay, held.time, events);
        self.slots.insert(slot, held);
        self.same_session("live", &expected, &theirs["live"])
    }

    fn repeat(&mut self, given: &Json, same: bool, ours: &Outcome, theirs: &Json) -> Checked {
        let result = &ours.result;
        let Some(whole) = &ours.before else {
            return self.same("error", result, theirs);
        };
        if ours.before != ours.after {
            return differ("our session after a repeat", whole.clone(), result);
        }
        let expected_error = if same { Json::Null } else { "Conflict".into() };
        if result["error"] != expected_error {
            return differ("our answer to a repeat", expected_error, result);
        }
        let delta = &given["actions"]["stateDelta"];
        let delta = delta.as_object().cloned().unwrap_or_default();
        let is_temp = |key: &str| StateScope::of(key) == StateScope::Temp;
        if same {
            let mut temp = delta.clone();
            temp.retain(|key, _| is_temp(key));
            let mut live = whole.clone();
            let mut state = fields(&whole["state"]).clone();
            set_all(&mut state, &temp);
            fields_mut(&mut live).insert("state", state);
            if live != result["live"] {
                return differ("our copy after a repeat", live, &result["live"]);
            }
        }
        let rule = match same {
            true => Rule::ExactRepeatsSucceed,
            false => Rule::OtherBodiesAreConflicts,
        };
        if self.service != Service::Memory {
            self.used.add(rule);
            return self.same("error", &"IntegrityError".into(), &theirs["error"]);
        }
        // In memory an equal event changes nothing, and a different one is stored again.
        let mut live = self.read(whole, whole, None, None)?;
        let has_temp = delta.keys().any(is_temp);
        let mut event = match same {
            true => self.event(&key_of(whole), &result["event"]),
            false => self.new_event(&result_of_conflict(whole, given)),
        };
        if same && !has_temp {
            self.same("event", &event, &theirs["event"])?;
            return self.same_session("live", &live, &theirs["live"]);
        }
        self.used.add(rule);
        if given["timestamp"].as_f64() == Some(0.0) {
            fields_mut(&mut event).insert("timestamp", 0.0);
        }
        let mut state = fields(&live["state"]).clone();
        set_all(&mut state, &delta);
        let mut events = events_of(&live);
        events.push(event.clone());
        let live_fields = fields_mut(&mut live);
        live_fields.insert("state", state);
        live_fields.insert("events", events);
        live_fields.insert("lastUpdateTime", time_of(&event));
        self.same("event", &event, &theirs["event"])?;
        self.same_session("live", &live, &theirs["live"])
    }

    fn rewind(&mut self, invocation: &str, ours: &Outcome, theirs: &Json) -> Checked {
        let (Some(before), Some(after)) = (&ours.before, &ours.after) else {
            return self.same("result", &ours.result, theirs);
        };
        let key = key_of(before);
        let log = events_of(before);
        let log: Vec<Json> = log.iter().map(|event| self.event(&key, event)).collect();
        let twin = self.twins.entry(key.clone()).or_default();
        let mut there = state_text(&before["state"]);
        for (key, (value, _)) in &twin.overlay {
            put(&mut there, key, value.as_ref());
        }
        let in_order = sorted(log.clone(), self.service);
        let is_sorted = ids(&in_order) == ids(&log);
        let delta = adk_rewind(&in_order, &there, invocation);
        set_all(&mut there, &delta);
        let here = state_text(&after["state"]);
        let mut overlay = Overlay::new();
        for name in here.keys().chain(there.keys()) {
            let (own, other) = (here.get(name), there.get(name));
            if own == other {
                continue;
            }
            let is_null = other.is_some_and(Json::is_null);
            let rule = match own {
                Some(own) if other.is_some_and(|other| equal_in_python(own, other)) => {
                    Rule::OneIsNotTrue
                }
                _ if !is_sorted => Rule::RewindFollowsArrival,
                None if is_null => Rule::RewindRemovesKeys,
                Some(own) if is_null && twin.initial.get(name) == Some(own) => {
                    Rule::RewindRestoresInitialState
                }
                _ if twin.has_foreign_rewind => Rule::RewindEventsAreFollowed,
                _ => {
                    return differ(
                        &format!("state key {name:?}"),
                        there.clone(),
                        &here.clone().into(),
                    );
                }
            };
            overlay.insert(name.to_owned(), (other.cloned(), rule));
        }
        let untranslated = self.new_event(&ours.result["event"]).to_string();
        let mut event = ours.result["event"].clone();
        let our_delta = state_text(&event["actions"]["stateDelta"]);
        let actions = fields_mut(&mut event).get_mut("actions").expect("actions");
        fields_mut(actions).insert("stateDelta", delta.clone());
        let expected = self.new_event(&event);
        let rule = match overlay.values().next() {
            _ if our_delta == delta => Rule::StateKeysHaveNoOrder,
            Some((_, rule)) => *rule,
            None => Rule::RewindSaysOnlyChanges,
        };
        let twin = self.twins.entry(key).or_default();
        twin.overlay = overlay;
        twin.time = None;
        if our_delta != delta {
            self.used.add(rule);
        }
        // State keys that are equal on both sides, before and after.
        let is_idle = |name: &str| here.get(name) == there.get(name);
        if delta
            .keys()
            .any(|name| !our_delta.contains_key(name) && is_idle(name))
        {
            self.used.add(Rule::RewindSaysOnlyChanges);
        }
        // ADK orders state keys as in its own state; use the event as ADK returned it.
        let body = (theirs["event"].clone(), rule);
        if theirs["event"].to_string() != untranslated {
            twin.bodies.insert(id_of(&event).to_owned(), body);
        }
        self.same_but_delta_order("event", &expected, &theirs["event"])?;
        let session = &ours.result["session"];
        let expected = self.read(after, session, None, None)?;
        self.same_session("session", &expected, &theirs["session"])
    }

    /// Retain rejects reads of an id that it would not store. ADK reads and finds nothing.
    fn impossible(&mut self, id: &str, ours: &Json, theirs: &Json) -> Checked {
        if ours["error"] != "Invalid" {
            return differ("our answer to an id that is refused", "Invalid", ours);
        }
        self.used.add(match id {
            "" => Rule::EmptyNamesAreRefused,
            id if id.contains('\0') => Rule::NulIsRefused,
            _ => Rule::LongIdsAreRefused,
        });
        let nothing = JsonMap::from([("session", Json::Null)]);
        self.same("result", &nothing.into(), theirs)
    }

    fn probe(&mut self, kind: Probe, ours: &Json, theirs: &Json) -> Checked {
        let ok = |created: &str, appended: Option<&str>| {
            let mut expected = JsonMap::from([("created", created)]);
            if let Some(appended) = appended {
                expected.insert("appended", appended);
            }
            Json::from(expected)
        };
        let has_event = ours.get("appended").is_some();
        let fine = ok("ok", has_event.then_some("ok"));
        let refused = |error: &str| match has_event {
            true => ok("ok", Some(error)),
            false => ok(error, None),
        };
        let (here, there, rule) = match kind {
            Probe::Nul => (refused("Invalid"), fine, Rule::NulIsRefused),
            // A state key is too large, an id is invalid.
            Probe::Long if ours["appended"] == "TooLarge" => {
                (refused("TooLarge"), fine, Rule::LongIdsAreRefused)
            }
            Probe::Long => (refused("Invalid"), fine, Rule::LongIdsAreRefused),
            Probe::Empty => (refused("Invalid"), fine, Rule::EmptyNamesAreRefused),
            Probe::UnknownAction => (
                fine,
                refused("ValidationError"),
                Rule::UnknownActionsAreKept,
            ),
            Probe::Trimmed if self.service == Service::Database => {
                return self.same("result", ours, theirs);
            }
            Probe::Trimmed => (fine, refused("AlreadyExistsError"), Rule::IdsAreNotTrimmed),
        };
        if *ours != here {
            return differ("our answer to a probe", here, ours);
        }
        self.used.add(rule);
        self.same("result", &there, theirs)
    }
}

fn event_is_partial(event: &Json) -> bool {
    event["partial"] == true
}

/// Return where ADK's state differs after `event`, which turned the first of our `states` into the
/// second. An event sets its state keys on both sides; only a rewind does more in Retain.
fn overlay_after(
    overlay: &Overlay,
    (before, after): (&JsonMap, &JsonMap),
    event: &Json,
) -> Checked<Overlay> {
    let mut there = before.clone();
    for (key, (value, _)) in overlay {
        put(&mut there, key, value.as_ref());
    }
    set_all(&mut there, &state_text(&event["actions"]["stateDelta"]));
    let is_rewind = event["actions"].get("rewindBeforeInvocationId").is_some();
    let mut differing = Overlay::new();
    for name in after.keys().chain(there.keys()) {
        if after.get(name) == there.get(name) {
            continue;
        }
        let rule = match overlay.get(name) {
            Some((_, rule)) => *rule,
            None if is_rewind => Rule::RewindEventsAreFollowed,
            None => {
                let place = format!("our state key {name:?}");
                return differ(&place, there.clone(), &after.clone().into());
            }
        };
        differing.insert(name.to_owned(), (there.get(name).cloned(), rule));
    }
    Ok(differing)
}

/// Return the event that a conflict rejected, in its stored form.
fn result_of_conflict(whole: &Json, given: &Json) -> Json {
    let stored = events_of(whole);
    let stored = stored.iter().find(|event| event["id"] == given["id"]);
    let mut event = stored.expect("a conflict is about a stored event").clone();
    fields_mut(&mut event).insert("author", given["author"].clone());
    event
}

/// The window that Retain promises: by time, then the newest `recent`, in order of arrival.
fn our_window(mut log: Vec<Json>, recent: Option<usize>, after: Option<f64>) -> Vec<Json> {
    if let Some(after) = after {
        log.retain(|event| time_of(event) >= after);
    }
    newest(log, recent)
}
