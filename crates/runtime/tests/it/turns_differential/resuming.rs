//! Finds turns of resumed runs in which both sides are known to differ.

use std::collections::HashSet;

use retain_core::{Json, JsonMap};

/// Whether the turn resumes a run that has another pending call.
pub(crate) fn has_another_open_call(result: &Json, at: usize) -> bool {
    let Some(before) = earlier_events(result, at) else {
        return false;
    };
    let ids = |kind: &str, of_user: Option<bool>| {
        let events = before.iter().filter(move |event| {
            let is_of_user = event["author"] == "user";
            of_user.is_none_or(|of_user| of_user == is_of_user)
        });
        let parts = events.flat_map(|event| array(&event["content"]["parts"]));
        parts
            .filter_map(|part| part[kind]["id"].as_str().map(str::to_owned))
            .collect::<HashSet<_>>()
    };
    let waiting = before
        .iter()
        .flat_map(|event| array(&event["longRunningToolIds"]))
        .filter_map(|id| id.as_str().map(str::to_owned))
        .collect::<HashSet<_>>();
    let by_user = ids("functionResponse", Some(true));
    let by_all = ids("functionResponse", None);
    !waiting.is_subset(&by_user) || !ids("functionCall", None).is_subset(&by_all)
}

/// Whether the turn answers a call of an agent that another agent runs, with an LLM agent above
/// both.
pub(crate) fn resumes_nested_agent(result: &Json, at: usize) -> bool {
    let Some(before) = earlier_events(result, at) else {
        return false;
    };
    let message = before.iter().rfind(|event| event["author"] == "user");
    let parts = message.map(|event| array(&event["content"]["parts"]));
    let answered = parts.and_then(<[Json]>::first);
    let answered = answered.map(|part| part["functionResponse"]["id"].clone());
    let caller = before.iter().find(|event| {
        let parts = array(&event["content"]["parts"]).iter();
        let mut calls = parts.map(|part| part["functionCall"]["id"].clone());
        calls.any(|id| !id.is_null() && Some(&id) == answered.as_ref())
    });
    let Some(caller) = caller else {
        return false;
    };
    let path = caller["nodeInfo"]["path"].as_str().unwrap_or_default();
    !path.is_empty() && caller["author"] != *leaf(path)
}

/// Whether the turn resumes a run in which a callback emitted an event after its agent's end.
pub(crate) fn has_event_after_agent_end(result: &Json, at: usize) -> bool {
    let before = earlier_events(result, at).unwrap_or_default();
    before.iter().enumerate().any(|(at, ended)| {
        let mut later = before[at..].iter();
        ended["actions"]["endOfAgent"] == true
            && later.any(|it| it["author"] == ended["author"] && !it["content"].is_null())
    })
}

/// Whether a nested agent transfers while one of its own calls is pending.
pub(crate) fn transfers_while_waiting(result: &Json, at: usize) -> bool {
    let events = array(&array(&result["turns"])[at]["events"]);
    let mut transfers = events.iter().enumerate().filter(|(_, event)| {
        let path = event["nodeInfo"]["path"].as_str().unwrap_or_default();
        !event["actions"]["transferToAgent"].is_null() && event["author"] != *leaf(path)
    });
    transfers.any(|(at, transfer)| {
        let mut own = events[..at]
            .iter()
            .filter(|it| it["author"] == transfer["author"]);
        own.any(|event| !array(&event["longRunningToolIds"]).is_empty())
    })
}

/// Returns the last agent in a node path.
fn leaf(path: &str) -> &str {
    let segment = path.rsplit('/').next().unwrap_or_default();
    segment.split('@').next().unwrap_or_default()
}

/// Removes the end of an agent whose transfer failed. Returns the removed events.
pub(crate) fn drop_false_ends(turn: &mut JsonMap) -> Vec<Json> {
    let has_failed = !turn["failed"].is_null();
    let events = turn.get_mut("events").and_then(Json::as_array_mut);
    let Some(events) = events.filter(|_| has_failed) else {
        return Vec::new();
    };
    let is_false_end = |at: usize, events: &[Json]| {
        at > 0
            && events[at]["actions"]["endOfAgent"] == true
            && events[at]["author"] == events[at - 1]["author"]
            && !events[at - 1]["actions"]["transferToAgent"].is_null()
            && events[at + 1..].iter().all(|it| !it["errorCode"].is_null())
    };
    let found = (0..events.len()).rfind(|at| is_false_end(*at, events));
    found.map(|at| events.remove(at)).into_iter().collect()
}

/// Returns the events that the turn's run stored in earlier turns; `None` if the run is new.
fn earlier_events(result: &Json, at: usize) -> Option<Vec<&Json>> {
    let turns = array(&result["turns"]);
    let first = array(&turns[at]["events"]).first()?;
    let run = &first["invocationId"];
    let mut earlier = turns[..at].iter().flat_map(|turn| array(&turn["events"]));
    earlier.find(|event| event["invocationId"] == *run)?;
    let stored = array(&result["stored"]);
    let end = stored.iter().position(|event| event["id"] == first["id"])?;
    let of_run = |event: &&Json| event["invocationId"] == *run;
    Some(stored[..end].iter().filter(of_run).collect())
}

fn array(value: &Json) -> &[Json] {
    value.as_array().unwrap_or_default()
}
