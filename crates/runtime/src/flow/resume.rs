//! Decides what a resumed run must do before it calls the model.
//!
//! If a call still waits for an answer, the run pauses. If a call never ran, because the process
//! died or another call failed the run, it runs first.

use std::collections::HashSet;

use retain_core::{Event, FunctionCall, FunctionResponse};

use crate::{
    context::InvocationContext,
    interrupts::{ASKING, is_answered_below, is_restored, opens_branch, pauses, waiting_ids},
    models::LlmRequest,
};

/// The first action of a step.
#[derive(Debug)]
pub(super) enum Decision {
    /// Call the model.
    CallModel,
    /// Do nothing, because a call waits for an answer.
    Pause,
    /// Run these calls: the agent's event, reduced to them.
    RunCalls(Box<Event>),
}

/// Decides the first action of the agent's next step.
pub(super) fn decide(ctx: &InvocationContext, request: &LlmRequest) -> Decision {
    let events = ctx.events();
    let answers = |event: &Event| !event.function_responses().is_empty();
    if !ctx.is_resumable() && !ctx.last_user_message(&events).is_some_and(answers) {
        // Without tool results from the user, only a resumable run may run earlier calls again.
        return Decision::CallModel;
    }
    let run = ctx.events_on_branch(ctx.events_of_run(&events));
    let history = History {
        ctx,
        request,
        run: &run,
    };
    match history.decide() {
        // An imported history must not run tools.
        Decision::RunCalls(event) if is_restored(&event) => Decision::CallModel,
        decided => decided,
    }
}

/// The run's events on the agent's branch.
struct History<'a> {
    ctx: &'a InvocationContext,
    request: &'a LlmRequest,
    run: &'a [&'a Event],
}

impl History<'_> {
    fn decide(&self) -> Decision {
        let Some((last, before)) = self.run.split_last() else {
            return Decision::CallModel;
        };
        if !before.is_empty() {
            match self.decide_for_batch() {
                Decision::CallModel => {}
                decided => return decided,
            }
        }
        // A call without later events never ran. Count only the agent's own calls, because events
        // from outside must not run tools.
        let never_ran = self.ctx.is_resumable()
            && !last.is_partial()
            && !last.function_calls().is_empty()
            && last.author == self.ctx.agent_name();
        match never_ran {
            true => Decision::RunCalls(Box::new((*last).clone())),
            false => Decision::CallModel,
        }
    }

    fn decide_for_batch(&self) -> Decision {
        let is_resumable = self.ctx.is_resumable();
        let last = self.run.len() - 1;
        let paused_by_last = is_resumable && self.pauses(last);
        if is_resumable && !paused_by_last && self.has_earlier_open_pause(last) {
            return Decision::Pause;
        }
        let decision = self.previous_call_index(last).and_then(|at| {
            let batch = Batch::from_events(&self.run[at..])?;
            Some(batch.decide(is_resumable))
        });
        match decision.unwrap_or(Decision::CallModel) {
            Decision::CallModel if paused_by_last => Decision::Pause,
            decided => decided,
        }
    }

    /// Whether the run pauses after the event at this index.
    fn pauses(&self, at: usize) -> bool {
        pauses(self.run[at], self.run[at + 1..].iter().copied())
    }

    /// Whether an earlier pause still waits for an answer.
    fn has_earlier_open_pause(&self, last: usize) -> bool {
        let paused = (0..last).filter(|at| self.pauses(*at));
        let paused: Vec<&Event> = paused.map(|at| self.run[at]).collect();
        // Any other unanswered call was interrupted. It does not wait but runs again.
        let awaited: HashSet<&str> = paused.iter().flat_map(|event| waiting_ids(event)).collect();
        let answered = response_ids(self.run);
        !awaited.is_subset(&answered)
    }

    /// Returns the index of the latest event before the last in which this agent calls one of its
    /// tools.
    fn previous_call_index(&self, last: usize) -> Option<usize> {
        let calls_ours = |event: &&Event| {
            let is_known = |call: &&FunctionCall| {
                let name = call.name.as_deref();
                name.is_some_and(|name| self.request.tools.get(name).is_some())
            };
            event.author == self.ctx.agent_name() && event.function_calls().iter().any(is_known)
        };
        self.run[..last].iter().rposition(calls_ours)
    }
}

/// Returns the call ids of the responses in the events.
fn response_ids<'a>(events: &[&'a Event]) -> HashSet<&'a str> {
    let responses = events.iter().flat_map(|event| event.function_responses());
    responses
        .filter_map(|response| response.id.as_deref())
        .collect()
}

/// An event's calls, and the events after it.
struct Batch<'a> {
    event: &'a Event,
    later: &'a [&'a Event],
    calls: Vec<&'a FunctionCall>,
    responses: Vec<&'a FunctionResponse>,
    /// The calls that wait for an answer.
    waiting: HashSet<&'a str>,
}

