//! Compares the answers of one of Retain's session services with those of one of ADK's.
//!
//! The comparison translates each of Retain's answers into the answer that ADK must have given; the
//! two must be equal. A [`Rule`] translates an intended difference. It states exactly what ADK does
//! instead, so the test also fails if ADK does the same as Retain.

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
use adk::{adk_rewind, adk_window, equal_in_python, keep_newest, rejects_as_stale, sort_as_adk};
use parts::{
    events_of, fields, fields_mut, id_of, ids, key_of, put, session_state, set_all, time_of,
};

pub(crate) use adk::Service;
pub(crate) use rules::{Rule, RuleCounts};

/// A difference that no rule explains.
#[derive(Debug)]
pub(crate) struct Mismatch {
    pub(crate) op: usize,
    path: String,
    expected: Json,
    found: Json,
    ours: Json,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "operation {}, at {}", self.op, self.path)?;
        writeln!(f, "  ADK should answer: {}", self.expected)?;
        writeln!(f, "  ADK answers:       {}", self.found)?;
        write!(f, "  Retain answers:    {}", self.ours)
    }
}

/// The first place at which two values differ.
struct Difference {
    path: String,
    expected: Json,
    found: Json,
}

type CheckResult<T = ()> = Result<T, Difference>;

fn differ<T>(path: &str, expected: impl Into<Json>, found: &Json) -> CheckResult<T> {
    Err(Difference {
        path: path.to_owned(),
        expected: expected.into(),
        found: found.clone(),
    })
}

/// State keys whose value differs in ADK, and why. `None` if ADK does not have the state key.
type Overlay = BTreeMap<String, (Option<Json>, Rule)>;

/// How one session in ADK differs from the same session in Retain.
#[derive(Debug, Default)]
struct AdkSession {
    /// The id of the session in ADK, if it differs.
    id: Option<(String, Rule)>,
    overlay: Overlay,
    /// Events that differ, by id.
    bodies: HashMap<String, (Json, Rule)>,
    /// The time of its last update in ADK, if it differs.
    time: Option<f64>,
    /// The state it was created with.
    initial: JsonMap,
    /// Whether the log has a rewind event that a client appended.
    has_foreign_rewind: bool,
}

/// A copy of a session in memory, through which a script appends on both sides.
#[derive(Debug, Default)]
struct HeldSession {
    id: Option<(String, Rule)>,
    /// The session-scoped state in Retain's copy. `overlay` has the values that differ in ADK's.
    state: JsonMap,
    overlay: Overlay,
    /// The time of the last update in Retain's copy, and in ADK's if that differs.
    our_time: f64,
    time: Option<f64>,
    /// The events at the time of the read, in Retain and in ADK.
    our_events: Vec<Json>,
    adk_events: Vec<Json>,
}

/// Compares the answers to one script.
pub(crate) struct Comparison<'a> {
    service: Service,
    rules: &'a mut RuleCounts,
    adk_sessions: HashMap<SessionKey, AdkSession>,
    slots: HashMap<usize, HeldSession>,
    /// The current operation, and the time of the clock.
    op: usize,
    now_us: i64,
}

