//! Calls the model: the callbacks before it, the call, the callbacks after it, and error handling.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
};

use futures_util::{StreamExt as _, future::BoxFuture};
use retain_core::{Event, EventActions, LlmResponse};
use tracing::Instrument as _;

use super::{AgentFlow, planning};
use crate::{
    agents::{Agent as _, BeforeModel, callback_failed},
    context::CallbackContext,
    error::{ModelError, Result, RunError},
    models::{LlmRequest, ModelStream},
    plugins::{ask_plugins, catch_panic},
    runner::StreamingMode,
    telemetry::CallSpans,
};

/// The request label with the agent's name, which separates agents in billing.
const AGENT_LABEL: &str = "adk_agent_name";

/// An active model call.
pub(super) struct Call {
    pub(super) request: Arc<LlmRequest>,
    /// The id of the streamed event, which all chunks and the complete event share.
    pub(super) event_id: Option<String>,
    /// The actions that callbacks write.
    pub(super) actions: Arc<Mutex<EventActions>>,
    pub(super) spans: CallSpans,
}

impl AgentFlow<'_> {
    /// Calls the model and handles every answer.
    pub(super) async fn call_model(&mut self, mut request: LlmRequest) -> Result<()> {
        let actions = Arc::default();
        let callback = CallbackContext::new(self.ctx.clone(), Arc::clone(&actions));
        let spans = CallSpans::begin(self.ctx);
        let instead = pin!(self.before_model(&callback, &mut request))
            .instrument(spans.call())
            .await;
        let instead = spans.mark_failure(instead)?;
        if instead.is_none() {
            let labels = request.config.labels.get_or_insert_default();
            if !labels.contains_key(AGENT_LABEL) {
                labels.insert(AGENT_LABEL, self.agent.name());
            }
        }
        spans.record_request(&request);
        let mut call = Call {
            request: Arc::new(request),
            event_id: None,
            actions,
            spans,
        };
        if let Some(response) = instead {
            call.spans.record_answer(&response);
            return self.handle_response(&mut call, response, true).await;
        }
        call.spans.mark_failure(self.ctx.count_llm_call())?;
        // Let tasks whose model or tool has completed continue first, even if this model answers
        // immediately.
        self.ctx.shared.scheduler.after_completions().await;
        let stream = self.ctx.run_config().streaming_mode == StreamingMode::Sse;
        call.spans.begin_generating(self.ctx, &call.request);
        let request = Arc::clone(&call.request);
        // Enter no span across an await here: the model's span must end before tools run.
        let answers = call
            .spans
            .generate()
            .in_scope(|| self.model.generate(request, stream));
        self.handle_stream(&mut call, &callback, answers).await
    }

    /// Handles the answers one after the other.
    async fn handle_stream(
        &mut self,
        call: &mut Call,
        callback: &CallbackContext,
        mut answers: ModelStream,
    ) -> Result<()> {
        let mut next = self.next_answer(&mut answers, call).await;
        while let Some(answer) = next {
            let response = match answer {
                Ok(response) => response,
                Err(error) => {
                    call.spans.model_failed(error.code.as_deref());
                    let response = Box::pin(self.on_model_error(call, callback, error));
                    let response = response.instrument(call.spans.call()).await;
                    let response = call.spans.mark_failure(response)?;
                    let response = self.run_after_model(call, callback, response).await?;
                    return self.handle_response(call, response, true).await;
                }
            };
            call.spans.record_answer(&response);
            let response = self.run_after_model(call, callback, response).await?;
            next = match self.may_be_last(&response) {
                // The append of the last answer ends the run. All other answers are emitted
                // immediately.
                true => {
                    let following = self.next_answer(&mut answers, call).await;
                    self.handle_response(call, response, following.is_none())
                        .await?;
                    following
                }
                false => {
                    self.handle_response(call, response, false).await?;
                    self.next_answer(&mut answers, call).await
                }
            };
        }
        Ok(())
    }

    /// Returns the next answer. The model runs inside its own span.
    async fn next_answer(
        &self,
        answers: &mut ModelStream,
        call: &Call,
    ) -> Option<std::result::Result<LlmResponse, ModelError>> {
        let next = answers.next().instrument(call.spans.generate());
        self.ctx.shared.scheduler.outside_call(next).await
    }

    /// Runs the callbacks after an answer, within the span of the call.
    async fn run_after_model(
        &self,
        call: &Call,
        callback: &CallbackContext,
        response: LlmResponse,
    ) -> Result<LlmResponse> {
        let answer = pin!(self.after_model(callback, response))
            .instrument(call.spans.call())
            .await;
        call.spans.mark_failure(answer)
    }

    /// Whether to wait for the end of the stream before the answer is stored.
    fn may_be_last(&self, response: &LlmResponse) -> bool {
        let content = response.content.as_ref();
        let calls = content.is_some_and(|content| content.function_calls().next().is_some());
        response.partial != Some(true) && !calls && self.ends_the_run()
    }

    /// Converts an answer to an event, emits it and runs its calls.
    async fn handle_response(
        &mut self,
        call: &mut Call,
        mut response: LlmResponse,
        is_last: bool,
    ) -> Result<()> {
        super::finish::mark_empty(self.ctx.run_config().streaming_mode, &mut response);
        if let Some(event) = planning::process_response(self.agent, self.ctx, &mut response) {
            self.emit(event, false).await?;
        }
        let has_content = response.content.is_some()
            || response.error_code.is_some()
            || response.interrupted == Some(true)
            || response.grounding_metadata.is_some();
        if !has_content {
            return Ok(());
        }
        let event = super::finish::answer_event(self.ctx, call, response);
        call.spans.record_event(&event.id);
        let calls = !event.function_calls().is_empty();
        let is_partial = event.is_partial();
        let event = self.emit(event, is_last && !calls).await?;
        if calls && !is_partial {
            // Boxed, because not every answer has calls and their future is large.
            self.run_calls_boxed(&call.request, &event, is_last).await?;
        }
        Ok(())
    }

    /// Boxes the future of [`run_calls`](Self::run_calls). Creating the future here keeps it off
    /// the stack of the caller, because transfers between agents nest deeply.
    fn run_calls_boxed<'a>(
        &'a mut self,
        request: &'a LlmRequest,
        event: &'a Event,
        is_last: bool,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.run_calls(request, event, is_last))
    }

    async fn before_model(
        &self,
        ctx: &CallbackContext,
        request: &mut LlmRequest,
    ) -> Result<Option<LlmResponse>> {
        let plugins = &self.ctx.shared.plugins;
        let answer = ask_plugins!(plugins, before_model(ctx, request));
        if answer.is_some() {
            return Ok(answer);
        }
        for callback in &self.agent.model_callbacks.before {
            let tools = request.tools.clone();
            let decided =
                catch_panic(async { callback(ctx.clone(), std::mem::take(request)).await }).await;
            match decided.map_err(callback_failed(self.agent.name(), "before_model"))? {
                BeforeModel::Ask(changed) => *request = *changed,
                BeforeModel::Answer(answer) => {
                    // The calls in this answer run as if the model had made them, so the request
                    // needs the tools.
                    request.tools = tools;
                    return Ok(Some(*answer));
                }
            }
        }
        Ok(None)
    }

    async fn after_model(
        &self,
        ctx: &CallbackContext,
        response: LlmResponse,
    ) -> Result<LlmResponse> {
        let plugins = &self.ctx.shared.plugins;
        let answer = ask_plugins!(plugins, after_model(ctx, &response));
        if let Some(answer) = answer {
            return Ok(inherit_fields(&response, answer));
        }
        for callback in &self.agent.model_callbacks.after {
            let answer = catch_panic(async { callback(ctx.clone(), response.clone()).await }).await;
            let answer = answer.map_err(callback_failed(self.agent.name(), "after_model"))?;
            if let Some(answer) = answer {
                return Ok(inherit_fields(&response, answer));
            }
        }
        Ok(response)
    }

    /// Asks plugins and callbacks for an answer in place of the failed call. Returns the failure if
    /// none answers.
    async fn on_model_error(
        &self,
        call: &Call,
        ctx: &CallbackContext,
        error: ModelError,
    ) -> Result<LlmResponse> {
        let plugins = &self.ctx.shared.plugins;
        let answer = ask_plugins!(plugins, on_model_error(ctx, &call.request, &error));
        if let Some(answer) = answer {
            return Ok(answer);
        }
        let error = Arc::new(error);
        for callback in &self.agent.model_callbacks.on_error {
            let request = Arc::clone(&call.request);
            let answer =
                catch_panic(async { callback(ctx.clone(), request, Arc::clone(&error)).await })
                    .await;
            let answer = answer.map_err(callback_failed(self.agent.name(), "on_model_error"))?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
        Err(RunError::Model {
            model: call.request.model.clone(),
            source: Arc::try_unwrap(error).unwrap_or_else(|shared| {
                // A callback may still hold the error, so copy its code and message.
                ModelError {
                    code: shared.code.clone(),
                    message: shared.message.clone(),
                    source: None,
                }
            }),
        })
    }
}

/// Fills in unset fields of a replacement (partial, turn complete, usage) from the original.
fn inherit_fields(original: &LlmResponse, mut replacement: LlmResponse) -> LlmResponse {
    replacement.partial = replacement.partial.or(original.partial);
    replacement.turn_complete = replacement.turn_complete.or(original.turn_complete);
    if replacement.usage_metadata.is_none() {
        replacement
            .usage_metadata
            .clone_from(&original.usage_metadata);
    }
    replacement
}
