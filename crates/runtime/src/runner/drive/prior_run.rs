//! Reads from the log what agents did in a run before a function response resumed it.
//!
//! As in ADK, this matters only for runs whose root is an LLM agent with sub-agents. If an agent
//! has transferred, only its target runs again. An agent that still waits keeps waiting.

use std::collections::HashSet;

use retain_core::{Event, Events, Json};

use crate::context::InvocationContext;

/// An agent's state from the earlier part of the run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PriorStatus {
    /// Nothing prevents the agent from running.
    Open,
    /// The agent has transferred to the agent with this name.
    TransferredTo(String),
    /// The agent must not run: it waits for an answer, or, unless it is the first agent, all of its
    /// pending calls are answered.
    Waits,
}

/// The earlier part of a run that a function response resumed; empty for other runs.
pub(crate) struct PriorRun {
    events: Option<Events>,
    /// The smallest depth in the tree of all agents so far.
    min_depth: usize,
    is_first: bool,
}

impl PriorRun {
    pub(crate) fn new(first: &InvocationContext) -> PriorRun {
        let has_others = !first.shared.tree.root().sub_agents().is_empty();
        let looks_back = first.shared.is_conversation && has_others;
        let events = looks_back.then(|| first.events());
        let answers = |events: &Events| {
            let message = first.last_user_message(events);
            message.is_some_and(|event| !event.function_responses().is_empty())
        };
        PriorRun {
            events: events.filter(answers),
            min_depth: usize::MAX,
            is_first: true,
        }
    }

    /// Returns the next agent's state from the earlier part of the run.
    pub(crate) fn status_of(&mut self, ctx: &InvocationContext) -> PriorStatus {
        let is_first = std::mem::take(&mut self.is_first);
        let above = ctx.shared.tree.ancestors(ctx.agent_name()).count();
        let is_top_so_far = above <= self.min_depth;
        self.min_depth = self.min_depth.min(above);
        let (Some(events), Some(path)) = (&self.events, ctx.node_path()) else {
            return PriorStatus::Open;
        };
        // ADK checks only the root agent, and agents deeper in the tree than an earlier one.
        if is_top_so_far && above > 0 {
            return PriorStatus::Open;
        }
        let is_of_run = |event: &&Event| event.invocation_id == ctx.invocation_id();
        let mut activity = PriorActivity::default();
        for event in events.iter().filter(is_of_run) {
            activity.record(event, path);
        }
        activity.status(is_first)
    }
}

/// The log's record of an agent at its node path and of the agents below it.
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
        let event_path = event.node_info.as_ref().and_then(|info| info.get("path"));
        let event_path = event_path.and_then(Json::as_str).unwrap_or_default();
        let below = event_path.strip_prefix(path);
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
        // Only Retain has an event for a failed transfer, which is not a failure of the agent.
        let is_transfer_failure =
            self.has_just_transferred || matches!(self.status(true), PriorStatus::TransferredTo(_));
        self.has_failed = has_failed && !is_transfer_failure;
        self.has_just_transferred = transfer_target.is_some();
        self.transfer_target = transfer_target.or(self.transfer_target);
    }

    fn status(&self, is_first: bool) -> PriorStatus {
        let still_waits = !self.waiting.is_subset(&self.answered);
        match self.transfer_target {
            _ if still_waits && is_first && !self.answered.is_empty() => PriorStatus::Open,
            _ if still_waits => PriorStatus::Waits,
            _ if self.has_failed => PriorStatus::Open,
            Some(name) => PriorStatus::TransferredTo(name.to_owned()),
            None if !self.waiting.is_empty() && !is_first => PriorStatus::Waits,
            None => PriorStatus::Open,
        }
    }
}