impl<'a> Comparison<'a> {
    /// Compares `ours` with `theirs`, operation by operation.
    pub(crate) fn run(
        service: Service,
        script: &Script,
        ours: &[Outcome],
        theirs: &[Json],
        rules: &'a mut RuleCounts,
    ) -> Result<(), Mismatch> {
        let mut comparison = Comparison {
            service,
            rules,
            adk_sessions: HashMap::new(),
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
                path: difference.path,
                expected: difference.expected,
                found: difference.found,
                ours: our.result.clone(),
            })?;
        }
        Ok(())
    }

    fn check(&mut self, op: &Op, ours: &Outcome, theirs: &Json) -> CheckResult {
        let result = &ours.result;
        match op {
            Op::Repeat { event, same, .. } => return self.check_repeat(event, *same, ours, theirs),
            Op::Append { slot, event, stale } if result.get("error").is_none() => {
                return self.check_append(*slot, event, *stale, ours, theirs);
            }
            Op::Probe { kind, .. } => return self.check_probe(*kind, result, theirs),
            Op::GetById {
                id, target: None, ..
            } => return self.check_invalid_id(id, result, theirs),
            _ => {}
        }
        if let (Op::Append { slot, event, .. }, Some(_)) = (op, result.get("error")) {
            if ours.after.is_some() {
                return self.check_append_to_deleted(*slot, event, ours, theirs);
            }
            self.record_failed_append(*slot, event);
        }
        if result.get("error").is_some() || theirs.get("error").is_some() {
            return self.check_equal("error", result, theirs);
        }
        match op {
            Op::Create {
                id, state, slot, ..
            } => {
                let session = &result["session"];
                self.record_created(id.as_deref(), state.as_ref(), session, &theirs["session"])?;
                let expected = self.translate_session(session, Vec::new());
                self.hold(*slot, session, &expected);
                self.check_session("session", &expected, &theirs["session"])
            }
            Op::Get {
                recent,
                after,
                slot,
                ..
            } => {
                let session = &result["session"];
                let Some(whole) = ours.before.as_ref().filter(|_| !session.is_null()) else {
                    return self.check_equal("session", session, &theirs["session"]);
                };
                let expected = self.translate_read(whole, session, *recent, *after)?;
                self.hold(*slot, session, &expected);
                self.check_session("session", &expected, &theirs["session"])
            }
            Op::GetById { .. } => match &ours.before {
                Some(whole) if self.service != Service::Database => {
                    self.rules.add(Rule::IdsAreNotTrimmed);
                    let expected = self.translate_read(whole, whole, None, None)?;
                    self.check_session("session", &expected, &theirs["session"])
                }
                _ => self.check_equal("session", &result["session"], &theirs["session"]),
            },
            Op::List { .. } => self.check_list(result, theirs),
            Op::UserState { .. } => self.check_map("state", &result["state"], &theirs["state"]),
            Op::Delete { .. } => {
                if let Some(before) = &ours.before {
                    self.adk_sessions.remove(&key_of(before));
                }
                self.check_equal("result", result, theirs)
            }
            Op::Rewind { before, .. } => self.check_rewind(before, ours, theirs),
            Op::Append { .. } | Op::Repeat { .. } | Op::Probe { .. } => Ok(()),
        }
    }

    fn record_created(
        &mut self,
        given: Option<&str>,
        state: Option<&JsonMap>,
        ours: &Json,
        theirs: &Json,
    ) -> CheckResult {
        let key = key_of(ours);
        let mut adk_session = AdkSession {
            initial: state.cloned().unwrap_or_default(),
            ..AdkSession::default()
        };
        let given = given.unwrap_or(&key.id);
        let is_blank = given.trim().is_empty();
        if is_blank && self.service == Service::Database {
            adk_session.id = Some((given.to_owned(), Rule::BlankIdsAreMade));
        } else if !is_blank && given.trim() != given && self.service != Service::Database {
            adk_session.id = Some((given.trim().to_owned(), Rule::IdsAreNotTrimmed));
        }
        if theirs.is_null() {
            return differ("session", ours.clone(), theirs);
        }
        self.adk_sessions.insert(key, adk_session);
        Ok(())
    }

    /// Converts a full or partial read to the form of ADK; `whole` has the log in order of arrival.
    fn translate_read(
        &mut self,
        whole: &Json,
        session: &Json,
        recent: Option<usize>,
        after: Option<f64>,
    ) -> CheckResult<Json> {
        let log = events_of(whole);
        let expected = our_window(log.clone(), recent, after);
        let read = events_of(session);
        if ids(&expected) != ids(&read) {
            return differ("our window", expected, &read.into());
        }
        let key = key_of(whole);
        let log: Vec<Json> = log
            .iter()
            .map(|event| self.translate_event(&key, event))
            .collect();
        let by_time = sort_as_adk(log.clone(), Service::Sqlite);
        let expected = adk_window(self.service, log.clone(), recent, after);
        if ids(&expected) != ids(&read) {
            let rule = match self.service {
                Service::Memory => Rule::WindowIsByTimeThenCount,
                Service::Database if ids(&by_time) == ids(&log) => Rule::EqualTimesStayInOrder,
                Service::Sqlite | Service::Database => Rule::OrderIsArrival,
            };
            self.rules.add(rule);
        }
        Ok(self.translate_session(session, expected))
    }

    /// Converts our session with these events to the form of ADK.
    fn translate_session(&mut self, ours: &Json, events: Vec<Json>) -> Json {
        let key = key_of(ours);
        let Some(adk_session) = self.adk_sessions.get(&key) else {
            return ours.clone();
        };
        let (id, overlay, time) = (
            adk_session.id.clone(),
            adk_session.overlay.clone(),
            adk_session.time,
        );
        self.build_session(ours, id, &overlay, time, events)
    }

    fn build_session(
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
            self.rules.add(rule);
            session_fields.insert("id", id.as_str());
        }
        let mut state = fields(&ours["state"]).clone();
        for (key, (value, rule)) in overlay {
            self.rules.add(*rule);
            put(&mut state, key, value.as_ref());
        }
        session_fields.insert("state", state);
        session_fields.insert("events", events);
        let ours_time = ours["lastUpdateTime"].as_f64().unwrap_or_default();
        let time = time.unwrap_or(ours_time);
        session_fields.insert("lastUpdateTime", self.translate_time(time));
        session
    }

    /// Converts a last update time to that of ADK.
    fn translate_time(&mut self, time: f64) -> f64 {
        if self.service != Service::Database {
            return time;
        }
        let truncated = seconds(micros(time));
        if truncated != time {
            self.rules.add(Rule::LastUpdateTimeIsExact);
        }
        truncated
    }

    /// Converts our event to the form of ADK.
    fn translate_event(&mut self, key: &SessionKey, ours: &Json) -> Json {
        let body = self
            .adk_sessions
            .get(key)
            .and_then(|session| session.bodies.get(id_of(ours)));
        if let Some((body, rule)) = body {
            let (body, rule) = (body.clone(), *rule);
            self.rules.add(rule);
            return body;
        }
        self.translate_new_event(ours)
    }

    fn translate_new_event(&mut self, ours: &Json) -> Json {
        let mut event = JsonMap::new();
        // ADK writes `nodeInfo` before the first of these fields.
        let later_fields = [
            "longRunningToolIds",
            "branch",
            "isolationScope",
            "id",
            "timestamp",
        ];
        let has_node = ours.get("nodeInfo").is_some();
        for (name, value) in fields(ours) {
            if name == "fromTheFuture" {
                self.rules.add(Rule::UnknownFieldsAreKept);
                continue;
            }
            if !has_node && later_fields.contains(&name) && !event.contains_key("nodeInfo") {
                self.rules.add(Rule::NodeInfoIsNotInvented);
                event.insert("nodeInfo", JsonMap::from([("path", "")]));
            }
            let value = match name {
                "longRunningToolIds" => self.sort_ids(value),
                _ => value.clone(),
            };
            event.insert(name, value);
        }
        event.into()
    }

    fn sort_ids(&mut self, ours: &Json) -> Json {
        let mut ids = ours.as_array().unwrap_or_default().to_vec();
        ids.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        let sorted = Json::from(ids);
        if sorted != *ours {
            self.rules.add(Rule::IdSetsKeepTheirOrder);
        }
        sorted
    }

    fn hold(&mut self, slot: Option<usize>, ours: &Json, expected: &Json) {
        let Some(slot) = slot.filter(|_| !ours.is_null()) else {
            return;
        };
        let adk_session = self.adk_sessions.get(&key_of(ours));
        let held = HeldSession {
            id: adk_session.and_then(|session| session.id.clone()),
            state: session_state(&ours["state"]),
            overlay: adk_session
                .map(|session| session.overlay.clone())
                .unwrap_or_default(),
            our_time: ours["lastUpdateTime"].as_f64().unwrap_or_default(),
            time: adk_session.and_then(|session| session.time),
            our_events: events_of(ours),
            adk_events: events_of(expected),
        };
        self.slots.insert(slot, held);
    }

    fn check_list(&mut self, ours: &Json, theirs: &Json) -> CheckResult {
        let sessions = ours["sessions"].as_array().unwrap_or_default();
        let mut expected: Vec<Json> = sessions
            .iter()
            .map(|session| self.translate_session(session, Vec::new()))
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
            self.check_session("sessions", expected, found)?;
        }
        Ok(())
    }

    fn check_append(
        &mut self,
        slot: usize,
        given: &Json,
        stale: bool,
        ours: &Outcome,
        theirs: &Json,
    ) -> CheckResult {
        let result = &ours.result;
        let key = key_of(&result["live"]);
        let is_stale = !event_is_partial(given) && self.is_stale_in_adk(slot, ours);
        let mut event = self.translate_new_event(&result["event"]);
        let is_partial = event_is_partial(given);
        let is_zero = !is_partial && given.get("timestamp").and_then(Json::as_f64) == Some(0.0);
        if is_zero {
            self.rules.add(Rule::ZeroTimeIsNow);
            fields_mut(&mut event).insert("timestamp", 0.0);
        }
        if is_partial {
            self.add_id_and_time(given, &mut event);
        } else {
            self.record_append(&key, &result["event"], &event, is_zero, ours)?;
        }
        if is_stale {
            self.rules.add(Rule::StaleWritersAreAccepted);
            self.check_equal("error", &"StaleSessionError".into(), &theirs["error"])?;
            self.check_equal(
                "event, appended to a fresh copy",
                &event,
                &theirs["retried"],
            )?;
        } else {
            self.check_equal("event", &event, &theirs["event"])?;
            self.check_live(slot, &event, is_partial, is_zero, result, theirs)?;
        }
        if !stale {
            return Ok(());
        }
        let fetched = &result["fetched"];
        let Some(whole) = ours.after.as_ref() else {
            return self.check_equal("fetched", fetched, &theirs["fetched"]);
        };
        let expected = self.translate_read(whole, fetched, None, None)?;
        self.hold(Some(slot), fetched, &expected);
        self.check_session("fetched", &expected, &theirs["fetched"])
    }

    /// Records the `temp:` keys of an append that both sides reject: ADK's loaded session gets
    /// them.
    fn record_failed_append(&mut self, slot: usize, given: &Json) {
        let (Some(held), true) = (self.slots.get_mut(&slot), self.service != Service::Memory)
        else {
            return;
        };
        let delta = given["actions"]["stateDelta"].as_object();
        for (key, value) in delta.into_iter().flatten() {
            if StateScope::of(key) == StateScope::Temp {
                let entry = (Some(value.clone()), Rule::FailedAppendsChangeNothing);
                held.overlay.insert(key.to_owned(), entry);
            }
        }
    }

    /// Checks an append through a copy of a deleted session whose id was reused. ADK stores the
    /// event in the new session, so nothing after this can be compared.
    fn check_append_to_deleted(
        &mut self,
        slot: usize,
        given: &Json,
        ours: &Outcome,
        theirs: &Json,
    ) -> CheckResult {
        if ours.result["error"] != "SessionNotFoundError" || ours.before != ours.after {
            return differ(
                "our answer to an append to a deleted session",
                Json::Null,
                &ours.result,
            );
        }
        self.rules.add(Rule::CopiesDieWithTheirSession);
        if self.is_stale_in_adk(slot, ours) {
            self.check_equal("error", &"StaleSessionError".into(), &theirs["error"])?;
            return self.check_equal("event", &given["id"], &theirs["retried"]["id"]);
        }
        self.check_equal("event", &given["id"], &theirs["event"]["id"])
    }

    /// Sets the id and times that ADK gives to an event without them.
    fn add_id_and_time(&mut self, given: &Json, event: &mut Json) {
        let (op, now_us) = (self.op, self.now_us);
        let event = fields_mut(event);
        if given.get("id").is_none() {
            self.rules.add(Rule::PartialEventsAreNotFilledIn);
            event.insert("id", format!("op{op}-1").as_str());
        }
        if given.get("timestamp").is_none() {
            self.rules.add(Rule::PartialEventsAreNotFilledIn);
            event.insert("timestamp", seconds(now_us));
        }
    }

    /// Whether ADK rejects the copy as stale.
    fn is_stale_in_adk(&self, slot: usize, ours: &Outcome) -> bool {
        let (Some(before), Some(held)) = (&ours.before, self.slots.get(&slot)) else {
            return false;
        };
        let stored = before["lastUpdateTime"].as_f64().unwrap_or_default();
        let adk_session = self.adk_sessions.get(&key_of(before));
        let stored = adk_session
            .and_then(|session| session.time)
            .unwrap_or(stored);
        rejects_as_stale(self.service, stored, held.time.unwrap_or(held.our_time))
    }

    /// Records the session that ADK has after an append of `ours`, which it stored as `event`.
    fn record_append(
        &mut self,
        key: &SessionKey,
        ours: &Json,
        event: &Json,
        is_zero: bool,
        outcome: &Outcome,
    ) -> CheckResult {
        let (Some(before), Some(after)) = (&outcome.before, &outcome.after) else {
            return differ("event", Json::Null, event);
        };
        let adk_session = self.adk_sessions.entry(key.clone()).or_default();
        let states = (
            &session_state(&before["state"]),
            &session_state(&after["state"]),
        );
        adk_session.overlay = overlay_after(&adk_session.overlay, states, ours)?;
        let is_rewind = ours["actions"].get("rewindBeforeInvocationId").is_some();
        adk_session.has_foreign_rewind |= is_rewind;
        adk_session.time = is_zero.then_some(0.0);
        if is_zero {
            let body = (event.clone(), Rule::ZeroTimeIsNow);
            adk_session.bodies.insert(id_of(event).to_owned(), body);
        }
        Ok(())
    }

    /// Compares the copy through which the event was appended.
    fn check_live(
        &mut self,
        slot: usize,
        event: &Json,
        is_partial: bool,
        is_zero: bool,
        ours: &Json,
        theirs: &Json,
    ) -> CheckResult {
        let live = &ours["live"];
        let mut held = self.slots.remove(&slot).unwrap_or_default();
        if !is_partial {
            held.our_events.push(ours["event"].clone());
            held.adk_events.push(event.clone());
            held.our_time = time_of(&ours["event"]);
            held.time = is_zero.then_some(0.0);
            let state = session_state(&live["state"]);
            held.overlay = overlay_after(&held.overlay, (&held.state, &state), &ours["event"])?;
            held.state = state;
        }
        let our_events = events_of(live);
        if our_events != held.our_events {
            return differ("our live events", held.our_events, &our_events.into());
        }
        let id = held.id.clone();
        let (overlay, events) = (held.overlay.clone(), held.adk_events.clone());
        let expected = self.build_session(live, id, &overlay, held.time, events);
        self.slots.insert(slot, held);
        self.check_session("live", &expected, &theirs["live"])
    }

    fn check_repeat(
        &mut self,
        given: &Json,
        same: bool,
        ours: &Outcome,
        theirs: &Json,
    ) -> CheckResult {
        let result = &ours.result;
        let Some(whole) = &ours.before else {
            return self.check_equal("error", result, theirs);
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
        let rule = if same {
            Rule::ExactRepeatsSucceed
        } else {
            Rule::OtherBodiesAreConflicts
        };
        if self.service != Service::Memory {
            self.rules.add(rule);
            return self.check_equal("error", &"IntegrityError".into(), &theirs["error"]);
        }
        // ADK's in-memory service ignores an equal event and stores a different one again.
        let mut live = self.translate_read(whole, whole, None, None)?;
        let has_temp = delta.keys().any(is_temp);
        let mut event = if same {
            self.translate_event(&key_of(whole), &result["event"])
        } else {
            self.translate_new_event(&rejected_event(whole, given))
        };
        if same && !has_temp {
            self.check_equal("event", &event, &theirs["event"])?;
            return self.check_session("live", &live, &theirs["live"]);
        }
        self.rules.add(rule);
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
        self.check_equal("event", &event, &theirs["event"])?;
        self.check_session("live", &live, &theirs["live"])
    }

    fn check_rewind(&mut self, invocation: &str, ours: &Outcome, theirs: &Json) -> CheckResult {
        let (Some(before), Some(after)) = (&ours.before, &ours.after) else {
            return self.check_equal("result", &ours.result, theirs);
        };
        let key = key_of(before);
        let log = events_of(before);
        let log: Vec<Json> = log
            .iter()
            .map(|event| self.translate_event(&key, event))
            .collect();
        let adk_session = self.adk_sessions.entry(key.clone()).or_default();
        let mut adk_state = session_state(&before["state"]);
        for (key, (value, _)) in &adk_session.overlay {
            put(&mut adk_state, key, value.as_ref());
        }
        let in_order = sort_as_adk(log.clone(), self.service);
        let is_sorted = ids(&in_order) == ids(&log);
        let delta = adk_rewind(&in_order, &adk_state, invocation);
        set_all(&mut adk_state, &delta);
        let our_state = session_state(&after["state"]);
        let mut overlay = Overlay::new();
        for name in our_state.keys().chain(adk_state.keys()) {
            let (own, other) = (our_state.get(name), adk_state.get(name));
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
                Some(own) if is_null && adk_session.initial.get(name) == Some(own) => {
                    Rule::RewindRestoresInitialState
                }
                _ if adk_session.has_foreign_rewind => Rule::RewindEventsAreFollowed,
                _ => {
                    return differ(
                        &format!("state key {name:?}"),
                        adk_state.clone(),
                        &our_state.clone().into(),
                    );
                }
            };
            overlay.insert(name.to_owned(), (other.cloned(), rule));
        }
        let unchanged_event = self.translate_new_event(&ours.result["event"]).to_string();
        let mut event = ours.result["event"].clone();
        let our_delta = session_state(&event["actions"]["stateDelta"]);
        let actions = fields_mut(&mut event).get_mut("actions").expect("actions");
        fields_mut(actions).insert("stateDelta", delta.clone());
        let expected = self.translate_new_event(&event);
        let rule = match overlay.values().next() {
            _ if our_delta == delta => Rule::StateKeysHaveNoOrder,
            Some((_, rule)) => *rule,
            None => Rule::RewindSaysOnlyChanges,
        };
        let adk_session = self.adk_sessions.entry(key).or_default();
        adk_session.overlay = overlay;
        adk_session.time = None;
        if our_delta != delta {
            self.rules.add(rule);
        }
        // Whether a state key has the same value on both sides after the rewind.
        let is_unchanged = |name: &str| our_state.get(name) == adk_state.get(name);
        if delta
            .keys()
            .any(|name| !our_delta.contains_key(name) && is_unchanged(name))
        {
            self.rules.add(Rule::RewindSaysOnlyChanges);
        }
        // ADK orders state keys as in its own state, so record the event as ADK returned it.
        let body = (theirs["event"].clone(), rule);
        if theirs["event"].to_string() != unchanged_event {
            adk_session.bodies.insert(id_of(&event).to_owned(), body);
        }
        self.check_event_ignoring_delta_order("event", &expected, &theirs["event"])?;
        let session = &ours.result["session"];
        let expected = self.translate_read(after, session, None, None)?;
        self.check_session("session", &expected, &theirs["session"])
    }

    /// Checks a read by an invalid id. Retain rejects it; ADK finds no session.
    fn check_invalid_id(&mut self, id: &str, ours: &Json, theirs: &Json) -> CheckResult {
        if ours["error"] != "Invalid" {
            return differ("our answer to an invalid id", "Invalid", ours);
        }
        self.rules.add(match id {
            "" => Rule::EmptyNamesAreRefused,
            id if id.contains('\0') => Rule::NulIsRefused,
            _ => Rule::LongIdsAreRefused,
        });
        let nothing = JsonMap::from([("session", Json::Null)]);
        self.check_equal("result", &nothing.into(), theirs)
    }

    fn check_probe(&mut self, kind: Probe, ours: &Json, theirs: &Json) -> CheckResult {
        let answer = |created: &str, appended: Option<&str>| {
            let mut expected = JsonMap::from([("created", created)]);
            if let Some(appended) = appended {
                expected.insert("appended", appended);
            }
            Json::from(expected)
        };
        let has_event = ours.get("appended").is_some();
        let accepted = answer("ok", has_event.then_some("ok"));
        let rejected = |error: &str| {
            if has_event {
                answer("ok", Some(error))
            } else {
                answer(error, None)
            }
        };
        let (our_answer, adk_answer, rule) = match kind {
            Probe::Nul => (rejected("Invalid"), accepted, Rule::NulIsRefused),
            // Retain reports a long state key as `TooLarge` and a long id as `Invalid`.
            Probe::Long if ours["appended"] == "TooLarge" => {
                (rejected("TooLarge"), accepted, Rule::LongIdsAreRefused)
            }
            Probe::Long => (rejected("Invalid"), accepted, Rule::LongIdsAreRefused),
            Probe::Empty => (rejected("Invalid"), accepted, Rule::EmptyNamesAreRefused),
            Probe::UnknownAction => (
                accepted,
                rejected("ValidationError"),
                Rule::UnknownActionsAreKept,
            ),
            Probe::Trimmed if self.service == Service::Database => {
                return self.check_equal("result", ours, theirs);
            }
            Probe::Trimmed => (
                accepted,
                rejected("AlreadyExistsError"),
                Rule::IdsAreNotTrimmed,
            ),
        };
        if *ours != our_answer {
            return differ("our answer to a probe", our_answer, ours);
        }
        self.rules.add(rule);
        self.check_equal("result", &adk_answer, theirs)
    }
}

