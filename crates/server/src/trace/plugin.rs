//! The hooks that make spans. They look on and change nothing.

use async_trait::async_trait;
use retain_core::{BoxError, Content, Event, Json, JsonMap, LlmResponse, SessionKey};
use retain_runtime::{
    CallbackContext, Hooked, InvocationContext, LlmRequest, ModelError, Plugin, RunError, Tool,
    ToolContext, ToolError,
};

use super::{
    RunId, RunTrace, Traces, What,
    request::{request_text, response_text, value_text},
};

// ADK's names, which its web UI looks for.
pub(super) const EVENT_ID: &str = "gcp.vertex.agent.event_id";
const INVOCATION_ID: &str = "gcp.vertex.agent.invocation_id";
const SESSION_ID: &str = "gcp.vertex.agent.session_id";
const REQUEST: &str = "gcp.vertex.agent.llm_request";
const RESPONSE: &str = "gcp.vertex.agent.llm_response";
const TOOL_ARGS: &str = "gcp.vertex.agent.tool_call_args";
const TOOL_RESPONSE: &str = "gcp.vertex.agent.tool_response";
const OPERATION: &str = "gen_ai.operation.name";
const CONVERSATION: &str = "gen_ai.conversation.id";
const AGENT: &str = "gen_ai.agent.name";
const ERROR: &str = "error.type";

/// Makes spans of what happens in runs.
#[derive(Debug)]
pub(super) struct TracePlugin(pub(super) Traces);

impl TracePlugin {
    /// Ends a tool's span with its result.
    fn end_tool(&self, ctx: &ToolContext, tool: &dyn Tool, found: JsonMap) {
        self.0.end(&run_of(ctx), &tool_call(ctx, tool), found);
    }
}

/// The run that a hook is called in.
fn run_of(ctx: &CallbackContext) -> RunId {
    RunId {
        session: SessionKey::new(ctx.app_name(), ctx.user_id(), ctx.session_id()),
        invocation: ctx.invocation_id().to_owned(),
    }
}

fn whole_run(ctx: &InvocationContext) -> RunId {
    RunId {
        session: ctx.session_key().clone(),
        invocation: ctx.invocation_id().to_owned(),
    }
}

fn tool_call(ctx: &ToolContext, tool: &dyn Tool) -> What {
    What::ToolCall {
        tool: tool.name().to_owned(),
        call: ctx.function_call_id().unwrap_or_default().to_owned(),
    }
}

/// The innermost agent of that name that runs, or the run itself.
fn agent_span(run: &RunTrace, agent: &str) -> Option<u64> {
    let open = run.open(&What::Agent(agent.to_owned()));
    open.map(|at| run.spans[at].id).or_else(|| root_span(run))
}

fn root_span(run: &RunTrace) -> Option<u64> {
    run.open(&What::Invocation).map(|at| run.spans[at].id)
}

#[async_trait]
impl Plugin for TracePlugin {
    fn name(&self) -> &str {
        "trace"
    }

    async fn before_run(&self, ctx: &InvocationContext) -> Hooked<Content> {
        let run = whole_run(ctx);
        self.0.begin_run(&run);
        let attributes = JsonMap::from([
            (CONVERSATION, run.session.id.as_str()),
            (INVOCATION_ID, ctx.invocation_id()),
        ]);
        self.0.begin(&run, What::Invocation, |_| None, attributes);
        Ok(None)
    }

    async fn after_run(&self, ctx: &InvocationContext) -> Hooked<()> {
        self.0.end_run(&whole_run(ctx));
        Ok(None)
    }

    async fn on_run_error(
        &self,
        ctx: &InvocationContext,
        error: &RunError,
    ) -> Result<(), BoxError> {
        let failed = JsonMap::from([(ERROR, error.code())]);
        self.0.end(&whole_run(ctx), &What::Invocation, failed);
        self.0.end_run(&whole_run(ctx));
        Ok(())
    }

    async fn before_agent(&self, ctx: &CallbackContext) -> Hooked<Content> {
        let attributes = JsonMap::from([
            (OPERATION, "invoke_agent"),
            ("gen_ai.agent.description", ctx.agent_description()),
            (AGENT, ctx.agent_name()),
            (CONVERSATION, ctx.session_id()),
            (INVOCATION_ID, ctx.invocation_id()),
        ]);
        let parent = |run: &RunTrace| {
            let mut above = ctx.agents_above();
            let above = above.find_map(|agent| run.open(&What::Agent(agent.to_owned())));
            above.map(|at| run.spans[at].id).or_else(|| root_span(run))
        };
        let agent = What::Agent(ctx.agent_name().to_owned());
        self.0.begin(&run_of(ctx), agent, parent, attributes);
        Ok(None)
    }

    async fn after_agent(&self, ctx: &CallbackContext) -> Hooked<Content> {
        let agent = What::Agent(ctx.agent_name().to_owned());
        self.0.end(&run_of(ctx), &agent, JsonMap::new());
        Ok(None)
    }

    async fn on_agent_error(
        &self,
        ctx: &CallbackContext,
        error: &RunError,
    ) -> Result<(), BoxError> {
        let agent = What::Agent(ctx.agent_name().to_owned());
        let failed = JsonMap::from([(ERROR, error.code())]);
        self.0.end(&run_of(ctx), &agent, failed);
        Ok(())
    }

