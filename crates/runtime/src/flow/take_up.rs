//! An agent's turn in a resumable run: what was done before the run broke off is not done again,
//! and when the agent is done, that is stored.

use std::sync::Arc;

use retain_core::Event;

use crate::{
    agents::{Agent, LlmAgent},
    context::{EventWatch, InvocationContext},
    error::{Result, RunError},
    interrupts,
};

/// Where an agent stands that was at work when the run broke off.
enum Standing {
    /// It has more to do.
    AtWork,
    /// It has handed over to this agent, which is not done, and waits for it.
    HandedTo(Arc<dyn Agent>),
    /// It has handed over to this agent, with which the runner itself goes on.
    HandedOn(Arc<dyn Agent>),
    /// It, or who it handed over to, has answered.
    Answered,
}

/// Runs the agent, or what is left of its turn.
pub(crate) async fn run_resumably(agent: &LlmAgent, ctx: &InvocationContext) -> Result<()> {
    let watch = EventWatch::default();
    let watched = ctx.watched(&watch);
    match standing(ctx)? {
        Standing::AtWork => super::run(agent, &watched).await?,
        Standing::HandedTo(target) => watched.run_agent(&target).await?,
        Standing::HandedOn(target) => ctx.hand_over(target),
        Standing::Answered => {}
    }
    if watch.is_waiting() {
        return Ok(());
    }
    if is_waiting(ctx) {
        ctx.pause();
        return Ok(());
    }
    ctx.end_of_agent().await
}

/// Whether the agent had answered when the run was taken up, and nothing of its waits.
pub(crate) fn has_answered(ctx: &InvocationContext) -> Result<bool> {
    if !ctx.is_resumable() || !ctx.agent.notes_its_end() {
        return Ok(false);
    }
    let is_answered = matches!(standing(ctx)?, Standing::Answered);
    Ok(is_answered && !is_waiting(ctx))
}

/// Whether a call of the agent waits for somebody.
fn is_waiting(ctx: &InvocationContext) -> bool {
    let events = ctx.events();
    let turn = turn(ctx, &ctx.of_this_run(&events));
    interrupts::is_waiting(&turn, ctx.agent_name())
}

/// What happened on the agent's branch since it was begun, of the events of the run.
fn turn<'a>(ctx: &InvocationContext, run: &[&'a Event]) -> Vec<&'a Event> {
    let since = ctx.checkpoint().map_or(0, |checkpoint| checkpoint.since);
    ctx.of_this_branch(run.get(since..).unwrap_or_default().to_vec())
}

fn standing(ctx: &InvocationContext) -> Result<Standing> {
    if ctx.agent_state().is_none() {
        return Ok(Standing::AtWork);
    }
    let events = ctx.events();
    let run = ctx.of_this_run(&events);
    let turn = turn(ctx, &run);
    let says = |event: &&&Event| event.content().is_some() || event.response.error_code.is_some();
    let Some(last) = turn.iter().rfind(says) else {
        return Ok(Standing::AtWork);
    };
    let name = ctx.agent_name();
    if last.author == name {
        return own_standing(ctx, last);
    }
    let is_for_this = |call: &Event| call.author == name;
    let answers = last.function_responses();
    let answered = answers.first().and_then(|answer| answer.id.as_deref());
    let asked = answered.and_then(|id| interrupts::call_event(run.iter().copied(), id));
    if last.author == "user" && asked.is_none_or(is_for_this) {
        return Ok(Standing::AtWork);
    }
    // Others spoke last: whoever this agent has handed over to goes on.
    let own = turn.iter().rev().filter(|event| event.author == name);
    let mut handed = own.filter_map(|event| event.actions.transfer_to_agent.as_deref());
    match handed.next() {
        Some(target) => handed_to(ctx, target),
        None => Ok(Standing::AtWork),
    }
}

/// Where the agent stands if it has spoken last.
fn own_standing(ctx: &InvocationContext, last: &Event) -> Result<Standing> {
    if let Some(target) = &last.actions.transfer_to_agent {
        return match (
            ctx.is_top() && ctx.shared.is_conversation,
            handed_to(ctx, target)?,
        ) {
            (true, Standing::HandedTo(target)) => Ok(Standing::HandedOn(target)),
            (_, standing) => Ok(standing),
        };
    }
    let is_answer = last.is_final_response()
        && last.content().is_some()
        && last.response.error_code.is_none()
        && interrupts::waiting_calls(last).is_empty();
    Ok(match is_answer {
        true => Standing::Answered,
        false => Standing::AtWork,
    })
}

fn handed_to(ctx: &InvocationContext, target: &str) -> Result<Standing> {
    if ctx.shared.checkpoints.is_ended(target) {
        return Ok(Standing::Answered);
    }
    let found = ctx.shared.tree.find(target).map(Arc::clone);
    let found = found.map(Standing::HandedTo);
    found.ok_or_else(|| RunError::Agent {
        agent: ctx.agent_name().to_owned(),
        source: format!("has handed over to agent {target:?}, which is not there any more").into(),
    })
}
