//! Runs the calls in a model's answer concurrently, each with its own context, and merges the
//! results.

use std::{collections::HashMap, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use retain_core::{
    Content, Event, EventActions, FunctionCall, FunctionResponse, Json, JsonMap, LlmResponse, Part,
    Shaped, ToolConfirmation,
};
use tracing::Instrument as _;

use super::{AgentFlow, confirmation, merge, output_schema};
use crate::{
    agents::{Agent as _, BeforeTool, FinishedCall, ToolCall, callback_failed},
    context::ToolContext,
    error::{Result, RunError, ToolError},
    models::LlmRequest,
    plugins::{ask_plugins, catch_panic, panic_text},
    telemetry::{self, ToolCallOutcome},
    tools::{Tool, ToolMap, ToolOutput},
};

/// Users' decisions about calls, by call id.
pub(super) type Confirmations = HashMap<String, ToolConfirmation>;

/// A placeholder for a tool that does not exist, so that callbacks get a tool.
#[derive(Debug)]
struct MissingTool(String);

#[async_trait::async_trait]
impl Tool for MissingTool {
    fn name(&self) -> &str {
        &self.0
    }

    fn description(&self) -> &str {
        "Tool not found"
    }
}

impl AgentFlow<'_> {
    /// Runs the calls of `event`, and emits the answers and the events that follow from them.
    /// `is_last` tells that the model sends no further response.
    pub(super) async fn run_calls(
        &mut self,
        request: &LlmRequest,
        event: &Event,
        is_last: bool,
    ) -> Result<()> {
        let calls = event.function_calls();
        let none = Confirmations::new();
        let (answers, failure) = self.run_all(&calls, &request.tools, &none).await;
        if let Some(error) = failure {
            // Finished calls have had effects, so the session must record them.
            let plain: Vec<Event> = answers.into_iter().filter(is_plain_result).collect();
            if let Some(event) = self.merge_answers(plain.clone())? {
                self.emit_answers(plain, event, false).await?;
            }
            return Err(error);
        }
        let Some(answered) = self.merge_answers(answers.clone())? else {
            return Ok(());
        };
        if let Some(request) = confirmation::confirmation_request(self.ctx, event, &answered) {
            let future = self.ask_for_confirmation(request, answers, answered);
            return Box::pin(future).await;
        }
        let structured = output_schema::structured_answer(self.ctx, &answered);
        let nothing_follows = is_last && structured.is_none();
        let answered = self
            .emit_answers(answers, answered, nothing_follows)
            .await?;
        if let Some(event) = structured {
            self.emit(event, is_last).await?;
        }
        match &answered.actions.transfer_to_agent {
            Some(name) => self.transfer(name).await,
            None => Ok(()),
        }
    }

    /// Asks the user to confirm calls. Emits final answers first, so that they are stored when the
    /// run pauses for the user's decision.
    async fn ask_for_confirmation(
        &mut self,
        request: Event,
        mut answers: Vec<Event>,
        mut answered: Event,
    ) -> Result<()> {
        if !confirmation::has_final_answer(&answered) {
            self.emit(request, false).await?;
            self.emit_answers(answers, answered, true).await?;
            return Ok(());
        }
        answered.actions.skip_summarization = None;
        for answer in &mut answers {
            answer.actions.skip_summarization = None;
        }
        self.emit_answers(answers, answered, false).await?;
        self.emit(request, true).await?;
        Ok(())
    }

    /// Runs calls that the user has decided about, and emits their answers.
    pub(super) async fn run_decided_calls(
        &mut self,
        calls: &[&FunctionCall],
        tools: &ToolMap,
        confirmations: &Confirmations,
    ) -> Result<Option<Box<Event>>> {
        let (answers, failure) = self.run_all(calls, tools, confirmations).await;
        let answered = match self.merge_answers(answers.clone())? {
            Some(event) => Some(self.emit_answers(answers, event, false).await?),
            None => None,
        };
        match failure {
            Some(error) => Err(error),
            None => Ok(answered),
        }
    }

    /// Runs calls concurrently. Returns the answers in the order of the calls, and the first
    /// failure, which cancels all other calls.
    async fn run_all(
        &self,
        calls: &[&FunctionCall],
        tools: &ToolMap,
        confirmations: &Confirmations,
    ) -> (Vec<Event>, Option<RunError>) {
        let running = calls.iter().map(|call| {
            let decision = call.id.as_ref().and_then(|id| confirmations.get(id));
            self.run_one(call, tools, decision)
        });
        let scheduler = &self.ctx.shared.scheduler;
        // Other calls may have finished together with the failed one: keep their results.
        let (mut results, failed) = scheduler.join(running, Result::is_err).await;
        let failure = failed.and_then(|number| results[number].take()?.err());
        let results = results.into_iter().flatten();
        let answers = results.filter_map(|result| result.ok().flatten());
        (answers.collect(), failure)
    }

    /// Merges all answers into one event.
    pub(super) fn merge_answers(&self, answers: Vec<Event>) -> Result<Option<Event>> {
        let is_one = answers.len() < 2;
        let merged = self.merge_answers_over(&self.live_values(&answers), answers)?;
        if let Some(event) = merged.as_ref().filter(|_| !is_one) {
            telemetry::record_merged(event, self.ctx.shared.telemetry);
        }
        Ok(merged)
    }

    /// Returns the live session's current values of the keys that the answers write.
    pub(super) fn live_values(&self, answers: &[Event]) -> JsonMap {
        let deltas = answers.iter().map(|answer| &answer.actions.state_delta);
        let keys = deltas.flat_map(|delta| delta.keys());
        self.ctx.session().update(|session| {
            let live = keys.filter_map(|key| Some((key, session.state.get(key)?.clone())));
            live.collect()
        })
    }

    /// Like [`merge_answers`](Self::merge_answers), with the given live values.
    pub(super) fn merge_answers_over(
        &self,
        live: &JsonMap,
        answers: Vec<Event>,
    ) -> Result<Option<Event>> {
        let id = || self.ctx.shared.ids.new_id();
        let merged = merge::merge(answers, id, |key| live.get(key).cloned());
        merged.map_err(|error| RunError::Agent {
            agent: self.agent.name().to_owned(),
            source: error.into(),
        })
    }

    /// Runs one call. `None` means that the answer comes later.
    async fn run_one(
        &self,
        call: &FunctionCall,
        tools: &ToolMap,
        decision: Option<&ToolConfirmation>,
    ) -> Result<Option<Event>> {
        let name = call.name.clone().unwrap_or_else(|| "<unnamed>".to_owned());
        let ctx = ToolContext::new(self.ctx, call.id.clone()).with_confirmation(decision.cloned());
        let found = call.name.as_deref().and_then(|name| tools.get(name));
        let missing: Arc<dyn Tool>;
        let tool = match found {
            Some(tool) => tool,
            None => {
                missing = Arc::new(MissingTool(name));
                &missing
            }
        };
        let mut args = call.args.clone().unwrap_or_default();
        let span = telemetry::tool(self.ctx, tool.as_ref(), call.id.as_deref());
        let missing_in = found.is_none().then_some(tools);
        let result = pin!(self.run_with_callbacks(&ctx, tool, &mut args, missing_in))
            .instrument(span.clone())
            .await;
        let outcome = ToolCallOutcome {
            args: &args,
            result: &result,
            is_known: found.is_some(),
        };
        outcome.record(&span, self.ctx.shared.telemetry);
        result
    }

    /// Runs the tool and its callbacks. `missing_in` is set if the tool does not exist, and lists
    /// the tools that do.
    async fn run_with_callbacks(
        &self,
        ctx: &ToolContext,
        tool: &Arc<dyn Tool>,
        args: &mut JsonMap,
        missing_in: Option<&ToolMap>,
    ) -> Result<Option<Event>> {
        let instead = self.before_tool(ctx, tool, args).await?;
        let output = match (instead, missing_in) {
            (Some(answer), _) => answer.into(),
            (None, None) => self.call_tool(ctx, tool, args).await?,
            (None, Some(tools)) => {
                let answer = self.unknown_tool(ctx, tool, args, tools).await?;
                return Ok(Some(self.answer_event(ctx, tool, answer.into())));
            }
        };
        let output = self.after_tool(ctx, tool, args, output).await?;
        if tool.is_long_running() && is_empty_output(&output) {
            return Ok(None);
        }
        Ok(Some(self.answer_event(ctx, tool, output)))
    }

    /// Calls the tool. If it fails, a plugin or callback may answer in its place. A timeout is
    /// reported to the model, which may know another way; any other failure fails the run.
    async fn call_tool(
        &self,
        ctx: &ToolContext,
        tool: &Arc<dyn Tool>,
        args: &JsonMap,
    ) -> Result<ToolOutput> {
        let run = async {
            match confirmation::check_confirmation(ctx, tool.as_ref(), args).await {
                Some(not_run) => Ok(not_run),
                None => tool.run(ctx.clone(), args.clone()).await,
            }
        };
        let limit = tool.time_limit();
        let limit = limit.unwrap_or(self.ctx.shared.tool_time_limit);
        let run = tokio::time::timeout(limit, run);
        let run = self.ctx.shared.scheduler.outside_call(run);
        let mut is_late = false;
        let error = match AssertUnwindSafe(run).catch_unwind().await {
            Ok(Ok(Ok(output))) => return Ok(output),
            Ok(Ok(Err(error))) => error,
            Ok(Err(_)) => {
                is_late = true;
                timeout_error(tool.name(), limit)
            }
            Err(panic) => ToolError::new(format!("panicked: {}", panic_text(&*panic))),
        };
        let error = Arc::new(error);
        match self.on_tool_error(ctx, tool, args, &error).await? {
            Some(answer) => Ok(answer.into()),
            None if is_late => Ok(Json::from(JsonMap::from([("error", &*error.message)])).into()),
            None => Err(RunError::Tool {
                tool: tool.name().to_owned(),
                source: Arc::try_unwrap(error).unwrap_or_else(|shared| ToolError {
                    code: shared.code.clone(),
                    message: shared.message.clone(),
                    source: None,
                }),
            }),
        }
    }

    /// Returns the answer to a call of a tool that does not exist: an error, so that the model can
    /// correct its mistake.
    async fn unknown_tool(
        &self,
        ctx: &ToolContext,
        tool: &Arc<dyn Tool>,
        args: &JsonMap,
        tools: &ToolMap,
    ) -> Result<Json> {
        let error = ToolError::new(format!("Tool '{}' not found.", tool.name()));
        let answered = self
            .on_tool_error(ctx, tool, args, &Arc::new(error))
            .await?;
        if let Some(answer) = answered {
            return Ok(answer);
        }
        let names: Vec<&str> = tools.names().collect();
        let known = match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        };
        let message = format!(
            "Invoking `{}()` failed as no tool with that name is available. The tools you can \
             call are: {known}. You could retry, but it is IMPORTANT that you only call a tool \
             from that list.",
            tool.name()
        );
        Ok(JsonMap::from([("error", message)]).into())
    }

    async fn before_tool(
        &self,
        ctx: &ToolContext,
        tool: &Arc<dyn Tool>,
        args: &mut JsonMap,
    ) -> Result<Option<Json>> {
        let plugins = &self.ctx.shared.plugins;
        let answer = ask_plugins!(plugins, before_tool(ctx, tool.as_ref(), args));
        if answer.is_some() {
            return Ok(answer);
        }
        for callback in &self.agent.tool_callbacks.before {
            let call = ToolCall {
                name: tool.name().to_owned(),
                args: args.clone(),
            };
            let decided = catch_panic(async { callback(ctx.clone(), call).await }).await;
            match decided.map_err(callback_failed(self.agent.name(), "before_tool"))? {
                BeforeTool::Call(changed) => *args = changed,
                BeforeTool::Answer(answer) => return Ok(Some(answer)),
            }
        }
        Ok(None)
    }

    async fn after_tool(
        &self,
        ctx: &ToolContext,
        tool: &Arc<dyn Tool>,
        args: &JsonMap,
        output: ToolOutput,
    ) -> Result<ToolOutput> {
        let plugins = &self.ctx.shared.plugins;
        let answer = ask_plugins!(
            plugins,
            after_tool(ctx, tool.as_ref(), args, &output.result)
        );
        if let Some(answer) = answer {
            return Ok(answer.into());
        }
        for callback in &self.agent.tool_callbacks.after {
            let call = FinishedCall {
                name: tool.name().to_owned(),
                args: args.clone(),
                result: output.result.clone(),
            };
            let answer = catch_panic(async { callback(ctx.clone(), call).await }).await;
            let answer = answer.map_err(callback_failed(self.agent.name(), "after_tool"))?;
            if let Some(answer) = answer {
                return Ok(answer.into());
            }
        }
        Ok(output)
    }

    async fn on_tool_error(
        &self,
        ctx: &ToolContext,
        tool: &Arc<dyn Tool>,
        args: &JsonMap,
        error: &Arc<ToolError>,
    ) -> Result<Option<Json>> {
        let plugins = &self.ctx.shared.plugins;
        let answer = ask_plugins!(plugins, on_tool_error(ctx, tool.as_ref(), args, error));
        if answer.is_some() {
            return Ok(answer);
        }
        for callback in &self.agent.tool_callbacks.on_error {
            let call = ToolCall {
                name: tool.name().to_owned(),
                args: args.clone(),
            };
            let answer =
                catch_panic(async { callback(ctx.clone(), call, Arc::clone(error)).await }).await;
            let answer = answer.map_err(callback_failed(self.agent.name(), "on_tool_error"))?;
            if answer.is_some() {
                return Ok(answer);
            }
        }
        Ok(None)
    }

    /// Creates the event that answers a call.
    fn answer_event(&self, ctx: &ToolContext, tool: &Arc<dyn Tool>, output: ToolOutput) -> Event {
        let response = match output.result {
            Json::Object(map) => Arc::unwrap_or_clone(map),
            // A tool that returns media needs no other result.
            Json::Null if !output.media.is_empty() => JsonMap::default(),
            result => JsonMap::from([("result", result)]),
        };
        let parts: Vec<Json> = output.media.iter().filter_map(media_part).collect();
        let response = FunctionResponse {
            id: ctx.function_call_id().map(str::to_owned),
            name: Some(tool.name().to_owned()),
            response: Some(response),
            parts: (!parts.is_empty()).then(|| Shaped::new(parts)),
            ..FunctionResponse::default()
        };
        Event {
            id: self.ctx.shared.ids.new_id(),
            response: LlmResponse::from_content(Content::new("user", vec![response.into()])),
            actions: ctx.take_actions(),
            ..self.ctx.new_event()
        }
    }
}