    async fn before_model(
        &self,
        ctx: &CallbackContext,
        request: &mut LlmRequest,
    ) -> Hooked<LlmResponse> {
        let text = request_text(request);
        let mut attributes = JsonMap::from([
            (OPERATION, "generate_content"),
            ("gen_ai.request.model", request.model.as_str()),
            (AGENT, ctx.agent_name()),
            (CONVERSATION, ctx.session_id()),
            (SESSION_ID, ctx.session_id()),
            (INVOCATION_ID, ctx.invocation_id()),
            // Known when there is an event; the web UI wants a text in any case.
            (EVENT_ID, ""),
            (RESPONSE, "{}"),
        ]);
        attributes.insert(REQUEST, text);
        let agent = ctx.agent_name();
        let call = What::ModelCall(agent.to_owned());
        let parent = |run: &RunTrace| agent_span(run, agent);
        self.0.begin(&run_of(ctx), call, parent, attributes);
        Ok(None)
    }

    async fn after_model(
        &self,
        ctx: &CallbackContext,
        response: &LlmResponse,
    ) -> Hooked<LlmResponse> {
        if response.partial == Some(true) {
            return Ok(None);
        }
        let mut found = JsonMap::from([(RESPONSE, response_text(response))]);
        if let Some(reason) = &response.finish_reason {
            let reasons: Vec<Json> = vec![reason.to_lowercase().into()];
            found.insert("gen_ai.response.finish_reasons", reasons);
        }
        let usage = response.usage_metadata.as_ref();
        let counts = usage.map(|usage| {
            [
                ("gen_ai.usage.input_tokens", usage.prompt_token_count),
                ("gen_ai.usage.output_tokens", usage.candidates_token_count),
            ]
        });
        for (name, count) in counts.into_iter().flatten() {
            if let Some(count) = count {
                found.insert(name, count);
            }
        }
        let call = What::ModelCall(ctx.agent_name().to_owned());
        self.0.end(&run_of(ctx), &call, found);
        Ok(None)
    }

    async fn on_model_error(
        &self,
        ctx: &CallbackContext,
        _request: &LlmRequest,
        error: &ModelError,
    ) -> Hooked<LlmResponse> {
        let code = error.code.as_deref().unwrap_or("ModelError");
        let call = What::ModelCall(ctx.agent_name().to_owned());
        let failed = JsonMap::from([(ERROR, code)]);
        self.0.end(&run_of(ctx), &call, failed);
        Ok(None)
    }

    async fn before_tool(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        args: &mut JsonMap,
    ) -> Hooked<Json> {
        let mut attributes = JsonMap::from([
            (OPERATION, "execute_tool"),
            ("gen_ai.tool.description", tool.description()),
            ("gen_ai.tool.name", tool.name()),
            ("gen_ai.tool.type", tool.kind()),
            (AGENT, ctx.agent_name()),
            (
                "gen_ai.tool.call.id",
                ctx.function_call_id().unwrap_or_default(),
            ),
            (INVOCATION_ID, ctx.invocation_id()),
            (REQUEST, "{}"),
            (RESPONSE, "{}"),
        ]);
        attributes.insert(TOOL_ARGS, value_text(&args.clone().into()));
        let agent = ctx.agent_name();
        let parent = |run: &RunTrace| agent_span(run, agent);
        let call = tool_call(ctx, tool);
        self.0.begin(&run_of(ctx), call, parent, attributes);
        Ok(None)
    }

    async fn after_tool(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        _args: &JsonMap,
        result: &Json,
    ) -> Hooked<Json> {
        let found = JsonMap::from([(TOOL_RESPONSE, value_text(result))]);
        self.end_tool(ctx, tool, found);
        Ok(None)
    }

    async fn on_tool_error(
        &self,
        ctx: &ToolContext,
        tool: &dyn Tool,
        _args: &JsonMap,
        error: &ToolError,
    ) -> Hooked<Json> {
        let code = error.code.as_deref().unwrap_or("ToolError");
        self.end_tool(ctx, tool, JsonMap::from([(ERROR, code)]));
        Ok(None)
    }

    /// Tells the spans which event came of them.
    async fn on_event(&self, ctx: &InvocationContext, event: &Event) -> Hooked<Event> {
        let answered: Vec<&str> = event
            .function_responses()
            .iter()
            .filter_map(|answer| answer.id.as_deref())
            .collect();
        self.0.with_run(&whole_run(ctx), |run| {
            let is_of = |what: &What| match what {
                What::ModelCall(agent) => answered.is_empty() && *agent == event.author,
                What::ToolCall { call, .. } => answered.contains(&call.as_str()),
                _ => false,
            };
            let mut of = (0..run.spans.len()).rev();
            match answered.is_empty() {
                true => {
                    if let Some(at) = of.find(|&at| is_of(&run.spans[at].what)) {
                        run.name_event(at, &event.id);
                    }
                }
                false => {
                    for at in of
                        .filter(|&at| is_of(&run.spans[at].what))
                        .collect::<Vec<_>>()
                    {
                        run.name_event(at, &event.id);
                    }
                }
            }
        });
        Ok(None)
    }
}

impl RunTrace {
    /// The event that came of a span. The first one stays: later ones are of something else.
    fn name_event(&mut self, at: usize, event: &str) {
        if self.spans[at].event_id().is_none_or(str::is_empty) {
            self.add(at, JsonMap::from([(EVENT_ID, event)]));
        }
    }
}
