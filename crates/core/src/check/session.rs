//! The rules for one session: its log is complete and readable, and everything else is a view of it.

use std::collections::HashMap;

use super::{Damage, Location, Problem};
use crate::{
    event::Event,
    json::Json,
    log::fold::Fold,
    session::{Origin, SessionKey},
};

/// The recorded facts about a session that its log determines.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionFacts {
    /// The session.
    pub key: SessionKey,
    /// The last position of the log.
    pub position: u64,
    /// The creation time, in seconds since 1970.
    pub create_time: f64,
    /// The time of the last event.
    pub last_update_time: f64,
    /// Whether the times of the events never decrease.
    pub in_order: bool,
    /// Bytes of the current state keys and values.
    pub state_bytes: u64,
    /// Bytes of the events from position 1 to `sized_to`.
    pub log_bytes: u64,
    /// The position up to which `log_bytes` counts.
    pub sized_to: u64,
    /// The session and position that this one was forked from.
    pub origin: Option<Origin>,
}

/// The columns of an event.
#[derive(Debug, Clone, Copy)]
pub struct EventColumns<'a> {
    /// The position; 0 is the initial state.
    pub position: u64,
    /// The event id.
    pub id: &'a str,
    /// The invocation id.
    pub invocation: &'a str,
    /// The time, in seconds since 1970.
    pub timestamp: f64,
    /// The event as JSON.
    pub body: &'a [u8],
}

/// The columns of a value of a state key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateColumns<V> {
    /// The state key.
    pub name: V,
    /// The position at which the key got the value.
    pub position: u64,
    /// The value as JSON; `None` if the key was removed.
    pub value: Option<V>,
    /// Whether this is the current value.
    pub is_current: bool,
}

/// The rows to write so that a session equals the fold of its log.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRepair {
    /// The facts, derived from the log.
    pub facts: SessionFacts,
    /// Events whose columns differ from their bodies: position, id, invocation and time.
    pub events: Vec<(u64, String, String, f64)>,
    /// All values of all state keys, if some of them differ.
    pub state: Option<Vec<StateColumns<String>>>,
}

/// What a check of a session has found.
#[derive(Debug, Default)]
pub struct SessionVerdict {
    /// The problems.
    pub problems: Vec<Problem>,
    /// The repair; `None` if nothing can or must be repaired.
    pub repair: Option<SessionRepair>,
}

/// Checks one session. Pass all events by position, then all state rows, and call
/// [`end`](Self::end). It needs memory for the session's state values, not for its events.
#[derive(Debug)]
pub struct SessionCheck {
    stored: SessionFacts,
    derived: SessionFacts,
    /// The fold; `None` after an event that is missing or unreadable.
    fold: Option<Fold>,
    /// The expected position of the next event.
    next: u64,
    last_time: f64,
    is_ordered: bool,
    events: Vec<(u64, String, String, f64)>,
    state: StateComparison,
    problems: Vec<Problem>,
}

impl SessionCheck {
    /// Starts with the recorded facts.
    pub fn new(stored: SessionFacts) -> SessionCheck {
        SessionCheck {
            derived: SessionFacts {
                log_bytes: 0,
                ..stored.clone()
            },
            fold: None,
            next: 0,
            last_time: f64::NEG_INFINITY,
            is_ordered: true,
            events: Vec::new(),
            state: StateComparison::default(),
            problems: Vec::new(),
            stored,
        }
    }

    /// Checks the next event.
    pub fn check_event(&mut self, row: EventColumns<'_>) {
        let position = row.position;
        if position != self.next {
            self.report_gap(position);
        }
        self.next = position + 1;
        let read = match position {
            0 => self.read_initial(row),
            _ => self.read_event(row),
        };
        if let Err(cause) = read {
            self.fold = None;
            self.report(position, Damage::Unreadable { cause });
        }
    }

    /// Reports an event whose columns cannot be read.
    pub fn check_unreadable(&mut self, position: u64, cause: impl std::fmt::Display) {
        if position != self.next {
            self.report_gap(position);
        }
        self.next = position + 1;
        self.fold = None;
        let cause = cause.to_string();
        self.report(position, Damage::Unreadable { cause });
    }

