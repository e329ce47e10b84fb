//! Tools: what a model may ask us to do, and what adds to a request before the model is asked.

mod agent_tool;
mod built_in;
mod confirmation;
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
pub use confirmation::ToolConfirmation;
pub use example::{Example, ExampleProvider, ExampleTool, Examples};
pub use function::FunctionTool;
pub use load_artifacts::{LoadArtifactsTool, load_artifacts_tool};
pub(crate) use load_memory::LOAD_MEMORY;
pub use load_memory::load_memory_tool;
pub use model_side::{ModelSideTool, code_execution, google_search, url_context};
pub(crate) use preload_memory::{CLOSING, INDENT, INTRODUCTION, OPENING, Recalled, UNNAMED};
pub use preload_memory::{PreloadMemoryTool, preload_memory_tool};
pub(crate) use set_model_response::{SET_MODEL_RESPONSE, SetModelResponseTool};

use crate::{
    agents::Agent,
    context::{ReadonlyContext, ToolContext},
    error::ToolError,
    models::LlmRequest,
    plugins::panic_text,
};

/// Something that a model may ask for, or that prepares its requests.
///
/// Most tools are functions: see [`FunctionTool`].
#[async_trait]
pub trait Tool: fmt::Debug + Send + Sync + 'static {
    /// The name by which it is called.
    fn name(&self) -> &str;

    /// What it does, in words for the model.
    fn description(&self) -> &str {
        ""
    }

    /// What kind of tool it is, by ADK's name, for those who draw or list tools.
    fn kind(&self) -> &'static str {
        "BaseTool"
    }

    /// The agent that it is, where it is one: what that agent's toolsets hold is let go of when the
    /// runner is closed.
    fn agent(&self) -> Option<&Arc<dyn Agent>> {
        None
    }

    /// Whether its result comes later, in a message of its own.
    fn is_long_running(&self) -> bool {
        false
    }

    /// How the model is told about it. `None` for a tool that is never called.
    fn declaration(&self) -> Option<FunctionDeclaration> {
        None
    }

    /// Adds to the request, after the declaration was added.
    ///
    /// If it fails or panics, the run fails. If it takes longer than a tool may in this run, it is
    /// dropped, and the request goes on with what it has.
    async fn process_request(
        &self,
        _ctx: &ToolContext,
        _request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        Ok(())
    }

    /// Whether a person has to approve a call with these arguments before it runs.
    async fn requires_confirmation(&self, _ctx: &ToolContext, _args: &JsonMap) -> bool {
        false
    }

    /// How long a call may take; as long as the run says if `None`, and without a limit if
    /// `Duration::MAX`.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Does what the model asked for.
    ///
    /// It is dropped when its time is up or the run is cancelled, and that happens where it awaits.
    /// What blocks its thread holds up the other calls of the run, and on a runtime with one thread
    /// everything: put that into `tokio::task::spawn_blocking`.
    async fn run(&self, _ctx: ToolContext, _args: JsonMap) -> Result<ToolOutput, ToolError> {
        let message = format!("tool {} is not there to be called", self.name());
        Err(ToolError::new(message))
    }
}

/// What a tool gives back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// The result. What is no object reaches the model as `{"result": …}`.
    pub result: Json,
    /// Media beside it: parts with inline data or a file.
    pub media: Vec<Part>,
}

impl ToolOutput {
    /// No result: for a long-running tool, that the answer comes later.
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

/// Tools that are found when they are needed, for example on a server.
#[async_trait]
pub trait Toolset: fmt::Debug + Send + Sync + 'static {
    /// What it is called in messages to people.
    fn name(&self) -> &str;

