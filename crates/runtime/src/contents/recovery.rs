//! Step after compaction: restores a summarized call if its response was not summarized.
//!
//! A long-running call may be answered long after a summary has covered it. The response would be
//! orphaned, so the whole event of the call is restored. Covered responses to other calls of that
//! event are restored too, because those calls would otherwise look pending.

use std::collections::{HashMap, HashSet};

use super::event_view::EventView;

/// The calls and their responses in the history before compaction, by event index.
///
/// Ids may be reused: a response belongs to the latest earlier call with its id.
#[derive(Default)]
struct Ownership<'t> {
    /// The event index of the call that a response answers, by the response's event index and id.
    call_of: HashMap<(usize, &'t str), usize>,
    /// The last response to a call, by the index of the call's event.
    response_to: HashMap<(usize, &'t str), usize>,
    /// The calls with a response that was not summarized.
    answered: HashSet<(usize, &'t str)>,
}

/// Adds to `views` the calls and responses that must be restored from `source`, the events before
/// compaction.
pub(super) fn with_compacted_calls<'a>(
    views: Vec<EventView<'a>>,
    source: &[EventView<'a>],
) -> Vec<EventView<'a>> {
    if !views.iter().any(EventView::has_responses) {
        return views;
    }
    let events = views.iter().filter(|view| view.is_event());
    let present: HashSet<usize> = events.map(|view| view.index).collect();
    let ownership = Ownership::from_views(source, &present);
    let mut result = Vec::with_capacity(views.len());
    let mut restored_calls = HashSet::new();
    let mut restored_responses = HashSet::new();
    for view in &views {
        for response in view.responses().filter(|_| view.is_event()) {
            let id = response.id.as_deref().unwrap_or_default();
            let Some(&call) = ownership.call_of.get(&(view.index, id)) else {
                continue;
            };
            let call_view = &source[call];
            if present.contains(&call_view.index) || !restored_calls.insert(call) {
                continue;
            }
            result.push(call_view.clone());
            for sibling in call_view.calls() {
                let key = (call, sibling.id.as_deref().unwrap_or_default());
                if !ownership.answered.contains(&key)
                    && let Some(&response) = ownership.response_to.get(&key)
                    && restored_responses.insert(response)
                {
                    result.push(source[response].clone());
                }
            }
        }
        result.push(view.clone());
    }
    result
}

impl<'t> Ownership<'t> {
    fn from_views(source: &'t [EventView<'_>], present: &HashSet<usize>) -> Ownership<'t> {
        let mut ownership = Ownership::default();
        let mut latest_call = HashMap::new();
        for (place, view) in source.iter().enumerate() {
            for call in view.calls() {
                if let Some(id) = call.id.as_deref().filter(|id| !id.is_empty()) {
                    latest_call.insert(id, place);
                }
            }
            for response in view.responses() {
                let Some(id) = response.id.as_deref() else {
                    continue;
                };
                let Some(&call) = latest_call.get(id) else {
                    continue;
                };
                ownership.call_of.insert((view.index, id), call);
                if present.contains(&view.index) {
                    ownership.answered.insert((call, id));
                }
                let newest = ownership.response_to.entry((call, id)).or_insert(place);
                if view.event.timestamp >= source[*newest].event.timestamp {
                    *newest = place;
                }
            }
        }
        ownership
    }
}
