//! The registry of names that a configuration may use: models, tools, callbacks, schemas, examples
//! and agents.
//!
//! Where ADK imports a Python object by name, a Rust program registers an object here.

use std::{collections::BTreeMap, fmt, future::Future, sync::Arc};

use retain_core::{BoxError, Content, Json, JsonMap, LlmResponse, adk::table};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    custom_agent::{AgentFactory, CustomAgentConfig},
    error::ConfigError,
    nearest::did_you_mean,
    schemas,
    value::ConfigValue,
};
use crate::{
    agents::{
        AfterModelCallback, AfterToolCallback, Agent, AgentCallback, BeforeModel,
        BeforeModelCallback, BeforeTool, BeforeToolCallback, FinishedCall, IntoAgent, OutputSchema,
        ToolCall,
    },
    context::{CallbackContext, ToolContext},
    error::BuildError,
    models::{IntoModel, LlmRequest, Model, ModelRegistry},
    tools::{ExampleProvider, ToolSource},
};

type ModelResolver = Arc<dyn Fn(&str, &str) -> Result<Arc<dyn Model>, BuildError> + Send + Sync>;
type ToolFactory = Arc<dyn Fn(JsonMap) -> Result<ToolSource, BoxError> + Send + Sync>;

/// The source of a registered tool.
#[derive(Clone)]
pub(super) enum RegisteredTool {
    /// An existing tool that takes no `args`.
    Instance(ToolSource),
    /// A function that creates the tool from its `args`.
    Factory(ToolFactory),
}

/// Registers the objects that agent configurations refer to by name.
///
/// ```
/// use retain_runtime::{ConfigRegistry, FunctionTool};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Order { number: u32 }
/// let registry = ConfigRegistry::new().with_tool(
///     "shop.tools.order_status",
///     FunctionTool::new("order_status", "Looks up an order.", |_ctx, order: Order| async move {
///         Ok(format!("Order {} is on its way.", order.number))
///     }),
/// );
/// ```
#[derive(Clone)]
#[must_use]
pub struct ConfigRegistry {
    model_of: ModelResolver,
    pub(super) models: NameTable<Arc<dyn Model>>,
    pub(super) tools: NameTable<RegisteredTool>,
    pub(super) examples: NameTable<Arc<dyn ExampleProvider>>,
    pub(super) schemas: NameTable<OutputSchema>,
    pub(super) agents: NameTable<Arc<dyn Agent>>,
    pub(super) agent_classes: NameTable<AgentFactory>,
    pub(super) agent_callbacks: NameTable<AgentCallback>,
    pub(super) before_model: NameTable<BeforeModelCallback>,
    pub(super) after_model: NameTable<AfterModelCallback>,
    pub(super) before_tool: NameTable<BeforeToolCallback>,
    pub(super) after_tool: NameTable<AfterToolCallback>,
}

impl Default for ConfigRegistry {
    fn default() -> ConfigRegistry {
        ConfigRegistry::new()
    }
}

impl ConfigRegistry {
    /// Creates a registry of the built-in names: the offline model, ADK's tools, and
    /// `google.genai.types.LatLng`.
    pub fn new() -> ConfigRegistry {
        let registry = ConfigRegistry {
            model_of: Arc::new(|_, _| Err(BuildError::new("registry", "has no models"))),
            models: NameTable::new("model"),
            tools: NameTable::new("tool"),
            examples: NameTable::new("example provider"),
            schemas: NameTable::new("schema"),
            agents: NameTable::new("agent"),
            agent_classes: NameTable::new("agent class"),
            agent_callbacks: NameTable::new("agent callback"),
            before_model: NameTable::new("before_model callback"),
            after_model: NameTable::new("after_model callback"),
            before_tool: NameTable::new("before_tool callback"),
            after_tool: NameTable::new("after_tool callback"),
        };
        schemas::register(registry.with_models(ModelRegistry::default()))
    }

    /// Sets the registry that resolves an agent's `model`.
    pub fn with_models(self, models: ModelRegistry) -> Self {
        self.with_model_resolver(move |_, name| models.model(name))
    }

    /// Sets a function that chooses the model from the agent's name and its `model`.
    pub fn with_model_resolver(
        mut self,
        choose: impl Fn(&str, &str) -> Result<Arc<dyn Model>, BuildError> + Send + Sync + 'static,
    ) -> Self {
        self.model_of = Arc::new(choose);
        self
    }

    /// Registers a model that configurations refer to with the key `model_code`.
    pub fn with_model_code(mut self, name: impl Into<String>, model: impl IntoModel) -> Self {
        self.models.insert(name, model.into_model());
        self
    }

    /// Registers a tool or toolset. It replaces a built-in tool of the same name.
    pub fn with_tool(mut self, name: impl Into<String>, tool: impl Into<ToolSource>) -> Self {
        self.tools
            .insert(name, RegisteredTool::Instance(tool.into()));
        self
    }

    /// Registers a function that creates a tool from the `args` in the configuration.
    pub fn with_tool_from_args(
        mut self,
        name: impl Into<String>,
        make: impl Fn(JsonMap) -> Result<ToolSource, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.tools
            .insert(name, RegisteredTool::Factory(Arc::new(make)));
        self
    }

    /// Registers a function that creates an MCP server's tools from the `args` in the
    /// configuration, under all names that ADK has for `McpToolset`.
    pub fn with_mcp_toolset_from_args(
        self,
        make: impl Fn(JsonMap) -> Result<ToolSource, BoxError> + Clone + Send + Sync + 'static,
    ) -> Self {
        table::MCP_TOOLSET_NAMES
            .iter()
            .fold(self, |registry, name| {
                registry.with_tool_from_args(*name, make.clone())
            })
    }

