//! Processor `compaction`: when the prompt has grown too long, a summary takes the place of what is
//! old, before the contents are put together.

use crate::{
    agents::{Agent as _, LlmAgent},
    compaction::{overlay, token_threshold_range},
    contents::ContentsOptions,
    context::InvocationContext,
    error::Result,
};

pub(super) async fn process(agent: &LlmAgent, ctx: &InvocationContext) -> Result<()> {
    let Some(compactor) = &ctx.shared.compactor else {
        return Ok(());
    };
    let Some(threshold) = &compactor.threshold else {
        return Ok(());
    };
    let asking = ContentsOptions {
        branch: ctx.branch(),
        ..ContentsOptions::of(agent.name())
    };
    let Some(range) = token_threshold_range(&ctx.events(), threshold, &asking) else {
        return Ok(());
    };
    let Some(summary) = compactor.summary(&range).await else {
        return Ok(());
    };
    let shared = &ctx.shared;
    match overlay(&range, summary, &*shared.clock, &*shared.ids) {
        Some(event) => ctx.store_overlay(event).await,
        None => Ok(()),
    }
}
