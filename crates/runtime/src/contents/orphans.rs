//! Steps: drop responses without a call, and calls without a response.
//!
//! Providers reject a history in which calls and responses do not match. That happens when a run is
//! interrupted, or when a history is merged from several.

use std::collections::HashSet;

use retain_core::{FunctionResponse, Part};

use super::turn::Turn;

/// Drops responses to calls that did not come before them.
///
/// Runs a second time after a change: a dropped event may have had calls, whose responses are then
/// orphaned.
pub(super) fn without_orphaned_responses(turns: Vec<Turn<'_>>) -> Vec<Turn<'_>> {
    match drop_responses(turns) {
        (turns, true) => drop_responses(turns).0,
        (turns, false) => turns,
    }
}

/// The calls so far.
#[derive(Default)]
struct SeenCalls {
    ids: HashSet<String>,
    names_without_id: HashSet<String>,
}

impl SeenCalls {
    fn record(&mut self, turn: &Turn<'_>) {
        for call in turn.calls() {
            let (id, name) = (call.id.as_deref(), call.name.as_deref());
            match id.filter(|id| !id.is_empty()) {
                Some(id) => drop(self.ids.insert(id.to_owned())),
                None => self
                    .names_without_id
                    .extend(name.filter(|name| !name.is_empty()).map(str::to_owned)),
            }
        }
    }

    fn has_call_for(&self, response: &FunctionResponse) -> bool {
        match response.id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => self.ids.contains(id),
            None => {
                let name = response.name.as_deref();
                name.is_some_and(|name| self.names_without_id.contains(name))
            }
        }
    }
}

fn drop_responses(turns: Vec<Turn<'_>>) -> (Vec<Turn<'_>>, bool) {
    let mut seen = SeenCalls::default();
    let mut changed = false;
    let mut result = Vec::with_capacity(turns.len());
    for turn in turns {
        let is_orphan = |part: &Part| {
            let response = part.function_response.as_ref();
            response.is_some_and(|response| !seen.has_call_for(response))
        };
        if !turn.parts().iter().any(is_orphan) {
            seen.record(&turn);
            result.push(turn);
            continue;
        }
        changed = true;
        let kept = turn.parts().iter().filter(|part| !is_orphan(part));
        let kept: Vec<Part> = kept.cloned().collect();
        if kept.is_empty() {
            // The calls of a dropped event count here, as in ADK, which looks at the original
            // event.
            seen.record(&turn);
            continue;
        }
        let turn = turn.with_parts(kept);
        seen.record(&turn);
        result.push(turn);
    }
    (result, changed)
}

/// Drops calls without a response. Calls without an id stay, because no response can be matched to
/// them; so do long-running calls.
pub(super) fn without_orphaned_calls(turns: Vec<Turn<'_>>) -> Vec<Turn<'_>> {
    let mut awaited: HashSet<&str> = HashSet::new();
    for turn in &turns {
        awaited.extend(turn.responses().filter_map(|it| it.id.as_deref()));
        awaited.extend(turn.long_running_ids());
    }
    let is_orphan = |part: &Part| is_orphaned_call(part, &awaited);
    if !turns.iter().any(|turn| turn.parts().iter().any(is_orphan)) {
        return turns;
    }
    let mut result = Vec::with_capacity(turns.len());
    for turn in &turns {
        if !turn.parts().iter().any(is_orphan) {
            result.push(turn.clone());
            continue;
        }
        let kept = turn.parts().iter().filter(|part| !is_orphan(part));
        let kept: Vec<Part> = kept.cloned().collect();
        if !kept.is_empty() {
            result.push(turn.clone().with_parts(kept));
        }
    }
    result
}

fn is_orphaned_call(part: &Part, awaited: &HashSet<&str>) -> bool {
    let id = part.function_call.as_ref();
    let id = id.and_then(|call| call.id.as_deref()).unwrap_or_default();
    !id.is_empty() && !awaited.contains(id)
}
