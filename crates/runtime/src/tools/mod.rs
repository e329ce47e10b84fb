//! Tools: functions that a model may call, and tools that extend a request before it is sent.

mod agent_tool;
mod built_in;
mod example;
mod forwarded_artifacts;
mod function;
mod load_artifacts;
mod load_memory;
mod model_side;
mod preload_memory;
mod set_model_response;

use std::{fmt, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use retain_core::{FunctionDeclaration, Json, JsonMap, Part};

pub use agent_tool::AgentTool;
pub use built_in::{exit_loop_tool, get_user_choice_tool, request_input_tool};
pub use example::{Example, ExampleProvider, ExampleTool, Examples};
pub use function::FunctionTool;
pub use load_artifacts::{LoadArtifactsTool, load_artifacts_tool};
pub use load_memory::load_memory_tool;
pub use model_side::{ModelSideTool, code_execution, google_search, url_context};
pub(crate) use preload_memory::RecalledMemories;
pub use preload_memory::{PreloadMemoryTool, preload_memory_tool};
pub(crate) use set_model_response::{SET_MODEL_RESPONSE, SetModelResponseTool};

use crate::{
    agents::Agent,
    context::{ReadonlyContext, ToolContext},
    error::ToolError,
    models::LlmRequest,
    plugins::panic_text,
};

/// A tool that a model may call, or that extends the model's requests.
///
/// Most tools are functions: see [`FunctionTool`].
#[async_trait]
pub trait Tool: fmt::Debug + Send + Sync + 'static {
    /// Returns the name by which the model calls the tool.
    fn name(&self) -> &str;

    /// Describes the tool to the model.
    fn description(&self) -> &str {
        ""
    }

    /// Returns the tool's ADK class name, for programs that draw or list tools.
    fn kind(&self) -> &'static str {
        "BaseTool"
    }

    /// Returns the agent that the tool wraps, if any. Closing the runner also closes that agent's
    /// toolsets.
    fn agent(&self) -> Option<&Arc<dyn Agent>> {
        None
    }

    /// Whether the result arrives later, in a separate message.
    fn is_long_running(&self) -> bool {
        false
    }

    /// Returns the declaration that is sent to the model. `None` for a tool that is never called.
    fn declaration(&self) -> Option<FunctionDeclaration> {
        None
    }

    /// Extends the request after the tool's declaration was added.
    ///
    /// If this returns an error or panics, the run fails. If it exceeds the run's tool timeout, it
    /// is cancelled, and the request is sent without its changes.
    async fn process_request(
        &self,
        _ctx: &ToolContext,
        _request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        Ok(())
    }

    /// Whether the user must approve a call with these arguments before it runs.
    async fn requires_confirmation(&self, _ctx: &ToolContext, _args: &JsonMap) -> bool {
        false
    }

    /// Returns the timeout for a call. `None` uses the run's timeout; `Duration::MAX` disables it.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Runs the tool.
    ///
    /// On a timeout, or if the run is cancelled, the future is dropped at an await point. Blocking
    /// the thread delays the run's other calls, and on a single-threaded runtime all tasks: move
    /// blocking work to `tokio::task::spawn_blocking`.
    async fn run(&self, _ctx: ToolContext, _args: JsonMap) -> Result<ToolOutput, ToolError> {
        let message = format!("tool {} does not implement `run`", self.name());
        Err(ToolError::new(message))
    }
}

/// The output of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// The result. The model receives a value that is not an object as `{"result": …}`.
    pub result: Json,
    /// Additional media: parts with inline data or a file reference.
    pub media: Vec<Part>,
}

impl ToolOutput {
    /// Creates an output without a result. From a long-running tool, it means that the result
    /// arrives later.
    pub fn none() -> ToolOutput {
        ToolOutput::default()
    }
}

impl<T: Into<Json>> From<T> for ToolOutput {
    fn from(result: T) -> ToolOutput {
        ToolOutput {
            result: result.into(),
            media: Vec::new(),
        }
    }
}

/// A set of tools that is resolved at run time, for example by asking a server.
#[async_trait]
pub trait Toolset: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the toolset in logs and errors.
    fn name(&self) -> &str;

    /// Returns the tools for this run. If this fails, panics or exceeds the tool timeout, the agent
    /// continues without these tools and an error is logged.
    async fn tools(&self, ctx: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>, ToolError>;

    /// Returns a prefix for the name of each tool, joined with an underscore.
    fn prefix(&self) -> Option<&str> {
        None
    }

    /// Extends the request before the set's tools do. If this fails, panics or exceeds the run's
    /// tool timeout, the set's tools are omitted and an error is logged.
    async fn process_request(
        &self,
        _ctx: &ToolContext,
        _request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        Ok(())
    }

    /// Releases the resources of the toolset.
    async fn close(&self) {}
}

/// An agent's tool or toolset.
#[derive(Debug, Clone)]
pub enum ToolSource {
    /// One tool.
    Tool(Arc<dyn Tool>),
    /// A toolset.
    Set(Arc<dyn Toolset>),
}

