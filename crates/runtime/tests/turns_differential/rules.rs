//! Where the two sides may differ, each as a rule with a name. A rule that is never needed fails
//! the test.

use retain_core::{Json, JsonMap};

/// How often each rule was needed.
#[derive(Debug, Default)]
pub(crate) struct Needed {
    /// How many scripts were compared.
    pub(crate) scripts: usize,
    /// Who fails to hand over, or fails below an agent that asks no model, leaves no event in ADK.
    /// In Retain the log tells of every failure.
    pub(crate) failures_are_stored: usize,
    /// Events of agents side by side come in the order in which they are made. It is compared
    /// branch by branch.
    pub(crate) order_is_by_branch: usize,
}

impl Needed {
    /// Both sides, with what they may differ in taken out.
    pub(crate) fn settle(&mut self, ours: &Json, theirs: &Json) -> (Json, Json) {
        self.scripts += 1;
        let (mut ours, mut theirs) = (without_hidden_ids(ours), without_hidden_ids(theirs));
        self.drop_failures(&mut ours, &theirs);
        for told in [&mut ours, &mut theirs] {
            let mut moved = false;
            edit_turns(told, |_, turn| {
                if let Some(events) = turn.get_mut("events") {
                    moved |= by_branch(events);
                }
            });
            let stored = told.as_object_mut().and_then(|told| told.get_mut("stored"));
            moved |= stored.is_some_and(by_branch);
            self.order_is_by_branch += usize::from(moved);
        }
        (ours, theirs)
    }

    fn drop_failures(&mut self, ours: &mut Json, theirs: &Json) {
        let mut dropped = Vec::new();
        edit_turns(ours, |at, turn| {
            let other = &theirs["turns"].as_array().unwrap_or_default()[at];
            let last = other["events"].as_array().and_then(<[Json]>::last);
            let both_failed = !turn["failed"].is_null() && !other["failed"].is_null();
            let events = turn.get_mut("events").and_then(Json::as_array_mut);
            if let Some(events) = events
                && both_failed
                && !last.is_some_and(is_failure)
                && events.last().is_some_and(is_failure)
            {
                dropped.extend(events.pop().map(|event| event["id"].clone()));
            }
        });
        self.failures_are_stored += dropped.len();
        let stored = ours.as_object_mut().and_then(|told| told.get_mut("stored"));
        if let Some(stored) = stored.and_then(Json::as_array_mut) {
            stored.retain(|event| !dropped.contains(&event["id"]));
        }
    }
}

fn is_failure(event: &Json) -> bool {
    !event["errorCode"].is_null() && event["content"].is_null()
}

fn edit_turns(told: &mut Json, mut edit: impl FnMut(usize, &mut JsonMap)) {
    let turns = told.as_object_mut().and_then(|told| told.get_mut("turns"));
    let turns = turns.and_then(Json::as_array_mut).into_iter().flatten();
    for (at, turn) in turns.enumerate() {
        if let Some(turn) = turn.as_object_mut() {
            edit(at, turn);
        }
    }
}

/// Sorts what was made side by side; says whether that changed anything.
fn by_branch(events: &mut Json) -> bool {
    let before = events.clone();
    let branch = |event: &Json| event["branch"].as_str().unwrap_or_default().to_owned();
    if let Some(events) = events.as_array_mut() {
        let together = |one: &Json, next: &Json| {
            let is_beside = |event: &Json| event["author"] != "user" && !branch(event).is_empty();
            is_beside(one) && is_beside(next) && one["invocationId"] == next["invocationId"]
        };
        for beside in events.chunk_by_mut(together) {
            beside.sort_by_key(branch);
        }
    }
    before != *events
}

/// Ids of calls inside an agent that is a tool are seen only in the words of a failure.
fn without_hidden_ids(told: &Json) -> Json {
    const BEFORE: &str = "(pending call ids: [";
    let text = told.to_string();
    let mut pieces = text.split(BEFORE);
    let mut kept = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(']').unwrap_or(0);
        kept += BEFORE;
        kept += &piece[end..];
    }
    Json::parse(&kept).expect("only ids were taken out")
}
