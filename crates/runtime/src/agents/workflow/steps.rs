//! One agent after the other: what sequences and loops share. Each step is noted before it begins,
//! so that a run that is taken up again goes on where it was.

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
    /// An agent has asked to end.
    Escalated,
    /// A call waits for somebody.
    Paused,
}

/// The key under which the agent of a step is noted.
const CURRENT: &str = "current_sub_agent";

/// Where the agent of `ctx` was, if the run was taken up again.
pub(super) struct Current {
    /// The place of the agent at work; none if that agent is not there any more.
    pub(super) place: Option<usize>,
    /// All that was noted.
    pub(super) state: JsonMap,
}

pub(super) fn current(ctx: &InvocationContext, agents: &[Arc<dyn Agent>]) -> Option<Current> {
    let state = ctx.agent_state()?;
    let name = Some(state.get(CURRENT)?.as_str().unwrap_or_default());
    let place = agents.iter().position(|agent| Some(agent.name()) == name);
    if place.is_none() {
        tracing::warn!(
            agent = ctx.agent_name(),
            step = name,
            "the agent of this step is not there any more: from the beginning"
        );
    }
    Some(Current { place, state })
}

/// Runs one step. `is_resumed` says that it was begun before.
pub(super) async fn run(
    ctx: &InvocationContext,
    agent: &Arc<dyn Agent>,
    more: JsonMap,
    is_resumed: bool,
) -> Result<Step> {
    let checkpoints = &ctx.shared.checkpoints;
    let had_escalated = is_resumed && ctx.checkpoint().is_some_and(|known| known.is_escalated);
    let is_done = is_resumed && checkpoints.is_ended(agent.name());
    if !is_resumed {
        checkpoints.begin(&ctx.shared.tree, agent.name());
        let mut state = JsonMap::from([(CURRENT, agent.name())]);
        state.extend(more);
        ctx.save_agent_state(state).await?;
    }
    let watch = EventWatch::default();
    if !is_done {
        ctx.watched(&watch).run_agent(agent).await?;
    }
    Ok(if watch.is_waiting() {
        Step::Paused
    } else if had_escalated || watch.has_escalated() {
        Step::Escalated
    } else {
        Step::Done
    })
}