impl<T: Tool> From<T> for ToolSource {
    fn from(tool: T) -> ToolSource {
        ToolSource::Tool(Arc::new(tool))
    }
}

impl<T: Tool> From<Arc<T>> for ToolSource {
    /// Shares a tool between several agents.
    fn from(tool: Arc<T>) -> ToolSource {
        ToolSource::Tool(tool)
    }
}

impl From<Arc<dyn Tool>> for ToolSource {
    fn from(tool: Arc<dyn Tool>) -> ToolSource {
        ToolSource::Tool(tool)
    }
}

impl From<Arc<dyn Toolset>> for ToolSource {
    fn from(set: Arc<dyn Toolset>) -> ToolSource {
        ToolSource::Set(set)
    }
}

impl ToolSource {
    /// Returns the tools of this source for this run.
    pub(crate) async fn resolve(&self, ctx: &ReadonlyContext) -> Vec<Arc<dyn Tool>> {
        let set = match self {
            ToolSource::Tool(tool) => return vec![Arc::clone(tool)],
            ToolSource::Set(set) => set,
        };
        let limit = ctx.invocation.shared.tool_time_limit;
        let tools = run_limited(limit, set.tools(ctx)).await;
        let tools = tools.map_err(|failure| failure.into_error("did not list its tools", limit));
        match (tools, set.prefix()) {
            (Ok(tools), None) => tools,
            (Ok(tools), Some(prefix)) => tools
                .into_iter()
                .map(|tool| Arc::new(PrefixedTool::new(prefix, tool)) as Arc<dyn Tool>)
                .collect(),
            (Err(error), _) => {
                let (agent, toolset) = (ctx.agent_name(), set.name());
                tracing::error!(
                    agent,
                    toolset,
                    "a toolset failed: the agent runs without its tools"
                );
                tracing::debug!(agent, toolset, error = ?error.to_string(), "a toolset failed: the agent runs without its tools");
                Vec::new()
            }
        }
    }
}

/// The reason why an operation of a tool or toolset failed.
#[derive(Debug)]
pub(crate) enum ToolFailure {
    /// The operation returned an error or panicked.
    Failed(ToolError),
    /// The operation timed out.
    TimedOut,
}

impl ToolFailure {
    /// Converts the failure to an error; `what` describes the operation that timed out.
    pub(crate) fn into_error(self, what: &str, limit: Duration) -> ToolError {
        match self {
            ToolFailure::Failed(error) => error,
            ToolFailure::TimedOut => ToolError::new(format!(
                "{what} within {limit:?} (see RunnerBuilder::tool_time_limit)"
            )),
        }
    }
}

/// Runs the operation with a timeout and catches panics.
pub(crate) async fn run_limited<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolFailure> {
    let work = tokio::time::timeout(limit, work);
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(done)) => done.map_err(ToolFailure::Failed),
        Ok(Err(_)) => Err(ToolFailure::TimedOut),
        Err(panic) => {
            let error = ToolError::new(format!("panicked: {}", panic_text(&*panic)));
            Err(ToolFailure::Failed(error))
        }
    }
}

/// A tool whose name has its toolset's prefix.
#[derive(Debug)]
struct PrefixedTool {
    name: String,
    tool: Arc<dyn Tool>,
}

impl PrefixedTool {
    fn new(prefix: &str, tool: Arc<dyn Tool>) -> PrefixedTool {
        PrefixedTool {
            name: format!("{prefix}_{}", tool.name()),
            tool,
        }
    }
}

#[async_trait]
impl Tool for PrefixedTool {
    fn kind(&self) -> &'static str {
        self.tool.kind()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        self.tool.description()
    }

    fn is_long_running(&self) -> bool {
        self.tool.is_long_running()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.tool.time_limit()
    }

    fn declaration(&self) -> Option<FunctionDeclaration> {
        let mut declaration = self.tool.declaration()?;
        declaration.name = Some(self.name.clone());
        Some(declaration)
    }

    async fn process_request(
        &self,
        ctx: &ToolContext,
        request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        self.tool.process_request(ctx, request).await
    }

    async fn requires_confirmation(&self, ctx: &ToolContext, args: &JsonMap) -> bool {
        self.tool.requires_confirmation(ctx, args).await
    }

    async fn run(&self, ctx: ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        self.tool.run(ctx, args).await
    }
}

/// The tools of one request, in declaration order.
#[derive(Debug, Clone, Default)]
pub struct ToolMap(Vec<Arc<dyn Tool>>);

impl ToolMap {
    /// Returns the tool with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.name() == name)
    }

    /// Adds a tool and returns the one with the same name that it replaces.
    pub fn insert(&mut self, tool: Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        match self.0.iter_mut().find(|it| it.name() == tool.name()) {
            Some(earlier) => Some(std::mem::replace(earlier, tool)),
            None => {
                self.0.push(tool);
                None
            }
        }
    }

    /// Returns the tool names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|tool| tool.name())
    }

    /// Whether the map has no tools.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
