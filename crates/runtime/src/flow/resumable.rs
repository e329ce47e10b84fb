//! Runs an agent in a resumable run: does not repeat work from before the interruption, and stores
//! the agent's end.

use std::sync::Arc;

use retain_core::Event;

use crate::{
    agents::{Agent, LlmAgent},
    context::{EventWatch, InvocationContext},
    error::{Result, RunError},
    interrupts,
};

/// The progress of an agent that was active when the run was interrupted.
enum AgentProgress {
    /// The agent has work left.
    AtWork,
    /// The agent waits for this target of its transfer, which has not ended.
    WaitsFor(Arc<dyn Agent>),
    /// The agent has transferred to this target, with which the runner continues.
    Transferred(Arc<dyn Agent>),
    /// The agent, or its transfer target, has answered.
    Answered,
}

/// Runs the agent, or the rest of its work if the run was interrupted.
pub(crate) async fn run_resumably(agent: &LlmAgent, ctx: &InvocationContext) -> Result<()> {
    let watch = EventWatch::default();
    let watched = ctx.with_watch(&watch);
    match progress(ctx)? {
        AgentProgress::AtWork => super::run(agent, &watched).await?,
        AgentProgress::WaitsFor(target) => watched.run_agent(&target).await?,
        AgentProgress::Transferred(target) => ctx.transfer_to(target),
        AgentProgress::Answered => {}
    }
    if watch.is_waiting() {
        return Ok(());
    }
    if is_waiting(ctx) {
        ctx.pause();
        return Ok(());
    }
    ctx.record_agent_end().await
}

/// Whether the agent had answered when the run was resumed, and none of its calls waits for an
/// answer.
pub(crate) fn has_answered(ctx: &InvocationContext) -> Result<bool> {
    if !ctx.is_resumable() || !ctx.agent.records_its_end() {
        return Ok(false);
    }
    let is_answered = matches!(progress(ctx)?, AgentProgress::Answered);
    Ok(is_answered && !is_waiting(ctx))
}

/// Whether a call of the agent waits for an answer.
fn is_waiting(ctx: &InvocationContext) -> bool {
    let events = ctx.events();
    let since_start = events_since_start(ctx, &ctx.events_of_run(&events));
    interrupts::is_waiting(&since_start, ctx.agent_name())
}

/// Returns the run's events on the agent's branch since the agent started.
fn events_since_start<'a>(ctx: &InvocationContext, run: &[&'a Event]) -> Vec<&'a Event> {
    let since = ctx.checkpoint().map_or(0, |checkpoint| checkpoint.since);
    ctx.events_on_branch(run.get(since..).unwrap_or_default().to_vec())
}

fn progress(ctx: &InvocationContext) -> Result<AgentProgress> {
    if ctx.agent_state().is_none() {
        return Ok(AgentProgress::AtWork);
    }
    let events = ctx.events();
    let run = ctx.events_of_run(&events);
    let since_start = events_since_start(ctx, &run);
    let has_output =
        |event: &&&Event| event.content().is_some() || event.response.error_code.is_some();
    let Some(last) = since_start.iter().rfind(has_output) else {
        return Ok(AgentProgress::AtWork);
    };
    let name = ctx.agent_name();
    if last.author == name {
        return progress_from_own_event(ctx, last);
    }
    let is_for_this = |call: &Event| call.author == name;
    let answers = last.function_responses();
    let answered = answers.first().and_then(|answer| answer.id.as_deref());
    let call = answered.and_then(|id| interrupts::call_event(run.iter().copied(), id));
    if last.author == "user" && call.is_none_or(is_for_this) {
        return Ok(AgentProgress::AtWork);
    }
    // Another agent, the target of this agent's transfer, emitted the last event and continues.
    let own = since_start
        .iter()
        .rev()
        .filter(|event| event.author == name);
    let mut handed = own.filter_map(|event| event.actions.transfer_to_agent.as_deref());
    match handed.next() {
        Some(target) => transfer_target(ctx, target),
        None => Ok(AgentProgress::AtWork),
    }
}

/// Returns the progress of the agent that emitted the last event.
fn progress_from_own_event(ctx: &InvocationContext, last: &Event) -> Result<AgentProgress> {
    if let Some(target) = &last.actions.transfer_to_agent {
        return match (
            ctx.is_run_by_runner() && ctx.shared.is_conversation,
            transfer_target(ctx, target)?,
        ) {
            (true, AgentProgress::WaitsFor(target)) => Ok(AgentProgress::Transferred(target)),
            (_, progress) => Ok(progress),
        };
    }
    let is_answer = last.is_final_response()
        && last.content().is_some()
        && last.response.error_code.is_none()
        && interrupts::waiting_calls(last).is_empty();
    Ok(match is_answer {
        true => AgentProgress::Answered,
        false => AgentProgress::AtWork,
    })
}

fn transfer_target(ctx: &InvocationContext, target: &str) -> Result<AgentProgress> {
    if ctx.shared.checkpoints.is_ended(target) {
        return Ok(AgentProgress::Answered);
    }
    let agent = ctx.shared.tree.find(target).map(Arc::clone);
    let progress = agent.map(AgentProgress::WaitsFor);
    progress.ok_or_else(|| RunError::Agent {
        agent: ctx.agent_name().to_owned(),
        source: format!("transferred to agent {target:?}, which no longer exists").into(),
    })
}
