//! The builder for `LlmAgent`.

use std::{future::Future, marker::PhantomData, sync::Arc};

use retain_core::{BoxError, Content, GenerateContentConfig, Json, LlmResponse};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Agent, AgentCallbacks, BeforeModel, BeforeTool, FinishedCall, IncludeContents, Instruction,
    IntoAgent, LlmAgent, ModelCallbacks, OutputSchema, Planner, ToolCall, ToolCallbacks,
};
use crate::{
    context::{CallbackContext, ToolContext},
    error::{BuildError, ModelError, ToolError},
    models::{LlmRequest, ModelRegistry, ModelSpec},
    schema::json_schema_of,
    template::is_identifier,
    tools::ToolSource,
};

/// Builds an [`LlmAgent`], or a type `A` that wraps one.
#[must_use]
pub struct LlmAgentBuilder<A = LlmAgent> {
    name: String,
    description: String,
    model: Option<ModelSpec>,
    models: ModelRegistry,
    sub_agents: Vec<Arc<dyn Agent>>,
    disallow_transfer_to_parent: bool,
    disallow_transfer_to_peers: bool,
    instruction: Instruction,
    global_instruction: Instruction,
    static_instruction: Option<Content>,
    tools: Vec<ToolSource>,
    include_contents: IncludeContents,
    input_schema: Option<Json>,
    output_schema: Option<OutputSchema>,
    output_key: Option<String>,
    generate_content_config: Option<GenerateContentConfig>,
    planner: Option<Arc<dyn Planner>>,
    agent_callbacks: AgentCallbacks,
    model_callbacks: ModelCallbacks,
    tool_callbacks: ToolCallbacks,
    built: PhantomData<fn() -> A>,
}

impl<A: From<LlmAgent>> LlmAgentBuilder<A> {
    /// Creates a builder for an agent with this name.
    pub fn new(name: impl Into<String>) -> Self {
        LlmAgentBuilder {
            name: name.into(),
            description: String::new(),
            model: None,
            models: ModelRegistry::default(),
            sub_agents: Vec::new(),
            disallow_transfer_to_parent: false,
            disallow_transfer_to_peers: false,
            instruction: Instruction::default(),
            global_instruction: Instruction::default(),
            static_instruction: None,
            tools: Vec::new(),
            include_contents: IncludeContents::default(),
            input_schema: None,
            output_schema: None,
            output_key: None,
            generate_content_config: None,
            planner: None,
            agent_callbacks: AgentCallbacks::default(),
            model_callbacks: ModelCallbacks::default(),
            tool_callbacks: ToolCallbacks::default(),
            built: PhantomData,
        }
    }

