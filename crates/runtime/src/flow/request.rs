//! Builds a request by calling the processors in ADK 2.13's order.
//!
//! ADK has more processors: credentials before the instructions, interactions before the contents,
//! caching after them. ADK also handles confirmations here. Retain's confirmations need the tools,
//! so `confirmation.rs` handles them after the request is built.

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

/// Builds the request for the next step.
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
