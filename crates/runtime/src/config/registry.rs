//! What a configuration may name: models, tools, callbacks, schemas, examples and agents.
//!
//! ADK imports what a name stands for; a Rust program registers it here.

use std::{collections::BTreeMap, fmt, future::Future, sync::Arc};

use retain_core::{BoxError, Content, Json, JsonMap, LlmResponse};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    custom_agent::{CustomAgentConfig, MakeAgent},
    error::ConfigError,
    nearest::did_you_mean,
    place::Place,
    schemas,
};
use crate::{
    agents::{
        Agent, BeforeModel, BeforeTool, FinishedCall, OnAgent, OnCall, OnRequest, OnResponse,
        OnResult, OutputSchema, ToolCall,
    },
    context::{CallbackContext, ToolContext},
    error::BuildError,
    models::{LlmRequest, Model, ModelRegistry},
    tools::{ExampleProvider, ToolSource},
};

type ModelOf = Arc<dyn Fn(&str, &str) -> Result<Arc<dyn Model>, BuildError> + Send + Sync>;
type MakeTool = Arc<dyn Fn(JsonMap) -> Result<ToolSource, BoxError> + Send + Sync>;

/// How a tool comes from a configuration.
#[derive(Clone)]
pub(super) enum RegisteredTool {
    /// It is there already and takes no `args`.
    Ready(ToolSource),
    /// It is made from its `args`.
    Made(MakeTool),
}

/// Where a program registers what its agent configurations name.
///
/// ```
/// use retain_runtime::{ConfigRegistry, FunctionTool};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Order { number: u32 }
/// let registry = ConfigRegistry::new().tool(
///     "shop.tools.order_status",
///     FunctionTool::new("order_status", "Looks up an order.", |_ctx, order: Order| async move {
///         Ok(format!("Order {} is on its way.", order.number))
///     }),
/// );
/// ```
#[derive(Clone)]
#[must_use]
pub struct ConfigRegistry {
    model_of: ModelOf,
    pub(super) models: Names<Arc<dyn Model>>,
    pub(super) tools: Names<RegisteredTool>,
    pub(super) examples: Names<Arc<dyn ExampleProvider>>,
    pub(super) schemas: Names<OutputSchema>,
    pub(super) agents: Names<Arc<dyn Agent>>,
    pub(super) agent_classes: Names<MakeAgent>,
    pub(super) on_agent: Names<OnAgent>,
    pub(super) before_model: Names<OnRequest>,
    pub(super) after_model: Names<OnResponse>,
    pub(super) before_tool: Names<OnCall>,
    pub(super) after_tool: Names<OnResult>,
}

impl Default for ConfigRegistry {
    fn default() -> ConfigRegistry {
        ConfigRegistry::new()
    }
}

impl ConfigRegistry {
    /// Knows what is built in: the offline model, ADK's tools, and `google.genai.types.LatLng`.
    pub fn new() -> ConfigRegistry {
        let registry = ConfigRegistry {
            model_of: Arc::new(|_, _| Err(BuildError::new("the registry", "has no models"))),
            models: Names::new("model"),
            tools: Names::new("tool"),
            examples: Names::new("example provider"),
            schemas: Names::new("schema"),
            agents: Names::new("agent"),
            agent_classes: Names::new("agent class"),
            on_agent: Names::new("agent callback"),
            before_model: Names::new("before_model callback"),
            after_model: Names::new("after_model callback"),
            before_tool: Names::new("before_tool callback"),
            after_tool: Names::new("after_tool callback"),
        };
        schemas::register(registry.models(ModelRegistry::default()))
    }

    /// Where the name of an agent's `model` is looked up.
    pub fn models(self, models: ModelRegistry) -> Self {
        self.model_of(move |_, name| models.model(name))
    }

    /// Lets a function choose the model: it gets the agent's name, and the name of its `model`.
    pub fn model_of(
        mut self,
        choose: impl Fn(&str, &str) -> Result<Arc<dyn Model>, BuildError> + Send + Sync + 'static,
    ) -> Self {
        self.model_of = Arc::new(choose);
        self
    }

    /// A model that configurations name as `model_code`.
    pub fn model_code(mut self, name: impl Into<String>, model: Arc<dyn Model>) -> Self {
        self.models.insert(name, model);
        self
    }

    /// A tool or a set of tools. A built-in one of that name is replaced.
    pub fn tool(mut self, name: impl Into<String>, tool: impl Into<ToolSource>) -> Self {
        self.tools.insert(name, RegisteredTool::Ready(tool.into()));
        self
    }