    fn report_gap(&mut self, found: u64) {
        self.fold = None;
        let what = match found - self.next {
            1 => "the event".to_owned(),
            count => format!("the event, like the next {}", count - 1),
        };
        self.report(self.next, Damage::Missing { what });
    }

    fn report(&mut self, position: u64, damage: Damage) {
        let location = Location::of_event(&self.stored.key, position);
        self.problems.push(Problem::permanent(location, damage));
    }

    fn read_initial(&mut self, row: EventColumns<'_>) -> Result<(), String> {
        let text = std::str::from_utf8(row.body).map_err(|e| e.to_string())?;
        let initial = Json::parse(text).map_err(|e| e.to_string())?;
        let initial = initial.as_object().ok_or("it is not a JSON object")?;
        self.fold = Some(Fold::new(initial));
        Ok(())
    }

    fn read_event(&mut self, row: EventColumns<'_>) -> Result<(), String> {
        let text = std::str::from_utf8(row.body).map_err(|e| e.to_string())?;
        let event = Event::from_json(text).map_err(|e| e.to_string())?;
        let position = row.position;
        if let Some(fold) = &mut self.fold {
            fold.step(position, &event);
        }
        if position <= self.stored.sized_to {
            self.derived.log_bytes += row.body.len() as u64;
        }
        self.is_ordered &= self.last_time <= event.timestamp;
        self.last_time = event.timestamp;
        let columns = [
            ("the column of its id", row.id == event.id),
            (
                "the column of its invocation",
                row.invocation == event.invocation_id,
            ),
            ("the column of its time", row.timestamp == event.timestamp),
        ];
        for (what, _) in columns.into_iter().filter(|(_, is_equal)| !is_equal) {
            let location = Location::of_event(&self.stored.key, position);
            let problem = Problem::repairable(location, differs(what, None));
            self.problems.push(problem);
        }
        if columns.iter().any(|(_, is_equal)| !is_equal) {
            let Event {
                id,
                invocation_id,
                timestamp,
                ..
            } = event;
            self.events.push((position, id, invocation_id, timestamp));
        }
        Ok(())
    }

    /// Checks the next value of a state key.
    pub fn check_state(&mut self, row: StateColumns<&str>) {
        if self.state.expected.is_none() {
            self.begin_state();
        }
        if let Err(cause) = self.state.compare(&row) {
            let location = Location::StateKey {
                key: self.stored.key.clone(),
                name: row.name.to_owned(),
            };
            let damage = Damage::Unreadable { cause };
            self.problems.push(Problem {
                location,
                damage,
                // Without a complete log, the value cannot be derived.
                is_repairable: self.state.is_derivable(),
            });
        }
    }

    /// Compares the end of the log, and turns the fold into the expected state rows.
    fn begin_state(&mut self) {
        if self.next <= self.stored.position {
            self.report_gap(self.stored.position + 1);
        }
        self.derived.position = self.next.saturating_sub(1);
        self.state.expected = Some(self.fold.take().map(|fold| {
            let history = fold.into_history().into_iter();
            let history = history.map(|(name, values)| (name, ExpectedValues::new(values)));
            history.collect()
        }));
    }

    /// Ends the check, and says how to repair the session.
    pub fn end(mut self) -> SessionVerdict {
        if self.state.expected.is_none() {
            self.begin_state();
        }
        if !self.state.is_derivable() {
            return SessionVerdict {
                problems: self.problems,
                repair: None,
            };
        }
        let wrong = self.state.wrong_keys();
        for (name, what) in &wrong {
            let location = Location::StateKey {
                key: self.stored.key.clone(),
                name: name.clone(),
            };
            let problem = Problem::repairable(location, differs(what, None));
            // An unreadable value of the key was reported already.
            let is_reported = |other: &Problem| other.location == problem.location;
            if !self.problems.iter().any(is_reported) {
                self.problems.push(problem);
            }
        }
        self.compare_facts();
        let is_damaged = self.problems.iter().any(|problem| problem.is_repairable);
        let state = (!wrong.is_empty()).then(|| self.state.rows());
        SessionVerdict {
            repair: is_damaged.then_some(SessionRepair {
                facts: self.derived,
                events: self.events,
                state,
            }),
            problems: self.problems,
        }
    }

