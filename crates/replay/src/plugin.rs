//! The plugin of replayed runs: hooks at the start and end of a run and around its tool calls.

use async_trait::async_trait;
use retain_core::{BoxError, Content, Json, JsonMap, LlmResponse};

use super::{
    Kind, Replay, differences,
    model::{AGENT_LABEL, RUN_LABEL},
};
use retain_runtime::{
    CallbackContext, HookResult, InvocationContext, LlmRequest, Plugin, RunError, Tool, ToolContext,
};

/// Checks tool calls, lets the tools run, and replaces their results with the recorded ones.
#[derive(Debug)]
pub(super) struct ReplayPlugin(pub(super) Replay);

#[async_trait]
impl Plugin for ReplayPlugin {
    fn name(&self) -> &str {
        "replay"
    }

    async fn before_run(&self, ctx: &InvocationContext) -> HookResult<Content> {
        let state = ctx.readonly().state();
        if let Some(script) = self.0.scripts.script(&state).await? {
            self.0.begin(ctx.invocation_id(), script);
        }
        Ok(None)
    }

    async fn after_run(&self, ctx: &InvocationContext) -> HookResult<()> {
        if let Some(run) = self.0.end(ctx.invocation_id()) {
            let found = self.0.unused_recordings(&run);
            self.0.report(found.into_iter().collect())?;
        }
        Ok(None)
    }

    async fn on_run_error(
        &self,
        ctx: &InvocationContext,
        _error: &RunError,
    ) -> std::result::Result<(), BoxError> {
        self.0.end(ctx.invocation_id());
        Ok(())
    }

    async fn before_model(
        &self,
        ctx: &CallbackContext,
        request: &mut LlmRequest,
    ) -> HookResult<LlmResponse> {
        let state = ctx.readonly().state();
        if self.0.is_replayed(ctx.invocation_id(), &state).await? {
            let labels = request.config.labels.get_or_insert_default();
            labels.insert(RUN_LABEL, ctx.invocation_id());
            labels.insert(AGENT_LABEL, ctx.agent_name());
        }
        Ok(None)
    }

    async fn before_tool(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        args: &mut JsonMap,
    ) -> HookResult<Json> {
        let run = ctx.invocation_id();
        if !self.0.is_replayed(run, &ctx.readonly().state()).await? {
            return Ok(None);
        }
        let (location, recording) = self.0.next_recording(run, ctx.agent_name(), Kind::Tool);
        let ours = call_json(tool.name().into(), args.clone());
        let Some(recording) = recording else {
            return Ok(self
                .0
                .report_one(location, "no tool call", ours.to_string())?);
        };
        let call = &recording["tool_call"];
        let recorded_args = call["args"].as_object().cloned().unwrap_or_default();
        let theirs = call_json(call["name"].clone(), recorded_args);
        self.0.report(differences(&location, &theirs, &ours))?;
        let response = recording["tool_response"]["response"].clone();
        // ADK does not record the inner run of an `AgentTool`: return the tool's recorded result
        // instead.
        if tool.kind() == "AgentTool" {
            return Ok(Some(response));
        }
        if let (Some(id), Some(run)) = (ctx.function_call_id(), self.0.lock().by_id.get_mut(run)) {
            run.running.insert(id.to_owned(), (location, response));
        }
        Ok(None)
    }

    async fn after_tool(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        _args: &JsonMap,
        result: &Json,
    ) -> HookResult<Json> {
        let id = ctx.function_call_id().unwrap_or_default();
        let running = match self.0.lock().by_id.get_mut(ctx.invocation_id()) {
            Some(run) => run.running.remove(id),
            None => None,
        };
        let Some((location, recorded)) = running else {
            return Ok(None);
        };
        if self.0.checks_results {
            let ours = match result {
                Json::Null if tool.is_long_running() => Json::Null,
                Json::Object(_) => result.clone(),
                plain => JsonMap::from([("result", plain.clone())]).into(),
            };
            let location = format!("{location}, result");
            self.0.report(differences(&location, &recorded, &ours))?;
        }
        Ok((!recorded.is_null()).then_some(recorded))
    }
}

fn call_json(name: Json, args: JsonMap) -> Json {
    JsonMap::from([("name", name), ("args", args.into())]).into()
}
