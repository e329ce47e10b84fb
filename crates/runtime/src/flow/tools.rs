//! Processor `tools`: declares the agent's tools and lets them add to the request.

use futures_util::future::join_all;

use crate::{
    agents::LlmAgent,
    context::{InvocationContext, ToolContext},
    error::{Result, RunError, ToolError},
    models::LlmRequest,
    tools::ToolSource,
};

pub(super) async fn process(
    agent: &LlmAgent,
    ctx: &InvocationContext,
    request: &mut LlmRequest,
) -> Result<()> {
    if agent.tools.is_empty() {
        return Ok(());
    }
    let readonly = ctx.readonly();
    // Sets may ask servers: all at once. What they add keeps the agent's order.
    let resolved = join_all(agent.tools.iter().map(|source| source.resolve(&readonly))).await;
    for (source, tools) in agent.tools.iter().zip(resolved) {
        let context = ToolContext::new(ctx, None);
        if let ToolSource::Set(set) = source {
            let processed = set.process_request(&context, request).await;
            processed.map_err(failed(set.name()))?;
        }
        for tool in tools {
            request.append_tool(&tool);
            let processed = tool.process_request(&context, request).await;
            processed.map_err(failed(tool.name()))?;
        }
    }
    Ok(())
}

fn failed(tool: &str) -> impl FnOnce(ToolError) -> RunError {
    let tool = tool.to_owned();
    move |source| RunError::Tool { tool, source }
}
