//! `AgentTool`: an agent as a tool of another agent.
//!
//! The agent runs in its own temporary session with a copy of the caller's state. The caller
//! applies the agent's state changes, and both share the caller's artifacts.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use retain_core::{
    BoxError, Content, Event, FunctionDeclaration, Json, JsonMap, Part, SessionService, State,
    python_text::python_json_sorted,
};

use super::{Tool, ToolOutput, forwarded_artifacts::ForwardedArtifacts};
use crate::{
    agents::{Agent, IntoAgent, OutputSchema},
    context::ToolContext,
    error::{RunError, ToolError},
    runner::{EphemeralSessions, RunConfig, RunRequest, Runner, StreamingMode},
};

/// An agent that a model calls like a function. The agent's last answer is the result.
///
/// ```
/// use retain_runtime::{AgentTool, LlmAgent, ScriptedModel};
/// let translator = LlmAgent::builder("translator")
///     .model(ScriptedModel::new("m").reply("Bonjour"))
///     .description("Translates into French.")
///     .build()
///     .unwrap();
/// let manager = LlmAgent::builder("manager")
///     .model("offline")
///     .tool(AgentTool::new(translator))
///     .build()
///     .unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct AgentTool {
    agent: Arc<dyn Agent>,
    skip_summarization: bool,
    include_plugins: bool,
    time_limit: Duration,
}

impl AgentTool {
    /// Wraps an agent as a tool with the agent's name.
    pub fn new(agent: impl IntoAgent) -> AgentTool {
        AgentTool {
            agent: agent.into_agent(),
            skip_summarization: false,
            include_plugins: true,
            time_limit: Duration::MAX,
        }
    }

    /// Sets whether the user gets the agent's answer directly, without a summary by the calling
    /// model (default: false).
    pub fn with_skip_summarization(mut self, skip: bool) -> AgentTool {
        self.skip_summarization = skip;
        self
    }

    /// Sets whether the caller's plugins also run inside the agent's run (default: true).
    pub fn with_plugins(mut self, include: bool) -> AgentTool {
        self.include_plugins = include;
        self
    }

    /// Limits the duration of one call to the agent. By default there is no limit, because an agent
    /// runs many steps, and each tool call inside it has its own limit.
    pub fn with_time_limit(mut self, limit: Duration) -> AgentTool {
        self.time_limit = limit;
        self
    }

    fn runner(
        &self,
        ctx: &ToolContext,
        sessions: Arc<dyn SessionService>,
    ) -> Result<Runner, ToolError> {
        let shared = &ctx.invocation.shared;
        let mut runner = Runner::builder()
            .app_name(ctx.app_name())
            .agent(Arc::clone(&self.agent))
            .session_service(sessions)
            .tool_time_limit(shared.tool_time_limit)
            .host_scheduler(shared.outermost_scheduler())
            .telemetry(shared.telemetry)
            .clock(Arc::clone(&shared.clock))
            .ids(Arc::clone(&shared.ids));
        if let Some(artifacts) = ForwardedArtifacts::from_context(ctx) {
            runner = runner.artifact_service(Arc::new(artifacts));
        }
        if self.include_plugins {
            for plugin in shared.plugins.iter() {
                runner = runner.plugin(Arc::clone(plugin));
            }
        }
        let runner = runner.build();
        runner.map_err(|error| ToolError::from(Box::new(error) as BoxError))
    }
}

#[async_trait]
impl Tool for AgentTool {
    fn kind(&self) -> &'static str {
        "AgentTool"
    }

    fn agent(&self) -> Option<&Arc<dyn Agent>> {
        Some(&self.agent)
    }

    fn name(&self) -> &str {
        self.agent.name()
    }

    fn description(&self) -> &str {
        self.agent.description()
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.time_limit)
    }

    fn declaration(&self) -> Option<FunctionDeclaration> {
        let parameters = input_schema(&*self.agent).cloned().unwrap_or_else(|| {
            let request = serde_json::json!({
                "type": "object",
                "properties": {"request": {"type": "string"}},
                "required": ["request"],
            });
            request.into()
        });
        Some(FunctionDeclaration {
            name: Some(self.agent.name().to_owned()),
            description: Some(self.agent.description().to_owned()),
            parameters_json_schema: Some(parameters),
            ..FunctionDeclaration::default()
        })
    }

    async fn run(&self, ctx: ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let tool = self.clone();
        // Copy the state now and not when the agent starts, because parallel calls may write in
        // between.
        let state = inherited_state(&ctx.state().to_state());
        // Run nested agents as a task of the outermost run, so that they get their own stack.
        let scheduler = Arc::clone(ctx.invocation.shared.outermost_scheduler());
        let run = async move { tool.run_agent(ctx, args, state).await };
        let result = scheduler.run(run).await;
        result.unwrap_or_else(|error| Err(to_tool_error(error)))
    }
}

impl AgentTool {
    async fn run_agent(
        &self,
        ctx: ToolContext,
        args: JsonMap,
        state: State,
    ) -> Result<ToolOutput, ToolError> {
        if self.skip_summarization {
            ctx.update_actions(|actions| actions.skip_summarization = Some(true));
        }
        let sessions = Arc::new(EphemeralSessions::new(ctx.invocation.shared.limits.clone()));
        let runner = self.runner(&ctx, Arc::<EphemeralSessions>::clone(&sessions))?;
        let id = ctx.invocation.shared.ids.new_id();
        let created =
            sessions.create_session(ctx.app_name(), ctx.user_id(), Some(state), Some(&id));
        created.await.map_err(|error| to_tool_error(error.into()))?;
        let config = RunConfig {
            // Only the last answer is used, so it must be complete.
            streaming_mode: StreamingMode::None,
            get_session_config: None,
            ..ctx.invocation.run_config().clone()
        };
        let message = self.message(&args)?;
        let request = RunRequest::new(message).with_config(config);
        let run = runner.run_with(ctx.user_id(), Some(&id), request).await;
        let mut run = run.map_err(to_tool_error)?;
        let mut result = AgentResult::default();
        while let Some(event) = run.next().await {
            result.record(&ctx, &event.map_err(to_tool_error)?);
        }
        self.result(&ctx, result)
    }

