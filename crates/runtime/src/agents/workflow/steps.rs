//! Steps of sequential and loop agents. Each step writes a checkpoint before it starts, so that a
//! resumed run continues with that step.

use std::sync::Arc;

use retain_core::JsonMap;

use crate::{
    agents::Agent,
    context::{EventWatch, InvocationContext},
    error::Result,
};

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Done,
    /// A sub-agent escalated.
    Escalated,
    /// A function call waits for an answer.
    Paused,
}

/// The state key that records the sub-agent of the current step.
const CURRENT: &str = "current_sub_agent";

/// The step with which a workflow agent continues in a resumed run.
pub(super) struct CurrentStep {
    /// The index of the current sub-agent; `None` if that sub-agent no longer exists.
    pub(super) place: Option<usize>,
    /// The state that the agent's checkpoint stores.
    pub(super) state: JsonMap,
}

/// Reads the step from the agent's checkpoint; `None` if the checkpoint names no step.
pub(super) fn current_step(
    ctx: &InvocationContext,
    agents: &[Arc<dyn Agent>],
) -> Option<CurrentStep> {
    let state = ctx.agent_state()?;
    let name = Some(state.get(CURRENT)?.as_str().unwrap_or_default());
    let place = agents.iter().position(|agent| Some(agent.name()) == name);
    if place.is_none() {
        tracing::warn!(
            agent = ctx.agent_name(),
            step = name,
            "the agent of this step no longer exists: restarting with the first agent"
        );
    }
    Some(CurrentStep { place, state })
}

/// Runs one step, after storing a checkpoint with the sub-agent and `more`. If `is_resumed`, the
/// step had stored its checkpoint before the run was interrupted.
pub(super) async fn run_step(
    ctx: &InvocationContext,
    agent: &Arc<dyn Agent>,
    more: JsonMap,
    is_resumed: bool,
) -> Result<Step> {
    let checkpoints = &ctx.shared.checkpoints;
    let had_escalated = is_resumed && ctx.checkpoint().is_some_and(|it| it.is_escalated);
    let is_done = is_resumed && checkpoints.is_ended(agent.name());
    if !is_resumed {
        checkpoints.reset(&ctx.shared.tree, agent.name());
        let mut state = JsonMap::from([(CURRENT, agent.name())]);
        state.extend(more);
        ctx.save_agent_state(state).await?;
    }
    let watch = EventWatch::default();
    if !is_done {
        ctx.with_watch(&watch).run_agent(agent).await?;
    }
    Ok(if watch.is_waiting() {
        Step::Paused
    } else if had_escalated || watch.has_escalated() {
        Step::Escalated
    } else {
        Step::Done
    })
}