impl<'a> Batch<'a> {
    fn from_events(events: &'a [&'a Event]) -> Option<Batch<'a>> {
        let (event, later) = events.split_first()?;
        let responses = later.iter().flat_map(|event| event.function_responses());
        Some(Batch {
            event,
            later,
            calls: event.function_calls(),
            responses: responses.collect(),
            waiting: events.iter().flat_map(|event| waiting_ids(event)).collect(),
        })
    }

    fn decide(&self, is_resumable: bool) -> Decision {
        let answered = response_ids(self.later);
        let answer = self.answer();
        let is_below = answer.is_some_and(|answer| {
            let mut calls = self.calls.iter();
            calls.any(|call| is_answered_below(answer, call))
        });
        let answer = answer.map(Event::function_responses).unwrap_or_default();
        let is_ours = |response: &&FunctionResponse| {
            let mut names = self.calls.iter().map(|call| &call.name);
            names.any(|name| *name == response.name)
        };
        let ids = self.calls.iter().filter_map(|call| call.id.as_deref());
        let mut ids = ids.chain(self.waiting.iter().copied());
        let no_call_answered = !ids.any(|id| answered.contains(id)) && !answer.iter().any(is_ours);
        let none_waited_for = !self.waiting.is_empty() && self.waiting.is_disjoint(&answered);
        if !is_below && (none_waited_for || no_call_answered) {
            return match is_resumable {
                true if none_waited_for => Decision::Pause,
                // The calls do not wait for an answer, so they were interrupted: run them again.
                true => self.run_unanswered(&HashSet::new()),
                false => Decision::CallModel,
            };
        }
        if is_below || answer.is_empty() || !answer.iter().all(is_ours) {
            return self.run_unanswered(&HashSet::new());
        }
        // Call the model if the agent has already continued or a call still waits. In a resumable
        // run, answers to the calls of the batch do not mean that the agent continued.
        let is_continuation = |event: &&Event| {
            event.author == self.event.author
                && event.branch == self.event.branch
                && event.content().is_some()
                && !(is_resumable && self.has_only_answers(event))
        };
        if !self.waiting.is_subset(&answered) || self.later.iter().any(is_continuation) {
            return Decision::CallModel;
        }
        self.run_unanswered(&waiting_ids(self.event).collect())
    }

    /// Whether an event consists only of answers to the calls.
    fn has_only_answers(&self, event: &Event) -> bool {
        let responses = event.function_responses();
        let parts = event.content().map_or(0, |content| content.parts().len());
        let is_answer = |response: &&FunctionResponse| self.is_answer(event, response);
        parts == responses.len() && responses.iter().all(is_answer)
    }

    /// Returns the last event that answers one of the calls, or else the last event.
    fn answer(&self) -> Option<&'a Event> {
        let is_answer = |event: &&&Event| {
            let mut responses = event.function_responses().into_iter();
            responses.any(|response| self.is_answer(event, response))
        };
        let answer = self.later.iter().rev().find(is_answer);
        answer.or_else(|| self.later.last()).copied()
    }

    fn is_answer(&self, event: &Event, response: &FunctionResponse) -> bool {
        let by_name = match response.id.as_deref() {
            Some(id) => {
                let mut ids = self.calls.iter().filter_map(|call| call.id.as_deref());
                self.waiting.contains(id) || ids.any(|call_id| call_id == id)
            }
            None => self.calls.iter().any(|call| call.name == response.name),
        };
        let name = response.name.as_deref().unwrap_or_default();
        let may_be_below = event.author == "user" || ASKING.contains(&name);
        let is_below = || self.calls.iter().any(|call| opens_branch(call, event));
        by_name || (may_be_below && is_below())
    }

    /// Decides to run the unanswered calls, except those in `excluded`; if none is left, to call
    /// the model.
    fn run_unanswered(&self, excluded: &HashSet<&str>) -> Decision {
        let mut unnamed: Vec<&FunctionResponse> = self.responses.clone();
        unnamed.retain(|response| response.id.is_none());
        let mut is_open = |call: &FunctionCall| {
            let answers = |it: &&&FunctionResponse| it.id == call.id && it.name == call.name;
            let by_id = call.id.is_some() && self.responses.iter().any(|it| answers(&it));
            if by_id || call.id.as_deref().is_some_and(|id| excluded.contains(id)) {
                return false;
            }
            // A response without an id answers one call of the same name.
            let by_name = unnamed.iter().position(|it| it.name == call.name);
            by_name.map(|at| unnamed.remove(at)).is_none()
        };
        let mut event = self.event.clone();
        let content = event.response.content.as_mut();
        let Some(parts) = content.and_then(|content| content.parts.as_mut()) else {
            return Decision::CallModel;
        };
        parts.retain(|part| part.function_call.as_ref().is_none_or(&mut is_open));
        match event.function_calls().is_empty() {
            true => Decision::CallModel,
            false => Decision::RunCalls(Box::new(event)),
        }
    }
}