    /// A function that makes a tool from the `args` that stand in the configuration.
    pub fn tool_from_args(
        mut self,
        name: impl Into<String>,
        make: impl Fn(JsonMap) -> Result<ToolSource, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.tools
            .insert(name, RegisteredTool::Made(Arc::new(make)));
        self
    }

    /// Finds examples for an `ExampleTool`.
    pub fn examples(mut self, name: impl Into<String>, provider: impl ExampleProvider) -> Self {
        self.examples.insert(name, Arc::new(provider));
        self
    }

    /// A form for `input_schema` and `output_schema`: that of a Rust type.
    pub fn schema<T: JsonSchema + Serialize + DeserializeOwned>(
        self,
        name: impl Into<String>,
    ) -> Self {
        self.schema_of(name, OutputSchema::of::<T>())
    }

    /// A form for `input_schema` and `output_schema`.
    pub fn schema_of(mut self, name: impl Into<String>, schema: OutputSchema) -> Self {
        self.schemas.insert(name, schema);
        self
    }

    /// An agent that configurations name as `code`.
    pub fn agent(mut self, name: impl Into<String>, agent: Arc<dyn Agent>) -> Self {
        self.agents.insert(name, agent);
        self
    }

    /// An agent class of your own, which configurations name as `agent_class`: a function that makes
    /// an agent of what stands in the file. A built-in class of that name is replaced.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use retain_runtime::{AgentConfig, ConfigRegistry, LoopAgent};
    /// /// The keys that a `shop.agents.Patient` has beside those of every agent.
    /// #[derive(serde::Deserialize)]
    /// #[serde(deny_unknown_fields)]
    /// struct Patient {
    ///     patience: u32,
    /// }
    /// let registry = ConfigRegistry::new().agent_class("shop.agents.Patient", |config| {
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
    pub fn agent_class(
        mut self,
        name: impl Into<String>,
        make: impl Fn(CustomAgentConfig) -> Result<Arc<dyn Agent>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.agent_classes.insert(name, Arc::new(make));
        self
    }

    /// A callback for `before_agent_callbacks` and `after_agent_callbacks`.
    pub fn agent_callback<F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        F: Fn(CallbackContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Content>, BoxError>> + Send + 'static,
    {
        let callback: OnAgent = Arc::new(move |ctx| Box::pin(callback(ctx)));
        self.on_agent.insert(name, callback);
        self
    }

    /// A callback for `before_model_callbacks`.
    pub fn before_model<F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmRequest) -> R + Send + Sync + 'static,
        R: Future<Output = Result<BeforeModel, BoxError>> + Send + 'static,
    {
        let callback: OnRequest = Arc::new(move |ctx, request| Box::pin(callback(ctx, request)));
        self.before_model.insert(name, callback);
        self
    }

    /// A callback for `after_model_callbacks`.
    pub fn after_model<F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        F: Fn(CallbackContext, LlmResponse) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<LlmResponse>, BoxError>> + Send + 'static,
    {
        let callback: OnResponse = Arc::new(move |ctx, response| Box::pin(callback(ctx, response)));
        self.after_model.insert(name, callback);
        self
    }

    /// A callback for `before_tool_callbacks`.
    pub fn before_tool<F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        F: Fn(ToolContext, ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<BeforeTool, BoxError>> + Send + 'static,
    {
        let callback: OnCall = Arc::new(move |ctx, call| Box::pin(callback(ctx, call)));
        self.before_tool.insert(name, callback);
        self
    }

    /// A callback for `after_tool_callbacks`.
    pub fn after_tool<F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        F: Fn(ToolContext, FinishedCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Json>, BoxError>> + Send + 'static,
    {
        let callback: OnResult = Arc::new(move |ctx, call| Box::pin(callback(ctx, call)));
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

/// Things of one kind by name.
#[derive(Clone)]
pub(super) struct Names<T> {
    kind: &'static str,
    by_name: BTreeMap<String, T>,
}

impl<T> Names<T> {
    fn new(kind: &'static str) -> Names<T> {
        Names {
            kind,
            by_name: BTreeMap::new(),
        }
    }

    fn insert(&mut self, name: impl Into<String>, thing: T) {
        self.by_name.insert(name.into(), thing);
    }

    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.by_name.get(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.by_name.keys().map(String::as_str)
    }

    /// What the name at `place` stands for.
    pub(super) fn find(&self, place: &Place<'_>) -> Result<&T, ConfigError> {
        let name = place.name()?;
        self.get(name).ok_or_else(|| {
            let hint = did_you_mean(name, self.names(), "registered ones");
            let kind = self.kind;
            place.error(format!("no {kind} is registered as {name:?}; {hint}"))
        })
    }
}

impl<T> fmt::Debug for Names<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
