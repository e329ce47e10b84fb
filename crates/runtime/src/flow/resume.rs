//! Going on with a run that a late answer takes up: calls that were made beside the answered one and
//! never got an answer are run before the model is asked.
//!
//! That happens when one of several calls failed the run, and another one was left open for the user.

use std::collections::HashSet;

use retain_core::{Event, FunctionCall, FunctionResponse};

use crate::{context::InvocationContext, models::LlmRequest};

/// The names of calls that wait for the user, also in sessions whose events do not mark them.
const ASKING: [&str; 2] = ["adk_request_input", "adk_request_credential"];

/// The event whose calls are to be run, with only those calls in it.
pub(super) fn unexecuted_calls(ctx: &InvocationContext, request: &LlmRequest) -> Option<Event> {
    let events = ctx.events();
    // Every other run begins with words, and its calls are run when they are made.
    // A summary has the user for its author, and says nothing.
    let is_said = |event: &&Event| event.author == "user" && event.actions.compaction.is_none();
    let said = events.iter().rfind(is_said)?;
    said.content()?.function_responses().next()?;
    let is_of_run = |event: &&Event| event.invocation_id == ctx.invocation_id();
    let events: Vec<&Event> = events.iter().filter(is_of_run).collect();
    let (_, before) = events.split_last()?;
    // Only calls of this agent itself: events may come from outside, and must not run tools.
    let calls_ours = |event: &&Event| {
        let is_known = |call: &&FunctionCall| {
            let name = call.name.as_deref();
            name.is_some_and(|name| request.tools.get(name).is_some())
        };
        event.author == ctx.agent_name() && event.function_calls().iter().any(is_known)
    };
    let at = before.iter().rposition(calls_ours)?;
    Batch::of(&events[at..])?.unexecuted()
}

/// Calls that were made together, and what came after them.
struct Batch<'a> {
    event: &'a Event,
    later: &'a [&'a Event],
    calls: Vec<&'a FunctionCall>,
    responses: Vec<&'a FunctionResponse>,
    /// The calls that wait for somebody.
    waiting: HashSet<&'a str>,
}

impl<'a> Batch<'a> {
    fn of(events: &'a [&'a Event]) -> Option<Batch<'a>> {
        let (event, later) = events.split_first()?;
        let responses = later.iter().flat_map(|event| event.function_responses());
        Some(Batch {
            event,
            later,
            calls: event.function_calls(),
            responses: responses.collect(),
            waiting: events.iter().flat_map(|event| waiting(event)).collect(),
        })
    }

    fn unexecuted(&self) -> Option<Event> {
        let answered: HashSet<&str> = self
            .responses
            .iter()
            .filter_map(|response| response.id.as_deref())
            .collect();
        let answer = self.answer();
        let is_ours = |response: &&FunctionResponse| {
            let names = self.calls.iter().map(|call| &call.name);
            names.into_iter().any(|name| *name == response.name)
        };
        let ids = self.calls.iter().filter_map(|call| call.id.as_deref());
        let mut ids = ids.chain(self.waiting.iter().copied());
        let no_call_answered = !ids.any(|id| answered.contains(id)) && !answer.iter().any(is_ours);
        if (!self.waiting.is_empty() && self.waiting.is_disjoint(&answered)) || no_call_answered {
            return None;
        }
        if answer.is_empty() || !answer.iter().all(is_ours) {
            return self.without_answered(&HashSet::new());
        }
        // The agent has gone on already, or still waits.
        let went_on = |event: &&Event| {
            event.author == self.event.author
                && event.branch == self.event.branch
                && event.content().is_some()
        };
        if !self.waiting.is_subset(&answered) || self.later.iter().any(went_on) {
            return None;
        }
        self.without_answered(&waiting(self.event).collect())
    }

    /// The responses of the last event that answers one of the calls, or of the last one at all.
    fn answer(&self) -> Vec<&'a FunctionResponse> {
        let answers = |response: &&FunctionResponse| match response.id.as_deref() {
            Some(id) => {
                let mut ids = self.calls.iter().filter_map(|call| call.id.as_deref());
                self.waiting.contains(id) || ids.any(|known| known == id)
            }
            None => self.calls.iter().any(|call| call.name == response.name),
        };
        let found = self.later.iter().rev();
        let found = found.map(|event| event.function_responses());
        let mut found = found.filter(|responses| responses.iter().any(answers));
        let last = || self.later.last().map(|event| event.function_responses());
        found.next().or_else(last).unwrap_or_default()
    }

    /// The event without the calls that were answered, and without those of `besides`.
    fn without_answered(&self, besides: &HashSet<&str>) -> Option<Event> {
        let mut unnamed: Vec<&FunctionResponse> = self.responses.clone();
        unnamed.retain(|response| response.id.is_none());
        let mut is_open = |call: &FunctionCall| {
            let answers = |it: &&&FunctionResponse| it.id == call.id && it.name == call.name;
            let by_id = call.id.is_some() && self.responses.iter().any(|it| answers(&it));
            if by_id || call.id.as_deref().is_some_and(|id| besides.contains(id)) {
                return false;
            }
            // A response without an id answers one call of its name.
            let by_name = unnamed.iter().position(|it| it.name == call.name);
            by_name.map(|at| unnamed.remove(at)).is_none()
        };
        let mut event = self.event.clone();
        let parts = event.response.content.as_mut()?.parts.as_mut()?;
        parts.retain(|part| part.function_call.as_ref().is_none_or(&mut is_open));
        (!event.function_calls().is_empty()).then_some(event)
    }
}

/// The calls of an event that wait for somebody.
fn waiting(event: &Event) -> impl Iterator<Item = &str> {
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
