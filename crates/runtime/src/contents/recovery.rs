//! Step after compaction: restores a summarized call if its response was not summarized.
//!
//! A long-running call may be answered long after the summary that covers it. Its response would be
//! orphaned, so the call event returns complete. The covered responses to its other calls return
//! too: otherwise those calls would look pending.

use std::collections::{HashMap, HashSet};

use super::turn::Turn;

/// Which response answers which call in the history before compaction, by index.
///
/// Ids may be reused: a response belongs to the latest earlier call with its id.
#[derive(Default)]
struct Ownership<'t> {
    /// The call that a response in an event answers.
    call_of: HashMap<(usize, &'t str), usize>,
    /// The last response to a call, by the index of the call's event.
    response_to: HashMap<(usize, &'t str), usize>,
    /// The calls with a response that was not summarized.
    answered: HashSet<(usize, &'t str)>,
}

/// Adds to `turns` the calls and responses that must be restored from `source`, the turns before
/// compaction.
pub(super) fn with_compacted_calls<'a>(turns: Vec<Turn<'a>>, source: &[Turn<'a>]) -> Vec<Turn<'a>> {
    if !turns.iter().any(Turn::has_responses) {
        return turns;
    }
    let events = turns.iter().filter(|turn| turn.is_event());
    let present: HashSet<usize> = events.map(|turn| turn.index).collect();
    let ownership = Ownership::of(source, &present);
    let mut result = Vec::with_capacity(turns.len());
    let mut returned_calls = HashSet::new();
    let mut returned_responses = HashSet::new();
    for turn in &turns {
        for response in turn.responses().filter(|_| turn.is_event()) {
            let id = response.id.as_deref().unwrap_or_default();
            let Some(&call) = ownership.call_of.get(&(turn.index, id)) else {
                continue;
            };
            let call_turn = &source[call];
            if present.contains(&call_turn.index) || !returned_calls.insert(call) {
                continue;
            }
            result.push(call_turn.clone());
            for sibling in call_turn.calls() {
                let key = (call, sibling.id.as_deref().unwrap_or_default());
                if !ownership.answered.contains(&key)
                    && let Some(&response) = ownership.response_to.get(&key)
                    && returned_responses.insert(response)
                {
                    result.push(source[response].clone());
                }
            }
        }
        result.push(turn.clone());
    }
    result
}

impl<'t> Ownership<'t> {
    fn of(source: &'t [Turn<'_>], present: &HashSet<usize>) -> Ownership<'t> {
        let mut ownership = Ownership::default();
        let mut latest_call = HashMap::new();
        for (place, turn) in source.iter().enumerate() {
            for call in turn.calls() {
                if let Some(id) = call.id.as_deref().filter(|id| !id.is_empty()) {
                    latest_call.insert(id, place);
                }
            }
            for response in turn.responses() {
                let Some(id) = response.id.as_deref() else {
                    continue;
                };
                let Some(&call) = latest_call.get(id) else {
                    continue;
                };
                ownership.call_of.insert((turn.index, id), call);
                if present.contains(&turn.index) {
                    ownership.answered.insert((call, id));
                }
                let newest = ownership.response_to.entry((call, id)).or_insert(place);
                if turn.event.timestamp >= source[*newest].event.timestamp {
                    *newest = place;
                }
            }
        }
        ownership
    }
}
