//! Processor `compaction`: if the prompt is too long, replaces older events with a summary before
//! the contents are assembled.

use retain_core::SessionError;
use tracing::Instrument as _;

use crate::{
    agents::{Agent as _, LlmAgent},
    compaction::{summary_event, token_threshold_range},
    contents::ContentsOptions,
    context::InvocationContext,
    error::{Result, RunError, error_kind},
    telemetry,
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
        ..ContentsOptions::new(agent.name())
    };
    let Some(range) = token_threshold_range(&ctx.events(), threshold, &asking) else {
        return Ok(());
    };
    let shared = &ctx.shared;
    let span = telemetry::compaction(&shared.key.id, "token_threshold", compactor, range.len());
    let summary = compactor.summarize(&range).instrument(span.clone());
    let summary = match shared.scheduler.outside_call(summary).await {
        Ok(Some(summary)) => summary_event(&range, summary, &*shared.clock, &*shared.ids),
        Ok(None) => None,
        Err(error) => {
            telemetry::mark_failed(&span, &error_kind(&error));
            let session = &shared.key;
            tracing::warn!(
                kind = error_kind(&error),
                "failed to summarize the history; sending it unchanged"
            );
            tracing::debug!(?session, error = ?error.to_string(), "failed to summarize the history; \
                                                                   sending it unchanged");
            None
        }
    };
    let Some(event) = summary else {
        return Ok(());
    };
    telemetry::record_compaction(&span, &event);
    drop(span);
    match ctx.store_summary(event).await {
        Err(RunError::Session(error @ SessionError::TooLarge { .. })) => {
            let session = &shared.key;
            tracing::warn!(
                kind = error_kind(&error),
                "failed to store a summary; sending the history unchanged"
            );
            tracing::debug!(?session, error = ?error.to_string(), "failed to store a summary; \
                                                                   sending the history unchanged");
            Ok(())
        }
        stored => stored,
    }
}
