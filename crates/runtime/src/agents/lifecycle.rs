//! The lifecycle of an agent's run: the callbacks before it, the agent, the callbacks after it.

use std::{panic::AssertUnwindSafe, pin::pin};

use futures_util::FutureExt as _;
use retain_core::{Content, Event, LlmResponse};
use tracing::Instrument as _;

use super::{Agent, callback_failed};
use crate::{
    context::{CallbackContext, EventWatch, InvocationContext},
    error::{Result, RunError, error_kind},
    flow,
    plugins::{ask_plugins, catch_panic},
    telemetry,
};

/// When a callback runs: before or after the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallbackPhase {
    Before,
    After,
}

/// Runs the agent of `ctx` with its callbacks. Reports a failure to the plugins.
pub(crate) async fn run_agent(ctx: &InvocationContext) -> Result<()> {
    let span = telemetry::agent(ctx);
    // Pinned in place rather than moved: nested agents would otherwise exhaust the stack.
    let result = pin!(run_with_callbacks(ctx)).instrument(span.clone()).await;
    ctx.leave();
    if let Err(error) = &result
        && !matches!(error, RunError::Cancelled)
    {
        telemetry::mark_failed(&span, error.code());
        ctx.record_failure();
        let callback = &ctx.callback();
        let plugins = &ctx.shared.plugins;
        let notification = plugins.notify("on_agent_error", |plugin| {
            plugin.on_agent_error(callback, error)
        });
        notification.instrument(span).await;
    }
    result
}

async fn run_with_callbacks(ctx: &InvocationContext) -> Result<()> {
    if flow::has_answered(ctx)? {
        // The agent, or a callback in its place, finished before the run was interrupted.
        ctx.record_agent_end().await?;
        return run_after_callbacks(ctx).await;
    }
    if let Some(mut event) = run_callbacks(ctx, CallbackPhase::Before).await? {
        ctx.agent.stamp_output(&mut event)?;
        ctx.emit(event).await?;
    }
    if ctx.is_ended() {
        return Ok(());
    }
    ctx.enter();
    run_body(ctx).await?;
    ctx.leave();
    // As in ADK, an agent that transferred is not done, so its `after_agent` callbacks do not run.
    if ctx.is_ended() || ctx.has_transferred() {
        return Ok(());
    }
    run_after_callbacks(ctx).await
}

/// Runs the agent itself. In a resumable run, also records the end of a custom agent, unless the
/// agent has done so or a call waits for an answer.
async fn run_body(ctx: &InvocationContext) -> Result<()> {
    let needs_no_record = ctx.agent.records_its_end() || !ctx.is_resumable();
    let watch = EventWatch::default();
    let watched = match needs_no_record {
        true => ctx.clone(),
        false => ctx.with_watch(&watch),
    };
    let result = AssertUnwindSafe(ctx.agent.run(&watched))
        .catch_unwind()
        .await;
    result.unwrap_or_else(|panic| Err(RunError::panicked(ctx.agent_name(), &*panic)))?;
    let is_ended = ctx.shared.checkpoints.is_ended(ctx.agent_name());
    match needs_no_record || is_ended || watch.is_waiting() {
        true => Ok(()),
        false => ctx.record_agent_end().await,
    }
}

async fn run_after_callbacks(ctx: &InvocationContext) -> Result<()> {
    if let Some(event) = run_callbacks(ctx, CallbackPhase::After).await? {
        ctx.emit(event).await?;
    }
    Ok(())
}

/// Runs the `after_agent` callbacks of an agent whose run was cancelled. Discards the content they
/// return and their writes.
pub(crate) async fn run_pending_after_callbacks(ctx: &InvocationContext) {
    if ctx.is_ended() {
        return;
    }
    if let Err(error) = run_callbacks(ctx, CallbackPhase::After).await {
        let (agent, kind) = (ctx.agent_name(), error_kind(&error));
        tracing::error!(agent, kind, "a callback failed after a cancelled run");
        tracing::debug!(error = ?error.to_string(), "a callback failed after a cancelled run");
    }
}

/// Runs the plugin hooks and the agent's callbacks. Returns an event if any of them returned
/// content or wrote state or artifacts.
async fn run_callbacks(ctx: &InvocationContext, phase: CallbackPhase) -> Result<Option<Event>> {
    if ctx.shared.plugins.is_empty() && ctx.agent.callbacks().is_none() {
        return Ok(None);
    }
    let callback = ctx.callback();
    let content = first_content(ctx, &callback, phase).await?;
    let actions = callback.take_actions();
    if content.is_none() && actions.state_delta.is_empty() && actions.artifact_delta.is_empty() {
        return Ok(None);
    }
    if content.is_some() && phase == CallbackPhase::Before {
        ctx.end_invocation();
    }
    Ok(Some(Event {
        actions,
        response: LlmResponse {
            content,
            ..LlmResponse::default()
        },
        ..ctx.new_event()
    }))
}

async fn first_content(
    ctx: &InvocationContext,
    callback: &CallbackContext,
    phase: CallbackPhase,
) -> Result<Option<Content>> {
    let plugins = &ctx.shared.plugins;
    let answer = match phase {
        CallbackPhase::Before => ask_plugins!(plugins, before_agent(callback)),
        CallbackPhase::After => ask_plugins!(plugins, after_agent(callback)),
    };
    if answer.is_some() {
        return Ok(answer);
    }
    let agent: &dyn Agent = ctx.agent.as_ref();
    let Some(callbacks) = agent.callbacks() else {
        return Ok(None);
    };
    let (list, name) = match phase {
        CallbackPhase::Before => (&callbacks.before, "before_agent"),
        CallbackPhase::After => (&callbacks.after, "after_agent"),
    };
    for call in list {
        let answer = catch_panic(async { call(callback.clone()).await }).await;
        let answer = answer.map_err(callback_failed(agent.name(), name))?;
        if answer.is_some() {
            return Ok(answer);
        }
    }
    Ok(None)
}
