//! Step: moves every response to the turn that made the call.
//!
//! Ids may be reused: a response belongs to the newest earlier call with its id. Of several
//! responses to one call the last stays. Text of the model between two responses in one run is
//! dropped, because the model knew only the first response.

use std::collections::{BTreeSet, HashMap};

use super::{merge::merge_responses, turn::Turn};

/// The id of a call, and the index of the turn that made it.
type Call<'t> = (Option<&'t str>, usize);

/// Returns the turns with each response right after its call.
pub(super) fn with_responses_at_their_calls(turns: Vec<Turn<'_>>) -> Vec<Turn<'_>> {
    if !turns.iter().any(Turn::has_responses) {
        return turns;
    }
    let responses = responses_by_call(&turns);
    let stale = stale_replies(&turns, &responses);
    let mut result = Vec::with_capacity(turns.len());
    for (place, turn) in turns.iter().enumerate() {
        if stale.contains(&place) || turn.has_responses() {
            continue;
        }
        result.push(turn.clone());
        let answers: BTreeSet<usize> = turn
            .calls()
            .filter_map(|call| responses.get(&(call.id.as_deref(), place))?.last())
            .copied()
            .collect();
        let answers: Vec<Turn<'_>> = answers
            .iter()
            .map(|&answer| turns[answer].clone())
            .collect();
        match answers.as_slice() {
            [] => {}
            [one] => result.push(one.clone()),
            several => result.extend(merge_responses(several)),
        }
    }
    result
}

/// The indexes of the responses to each call, ascending.
fn responses_by_call<'t>(turns: &'t [Turn<'_>]) -> HashMap<Call<'t>, Vec<usize>> {
    let mut calls: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
    for (place, turn) in turns.iter().enumerate() {
        if !turn.has_responses() {
            for call in turn.calls() {
                calls.entry(call.id.as_deref()).or_default().push(place);
            }
        }
    }
    let mut responses: HashMap<Call<'t>, Vec<usize>> = HashMap::new();
    for (place, turn) in turns.iter().enumerate() {
        for response in turn.responses() {
            let id = response.id.as_deref();
            let Some(places) = calls.get(&id) else {
                continue;
            };
            // A response before all calls with its id belongs to the first of them.
            let before = places.partition_point(|call| *call < place);
            let call = places[before.saturating_sub(1)];
            responses.entry((id, call)).or_default().push(place);
        }
    }
    responses
}

/// The indexes of the model's replies between two responses to one call.
fn stale_replies(turns: &[Turn<'_>], responses: &HashMap<Call<'_>, Vec<usize>>) -> BTreeSet<usize> {
    let mut stale = BTreeSet::new();
    for places in responses.values() {
        for pair in places.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            let (from, to) = (&turns[first], &turns[second]);
            let between = first + 1..second;
            if from.invocation_id() == to.invocation_id()
                && from.author == to.author
                && !asks_the_user(from)
                && between
                    .clone()
                    .all(|place| is_text_reply(&turns[place], from.invocation_id()))
            {
                stale.extend(between);
            }
        }
    }
    stale
}

/// Whether the response asked for a confirmation or for credentials.
fn asks_the_user(turn: &Turn<'_>) -> bool {
    let is_filled = |json: &retain_core::Json| json.as_object().is_some_and(|map| !map.is_empty());
    turn.actions().is_some_and(|actions| {
        is_filled(&actions.requested_tool_confirmations)
            || is_filled(&actions.requested_auth_configs)
    })
}

fn is_text_reply(turn: &Turn<'_>, invocation_id: &str) -> bool {
    let role = turn.content().and_then(|content| content.role.as_deref());
    let is_summary = |turn: &Turn<'_>| turn.actions().is_some_and(|it| it.compaction.is_some());
    turn.invocation_id() == invocation_id
        && turn.author != "user"
        && role == Some("model")
        && !turn.has_calls()
        && !is_summary(turn)
        && turn.parts().iter().any(|part| super::is_set(&part.text))
}