    fn compare_facts(&mut self) {
        self.derived.state_bytes = self.state.bytes();
        self.derived.last_update_time = self.last_update_time();
        let (stored, derived) = (&self.stored, &mut self.derived);
        derived.sized_to = stored.sized_to.min(derived.position);
        // False is always correct, only slower. An import or a fork may have set it for its own
        // time, which the log does not have.
        let is_ordered = self.is_ordered && self.last_time <= derived.last_update_time;
        derived.in_order = stored.in_order && is_ordered;
        let text = |value: &dyn ToString| value.to_string();
        let facts: [(&str, &dyn ToString, &dyn ToString); 6] = [
            ("the last position", &stored.position, &derived.position),
            (
                "the time of the last update",
                &stored.last_update_time,
                &derived.last_update_time,
            ),
            (
                "the mark that times are in order",
                &stored.in_order,
                &derived.in_order,
            ),
            (
                "the size of the state",
                &stored.state_bytes,
                &derived.state_bytes,
            ),
            ("the size of the log", &stored.log_bytes, &derived.log_bytes),
            (
                "the position up to which the log is measured",
                &stored.sized_to,
                &derived.sized_to,
            ),
        ];
        for (what, stored, derived) in facts {
            let (stored, derived) = (text(stored), text(derived));
            if stored != derived {
                let location = Location::Session {
                    key: self.stored.key.clone(),
                };
                let damage = differs(what, Some((stored, derived)));
                self.problems.push(Problem::repairable(location, damage));
            }
        }
    }

    /// The time of the last event; the creation time if all events were copied from another session.
    fn last_update_time(&self) -> f64 {
        let copied = self
            .stored
            .origin
            .as_ref()
            .map_or(0, |origin| origin.position);
        match self.derived.position {
            position if position == copied => self.stored.create_time,
            _ => self.last_time,
        }
    }
}

fn differs(what: &str, values: Option<(String, String)>) -> Damage {
    Damage::Differs {
        what: what.to_owned(),
        values,
    }
}

/// Compares the state rows with the values that the fold gives.
#[derive(Debug, Default)]
struct StateComparison {
    /// The expected values by state key; `Some(None)` if the log does not determine them.
    expected: Option<Option<HashMap<String, ExpectedValues>>>,
    /// State keys that the log does not set.
    unexpected: Vec<String>,
}

/// The values that the log gives a state key.
#[derive(Debug)]
struct ExpectedValues {
    values: Vec<(u64, Option<Json>)>,
    /// Number of values that were found as expected.
    found: usize,
    is_wrong: bool,
}

impl ExpectedValues {
    fn new(values: Vec<(u64, Option<Json>)>) -> ExpectedValues {
        ExpectedValues {
            values,
            found: 0,
            is_wrong: false,
        }
    }

    fn has(&self, row: &StateColumns<&str>, value: Option<&Json>) -> bool {
        let index = self
            .values
            .binary_search_by_key(&row.position, |(at, _)| *at);
        let is_last = |index: usize| index + 1 == self.values.len();
        index.is_ok_and(|index| {
            row.is_current == is_last(index) && self.values[index].1.as_ref() == value
        })
    }
}

impl StateComparison {
    fn is_derivable(&self) -> bool {
        matches!(self.expected, Some(Some(_)))
    }

    /// Compares a row. Fails if its value is not JSON.
    fn compare(&mut self, row: &StateColumns<&str>) -> Result<(), String> {
        let value = row.value.map(Json::parse).transpose();
        if let Some(Some(expected)) = &mut self.expected {
            match (expected.get_mut(row.name), &value) {
                (Some(values), Ok(value)) if values.has(row, value.as_ref()) => values.found += 1,
                (Some(values), _) => values.is_wrong = true,
                (None, _) if self.unexpected.last().is_some_and(|last| last == row.name) => {}
                (None, _) => self.unexpected.push(row.name.to_owned()),
            }
        }
        value.map(drop).map_err(|e| e.to_string())
    }

