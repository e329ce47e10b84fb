//! Shortens a range of events to summarize, so that no call is separated from its answer.

use std::{collections::HashSet, sync::Arc};

use retain_core::{Event, Json};

use crate::contents::is_set;

/// The names of calls that wait for the user.
const ASKING: [&str; 3] = [
    "adk_request_credential",
    "adk_request_confirmation",
    "adk_request_input",
];

/// Returns the length of the longest prefix of `events` in which every call is answered. `all` are
/// the session's events.
///
/// If that prefix is empty or ends within a run, calls that can no longer be answered are ignored.
pub(super) fn prefix_len(events: &[Arc<Event>], all: &[Arc<Event>]) -> usize {
    let strict = balanced_len(events, &HashSet::new());
    let Some(next) = events.get(strict) else {
        return strict;
    };
    let last = strict.checked_sub(1).and_then(|last| events.get(last));
    if last.is_some_and(|last| last.invocation_id != next.invocation_id) {
        return strict;
    }
    let dead = dead_calls(events, all);
    if dead.is_empty() {
        return strict;
    }
    strict.max(balanced_len(events, &dead))
}

/// Returns the length of the longest prefix in which every call is answered, except those in
/// `dead`.
fn balanced_len(events: &[Arc<Event>], dead: &HashSet<&str>) -> usize {
    let mut open: HashSet<&str> = HashSet::new();
    let mut balanced = 0;
    for (place, event) in events.iter().enumerate() {
        for id in response_ids(event) {
            open.remove(id);
        }
        let opened = call_ids(event).chain(requested_calls(event));
        open.extend(opened.filter(|id| !dead.contains(id)));
        if open.is_empty() {
            balanced = place + 1;
        }
    }
    balanced
}

/// Returns the calls of earlier runs that have no final answer and cannot get one; see
/// `waiting_calls`.
fn dead_calls<'e>(events: &'e [Arc<Event>], all: &'e [Arc<Event>]) -> HashSet<&'e str> {
    let is_of_run =
        |event: &&Arc<Event>| !event.invocation_id.is_empty() && event.actions.compaction.is_none();
    let newest = all.iter().rev().find(is_of_run);
    let newest = newest.map(|event| event.invocation_id.as_str());
    let mut alive: HashSet<&str> = HashSet::new();
    for event in all {
        let is_newest =
            event.invocation_id.is_empty() || Some(event.invocation_id.as_str()) == newest;
        alive.extend(waiting_calls(event, is_newest));
        alive.extend(answered_calls(event));
    }
    let of_earlier = |event: &&Arc<Event>| Some(event.invocation_id.as_str()) != newest;
    let calls = events.iter().filter(of_earlier);
    let calls = calls.flat_map(|event| call_ids(event));
    calls.filter(|id| !alive.contains(id)).collect()
}

/// Returns the event's calls that may still be answered: long-running calls in any run, but calls
/// that ask the user only in the newest run.
fn waiting_calls(event: &Event, is_newest: bool) -> Vec<&str> {
    let asking: HashSet<&str> = match is_newest {
        true => HashSet::new(),
        false => {
            let calls = event.content().into_iter();
            let calls = calls.flat_map(|content| content.function_calls());
            let asks = |name: &str| ASKING.contains(&name);
            let calls = calls.filter(|call| call.name.as_deref().is_some_and(asks));
            calls.filter_map(|call| call.id.as_deref()).collect()
        }
    };
    let long = event
        .long_running_tool_ids
        .iter()
        .flat_map(|ids| ids.iter());
    let mut waiting: Vec<&str> = long.filter(|id| !asking.contains(id)).collect();
    if is_newest {
        waiting.extend(requested_calls(event));
    }
    waiting
}

/// Returns the calls that an event answers. A response that requests a confirmation or a credential
/// does not answer its call.
fn answered_calls(event: &Event) -> impl Iterator<Item = &str> {
    let requested: HashSet<&str> = requested_calls(event).collect();
    response_ids(event).filter(move |id| !requested.contains(id))
}

/// Returns the calls for which the event requests a confirmation or a credential.
fn requested_calls(event: &Event) -> impl Iterator<Item = &str> {
    let confirmations: &Json = &event.actions.requested_tool_confirmations;
    let credentials: &Json = &event.actions.requested_auth_configs;
    let maps = [confirmations, credentials].into_iter();
    let maps = maps.filter_map(Json::as_object);
    maps.flat_map(|map| map.keys())
}

pub(super) fn call_ids(event: &Event) -> impl Iterator<Item = &str> {
    let calls = event.content().into_iter();
    let calls = calls.flat_map(|content| content.function_calls());
    let calls = calls.filter(|call| is_set(&call.id));
    calls.filter_map(|call| call.id.as_deref())
}

pub(super) fn response_ids(event: &Event) -> impl Iterator<Item = &str> {
    let responses = event.content().into_iter();
    let responses = responses.flat_map(|content| content.function_responses());
    let responses = responses.filter(|response| is_set(&response.id));
    responses.filter_map(|response| response.id.as_deref())
}