fn event_is_partial(event: &Json) -> bool {
    event["partial"] == true
}

/// Returns where ADK's state differs after `event`, which changed Retain's state from `before` to
/// `after`. An event sets its state keys on both sides; only a rewind changes more in Retain.
fn overlay_after(
    overlay: &Overlay,
    (before, after): (&JsonMap, &JsonMap),
    event: &Json,
) -> CheckResult<Overlay> {
    let mut adk_state = before.clone();
    for (key, (value, _)) in overlay {
        put(&mut adk_state, key, value.as_ref());
    }
    set_all(
        &mut adk_state,
        &session_state(&event["actions"]["stateDelta"]),
    );
    let is_rewind = event["actions"].get("rewindBeforeInvocationId").is_some();
    let mut differing = Overlay::new();
    for name in after.keys().chain(adk_state.keys()) {
        if after.get(name) == adk_state.get(name) {
            continue;
        }
        let rule = match overlay.get(name) {
            Some((_, rule)) => *rule,
            None if is_rewind => Rule::RewindEventsAreFollowed,
            None => {
                let path = format!("our state key {name:?}");
                return differ(&path, adk_state.clone(), &after.clone().into());
            }
        };
        differing.insert(name.to_owned(), (adk_state.get(name).cloned(), rule));
    }
    Ok(differing)
}

/// Returns the event that a conflict rejected, in its stored form.
fn rejected_event(whole: &Json, given: &Json) -> Json {
    let stored = events_of(whole);
    let stored = stored.iter().find(|event| event["id"] == given["id"]);
    let mut event = stored.expect("a conflict is about a stored event").clone();
    fields_mut(&mut event).insert("author", given["author"].clone());
    event
}

/// Returns the window that Retain documents: filtered by time, limited to the newest `recent`, in
/// order of arrival.
fn our_window(mut log: Vec<Json>, recent: Option<usize>, after: Option<f64>) -> Vec<Json> {
    if let Some(after) = after {
        log.retain(|event| time_of(event) >= after);
    }
    keep_newest(log, recent)
}
