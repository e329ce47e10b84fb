//! Steps: drop responses without a call, and calls without a response.
//!
//! Providers reject a history in which calls and responses do not match, such as after an
//! interrupted run or a merge of several histories.

use std::collections::HashSet;

use retain_core::{FunctionResponse, Part};

use super::event_view::EventView;

/// Drops responses whose calls do not precede them.
///
/// If the first pass drops a response, a second pass follows, because a dropped event may contain
/// calls whose responses are then orphaned.
pub(super) fn without_orphaned_responses(views: Vec<EventView<'_>>) -> Vec<EventView<'_>> {
    match drop_responses(views) {
        (views, true) => drop_responses(views).0,
        (views, false) => views,
    }
}

/// The calls so far.
#[derive(Default)]
struct SeenCalls {
    ids: HashSet<String>,
    names_without_id: HashSet<String>,
}

impl SeenCalls {
    fn record(&mut self, view: &EventView<'_>) {
        for call in view.calls() {
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

fn drop_responses(views: Vec<EventView<'_>>) -> (Vec<EventView<'_>>, bool) {
    let mut seen = SeenCalls::default();
    let mut changed = false;
    let mut result = Vec::with_capacity(views.len());
    for view in views {
        let is_orphan = |part: &Part| {
            let response = part.function_response.as_ref();
            response.is_some_and(|response| !seen.has_call_for(response))
        };
        if !view.parts().iter().any(is_orphan) {
            seen.record(&view);
            result.push(view);
            continue;
        }
        changed = true;
        let remaining = view.parts().iter().filter(|part| !is_orphan(part));
        let remaining: Vec<Part> = remaining.cloned().collect();
        if remaining.is_empty() {
            // Count the calls of a dropped event here, because ADK looks at the original event.
            seen.record(&view);
            continue;
        }
        let view = view.with_parts(remaining);
        seen.record(&view);
        result.push(view);
    }
    (result, changed)
}

/// Drops calls without a response. Calls without an id stay, because no response can be matched to
/// them. So do long-running calls.
pub(super) fn without_orphaned_calls(views: Vec<EventView<'_>>) -> Vec<EventView<'_>> {
    let mut awaited: HashSet<&str> = HashSet::new();
    for view in &views {
        awaited.extend(view.responses().filter_map(|it| it.id.as_deref()));
        awaited.extend(view.long_running_ids());
    }
    let is_orphan = |part: &Part| is_orphaned_call(part, &awaited);
    if !views.iter().any(|view| view.parts().iter().any(is_orphan)) {
        return views;
    }
    let mut result = Vec::with_capacity(views.len());
    for view in &views {
        if !view.parts().iter().any(is_orphan) {
            result.push(view.clone());
            continue;
        }
        let remaining = view.parts().iter().filter(|part| !is_orphan(part));
        let remaining: Vec<Part> = remaining.cloned().collect();
        if !remaining.is_empty() {
            result.push(view.clone().with_parts(remaining));
        }
    }
    result
}

fn is_orphaned_call(part: &Part, awaited: &HashSet<&str>) -> bool {
    let id = part.function_call.as_ref();
    let id = id.and_then(|call| call.id.as_deref()).unwrap_or_default();
    !id.is_empty() && !awaited.contains(id)
}