/// Logs that a call timed out and returns the error for the model.
fn timeout_error(tool: &str, limit: Duration) -> ToolError {
    tracing::warn!(tool, ?limit, "a tool call timed out");
    let message = format!(
        "Invoking `{tool}()` failed as it did not finish within its time limit of {limit:?}. It was \
         stopped, so it may have been executed in part. You could retry with a smaller task, or \
         continue without it."
    );
    ToolError::new(message).with_code("TOOL_TIME_LIMIT")
}

/// Converts a tool's media for a function response.
fn media_part(part: &Part) -> Option<Json> {
    let (field, value) = match (&part.inline_data, &part.file_data) {
        (Some(blob), _) => {
            let data = blob.data.as_ref()?.to_base64();
            let mime = blob.mime_type.as_deref()?;
            (
                "inlineData",
                [("data", data), ("mimeType", mime.to_owned())],
            )
        }
        (None, Some(file)) => {
            let uri = file.file_uri.clone()?;
            let mime = file.mime_type.clone()?;
            ("fileData", [("fileUri", uri), ("mimeType", mime)])
        }
        (None, None) => return None,
    };
    Some(JsonMap::from([(field, Json::from(JsonMap::from(value)))]).into())
}

/// Whether the output is empty, so that a long-running tool must answer later. As in ADK, any value
/// that is false in Python is empty.
fn is_empty_output(output: &ToolOutput) -> bool {
    let result = &output.result;
    let empty = match result {
        Json::Null | Json::Bool(false) => true,
        Json::Number(_) => result.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty(),
        Json::Bool(true) => false,
    };
    empty && output.media.is_empty()
}

/// Whether the event is a plain result, without actions that only a successful step could carry
/// out.
fn is_plain_result(event: &Event) -> bool {
    let mut actions = event.actions.clone();
    actions.state_delta = Default::default();
    actions.artifact_delta = Default::default();
    actions.skip_summarization = None;
    actions.render_ui_widgets = None;
    actions == EventActions::default()
}
