//! Processor `tools`: declares the agent's tools and lets them change the request. If a tool times
//! out, its change is skipped. If a toolset fails or times out, its tools are omitted.

use futures_util::future::join_all;

use crate::{
    agents::{Agent as _, LlmAgent},
    context::{InvocationContext, ToolContext},
    error::{Result, RunError},
    models::LlmRequest,
    tools::{ToolFailure, ToolSource, run_limited},
};

/// The error text for a tool or toolset that times out during this step.
const TOO_LATE: &str = "did not finish processing the request";

pub(super) async fn process(
    agent: &LlmAgent,
    ctx: &InvocationContext,
    request: &mut LlmRequest,
) -> Result<()> {
    if agent.tools.is_empty() {
        return Ok(());
    }
    let readonly = ctx.readonly();
    // Resolve them concurrently, because toolsets may query servers, but keep the agent's order.
    let resolved = join_all(agent.tools.iter().map(|source| source.resolve(&readonly))).await;
    let limit = ctx.shared.tool_time_limit;
    for (source, tools) in agent.tools.iter().zip(resolved) {
        let context = ToolContext::new(ctx, None);
        if let ToolSource::Set(set) = source
            && let Err(failure) = run_limited(limit, set.process_request(&context, request)).await
        {
            let error = failure.into_error(TOO_LATE, limit);
            let (agent, toolset) = (agent.name(), set.name());
            tracing::error!(
                agent,
                toolset,
                "a toolset failed: the agent runs without its tools"
            );
            tracing::debug!(agent, toolset, error = ?error.to_string(), "a toolset failed: the agent runs without its tools");
            continue;
        }
        for tool in tools {
            request.append_tool(&tool);
            match run_limited(limit, tool.process_request(&context, request)).await {
                Ok(()) => {}
                Err(ToolFailure::Failed(source)) => {
                    let tool = tool.name().to_owned();
                    return Err(RunError::Tool { tool, source });
                }
                Err(failure) => {
                    let error = failure.into_error(TOO_LATE, limit);
                    let (agent, tool) = (agent.name(), tool.name());
                    tracing::error!(
                        agent,
                        tool,
                        "a tool failed to process the request: the model is called without its addition"
                    );
                    tracing::debug!(agent, tool, error = ?error.to_string(), "a tool failed to process the request: the model is called without its addition");
                }
            }
        }
    }
    Ok(())
}