    /// The tools for this run. If it fails, panics or takes longer than a tool may, the agent goes
    /// on without them, and a log line says so.
    async fn tools(&self, ctx: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>, ToolError>;

    /// Stands before the name of each tool, with an underscore.
    fn prefix(&self) -> Option<&str> {
        None
    }

    /// Adds to the request before its tools do. If it fails, panics or takes longer than a tool may
    /// in this run, its tools are left out, and a log line says so.
    async fn process_request(
        &self,
        _ctx: &ToolContext,
        _request: &mut LlmRequest,
    ) -> Result<(), ToolError> {
        Ok(())
    }

    /// Lets go of what it holds.
    async fn close(&self) {}
}

/// A tool or a set of them, as an agent has them.
#[derive(Debug, Clone)]
pub enum ToolSource {
    /// One tool.
    Tool(Arc<dyn Tool>),
    /// A set.
    Set(Arc<dyn Toolset>),
}

impl<T: Tool> From<T> for ToolSource {
    fn from(tool: T) -> ToolSource {
        ToolSource::Tool(Arc::new(tool))
    }
}

impl<T: Tool> From<Arc<T>> for ToolSource {
    /// A tool that others have too.
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
    /// The tools that it stands for in this run.
    pub(crate) async fn resolve(&self, ctx: &ReadonlyContext) -> Vec<Arc<dyn Tool>> {
        let set = match self {
            ToolSource::Tool(tool) => return vec![Arc::clone(tool)],
            ToolSource::Set(set) => set,
        };
        let limit = ctx.invocation.shared.tool_time_limit;
        let found = contained(limit, set.tools(ctx)).await;
        let found = found.map_err(|trouble| trouble.into_error("gave no tools", limit));
        match (found, set.prefix()) {
            (Ok(tools), None) => tools,
            (Ok(tools), Some(prefix)) => tools
                .into_iter()
                .map(|tool| Arc::new(Prefixed::new(prefix, tool)) as Arc<dyn Tool>)
                .collect(),
            (Err(error), _) => {
                let (agent, toolset) = (ctx.agent_name(), set.name());
                tracing::error!(agent, toolset, "the agent runs without these tools");
                tracing::debug!(agent, toolset, error = ?error.to_string(), "the agent runs without these tools");
                Vec::new()
            }
        }
    }
}

/// What went wrong with something that was asked of a tool or a set.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It said so itself, or panicked.
    Failed(ToolError),
    /// Its time is over.
    Late,
}

impl Trouble {
    /// In words; `what` says what did not happen in time.
    pub(crate) fn into_error(self, what: &str, limit: Duration) -> ToolError {
        match self {
            Trouble::Failed(error) => error,
            Trouble::Late => ToolError::new(format!(
                "{what} within {limit:?} (see RunnerBuilder::tool_time_limit)"
            )),
        }
    }
}

/// What the work gives, if it does so in time and without a panic.
pub(crate) async fn contained<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, Trouble> {
    let work = tokio::time::timeout(limit, work);
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(done)) => done.map_err(Trouble::Failed),
        Ok(Err(_)) => Err(Trouble::Late),
        Err(panic) => {
            let error = ToolError::new(format!("panicked: {}", panic_text(&*panic)));
            Err(Trouble::Failed(error))
        }
    }
}

/// A tool under another name.
#[derive(Debug)]
struct Prefixed {
    name: String,
    tool: Arc<dyn Tool>,
}

impl Prefixed {
    fn new(prefix: &str, tool: Arc<dyn Tool>) -> Prefixed {
        Prefixed {
            name: format!("{prefix}_{}", tool.name()),
            tool,
        }
    }
}

#[async_trait]
impl Tool for Prefixed {
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

/// The tools of one request, in the order in which they were declared.
#[derive(Debug, Clone, Default)]
pub struct ToolMap(Vec<Arc<dyn Tool>>);

impl ToolMap {
    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.name() == name)
    }

    /// Adds a tool; gives back the one whose name it takes over.
    pub fn insert(&mut self, tool: Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        match self.0.iter_mut().find(|known| known.name() == tool.name()) {
            Some(known) => Some(std::mem::replace(known, tool)),
            None => {
                self.0.push(tool);
                None
            }
        }
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|tool| tool.name())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
