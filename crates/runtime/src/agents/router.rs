//! Chooses the agent that handles a message: the agent whose call the message answers, or else the
//! last speaker that may continue.

use std::sync::Arc;

use retain_core::{Content, Event, Events};

use super::{Agent, tree::AgentTree};
use crate::{contents::valid_events, interrupts::call_event, runner::INVOCATION_ABORTED};

/// Returns the agent to run on `message`, given the history before it.
pub(crate) fn agent_to_run(tree: &AgentTree, events: &Events, message: &Content) -> Arc<dyn Agent> {
    let valid = valid_events(events);
    let caller = agent_of_answered_call(tree, &valid, message);
    caller
        .unwrap_or_else(|| last_active_agent(tree, &valid))
        .clone()
}

fn is_abort(event: &Event) -> bool {
    event.response.error_code.as_deref() == Some(INVOCATION_ABORTED)
}

/// Returns the agent whose function call the message answers.
fn agent_of_answered_call<'a>(
    tree: &'a AgentTree,
    events: &[&Event],
    message: &Content,
) -> Option<&'a Arc<dyn Agent>> {
    let answered = message.function_responses().next()?.id.as_deref()?;
    let last = events.iter().rev().find(|event| event.author != "user");
    if last.is_some_and(|event| is_abort(event)) {
        return None;
    }
    let call = call_event(events.iter().copied(), answered)?;
    tree.find(&call.author)
}

/// Returns the agent of the latest reply, or the agent to which that reply transferred, if the
/// conversation can continue with it; else the root agent.
fn last_active_agent<'a>(tree: &'a AgentTree, events: &[&Event]) -> &'a Arc<dyn Agent> {
    for event in events.iter().rev().filter(|event| is_reply(event)) {
        if let Some(target) = transfer_target(tree, event)
            && tree.is_transferable(target.name())
        {
            return target;
        }
        let Some(author) = tree.find(&event.author) else {
            continue;
        };
        if author.name() == tree.root().name() || tree.is_transferable(author.name()) {
            return author;
        }
    }
    tree.root()
}

/// Returns the agent that an event transfers to, if that transfer is allowed.
fn transfer_target<'a>(tree: &'a AgentTree, event: &Event) -> Option<&'a Arc<dyn Agent>> {
    let name = event.actions.transfer_to_agent.as_deref()?;
    let targets = tree.transfer_targets(&event.author);
    let is_target = targets.iter().any(|target| target.name() == name);
    tree.find(name).filter(|_| is_target)
}

/// Whether an event is an agent's reply rather than an abort or a checkpoint.
fn is_reply(event: &Event) -> bool {
    let has_parts = event
        .content()
        .is_some_and(|content| !content.parts().is_empty());
    event.author != "user"
        && !is_abort(event)
        && event.actions.agent_state.is_none()
        && event.actions.end_of_agent != Some(true)
        && (event.response.error_code.is_none() || has_parts)
}

/// Returns the branch of the latest event that `agent` emitted on a branch. `invocation_id` limits
/// the search to that run.
pub(crate) fn latest_branch(
    events: &Events,
    agent: &str,
    invocation_id: Option<&str>,
) -> Option<String> {
    let valid = valid_events(events);
    let is_its = |event: &&&Event| {
        event.author == agent
            && event
                .branch
                .as_ref()
                .is_some_and(|branch| !branch.is_empty())
            && invocation_id.is_none_or(|id| event.invocation_id == id)
    };
    valid.iter().rev().find(is_its)?.branch.clone()
}