    /// Converts the arguments to the user's message.
    fn message(&self, args: &JsonMap) -> Result<Content, ToolError> {
        let request = args.get("request").and_then(Json::as_str);
        Ok(match (input_schema(&*self.agent), request) {
            (Some(schema), _) => Content::user(args_json(schema, args)?),
            (None, Some(request)) => Content::user(request),
            (None, None) => Content::user(python_json_sorted(args)),
        })
    }

    fn result(&self, ctx: &ToolContext, result: AgentResult) -> Result<ToolOutput, ToolError> {
        if !result.open.is_empty() {
            ctx.update_actions(|actions| actions.skip_summarization = Some(false));
            let ids: Vec<String> = result.open.iter().map(|id| format!("'{id}'")).collect();
            let text = format!(
                "Error: agent '{}' stopped waiting on unresolved long-running tool call(s) \
                 (pending call ids: [{}]), which AgentTool cannot resume.",
                self.agent.name(),
                ids.join(", ")
            );
            return Ok(text.into());
        }
        let parts = result.content.iter().flat_map(Content::parts);
        let texts = parts
            .filter(|part| part.thought != Some(true))
            .map(part_text);
        let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        let text = texts.join("\n");
        match (text.is_empty(), result.error) {
            (true, Some(error)) => Ok(error.into()),
            (true, None) if result.content.is_none() => Ok("".into()),
            _ => match output_schema(&*self.agent) {
                Some(schema) => Ok(schema.parse(&text).map_err(schema_mismatch)?.into()),
                None => Ok(text.into()),
            },
        }
    }
}

/// The agent's answer or error, collected from its events.
#[derive(Debug, Default)]
struct AgentResult {
    content: Option<Content>,
    error: Option<String>,
    /// IDs of calls that wait for an answer.
    open: BTreeSet<String>,
}

impl AgentResult {
    fn record(&mut self, ctx: &ToolContext, event: &Event) {
        for (key, value) in event.actions.state_delta.iter() {
            ctx.state().set(key, value.clone());
        }
        if let Some(message) = &event.response.error_message {
            self.error = Some(message.clone());
        }
        let waits = event.long_running_tool_ids.iter();
        self.open
            .extend(waits.flat_map(|ids| ids.iter().map(str::to_owned)));
        if let Some(content) = event.content() {
            self.content = Some(content.clone());
            for response in content.function_responses() {
                self.open.remove(response.id.as_deref().unwrap_or_default());
            }
        }
    }
}

/// Serializes the arguments in the order of the schema's properties, without nulls.
fn args_json(schema: &Json, args: &JsonMap) -> Result<String, ToolError> {
    let required = schema["required"].as_array().unwrap_or_default().iter();
    let missing = |name: &&str| args.get(name).is_none();
    if let Some(name) = required.filter_map(Json::as_str).find(missing) {
        return Err(schema_mismatch(
            format!("argument {name:?} is missing").into(),
        ));
    }
    let Some(properties) = schema["properties"].as_object() else {
        return Ok(Json::from(args.clone()).to_string());
    };
    let given = properties.keys().filter_map(|name| {
        let value = args.get(name).filter(|value| !value.is_null())?;
        Some((name, value.clone()))
    });
    Ok(Json::from(given.collect::<JsonMap>()).to_string())
}

fn schema_mismatch(error: BoxError) -> ToolError {
    ToolError::from(error).with_code("ValidationError")
}

/// Converts an error of the agent's run to a tool error with the message of the underlying error.
fn to_tool_error(error: RunError) -> ToolError {
    ToolError {
        code: Some(error.code().to_owned()),
        message: error.cause(),
        source: Some(Box::new(error)),
    }
}

/// Returns the state that the agent starts with: all state keys except ADK's internal ones.
fn inherited_state(state: &State) -> State {
    let inherited = state.iter().filter(|(key, _)| !key.starts_with("_adk"));
    inherited.map(|(key, value)| (key, value.clone())).collect()
}

fn part_text(part: &Part) -> String {
    let text = part.text.clone().filter(|text| !text.is_empty());
    let output = part
        .code_execution_result
        .as_ref()
        .and_then(|result| result.output.as_ref());
    let output = output.map(|output| output.trim_end_matches('\n').to_owned());
    let code = part
        .executable_code
        .as_ref()
        .and_then(|code| code.code.clone());
    text.or(output.filter(|output| !output.is_empty()))
        .or(code)
        .unwrap_or_default()
}

/// Returns the input schema of an agent, or of its first sub-agent for a workflow agent.
fn input_schema(agent: &dyn Agent) -> Option<&Json> {
    match agent.as_llm_agent() {
        Some(agent) => agent.input_schema(),
        None => input_schema(&**agent.sub_agents().first()?),
    }
}

/// Returns the output schema of an agent, or of its last sub-agent for a workflow agent.
fn output_schema(agent: &dyn Agent) -> Option<&OutputSchema> {
    match agent.as_llm_agent() {
        Some(agent) => agent.output_schema.as_ref(),
        None => output_schema(&**agent.sub_agents().last()?),
    }
}
