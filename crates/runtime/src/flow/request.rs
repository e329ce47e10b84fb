//! Building a request: the processors, in ADK 2.13's order.
//!
//! ADK has further ones between them: credentials before the instructions, interactions before the
//! contents, caching behind them. Confirmations, which ADK has here too, need the tools and are
//! looked at when the request is built (`confirmation.rs`).

use super::{
    basic, compaction, contents, dynamic_instructions, identity, instructions, output_schema,
    planning, tools, transfer,
};
use crate::{
    agents::LlmAgent,
    context::InvocationContext,
    error::Result,
    models::{LlmRequest, Model},
};

/// The request of the next step.
pub(super) async fn build(
    agent: &LlmAgent,
    ctx: &InvocationContext,
    model: &dyn Model,
) -> Result<LlmRequest> {
    let mut request = LlmRequest::default();
    basic::process(agent, ctx, model, &mut request);
    instructions::process(agent, ctx, &mut request).await?;
    identity::process(agent, &mut request);
    Box::pin(compaction::process(agent, ctx)).await?;
    contents::process(agent, ctx, model, &mut request);
    planning::process(agent, ctx, &mut request).await;
    output_schema::process(agent, model, &mut request);
    transfer::process(ctx, &mut request);
    tools::process(agent, ctx, &mut request).await?;
    dynamic_instructions::process(&mut request);
    Ok(request)
}