    /// Sets a one-line description of the agent's purpose.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the model or its name. Without one, the agent uses the model of its nearest ancestor.
    pub fn model(mut self, model: impl Into<ModelSpec>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the registry that resolves model names, instead of the built-in one.
    pub fn models(mut self, models: ModelRegistry) -> Self {
        self.models = models;
        self
    }

    /// Adds a sub-agent that the model may transfer to.
    pub fn sub_agent(mut self, agent: impl IntoAgent) -> Self {
        self.sub_agents.push(agent.into_agent());
        self
    }

    /// Sets whether transfers to the parent agent are forbidden. If they are, the next turn starts
    /// at the root agent. By default they are allowed.
    pub fn disallow_transfer_to_parent(mut self, disallow: bool) -> Self {
        self.disallow_transfer_to_parent = disallow;
        self
    }

    /// Sets whether transfers to sibling agents are forbidden. By default they are allowed.
    pub fn disallow_transfer_to_peers(mut self, disallow: bool) -> Self {
        self.disallow_transfer_to_peers = disallow;
        self
    }

    /// Sets the instruction: a text with placeholders, or [`Instruction::provider`].
    pub fn instruction(mut self, instruction: impl Into<Instruction>) -> Self {
        self.instruction = instruction.into();
        self
    }

    /// Sets an instruction for all agents of the runner. The runner uses only the one of its root
    /// agent.
    pub fn global_instruction(mut self, instruction: impl Into<Instruction>) -> Self {
        self.global_instruction = instruction.into();
        self
    }

    /// Sets an instruction that never changes. It is sent first and verbatim, so that providers can
    /// cache it. The [`instruction`](Self::instruction) then follows the history as separate
    /// content.
    pub fn static_instruction(mut self, instruction: impl Into<Content>) -> Self {
        self.static_instruction = Some(instruction.into());
        self
    }

    /// Adds a tool or a toolset.
    pub fn tool(mut self, tool: impl Into<ToolSource>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Adds several tools or toolsets.
    pub fn tools<T: Into<ToolSource>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Sets how much of the history the model sees.
    pub fn include_contents(mut self, include: IncludeContents) -> Self {
        self.include_contents = include;
        self
    }

    /// Sets the schema of the input that other agents pass to this one.
    pub fn input_schema<T: JsonSchema>(self) -> Self {
        self.input_schema_of(json_schema_of::<T>())
    }

    /// Sets the schema of the input that other agents pass to this one, as JSON Schema.
    pub fn input_schema_of(mut self, schema: impl Into<Json>) -> Self {
        self.input_schema = Some(schema.into());
        self
    }

    /// Derives the schema of the answer from a Rust type.
    pub fn output_schema<T: JsonSchema + Serialize + DeserializeOwned>(self) -> Self {
        self.output_schema_of(OutputSchema::from_type::<T>())
    }

    /// Sets the schema of the answer.
    pub fn output_schema_of(mut self, schema: OutputSchema) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Sets the state key under which the answer is stored.
    pub fn output_key(mut self, key: impl Into<String>) -> Self {
        self.output_key = Some(key.into());
        self
    }

    /// Sets the generation parameters of the model.
    pub fn generate_content_config(mut self, config: GenerateContentConfig) -> Self {
        self.generate_content_config = Some(config);
        self
    }

    /// Sets the planner of the agent.
    pub fn planner(mut self, planner: Arc<dyn Planner>) -> Self {
        self.planner = Some(planner);
        self
    }

    /// Adds a callback that runs before the agent. If it returns content, the agent is skipped and
    /// that content is its answer.
    pub fn before_agent<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Content>, BoxError>> + Send + 'static,
    {
        self.agent_callbacks = self.agent_callbacks.with_before(callback);
        self
    }

    /// Adds a callback that runs after the agent. If it returns content, the agent emits that
    /// content as another event.
    pub fn after_agent<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Content>, BoxError>> + Send + 'static,
    {
        self.agent_callbacks = self.agent_callbacks.with_after(callback);
        self
    }

    /// Adds a callback before each model call. It returns the request for the model, or a response
    /// in place of the call.
    pub fn before_model<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<BeforeModel, BoxError>> + Send + 'static,
    {
        let callback = Arc::new(move |ctx, request| Box::pin(callback(ctx, request)) as _);
        self.model_callbacks.before.push(callback);
        self
    }

    /// Adds a callback after each model response. A returned response replaces the original.
    pub fn after_model<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmResponse) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<LlmResponse>, BoxError>> + Send + 'static,
    {
        let callback = Arc::new(move |ctx, response| Box::pin(callback(ctx, response)) as _);
        self.model_callbacks.after.push(callback);
        self
    }

    /// Adds a callback for model errors. A returned response replaces the error.
    pub fn on_model_error<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, Arc<LlmRequest>, Arc<ModelError>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<LlmResponse>, BoxError>> + Send + 'static,
    {
        let callback =
            Arc::new(move |ctx, request, error| Box::pin(callback(ctx, request, error)) as _);
        self.model_callbacks.on_error.push(callback);
        self
    }

    /// Adds a callback before each tool call. It returns the arguments for the tool, or a result in
    /// place of the call.
    pub fn before_tool<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<BeforeTool, BoxError>> + Send + 'static,
    {
        let callback = Arc::new(move |ctx, call| Box::pin(callback(ctx, call)) as _);
        self.tool_callbacks.before.push(callback);
        self
    }

    /// Adds a callback after each tool call. A returned value replaces the result.
    pub fn after_tool<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, FinishedCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Json>, BoxError>> + Send + 'static,
    {
        let callback = Arc::new(move |ctx, call| Box::pin(callback(ctx, call)) as _);
        self.tool_callbacks.after.push(callback);
        self
    }

    /// Adds a callback for tool errors. A returned value becomes the result.
    pub fn on_tool_error<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall, Arc<ToolError>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Json>, BoxError>> + Send + 'static,
    {
        let callback = Arc::new(move |ctx, call, error| Box::pin(callback(ctx, call, error)) as _);
        self.tool_callbacks.on_error.push(callback);
        self
    }

    /// Builds the agent, or returns an error if the name or a setting is invalid.
    pub fn build(self) -> Result<A, BuildError> {
        check_name(&self.name)?;
        if let Some(config) = &self.generate_content_config {
            check_config(&self.name, config)?;
        }
        let model = self.model.as_ref();
        let model = model.map(|model| self.models.resolve(model)).transpose()?;
        Ok(A::from(LlmAgent {
            model,
            sub_agents: self.sub_agents,
            disallow_transfer_to_parent: self.disallow_transfer_to_parent,
            disallow_transfer_to_peers: self.disallow_transfer_to_peers,
            name: self.name,
            description: self.description,
            instruction: self.instruction,
            global_instruction: self.global_instruction,
            static_instruction: self.static_instruction,
            tools: self.tools,
            include_contents: self.include_contents,
            input_schema: self.input_schema,
            output_schema: self.output_schema,
            output_key: self.output_key,
            generate_content_config: self.generate_content_config,
            planner: self.planner,
            agent_callbacks: self.agent_callbacks,
            model_callbacks: self.model_callbacks,
            tool_callbacks: self.tool_callbacks,
        }))
    }
}

/// Checks an agent's name. It must be an identifier, because models call agents by name, and `user`
/// is reserved for the user.
pub(super) fn check_name(name: &str) -> Result<(), BuildError> {
    let what = format!("agent name {name:?}");
    if name == "user" {
        return Err(BuildError::new(
            what,
            "is reserved for the user; choose another name",
        ));
    }
    if !is_identifier(name) {
        let reason = "must consist of letters, digits and underscores and not start with a digit";
        return Err(BuildError::new(what, reason));
    }
    Ok(())
}

/// Rejects settings that have their own builder method.
fn check_config(agent: &str, config: &GenerateContentConfig) -> Result<(), BuildError> {
    let misplaced = [
        (config.tools.is_some(), "tools", "`tool`"),
        (
            config.system_instruction.is_some(),
            "system_instruction",
            "`instruction`",
        ),
        (
            config.response_schema.is_some(),
            "response_schema",
            "`output_schema`",
        ),
    ];
    match misplaced.into_iter().find(|(is_set, ..)| *is_set) {
        Some((_, field, instead)) => Err(BuildError::new(
            format!("generate_content_config of agent {agent:?}"),
            format!("sets {field}; use {instead} of the agent instead"),
        )),
        None => Ok(()),
    }
}
