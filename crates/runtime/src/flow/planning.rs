//! Processor `planning`: lets the planner change the request and the answer.

use retain_core::{Event, LlmResponse};

use crate::{agents::LlmAgent, context::InvocationContext, models::LlmRequest};

pub(super) async fn process(agent: &LlmAgent, ctx: &InvocationContext, request: &mut LlmRequest) {
    if let Some(planner) = &agent.planner {
        planner.apply(&ctx.readonly(), request).await;
    }
}

/// Lets the planner rewrite an answer. Returns an event if the planner wrote to the state.
pub(super) fn process_response(
    agent: &LlmAgent,
    ctx: &InvocationContext,
    response: &mut LlmResponse,
) -> Option<Event> {
    let planner = agent.planner.as_ref()?;
    let parts = response.content.as_mut()?.parts.as_mut()?;
    if parts.is_empty() {
        return None;
    }
    let callback = ctx.callback();
    if let Some(planned) = planner.process_response(&callback, parts)
        && !planned.is_empty()
    {
        *parts = planned;
    }
    let actions = callback.take_actions();
    let wrote = !actions.state_delta.is_empty();
    wrote.then(|| Event {
        actions,
        ..ctx.new_event()
    })
}
