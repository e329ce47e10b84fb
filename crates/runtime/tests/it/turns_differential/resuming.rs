//! Turns that resume an earlier run in a resumable runner: the known differences between both
//! sides.

use std::collections::HashSet;

use retain_core::{Json, JsonMap};

/// Whether the turn resumes a run that has another pending call.
pub(crate) fn leaves_something_open(told: &Json, at: usize) -> bool {
    let Some(before) = before(told, at) else {
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
    let by_anybody = ids("functionResponse", None);
    !waiting.is_subset(&by_user) || !ids("functionCall", None).is_subset(&by_anybody)
}

/// Whether the turn resumes an agent that another agent runs, below an agent with a model.
pub(crate) fn goes_on_inside(told: &Json, at: usize) -> bool {
    let Some(before) = before(told, at) else {
        return false;
    };
    let said = before.iter().rfind(|event| event["author"] == "user");
    let parts = said.map(|event| array(&event["content"]["parts"]));
    let answered = parts.and_then(<[Json]>::first);
    let answered = answered.map(|part| part["functionResponse"]["id"].clone());
    let asked = before.iter().find(|event| {
        let parts = array(&event["content"]["parts"]).iter();
        let mut calls = parts.map(|part| part["functionCall"]["id"].clone());
        calls.any(|id| !id.is_null() && Some(&id) == answered.as_ref())
    });
    let Some(asked) = asked else {
        return false;
    };
    let path = asked["nodeInfo"]["path"].as_str().unwrap_or_default();
    !path.is_empty() && asked["author"] != *leaf(path)
}

/// Whether the turn resumes a run in which a callback emitted an event after its agent's end.
pub(crate) fn spoke_behind_the_end(told: &Json, at: usize) -> bool {
    let before = before(told, at).unwrap_or_default();
    before.iter().enumerate().any(|(at, ended)| {
        let mut later = before[at..].iter();
        ended["actions"]["endOfAgent"] == true
            && later.any(|it| it["author"] == ended["author"] && !it["content"].is_null())
    })
}

/// Whether a nested agent transfers while one of its own calls is pending.
pub(crate) fn hands_over_and_waits(told: &Json, at: usize) -> bool {
    let events = array(&array(&told["turns"])[at]["events"]);
    let mut handing = events.iter().enumerate().filter(|(_, event)| {
        let path = event["nodeInfo"]["path"].as_str().unwrap_or_default();
        !event["actions"]["transferToAgent"].is_null() && event["author"] != *leaf(path)
    });
    handing.any(|(at, handing)| {
        let mut own = events[..at]
            .iter()
            .filter(|it| it["author"] == handing["author"]);
        own.any(|event| !array(&event["longRunningToolIds"]).is_empty())
    })
}

fn leaf(path: &str) -> &str {
    let segment = path.rsplit('/').next().unwrap_or_default();
    segment.split('@').next().unwrap_or_default()
}

/// Remove the end of an agent whose transfer failed; return the removed events.
pub(crate) fn drop_vain_ends(turn: &mut JsonMap) -> Vec<Json> {
    let has_failed = !turn["failed"].is_null();
    let events = turn.get_mut("events").and_then(Json::as_array_mut);
    let Some(events) = events.filter(|_| has_failed) else {
        return Vec::new();
    };
    let is_vain = |at: usize, events: &[Json]| {
        at > 0
            && events[at]["actions"]["endOfAgent"] == true
            && events[at]["author"] == events[at - 1]["author"]
            && !events[at - 1]["actions"]["transferToAgent"].is_null()
            && events[at + 1..].iter().all(|it| !it["errorCode"].is_null())
    };
    let found = (0..events.len()).rfind(|at| is_vain(*at, events));
    found.map(|at| events.remove(at)).into_iter().collect()
}

/// Return the events that the run of a turn stored in earlier turns, or `None` if it is new.
fn before(told: &Json, at: usize) -> Option<Vec<&Json>> {
    let turns = array(&told["turns"]);
    let first = array(&turns[at]["events"]).first()?;
    let run = &first["invocationId"];
    let mut earlier = turns[..at].iter().flat_map(|turn| array(&turn["events"]));
    earlier.find(|event| event["invocationId"] == *run)?;
    let stored = array(&told["stored"]);
    let end = stored.iter().position(|event| event["id"] == first["id"])?;
    let of_run = |event: &&Json| event["invocationId"] == *run;
    Some(stored[..end].iter().filter(of_run).collect())
}

fn array(value: &Json) -> &[Json] {
    value.as_array().unwrap_or_default()
}
