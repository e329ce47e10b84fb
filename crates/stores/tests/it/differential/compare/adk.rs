//! The behavior of ADK's services where it differs from Retain's.

use retain_core::{Json, JsonMap, micros};

use super::{
    our_window,
    parts::{id_of, put, session_state, time_of},
};

/// A service of ADK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    Memory,
    Sqlite,
    Database,
}

impl Service {
    pub(crate) const ALL: [Service; 3] = [Service::Memory, Service::Sqlite, Service::Database];

    /// Returns the name that the oracle uses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::Memory => "memory",
            Service::Sqlite => "sqlite",
            Service::Database => "database",
        }
    }
}

/// Whether the service rejects an append through a copy that was last updated at `held`, when the
/// stored session was updated at `stored`.
pub(super) fn rejects_as_stale(service: Service, stored: f64, held: f64) -> bool {
    match service {
        Service::Memory => false,
        Service::Sqlite => stored > held,
        Service::Database => micros(stored) != micros(held),
    }
}

/// Sorts the log into the order in which an ADK service reads it.
pub(super) fn sort_as_adk(mut log: Vec<Json>, service: Service) -> Vec<Json> {
    match service {
        Service::Memory => {}
        Service::Sqlite => log.sort_by(|a, b| time_of(a).total_cmp(&time_of(b))),
        Service::Database => log.sort_by(|a, b| {
            let key = |event| (micros(time_of(event)), id_of(event).to_owned());
            key(a).cmp(&key(b))
        }),
    }
    log
}

/// Keeps only the newest `recent` events.
pub(super) fn keep_newest(mut events: Vec<Json>, recent: Option<usize>) -> Vec<Json> {
    if let Some(recent) = recent {
        events.drain(..events.len().saturating_sub(recent));
    }
    events
}

/// Returns the window that an ADK service reads.
pub(super) fn adk_window(
    service: Service,
    log: Vec<Json>,
    recent: Option<usize>,
    after: Option<f64>,
) -> Vec<Json> {
    let mut log = sort_as_adk(log, service);
    match (service, after) {
        (_, None) => keep_newest(log, recent),
        (Service::Memory, Some(after)) => {
            let mut events = keep_newest(log, recent);
            let old = events.iter().rposition(|event| time_of(event) < after);
            events.drain(..old.map_or(0, |old| old + 1));
            events
        }
        (Service::Sqlite, Some(_)) => our_window(log, recent, after),
        (Service::Database, Some(after)) => {
            log.retain(|event| micros(time_of(event)) >= micros(after));
            keep_newest(log, recent)
        }
    }
}

/// Whether two values are equal in Python.
pub(super) fn equal_in_python(a: &Json, b: &Json) -> bool {
    let number = |json: &Json| match json {
        Json::Bool(value) => Some(Json::from(i64::from(*value))),
        Json::Number(_) => Some(json.clone()),
        _ => None,
    };
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal_in_python(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            let is_in_b =
                |(key, a): (&str, &Json)| b.get(key).is_some_and(|b| equal_in_python(a, b));
            a.len() == b.len() && a.iter().all(is_in_b)
        }
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b || (!are_integers(&a, &b) && a.as_f64() == b.as_f64()),
            _ => a == b,
        },
    }
}

/// Whether Python compares the two numbers exactly: both are integers.
fn are_integers(a: &Json, b: &Json) -> bool {
    let is_integer = |json: &Json| matches!(json, Json::Number(number) if number.is_integer());
    is_integer(a) && is_integer(b)
}

/// Returns the delta that ADK writes to rewind before an invocation, given the log as ADK reads it
/// and the session-scoped state.
pub(super) fn adk_rewind(log: &[Json], state: &JsonMap, invocation: &str) -> JsonMap {
    let is_first = |event: &&Json| event["invocationId"] == invocation;
    let before = log.iter().take_while(|event| !is_first(event));
    let mut target = JsonMap::new();
    for event in before {
        for (key, value) in &session_state(&event["actions"]["stateDelta"]) {
            put(
                &mut target,
                key,
                Some(value).filter(|value| !value.is_null()),
            );
        }
    }
    let mut delta = JsonMap::new();
    for (key, value) in &target {
        if !state
            .get(key)
            .is_some_and(|now| equal_in_python(now, value))
        {
            delta.insert(key, value.clone());
        }
    }
    for key in state.keys() {
        if !target.contains_key(key) {
            delta.insert(key, Json::Null);
        }
    }
    delta
}
