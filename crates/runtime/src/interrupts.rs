//! Calls that wait for an answer: which events hold such calls, and which calls are answered.
//!
//! A run pauses at such a call. The flow, the workflow agents and the runner share these rules.

use std::collections::HashSet;

use retain_core::{Event, FunctionCall};

/// The names of calls that wait for the user, even if their event does not mark them as
/// long-running.
pub(crate) const ASKING: [&str; 2] = ["adk_request_input", "adk_request_credential"];

/// ADK's metadata key that marks an event as imported into its session.
const RESTORED: &str = "__adk_internal_restored_event";

/// Whether an event was imported. The calls of imported events are history and must not run.
pub(crate) fn is_restored(event: &Event) -> bool {
    let metadata = event.response.custom_metadata.as_ref();
    let mark = metadata.and_then(|metadata| metadata.get(RESTORED));
    mark.is_some_and(|mark| mark.as_bool() != Some(false))
}

/// Returns the ids of the calls that an event marks as waiting for an answer.
pub(crate) fn waiting_ids(event: &Event) -> impl Iterator<Item = &str> {
    let marked = event
        .long_running_tool_ids
        .iter()
        .flat_map(|ids| ids.iter());
    let asking = event.function_calls().into_iter().filter(|call| {
        let name = call.name.as_deref();
        name.is_some_and(|name| ASKING.contains(&name))
    });
    marked.chain(asking.filter_map(|call| call.id.as_deref()))
}

/// Returns the event's calls that wait for an answer.
pub(crate) fn waiting_calls(event: &Event) -> Vec<&FunctionCall> {
    let ids: HashSet<&str> = waiting_ids(event).collect();
    let mut calls = event.function_calls();
    calls.retain(|call| call.id.as_deref().is_some_and(|id| ids.contains(id)));
    calls
}

/// Returns the latest event with a call of this id.
pub(crate) fn call_event<'a>(
    mut events: impl DoubleEndedIterator<Item = &'a Event>,
    id: &str,
) -> Option<&'a Event> {
    let is_it = |call: &FunctionCall| call.id.as_deref() == Some(id);
    events.rfind(|event| event.function_calls().into_iter().any(is_it))
}

/// Whether a run pauses after an event, given the later events: the event has a waiting call, and
/// the user has not begun to answer it on the call's branch.
pub(crate) fn pauses<'a>(event: &Event, later: impl Iterator<Item = &'a Event> + Clone) -> bool {
    waiting_calls(event)
        .iter()
        .any(|call| !later.clone().any(|event| is_answered_below(event, call)))
}

/// Whether the user emitted the event on a branch that the call opened.
pub(crate) fn is_answered_below(event: &Event, call: &FunctionCall) -> bool {
    event.author == "user" && opens_branch(call, event)
}

/// Whether the call opened the branch of an event. Such a branch has a segment `name@id`.
pub(crate) fn opens_branch(call: &FunctionCall, event: &Event) -> bool {
    let (Some(id), Some(branch)) = (call.id.as_deref(), event.branch.as_deref()) else {
        return false;
    };
    let mut opened = branch
        .split('.')
        .filter_map(|segment| segment.rsplit_once('@'));
    opened.any(|(_, run)| run == id)
}

/// Whether a call of `author` among these events still waits for the user's answer.
pub(crate) fn is_waiting(events: &[&Event], author: &str) -> bool {
    let user_events = || events.iter().filter(|event| event.author == "user");
    let answered: HashSet<&str> = user_events()
        .flat_map(|event| event.function_responses())
        .filter_map(|response| response.id.as_deref())
        .collect();
    let is_open = |call: &&FunctionCall| {
        let id = call.id.as_deref().unwrap_or_default();
        !answered.contains(id) && !user_events().any(|event| opens_branch(call, event))
    };
    let own = events.iter().filter(|event| event.author == author);
    own.flat_map(|event| waiting_calls(event))
        .any(|call| is_open(&call))
}

#[cfg(test)]
mod tests {
    use retain_core::{Content, FunctionResponse, IdSet, LlmResponse, Part};

    use super::*;

    fn call(id: &str, name: &str) -> Event {
        let call = FunctionCall {
            id: Some(id.to_owned()),
            name: Some(name.to_owned()),
            ..FunctionCall::default()
        };
        Event {
            author: "agent".to_owned(),
            response: LlmResponse::from_content(Content::new("model", vec![Part::from(call)])),
            ..Event::default()
        }
    }

    fn long_running(id: &str) -> Event {
        Event {
            long_running_tool_ids: Some(IdSet::from_iter([id])),
            ..call(id, "pay")
        }
    }

    fn answer(author: &str, id: &str, branch: Option<&str>) -> Event {
        let response = FunctionResponse {
            id: Some(id.to_owned()),
            name: Some("pay".to_owned()),
            ..FunctionResponse::default()
        };
        Event {
            author: author.to_owned(),
            branch: branch.map(str::to_owned),
            response: LlmResponse::from_content(Content::new("user", vec![Part::from(response)])),
            ..Event::default()
        }
    }

    #[test]
    fn call_waits_until_the_user_answers() {
        let pay = long_running("1");
        let status = answer("agent", "1", None);
        assert!(is_waiting(&[&pay, &status], "agent"));
        assert!(!is_waiting(&[&pay, &status], "another"));
        let paid = answer("user", "1", None);
        assert!(!is_waiting(&[&pay, &status, &paid], "agent"));
        assert!(is_waiting(&[&pay, &long_running("2"), &paid], "agent"));
    }

    #[test]
    fn input_request_waits_without_a_long_running_id() {
        assert_eq!(waiting_calls(&call("1", "adk_request_input")).len(), 1);
        assert_eq!(waiting_calls(&call("1", "look")).len(), 0);
    }

    #[test]
    fn answer_on_a_branch_of_the_call_ends_the_wait() {
        let pay = long_running("ab");
        let below = answer("user", "other", Some("root.pay@ab.x@1"));
        let elsewhere = answer("user", "other", Some("root.pay@abc"));
        assert!(!pauses(&pay, [&below].into_iter()));
        assert!(pauses(&pay, [&elsewhere].into_iter()));
        assert!(!is_waiting(&[&pay, &below], "agent"));
    }
}
