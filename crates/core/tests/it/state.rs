//! State scopes and pending changes, compared with simple reference models.

use std::collections::BTreeMap;

use proptest::prelude::*;
use retain_core::{
    Event, Json, JsonMap, Session, State, StateDelta, StateScope, TrackedState,
    apply_event_to_session,
};

use crate::chance::cases;

/// Generates keys with and without prefixes, few enough that they repeat.
fn key() -> impl Strategy<Value = String> {
    let prefix = proptest::sample::select(vec![
        "",
        "",
        "app:",
        "user:",
        "temp:",
        "App:",
        "app",
        ":",
        "foo:",
        "app:user:",
        "temp:app:",
    ]);
    (prefix, "[a-c]{0,1}").prop_map(|(prefix, name)| format!("{prefix}{name}"))
}

fn value() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        (0i64..4).prop_map(Json::from),
        (0i64..4).prop_map(|i| Json::from(vec![Json::from(i)])),
        (0i64..4).prop_map(|i| Json::from(JsonMap::from([("k", i)]))),
    ]
}

fn delta() -> impl Strategy<Value = StateDelta> {
    let entries = prop::collection::vec((key(), value()), 0..12);
    entries.prop_map(|entries| entries.into_iter().collect())
}

fn pairs(map: &JsonMap) -> Vec<(String, Json)> {
    map.clone().into_iter().collect()
}

fn with_prefix(prefix: &str, map: &JsonMap) -> Vec<(String, Json)> {
    let entries = map.iter();
    entries
        .map(|(key, value)| (format!("{prefix}{key}"), value.clone()))
        .collect()
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn partition_by_scope_keeps_every_key_once(delta in delta()) {
        let (app, user, session, temp) = State::partition_by_scope(&delta);
        // The parts, with their prefixes, make up the original delta; each part keeps its order.
        let mut together = with_prefix("app:", &app);
        together.extend(with_prefix("user:", &user));
        together.extend(pairs(&session));
        together.extend(pairs(&temp));
        prop_assert_eq!(together.len(), delta.len());
        prop_assert_eq!(together.iter().cloned().collect::<StateDelta>(), delta.clone());
        for (scope, part) in [
            (StateScope::App, with_prefix("app:", &app)),
            (StateScope::User, with_prefix("user:", &user)),
            (StateScope::Session, pairs(&session)),
            (StateScope::Temp, pairs(&temp)),
        ] {
            let mut of_scope = pairs(&delta);
            of_scope.retain(|(key, _)| StateScope::of(key) == scope);
            prop_assert_eq!(part, of_scope);
        }
    }

    #[test]
    fn only_the_first_prefix_determines_the_scope(key in key()) {
        let (scope, bare) = StateScope::split(&key);
        prop_assert_eq!(format!("{}{bare}", scope.prefix()), key.as_str());
        let expected = match key.split_once(':') {
            Some(("app", _)) => StateScope::App,
            Some(("user", _)) => StateScope::User,
            Some(("temp", _)) => StateScope::Temp,
            _ => StateScope::Session,
        };
        prop_assert_eq!(scope, expected);
        prop_assert_eq!(StateScope::of(&key), expected);
    }

    #[test]
    fn trim_temp_keys_removes_only_temp_keys(delta in delta()) {
        let mut expected = pairs(&delta);
        expected.retain(|(key, _)| !key.starts_with("temp:"));
        prop_assert_eq!(pairs(&State::trim_temp_keys(&delta)), expected);
    }

    #[test]
    fn shared_scopes_override_session_state_when_merged(
        session in delta(), app in delta(), user in delta()
    ) {
        let state = State::merged(session.clone(), &app, &user);
        let mut expected: BTreeMap<String, Json> = pairs(&session).into_iter().collect();
        expected.extend(with_prefix("app:", &app));
        expected.extend(with_prefix("user:", &user));
        prop_assert_eq!(state.len(), expected.len());
        for (key, value) in &expected {
            prop_assert_eq!(state.get(key), Some(value));
        }
    }

    /// Storing a delta by scope and then merging gives the same state as applying it to the merged
    /// state.
    #[test]
    fn partitioning_and_merging_a_delta_equals_applying_it(before in delta(), delta in delta()) {
        let mut applied = State::from(State::trim_temp_keys(&before));
        applied.apply(&State::trim_temp_keys(&delta));
        let mut stored: [JsonMap; 3] = Default::default();
        for change in [&before, &delta] {
            let (app, user, session, _) = State::partition_by_scope(change);
            for (scope, change) in stored.iter_mut().zip([app, user, session]) {
                scope.extend(change);
            }
        }
        let [app, user, session] = stored;
        prop_assert_eq!(State::merged(session, &app, &user), applied);
    }

    #[test]
    fn temp_keys_of_an_event_are_visible_but_not_stored(before in delta(), delta in delta()) {
        let mut session = Session::new("a", "u", "s");
        session.state = State::from(before.clone());
        let mut event = Event::user_text("x");
        event.timestamp = 7.5;
        event.actions.state_delta = delta.clone();
        let stored = apply_event_to_session(&mut session, event.clone());
        let mut expected = State::from(before.clone());
        expected.apply(&delta);
        prop_assert_eq!(&session.state, &expected);
        prop_assert_eq!(&stored.actions.state_delta, &State::trim_temp_keys(&delta));
        prop_assert_eq!(session.events.last(), Some(&stored));
        prop_assert_eq!((session.position, session.last_update_time), (1, 7.5));

        event.response.partial = Some(true);
        let unchanged = session.clone();
        prop_assert_eq!(&apply_event_to_session(&mut session, event.clone()), &event);
        prop_assert_eq!(session, unchanged);
    }
}

