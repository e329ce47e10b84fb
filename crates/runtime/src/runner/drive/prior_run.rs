//! Reads from the log what agents did in a run before a function response resumed it.
//!
//! As in ADK, only runs whose root is an LLM agent with sub-agents do this: an agent that has
//! transferred does not run again, its target does; an agent that still waits keeps waiting.

use std::collections::HashSet;

use retain_core::{Event, Events, Json};

use crate::context::InvocationContext;

/// What an agent did earlier in the run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PriorStatus {
    /// Nothing that prevents it from running.
    Open,
    /// It has transferred to this agent.
    HandedTo(String),
    /// It must not run: it waits for an answer, or all its pending calls are answered.
    Waits,
}

/// The run so far; empty for a new run.
pub(crate) struct PriorRun {
    events: Option<Events>,
    /// The smallest number of ancestors among the agents so far.
    highest: usize,
    is_first: bool,
}

impl PriorRun {
    pub(crate) fn of(first: &InvocationContext) -> PriorRun {
        let has_others = !first.shared.tree.root().sub_agents().is_empty();
        let looks_back = first.shared.is_conversation && has_others;
        let events = looks_back.then(|| first.events());
        let answers = |events: &Events| {
            let said = first.last_user_message(events);
            said.is_some_and(|event| !event.function_responses().is_empty())
        };
        PriorRun {
            events: events.filter(answers),
            highest: usize::MAX,
            is_first: true,
        }
    }

    /// What the next agent did earlier in the run.
    pub(crate) fn status_of(&mut self, ctx: &InvocationContext) -> PriorStatus {
        let is_first = std::mem::take(&mut self.is_first);
        let above = ctx.shared.tree.ancestors(ctx.agent_name()).count();
        let is_highest = above <= self.highest;
        self.highest = self.highest.min(above);
        let (Some(events), Some(path)) = (&self.events, ctx.node_path()) else {
            return PriorStatus::Open;
        };
        // ADK looks only at agents below one that it runs.
        if is_highest && above > 0 {
            return PriorStatus::Open;
        }
        let is_of_run = |event: &&Event| event.invocation_id == ctx.invocation_id();
        let mut known = PriorActivity::default();
        for event in events.iter().filter(is_of_run) {
            known.record(event, path);
        }
        known.status(is_first)
    }
}

/// What the log says about an agent at its node path, and about those below it.
#[derive(Debug, Default)]
struct PriorActivity<'a> {
    waiting: HashSet<&'a str>,
    answered: HashSet<&'a str>,
    transfer_target: Option<&'a str>,
    has_failed: bool,
    has_just_transferred: bool,
}

impl<'a> PriorActivity<'a> {
    fn record(&mut self, event: &'a Event, path: &str) {
        if event.author == "user" {
            self.has_just_transferred = false;
            let responses = event.function_responses().into_iter();
            let ids = responses.filter_map(|response| response.id.as_deref());
            self.answered
                .extend(ids.filter(|id| self.waiting.contains(id)));
            return;
        }
        let made_at = event.node_info.as_ref().and_then(|info| info.get("path"));
        let made_at = made_at.and_then(Json::as_str).unwrap_or_default();
        let below = made_at.strip_prefix(path);
        if !below.is_some_and(|below| below.is_empty() || below.starts_with('/')) {
            return;
        }
        if below == Some("") {
            self.record_own(event);
        }
        for id in event
            .long_running_tool_ids
            .iter()
            .flat_map(|ids| ids.iter())
        {
            self.waiting.insert(id);
            self.answered.remove(id);
        }
    }

    fn record_own(&mut self, event: &'a Event) {
        let transfer_target = event.actions.transfer_to_agent.as_deref();
        let has_failed = event.response.error_code.is_some() && transfer_target.is_none();
        // The event of a failed transfer is specific to Retain, and not a failure of the agent.
        let is_of_handing_over =
            self.has_just_transferred || matches!(self.status(true), PriorStatus::HandedTo(_));
        self.has_failed = has_failed && !is_of_handing_over;
        self.has_just_transferred = transfer_target.is_some();
        self.transfer_target = transfer_target.or(self.transfer_target);
    }

    fn status(&self, is_first: bool) -> PriorStatus {
        let still_waits = !self.waiting.is_subset(&self.answered);
        match self.transfer_target {
            _ if still_waits && is_first && !self.answered.is_empty() => PriorStatus::Open,
            _ if still_waits => PriorStatus::Waits,
            _ if self.has_failed => PriorStatus::Open,
            Some(name) => PriorStatus::HandedTo(name.to_owned()),
            None if !self.waiting.is_empty() && !is_first => PriorStatus::Waits,
            None => PriorStatus::Open,
        }
    }
}
