//! Step: moves every response to right after its call.
//!
//! Ids may be reused: a response belongs to the newest earlier call with its id. Of several
//! responses to one call, the last stays. Model text between two responses to one call in one run
//! is dropped, because the model had seen only the first response.

use std::collections::{BTreeSet, HashMap};

use super::{event_view::EventView, merge::merge_responses};

/// A call's id, and the index of its event.
type CallKey<'t> = (Option<&'t str>, usize);

/// Returns the events with each response right after its call.
pub(super) fn with_responses_at_their_calls(views: Vec<EventView<'_>>) -> Vec<EventView<'_>> {
    if !views.iter().any(EventView::has_responses) {
        return views;
    }
    let responses = responses_by_call(&views);
    let stale = stale_replies(&views, &responses);
    let mut result = Vec::with_capacity(views.len());
    for (place, view) in views.iter().enumerate() {
        if stale.contains(&place) || view.has_responses() {
            continue;
        }
        result.push(view.clone());
        let answers: BTreeSet<usize> = view
            .calls()
            .filter_map(|call| responses.get(&(call.id.as_deref(), place))?.last())
            .copied()
            .collect();
        let answers: Vec<EventView<'_>> = answers
            .iter()
            .map(|&answer| views[answer].clone())
            .collect();
        match answers.as_slice() {
            [] => {}
            [one] => result.push(one.clone()),
            several => result.extend(merge_responses(several)),
        }
    }
    result
}

/// Returns the indexes of the responses to each call, in ascending order.
fn responses_by_call<'t>(views: &'t [EventView<'_>]) -> HashMap<CallKey<'t>, Vec<usize>> {
    let mut calls: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
    for (place, view) in views.iter().enumerate() {
        if !view.has_responses() {
            for call in view.calls() {
                calls.entry(call.id.as_deref()).or_default().push(place);
            }
        }
    }
    let mut responses: HashMap<CallKey<'t>, Vec<usize>> = HashMap::new();
    for (place, view) in views.iter().enumerate() {
        for response in view.responses() {
            let id = response.id.as_deref();
            let Some(places) = calls.get(&id) else {
                continue;
            };
            // A response that precedes all calls with its id belongs to the first of them.
            let before = places.partition_point(|call| *call < place);
            let call = places[before.saturating_sub(1)];
            responses.entry((id, call)).or_default().push(place);
        }
    }
    responses
}

/// Returns the indexes of the model's replies between two responses to one call.
fn stale_replies(
    views: &[EventView<'_>],
    responses: &HashMap<CallKey<'_>, Vec<usize>>,
) -> BTreeSet<usize> {
    let mut stale = BTreeSet::new();
    for places in responses.values() {
        for pair in places.windows(2) {
            let (first, second) = (pair[0], pair[1]);
            let (from, to) = (&views[first], &views[second]);
            let between = first + 1..second;
            if from.invocation_id() == to.invocation_id()
                && from.author == to.author
                && !asks_the_user(from)
                && between
                    .clone()
                    .all(|place| is_text_reply(&views[place], from.invocation_id()))
            {
                stale.extend(between);
            }
        }
    }
    stale
}

/// Whether the response asked for a confirmation or for credentials.
fn asks_the_user(view: &EventView<'_>) -> bool {
    let is_filled = |json: &retain_core::Json| json.as_object().is_some_and(|map| !map.is_empty());
    view.actions().is_some_and(|actions| {
        is_filled(&actions.requested_tool_confirmations)
            || is_filled(&actions.requested_auth_configs)
    })
}

fn is_text_reply(view: &EventView<'_>, invocation_id: &str) -> bool {
    let role = view.content().and_then(|content| content.role.as_deref());
    let is_summary =
        |view: &EventView<'_>| view.actions().is_some_and(|it| it.compaction.is_some());
    view.invocation_id() == invocation_id
        && view.author != "user"
        && role == Some("model")
        && !view.has_calls()
        && !is_summary(view)
        && view.parts().iter().any(|part| super::is_set(&part.text))
}