/// An operation of a tool on its state.
#[derive(Debug, Clone)]
enum Step {
    Set(String, Json),
    /// Borrows a value mutably and does not change it.
    Borrow(String),
    /// Adds to a list or map in place; replaces anything else.
    Modify(String, i64),
    /// Replaces a value in place.
    Replace(String, Json),
    ReadDelta,
    TakeDelta,
}

/// Generates steps with so few keys and values that they repeat often.
fn step() -> impl Strategy<Value = Step> {
    let key = || proptest::sample::select(vec!["a", "b", "app:a"]).prop_map(str::to_owned);
    prop_oneof![
        3 => (key(), small_value()).prop_map(|(key, value)| Step::Set(key, value)),
        2 => key().prop_map(Step::Borrow),
        3 => (key(), 0i64..2).prop_map(|(key, value)| Step::Modify(key, value)),
        3 => (key(), small_value()).prop_map(|(key, value)| Step::Replace(key, value)),
        1 => Just(Step::ReadDelta),
        1 => Just(Step::TakeDelta),
    ]
}

fn small_value() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        (0i64..2).prop_map(Json::from),
        Just(Json::from(Vec::new())),
    ]
}

fn change_in_place(value: &mut Json, by: i64) {
    if let Some(items) = value.as_array_mut() {
        items.push(by.into());
    } else if let Some(map) = value.as_object_mut() {
        map.insert("k", by);
    } else {
        *value = by.into();
    }
}

/// A simple model of `TrackedState`. It copies all values whenever the delta is read, and treats
/// every value that differs at the next read as written.
#[derive(Default)]
struct ReferenceState {
    values: BTreeMap<String, Json>,
    /// The values to compare with: those at the last read of the delta, and those set since.
    compared: BTreeMap<String, Json>,
    delta: BTreeMap<String, Json>,
}

impl ReferenceState {
    fn collect_changes(&mut self) {
        for (key, value) in &self.values {
            if self.compared.get(key) != Some(value) {
                self.delta.insert(key.clone(), value.clone());
            }
        }
        self.compared = self.values.clone();
    }

    fn set(&mut self, key: &str, value: &Json) {
        for map in [&mut self.values, &mut self.compared, &mut self.delta] {
            map.insert(key.to_owned(), value.clone());
        }
    }
}

fn sorted(map: &JsonMap) -> BTreeMap<String, Json> {
    pairs(map).into_iter().collect()
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn tracked_state_equals_the_reference_model(
        committed in prop::collection::vec(("[a-b]", small_value()), 0..3),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let committed: StateDelta = committed.into_iter().collect();
        let mut state = TrackedState::new(State::from(committed.clone()));
        let mut reference = ReferenceState { values: sorted(&committed), ..ReferenceState::default() };
        reference.compared = reference.values.clone();
        let text_before = Json::from(committed.clone()).to_string();
        let mut deltas = Vec::new();
        for step in steps {
            match &step {
                Step::Set(key, value) => {
                    let before = reference.values.get(key).cloned();
                    reference.set(key, value);
                    prop_assert_eq!(state.set(key.clone(), value.clone()), before);
                }
                Step::Borrow(key) => {
                    prop_assert_eq!(state.get_mut(key).cloned(), reference.values.get(key).cloned());
                }
                Step::Modify(key, by) => {
                    if let Some(value) = state.get_mut(key) {
                        change_in_place(value, *by);
                        change_in_place(reference.values.get_mut(key).unwrap(), *by);
                    }
                }
                Step::Replace(key, value) => {
                    if let Some(current) = state.get_mut(key) {
                        *current = value.clone();
                        reference.values.insert(key.clone(), value.clone());
                    }
                }
                Step::ReadDelta => {
                    reference.collect_changes();
                    prop_assert_eq!(state.has_delta(), !reference.delta.is_empty());
                    prop_assert_eq!(&sorted(state.delta()), &reference.delta);
                }
                Step::TakeDelta => {
                    reference.collect_changes();
                    let delta = std::mem::take(&mut reference.delta);
                    deltas.push(state.take_delta());
                    prop_assert_eq!(deltas.last().map(sorted), Some(delta));
                    prop_assert!(!state.has_delta());
                }
            }
            // A write is visible immediately, regardless of pending changes.
            prop_assert_eq!(&sorted(&state.to_state().to_delta()), &reference.values, "{:?}", step);
        }
        reference.collect_changes();
        let last = state.take_delta();
        prop_assert_eq!(&sorted(&last), &reference.delta);
        // Applying all deltas in order to the committed state gives the current state, and in-place
        // changes did not modify the committed values.
        prop_assert_eq!(Json::from(committed.clone()).to_string(), text_before);
        let mut replayed = State::from(committed);
        deltas.iter().chain([&last]).for_each(|delta| replayed.apply(delta));
        prop_assert_eq!(&sorted(&replayed.to_delta()), &reference.values);
    }
}
