//! How an `LlmAgent` is described.

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

/// Describes an [`LlmAgent`], or a type `A` that is made of one.
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
    /// Starts to describe an agent of that name.
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

    /// What it is good for, in one line.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The model, or its name. Without one, the agent asks that of the nearest agent above it.
    pub fn model(mut self, model: impl Into<ModelSpec>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Where a model's name is looked up, instead of among the built-in ones.
    pub fn models(mut self, models: ModelRegistry) -> Self {
        self.models = models;
        self
    }

    /// Adds an agent below it, to which its model may hand over.
    pub fn sub_agent(mut self, agent: impl IntoAgent) -> Self {
        self.sub_agents.push(agent.into_agent());
        self
    }

    /// Keeps the model from handing over to the agent above. The next turn then begins at the top.
    pub fn disallow_transfer_to_parent(mut self, disallow: bool) -> Self {
        self.disallow_transfer_to_parent = disallow;
        self
    }

    /// Keeps the model from handing over to the agents beside it.
    pub fn disallow_transfer_to_peers(mut self, disallow: bool) -> Self {
        self.disallow_transfer_to_peers = disallow;
        self
    }

    /// What the agent is told: a text with placeholders, or [`Instruction::provider`].
    pub fn instruction(mut self, instruction: impl Into<Instruction>) -> Self {
        self.instruction = instruction.into();
        self
    }

    /// What all agents of the runner are told, if this is its root.
    pub fn global_instruction(mut self, instruction: impl Into<Instruction>) -> Self {
        self.global_instruction = instruction.into();
        self
    }

    /// What never changes: sent first and as it is, so that providers can cache it. The
    /// [`instruction`](Self::instruction) then follows the history as a content of its own.
    pub fn static_instruction(mut self, instruction: impl Into<Content>) -> Self {
        self.static_instruction = Some(instruction.into());
        self
    }

    /// Adds a tool or a set of tools.
    pub fn tool(mut self, tool: impl Into<ToolSource>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Adds tools.
    pub fn tools<T: Into<ToolSource>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// How much of the history the model sees.
    pub fn include_contents(mut self, include: IncludeContents) -> Self {
        self.include_contents = include;
        self
    }

    /// The form of the input when another agent calls this one.
    pub fn input_schema<T: JsonSchema>(self) -> Self {
        self.input_schema_of(json_schema_of::<T>())
    }

    /// The form of the input when another agent calls this one, as JSON Schema.
    pub fn input_schema_of(mut self, schema: impl Into<Json>) -> Self {
        self.input_schema = Some(schema.into());
        self
    }

    /// The form that the answer has to have: that of a Rust type.
    pub fn output_schema<T: JsonSchema + Serialize + DeserializeOwned>(self) -> Self {
        self.output_schema_of(OutputSchema::of::<T>())
    }

    /// The form that the answer has to have.
    pub fn output_schema_of(mut self, schema: OutputSchema) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// The state key under which the answer is kept.
    pub fn output_key(mut self, key: impl Into<String>) -> Self {
        self.output_key = Some(key.into());
        self
    }

    /// Settings for the model.
    pub fn generate_content_config(mut self, config: GenerateContentConfig) -> Self {
        self.generate_content_config = Some(config);
        self
    }

    /// Makes the agent plan.
    pub fn planner(mut self, planner: impl Planner) -> Self {
        self.planner = Some(Arc::new(planner));
        self
    }

    /// Adds a callback before the agent. A content is given in its place.
    pub fn before_agent<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Content>, BoxError>> + Send + 'static,
    {
        self.agent_callbacks = self.agent_callbacks.before(callback);
        self
    }

    /// Adds a callback after the agent. A content is added to what it said.
    pub fn after_agent<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Content>, BoxError>> + Send + 'static,
    {
        self.agent_callbacks = self.agent_callbacks.after(callback);
        self
    }

    /// Adds a callback before each model call: it hands the request on, or answers it.
    pub fn before_model<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<BeforeModel, BoxError>> + Send + 'static,
    {
        let callback = Arc::new(move |ctx, request| Box::pin(callback(ctx, request)) as _);
        self.model_callbacks.before.push(callback);
        self
    }

    /// Adds a callback after each answer of the model. A response replaces it.
    pub fn after_model<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmResponse) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<LlmResponse>, BoxError>> + Send + 'static,
    {
        let callback = Arc::new(move |ctx, response| Box::pin(callback(ctx, response)) as _);
        self.model_callbacks.after.push(callback);
        self
    }

    /// Adds a callback for when the model fails. A response is taken instead.
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

    /// Adds a callback before each tool: it hands the arguments on, or answers for the tool.
    pub fn before_tool<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<BeforeTool, BoxError>> + Send + 'static,
    {
        let callback = Arc::new(move |ctx, call| Box::pin(callback(ctx, call)) as _);
        self.tool_callbacks.before.push(callback);
        self
    }

    /// Adds a callback after each tool. A value replaces the result.
    pub fn after_tool<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, FinishedCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Json>, BoxError>> + Send + 'static,
    {
        let callback = Arc::new(move |ctx, call| Box::pin(callback(ctx, call)) as _);
        self.tool_callbacks.after.push(callback);
        self
    }

    /// Adds a callback for when a tool fails. A value is taken as its result.
    pub fn on_tool_error<F, R>(mut self, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall, Arc<ToolError>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Json>, BoxError>> + Send + 'static,
    {
        let callback = Arc::new(move |ctx, call, error| Box::pin(callback(ctx, call, error)) as _);
        self.tool_callbacks.on_error.push(callback);
        self
    }

    /// The agent, if it can be as described.
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

/// An agent's name is a word, since models call agents by it, and `user` is the user.
pub(super) fn check_name(name: &str) -> Result<(), BuildError> {
    let what = format!("agent name {name:?}");
    if name == "user" {
        return Err(BuildError::new(what, "means the user; choose another one"));
    }
    if !is_identifier(name) {
        let reason = "is not a word of letters, digits and underscores that begins with no digit";
        return Err(BuildError::new(what, reason));
    }
    Ok(())
}

/// Settings that have a place of their own may not come in by the back door.
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