    /// Registers an example provider for `ExampleTool`.
    pub fn with_examples(
        mut self,
        name: impl Into<String>,
        provider: Arc<dyn ExampleProvider>,
    ) -> Self {
        self.examples.insert(name, provider);
        self
    }

    /// Registers a schema for `input_schema` and `output_schema`, derived from a Rust type.
    pub fn with_schema<T: JsonSchema + Serialize + DeserializeOwned>(
        self,
        name: impl Into<String>,
    ) -> Self {
        self.with_schema_of(name, OutputSchema::from_type::<T>())
    }

    /// Registers a schema for `input_schema` and `output_schema`.
    pub fn with_schema_of(mut self, name: impl Into<String>, schema: OutputSchema) -> Self {
        self.schemas.insert(name, schema);
        self
    }

    /// Registers an agent that configurations refer to with the key `code`.
    pub fn with_agent(mut self, name: impl Into<String>, agent: impl IntoAgent) -> Self {
        self.agents.insert(name, agent.into_agent());
        self
    }

    /// Registers a custom agent class that configurations refer to with the key `agent_class`: a
    /// function that creates an agent from its configuration. It replaces a built-in class of the
    /// same name.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use retain_runtime::{AgentConfig, ConfigRegistry, LoopAgent};
    /// /// The keys of a `shop.agents.Patient` in addition to those of every agent.
    /// #[derive(serde::Deserialize)]
    /// #[serde(deny_unknown_fields)]
    /// struct Patient {
    ///     patience: u32,
    /// }
    /// let registry = ConfigRegistry::new().with_agent_class("shop.agents.Patient", |config| {
    ///     let own: Patient = config.parse()?;
    ///     let agent = LoopAgent::builder(config.name).max_iterations(own.patience);
    ///     Ok(Arc::new(agent.callbacks(config.callbacks).build()?))
    /// });
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("root_agent.yaml");
    /// let yaml = "agent_class: shop.agents.Patient\nname: clerk\npatience: 3\n";
    /// # std::fs::write(&file, yaml).unwrap();
    /// assert_eq!(AgentConfig::load(&file, &registry).unwrap().name(), "clerk");
    /// ```
    pub fn with_agent_class(
        mut self,
        name: impl Into<String>,
        make: impl Fn(CustomAgentConfig) -> Result<Arc<dyn Agent>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.agent_classes.insert(name, Arc::new(make));
        self
    }

    /// Registers a callback for `before_agent_callbacks` and `after_agent_callbacks`.
    pub fn with_agent_callback<F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        F: Fn(CallbackContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Content>, BoxError>> + Send + 'static,
    {
        let callback: AgentCallback = Arc::new(move |ctx| Box::pin(callback(ctx)));
        self.agent_callbacks.insert(name, callback);
        self
    }

    /// Registers a callback for `before_model_callbacks`.
    pub fn with_before_model<F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<BeforeModel, BoxError>> + Send + 'static,
    {
        let callback: BeforeModelCallback =
            Arc::new(move |ctx, request| Box::pin(callback(ctx, request)));
        self.before_model.insert(name, callback);
        self
    }

    /// Registers a callback for `after_model_callbacks`.
    pub fn with_after_model<F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmResponse) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<LlmResponse>, BoxError>> + Send + 'static,
    {
        let callback: AfterModelCallback =
            Arc::new(move |ctx, response| Box::pin(callback(ctx, response)));
        self.after_model.insert(name, callback);
        self
    }

    /// Registers a callback for `before_tool_callbacks`.
    pub fn with_before_tool<F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<BeforeTool, BoxError>> + Send + 'static,
    {
        let callback: BeforeToolCallback = Arc::new(move |ctx, call| Box::pin(callback(ctx, call)));
        self.before_tool.insert(name, callback);
        self
    }

    /// Registers a callback for `after_tool_callbacks`.
    pub fn with_after_tool<F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        F: Fn(ToolContext, FinishedCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Json>, BoxError>> + Send + 'static,
    {
        let callback: AfterToolCallback = Arc::new(move |ctx, call| Box::pin(callback(ctx, call)));
        self.after_tool.insert(name, callback);
        self
    }

    pub(super) fn model(&self, agent: &str, name: &str) -> Result<Arc<dyn Model>, BuildError> {
        (self.model_of)(agent, name)
    }
}

impl fmt::Debug for ConfigRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigRegistry")
            .field("tools", &self.tools)
            .field("schemas", &self.schemas)
            .field("agents", &self.agents)
            .finish_non_exhaustive()
    }
}

/// Registered objects of one kind, by name.
#[derive(Clone)]
pub(super) struct NameTable<T> {
    kind: &'static str,
    by_name: BTreeMap<String, T>,
}

impl<T> NameTable<T> {
    fn new(kind: &'static str) -> NameTable<T> {
        NameTable {
            kind,
            by_name: BTreeMap::new(),
        }
    }

    fn insert(&mut self, name: impl Into<String>, object: T) {
        self.by_name.insert(name.into(), object);
    }

    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.by_name.get(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.by_name.keys().map(String::as_str)
    }

    /// Returns the object that the name at `place` refers to.
    pub(super) fn find(&self, place: &ConfigValue<'_>) -> Result<&T, ConfigError> {
        let name = place.name()?;
        self.get(name).ok_or_else(|| {
            let hint = did_you_mean(name, self.names(), "registered names");
            let kind = self.kind;
            place.error(format!("no {kind} is registered as {name:?}; {hint}"))
        })
    }
}

impl<T> fmt::Debug for NameTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
