//! The end of a run: records a failure or a cancellation in the log, releases the lease and caches
//! the session.

use std::{panic::AssertUnwindSafe, sync::PoisonError};

use futures_util::FutureExt as _;
use retain_core::{Event, LlmResponse};

use super::abort;
use crate::{
    agents::run_pending_after_callbacks,
    error::{Result, RunError, error_kind},
    plugins::ask_plugins,
    runner::drive::{Driver, stop::StopReason, store::END_TIME_LIMIT},
};

impl Driver {
    /// Seals a cancelled run: runs pending `after_agent` callbacks and answers open calls with
    /// errors.
    pub(crate) async fn seal(&mut self, reason: StopReason) -> Result<()> {
        self.pending_delivery = None;
        for ctx in self.ctx.take_agents_awaiting_after().into_iter().rev() {
            let callbacks = AssertUnwindSafe(run_pending_after_callbacks(&ctx)).catch_unwind();
            let result = tokio::time::timeout(END_TIME_LIMIT, callbacks).await;
            if !matches!(result, Ok(Ok(()))) {
                let agent = ctx.agent_name();
                tracing::warn!(
                    agent,
                    "a callback timed out or panicked after a cancelled run"
                );
            }
        }
        let events = self.session.update(|session| session.events.clone());
        let id = self.ctx.invocation_id();
        let mut seal_events = abort::answers_to_open_calls(&events, id);
        if reason == StopReason::Abandoned && abort::is_waiting(&events, id) {
            // The run waits for its caller, which can disconnect now and answer later.
            seal_events.clear();
        }
        // The run is complete if its last append ended it, or if the caller disconnected after the
        // answer.
        let is_complete = self.is_released
            || (reason == StopReason::Abandoned && abort::is_answered(&events, id));
        if seal_events.is_empty() && !is_complete {
            seal_events.push(abort::abort_event(id, self.inner.tree.root().name()));
        }
        let count = seal_events.len();
        for (number, mut event) in (1..).zip(seal_events) {
            event.id = self.inner.ids.new_id();
            event.timestamp = self.inner.clock.now();
            self.store(event, number == count).await?;
        }
        let after = tokio::time::timeout(END_TIME_LIMIT, self.after_run());
        after.await.unwrap_or(Ok(()))
    }

    /// Stores the agent's error as an event and sends it to the caller.
    pub(crate) async fn store_failure(&mut self, error: &RunError) {
        let failed = self.ctx.take_failed_agent();
        let mut event = Event {
            response: LlmResponse {
                error_code: Some(error.code().to_owned()),
                error_message: Some(error.cause()),
                ..LlmResponse::default()
            },
            ..failed.new_event()
        };
        failed.fill_missing_fields(&mut event);
        let is_last = self.inner.plugins.is_empty();
        if let Err(error) = self.store(event, is_last).await {
            let invocation = self.ctx.invocation_id();
            tracing::warn!(
                invocation,
                kind = error_kind(&error),
                "failed to store a run's error"
            );
            tracing::debug!(error = ?error.to_string(), "failed to store a run's error");
        }
    }

    /// Calls the plugins' `after_run` hooks.
    pub(crate) async fn after_run(&self) -> Result<()> {
        ask_plugins!(self.inner.plugins, after_run(&self.ctx));
        Ok(())
    }

    /// Ends the run and releases its lease, unless its last append has done so.
    pub(crate) async fn release_lease(&mut self) -> Result<()> {
        if let Some(lease) = self.lease.take() {
            self.inner
                .log
                .end_run(&self.ctx.shared.key, lease.token)
                .await?;
        }
        Ok(())
    }

    /// Caches the session for the next run.
    pub(crate) fn cache_session(&self) {
        if self.is_windowed {
            return;
        }
        let shared = &self.ctx.shared;
        let mut assembled = shared
            .contents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let assembled = std::mem::take(&mut *assembled);
        let session = self.session.snapshot();
        self.inner
            .session_cache
            .put(shared.key.clone(), session, assembled);
    }
}
