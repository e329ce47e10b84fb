//! Processor `contents`: adds the conversation as the model sees it.

use std::sync::PoisonError;

use crate::{
    agents::{Agent as _, LlmAgent},
    contents::{ContentsOptions, place_of_user_content},
    context::InvocationContext,
    models::{LlmRequest, Model},
    shared_content::SharedContent,
};

pub(super) fn process(
    agent: &LlmAgent,
    ctx: &InvocationContext,
    model: &dyn Model,
    request: &mut LlmRequest,
) {
    let instructions = std::mem::take(&mut request.contents);
    let options = ContentsOptions {
        agent_name: agent.name(),
        branch: ctx.branch(),
        include_contents: agent.include_contents,
        keep_call_ids: model.capabilities().pairs_calls_by_id,
        thoughts_of_other_agents: ctx.run_config().include_thoughts_from_other_agents,
        ..ContentsOptions::default()
    };
    let events = ctx.events();
    let mut caches = ctx
        .shared
        .contents
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let cache = caches.entry(agent.name().to_owned()).or_default();
    request.contents = cache.assemble(&events, &options);
    drop(caches);
    insert_input_context(ctx, request);
    request.insert_before_user_turn(instructions);
}

/// Inserts the caller's contents for this run before the user's message.
fn insert_input_context(ctx: &InvocationContext, request: &mut LlmRequest) {
    let extra = &ctx.run_config().model_input_context;
    if extra.is_empty() {
        return;
    }
    let at = place_of_user_content(&request.contents, Some(ctx.user_content()));
    let extra = extra.iter().cloned().map(SharedContent::from);
    request.contents.splice(at..at, extra);
}
