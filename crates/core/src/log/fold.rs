//! Replays a log from the beginning to compute the state and the changes of each event.

use std::collections::HashMap;

use super::rewind::{KeyChanges, apply, changes_to};
use crate::{
    event::Event,
    json::{Json, JsonMap},
    state::ScopedDelta,
};

/// Replays a log and computes what each event changes in the session's own state.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    state: JsonMap,
    /// Every value that a key had, with its position; `None` where the key was removed.
    past: HashMap<String, Vec<(u64, Option<Json>)>>,
    /// The first position of each invocation.
    first: HashMap<String, u64>,
}

impl Fold {
    /// Starts from the state given at creation.
    pub(crate) fn new(initial: &JsonMap) -> Fold {
        let mut fold = Fold::default();
        let session = ScopedDelta::from_delta(initial).session;
        fold.record(0, &session.into_iter().map(|(k, v)| (k, Some(v))).collect());
        fold
    }

    /// Returns the session's own state after the last step.
    pub(crate) fn state(&self) -> &JsonMap {
        &self.state
    }

    /// Applies the event at `position` and returns its changes.
    pub(crate) fn step(&mut self, position: u64, event: &Event) -> KeyChanges {
        let delta = ScopedDelta::from_delta(&event.actions.state_delta).session;
        let rewound = event.actions.rewind_before_invocation_id.as_ref();
        let changes = match rewound.and_then(|invocation| self.first.get(invocation)) {
            Some(first) => changes_to(&self.state, &self.state_at(first - 1), &delta),
            None => delta.into_iter().map(|(k, v)| (k, Some(v))).collect(),
        };
        let invocation = event.invocation_id.clone();
        self.first.entry(invocation).or_insert(position);
        self.record(position, &changes);
        changes
    }

    /// Returns all values of each key with their positions, ascending.
    pub(crate) fn into_history(self) -> HashMap<String, Vec<(u64, Option<Json>)>> {
        self.past
    }

    fn record(&mut self, position: u64, changes: &KeyChanges) {
        for (key, value) in changes {
            let values = self.past.entry(key.clone()).or_default();
            values.push((position, value.clone()));
        }
        apply(&mut self.state, changes);
    }

    fn state_at(&self, position: u64) -> JsonMap {
        let at = |values: &Vec<(u64, Option<Json>)>| {
            let earlier = values.iter().take_while(|(at, _)| *at <= position);
            earlier.last().and_then(|(_, value)| value.clone())
        };
        let keys = self.past.iter();
        keys.filter_map(|(key, values)| Some((key.as_str(), at(values)?)))
            .collect()
    }
}
