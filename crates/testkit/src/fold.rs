//! Computes the state of a log the simple way: a full copy for every position.

use retain_core::{Event, JsonMap, ScopedDelta};

/// Returns the session's own state after each position; the first element is the initial state.
///
/// A rewind restores the state before the first event of the invocation it names. Its delta is then
/// applied, except for `null`, which in ADK means that the state key did not exist.
pub fn states_by_position<'a>(
    initial: &JsonMap,
    events: impl IntoIterator<Item = &'a Event>,
) -> Vec<JsonMap> {
    let mut states = vec![ScopedDelta::from_delta(initial).session];
    let mut invocations: Vec<&str> = Vec::new();
    for event in events {
        let rewound = event.actions.rewind_before_invocation_id.as_deref();
        let first = rewound.and_then(|id| invocations.iter().position(|known| *known == id));
        // The event at index `first` has position `first + 1`; the state before it is
        // `states[first]`.
        let mut state = states[first.unwrap_or(states.len() - 1)].clone();
        for (key, value) in ScopedDelta::from_delta(&event.actions.state_delta).session {
            if first.is_none() || !value.is_null() {
                state.insert(key, value);
            }
        }
        states.push(state);
        invocations.push(&event.invocation_id);
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(invocation: &str, delta: &str, rewind: Option<&str>) -> Event {
        let mut event = Event::user_text("x");
        event.invocation_id = invocation.into();
        event.actions.state_delta = map(delta);
        event.actions.rewind_before_invocation_id = rewind.map(str::to_owned);
        event
    }

    fn map(text: &str) -> JsonMap {
        let json = retain_core::Json::parse(text).unwrap();
        json.as_object().unwrap().clone()
    }

    #[test]
    fn rewind_restores_initial_and_absent_values() {
        let log = [
            event("i1", r#"{"a":2,"b":1}"#, None),
            event("i2", r#"{"a":null,"user:x":1}"#, None),
            event("i3", r#"{"a":null,"b":null}"#, Some("i1")),
            event("i4", r#"{"a":5}"#, Some("unknown")),
        ];
        let states = states_by_position(&map(r#"{"a":1,"app:y":2}"#), &log);
        let expected = [
            r#"{"a":1}"#,
            r#"{"a":2,"b":1}"#,
            r#"{"a":null,"b":1}"#,
            r#"{"a":1}"#,
            r#"{"a":5}"#,
        ];
        assert_eq!(states, expected.map(map));
    }
}
