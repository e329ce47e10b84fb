//! Seals an interrupted run: appends errors that answer its open calls, or an event that ends it.
//!
//! Otherwise those calls would stay open forever. The errors tell the model of the next run what
//! happened.

use std::collections::HashSet;

use retain_core::{Content, Event, Events, FunctionResponse, JsonMap, LlmResponse, Part};

use crate::interrupts::waiting_ids;

/// The error code of the event that closes a cancelled run.
pub(crate) const INVOCATION_ABORTED: &str = "INVOCATION_ABORTED";
const MESSAGE: &str = "Invocation was aborted by client.";

/// Returns the events that answer the run's open calls with an error, one per agent, branch and
/// scope.
pub(crate) fn answers_to_open_calls(events: &Events, invocation_id: &str) -> Vec<Event> {
    let of_run = || {
        events
            .iter()
            .filter(|event| event.invocation_id == invocation_id)
    };
    let answered: Vec<&str> = of_run()
        .flat_map(|event| event.function_responses())
        .filter_map(|response| response.id.as_deref())
        .collect();
    let mut seal_events: Vec<Event> = Vec::new();
    for event in of_run() {
        for call in event.function_calls() {
            let Some(id) = call.id.as_deref().filter(|id| !answered.contains(id)) else {
                continue;
            };
            let response = FunctionResponse {
                id: Some(id.to_owned()),
                name: call.name.clone(),
                response: Some(JsonMap::from([("error", MESSAGE)])),
                ..FunctionResponse::default()
            };
            add_answer(&mut seal_events, event, response.into());
        }
    }
    seal_events
}

/// Whether the run has open calls and all of them wait for an answer from outside.
pub(crate) fn is_waiting(events: &Events, invocation_id: &str) -> bool {
    let of_run = events
        .iter()
        .filter(|event| event.invocation_id == invocation_id);
    let of_run: Vec<&Event> = of_run.collect();
    let answered: HashSet<&str> = of_run
        .iter()
        .flat_map(|event| event.function_responses())
        .filter_map(|response| response.id.as_deref())
        .collect();
    let waiting: HashSet<&str> = of_run.iter().flat_map(|event| waiting_ids(event)).collect();
    let open = of_run.iter().flat_map(|event| event.function_calls());
    let open: Vec<&str> = open
        .filter_map(|call| call.id.as_deref())
        .filter(|id| !answered.contains(id))
        .collect();
    !open.is_empty() && open.iter().all(|id| waiting.contains(id))
}

/// Adds an answer to the event of the same agent, branch and scope, or to a new event.
fn add_answer(seal_events: &mut Vec<Event>, call_event: &Event, answer: Part) {
    let place = |event: &Event| {
        (
            event.author.clone(),
            event.branch.clone(),
            event.isolation_scope.clone(),
        )
    };
    let together = seal_events
        .iter_mut()
        .find(|event| place(event) == place(call_event));
    if let Some(event) = together {
        let parts = event
            .response
            .content
            .as_mut()
            .and_then(|content| content.parts.as_mut());
        if let Some(parts) = parts {
            parts.push(answer);
        }
        return;
    }
    seal_events.push(Event {
        author: call_event.author.clone(),
        branch: call_event.branch.clone(),
        isolation_scope: call_event.isolation_scope.clone(),
        invocation_id: call_event.invocation_id.clone(),
        response: LlmResponse {
            content: Some(Content::new("user", vec![answer])),
            ..aborted_response()
        },
        ..Event::default()
    });
}

/// Creates the event that seals a run without open calls.
pub(crate) fn abort_event(invocation_id: &str, root: &str) -> Event {
    Event {
        author: root.to_owned(),
        invocation_id: invocation_id.to_owned(),
        response: aborted_response(),
        ..Event::default()
    }
}

/// Whether the last event of the run is a final response.
pub(crate) fn is_answered(events: &Events, invocation_id: &str) -> bool {
    let mut of_run = events.iter().rev();
    let last = of_run.find(|event| event.invocation_id == invocation_id);
    last.is_some_and(|event| event.author != "user" && event.is_final_response())
}

fn aborted_response() -> LlmResponse {
    LlmResponse {
        error_code: Some(INVOCATION_ABORTED.to_owned()),
        error_message: Some(MESSAGE.to_owned()),
        ..LlmResponse::default()
    }
}