    /// The state keys whose rows differ from the log, with what differs.
    fn wrong_keys(&self) -> Vec<(String, &'static str)> {
        let expected = self.expected.iter().flatten().flatten();
        let is_wrong =
            |values: &ExpectedValues| values.is_wrong || values.found != values.values.len();
        let wrong = expected.filter(|(_, values)| is_wrong(values));
        let mut wrong: Vec<_> = wrong
            .map(|(name, _)| (name.clone(), "its current or an earlier value"))
            .collect();
        let unexpected = self.unexpected.iter();
        wrong.extend(unexpected.map(|name| (name.clone(), "a value that no event has set")));
        wrong.sort_unstable();
        wrong
    }

    fn bytes(&self) -> u64 {
        let expected = self.expected.iter().flatten().flatten();
        let bytes = expected.filter_map(|(name, values)| {
            let (_, value) = values.values.last()?;
            Some(name.len() + value.as_ref()?.to_string().len())
        });
        bytes.sum::<usize>() as u64
    }

    /// All rows that the log gives.
    fn rows(&self) -> Vec<StateColumns<String>> {
        let mut rows = Vec::new();
        for (name, values) in self.expected.iter().flatten().flatten() {
            let last = values.values.len().saturating_sub(1);
            for (index, (position, value)) in values.values.iter().enumerate() {
                rows.push(StateColumns {
                    name: name.clone(),
                    position: *position,
                    value: value.as_ref().map(Json::to_string),
                    is_current: index == last,
                });
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> SessionFacts {
        SessionFacts {
            key: SessionKey::new("app", "ada", "s1"),
            position: 2,
            create_time: 1.0,
            last_update_time: 3.0,
            in_order: true,
            state_bytes: 2,
            log_bytes: 0,
            sized_to: 0,
            origin: None,
        }
    }

    const EVENTS: [(u64, &str, &str); 3] = [
        (0, "", r#"{"a":1}"#),
        (
            1,
            "e1",
            r#"{"id":"e1","invocationId":"i","author":"user","timestamp":2.0,"actions":{"stateDelta":{"a":2,"b":5}}}"#,
        ),
        (
            2,
            "e2",
            r#"{"id":"e2","invocationId":"i2","author":"user","timestamp":3.0,"actions":{"rewindBeforeInvocationId":"i","stateDelta":{"a":1,"b":null}}}"#,
        ),
    ];

    const STATE: [(&str, u64, Option<&str>, bool); 5] = [
        ("a", 0, Some("1"), false),
        ("a", 1, Some("2"), false),
        ("a", 2, Some("1"), true),
        ("b", 1, Some("5"), false),
        ("b", 2, None, true),
    ];

    type StateTuple<'a> = (&'a str, u64, Option<&'a str>, bool);

    fn check(
        facts: SessionFacts,
        events: &[(u64, &str, &str)],
        state: &[StateTuple<'_>],
    ) -> SessionVerdict {
        let mut check = SessionCheck::new(facts);
        for (position, id, body) in events {
            check.check_event(EventColumns {
                position: *position,
                id,
                invocation: ["", "i", "i2"][*position as usize],
                timestamp: *position as f64 + 1.0,
                body: body.as_bytes(),
            });
        }
        for (name, position, value, is_current) in state {
            check.check_state(StateColumns {
                name: *name,
                position: *position,
                value: *value,
                is_current: *is_current,
            });
        }
        check.end()
    }

    fn texts(verdict: &SessionVerdict) -> String {
        let problems = verdict.problems.iter();
        problems.map(|problem| format!("{problem}\n")).collect()
    }

    #[test]
    fn intact_session_has_no_problems() {
        let verdict = check(facts(), &EVENTS, &STATE);
        assert_eq!(texts(&verdict), "");
        assert!(verdict.repair.is_none());
    }

    #[test]
    fn state_that_differs_from_the_fold_is_derived_from_it() {
        let mut state = STATE;
        state[1].2 = Some("3");
        let verdict = check(facts(), &EVENTS, &state);
        assert!(
            texts(&verdict).contains("state key \"a\""),
            "{}",
            texts(&verdict)
        );
        let mut rows = verdict.repair.unwrap().state.unwrap();
        rows.sort_by(|a, b| (&a.name, a.position).cmp(&(&b.name, b.position)));
        let rows: Vec<StateTuple<'_>> = rows
            .iter()
            .map(|row| {
                (
                    row.name.as_str(),
                    row.position,
                    row.value.as_deref(),
                    row.is_current,
                )
            })
            .collect();
        assert_eq!(rows, STATE);
        for missing in 0..STATE.len() {
            let mut state = STATE.to_vec();
            state.remove(missing);
            let verdict = check(facts(), &EVENTS, &state);
            assert_eq!(verdict.problems.len(), 1, "{missing}: {}", texts(&verdict));
        }
        let more = [&STATE[..], &[("c", 1, Some("1"), true)]].concat();
        assert!(texts(&check(facts(), &EVENTS, &more)).contains("no event has set"));
    }

    #[test]
    fn facts_that_differ_from_the_log_are_derived_from_it() {
        let wrong = SessionFacts {
            position: 1,
            last_update_time: 9.0,
            state_bytes: 3,
            log_bytes: 4,
            sized_to: 7,
            ..facts()
        };
        let verdict = check(wrong, &EVENTS, &STATE);
        assert_eq!(verdict.problems.len(), 5, "{}", texts(&verdict));
        let repaired = verdict.repair.unwrap().facts;
        assert_eq!((repaired.position, repaired.last_update_time), (2, 3.0));
        assert_eq!((repaired.state_bytes, repaired.sized_to), (2, 2));
        let bytes = EVENTS[1].2.len() + EVENTS[2].2.len();
        assert_eq!(repaired.log_bytes, bytes as u64);
    }

    #[test]
    fn missing_or_unreadable_event_prevents_a_repair() {
        let verdict = check(facts(), &[EVENTS[0], EVENTS[2]], &STATE);
        assert!(
            texts(&verdict).starts_with("event 1 of session"),
            "{}",
            texts(&verdict)
        );
        let verdict_at_end = check(facts(), &EVENTS[..2], &STATE);
        assert!(texts(&verdict_at_end).starts_with("event 2 of session"));
        let verdict_without_start = check(facts(), &EVENTS[1..], &STATE);
        assert!(texts(&verdict_without_start).starts_with("initial state of session"));
        let unreadable = [EVENTS[0], (1, "e1", "{}x"), EVENTS[2]];
        let verdict_unreadable = check(facts(), &unreadable, &STATE);
        assert!(texts(&verdict_unreadable).contains("cannot be read"));
        for verdict in [
            verdict,
            verdict_at_end,
            verdict_without_start,
            verdict_unreadable,
        ] {
            assert!(verdict.repair.is_none());
            assert_eq!(verdict.problems.len(), 1, "{}", texts(&verdict));
        }
    }

    #[test]
    fn event_columns_are_derived_from_the_body() {
        let events = [EVENTS[0], (1, "other", EVENTS[1].2), EVENTS[2]];
        let verdict = check(facts(), &events, &STATE);
        assert_eq!(verdict.problems.len(), 1, "{}", texts(&verdict));
        let repair = verdict.repair.unwrap();
        assert_eq!(repair.events, [(1, "e1".to_owned(), "i".to_owned(), 2.0)]);
        assert!(repair.state.is_none());
    }

    #[test]
    fn times_that_decrease_contradict_the_mark() {
        let early = EVENTS[2].2.replace("3.0", "1.5");
        let verdict = check(facts(), &[EVENTS[0], EVENTS[1], (2, "e2", &early)], &STATE);
        let expected = "the mark that times are in order is true, but its data gives false";
        assert!(texts(&verdict).contains(expected), "{}", texts(&verdict));
        assert!(!verdict.repair.unwrap().facts.in_order);
        let mut unordered = facts();
        unordered.in_order = false;
        assert_eq!(texts(&check(unordered, &EVENTS, &STATE)), "");
    }
}
