//! `McpToolset`: the tools of an MCP server as an agent's toolset.

use std::{
    fmt,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use lru::LruCache;
use retain_core::{JsonMap, SessionKey};
use retain_runtime::{ReadonlyContext, Tool, ToolError, ToolSource, Toolset};
use tokio::time::Instant;

use crate::{
    client::ServerTool,
    connection::Connection,
    resources::LoadMcpResource,
    server::McpServer,
    tool::{ConfirmationCheck, McpTool},
};

/// Names of the framework's own tools, which no MCP tool may have.
const RESERVED: [&str; 5] = [
    "adk_request_confirmation",
    "adk_request_credential",
    "adk_request_input",
    "set_model_response",
    "transfer_to_agent",
];
/// Maximum number of runs whose tool list is cached.
const RUNS_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

type Filter = Arc<dyn Fn(&ReadonlyContext, &str) -> bool + Send + Sync>;
type Tools = Vec<Arc<dyn Tool>>;

/// The tools of an MCP server.
///
/// The toolset starts or connects to the server when a run first needs its tools. It disconnects
/// when it is closed or dropped.
pub struct McpToolset {
    server: McpServer,
    connection: Arc<Connection>,
    filter: Option<Filter>,
    prefix: Option<String>,
    confirmation: Option<ConfirmationCheck>,
    list_ttl: Option<Duration>,
    uses_resources: bool,
    cached_list: Mutex<Option<(Instant, Vec<ServerTool>)>>,
    tools_by_run: Mutex<LruCache<RunId, Tools>>,
}

/// Identifies a run. The invocation ID alone is not sufficient: clients choose it, so one user
/// could receive the filtered tools of another.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RunId {
    session: SessionKey,
    invocation: String,
}

impl RunId {
    fn from_context(ctx: &ReadonlyContext) -> RunId {
        RunId {
            session: SessionKey::new(ctx.app_name(), ctx.user_id(), ctx.session_id()),
            invocation: ctx.invocation_id().to_owned(),
        }
    }
}

impl McpToolset {
    /// Creates a toolset with all tools of the server.
    pub fn new(server: impl Into<McpServer>) -> McpToolset {
        let server = server.into();
        McpToolset {
            connection: Arc::new(Connection::new(server.clone())),
            server,
            filter: None,
            prefix: None,
            confirmation: None,
            list_ttl: None,
            uses_resources: false,
            cached_list: Mutex::default(),
            tools_by_run: Mutex::new(LruCache::new(RUNS_MAX)),
        }
    }

    /// Uses only the tools with these names, as the server spells them. An empty list disables the
    /// filter, as in ADK.
    pub fn with_tool_filter<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.filter = match names.is_empty() {
            true => None,
            false => Some(Arc::new(move |_, name| names.iter().any(|it| it == name))),
        };
        self
    }

    /// Uses only the tools that `keep` accepts, evaluated in each run.
    pub fn with_tool_filter_when(
        mut self,
        keep: impl Fn(&ReadonlyContext, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filter = Some(Arc::new(keep));
        self
    }

    /// Prefixes each tool name with `prefix` and an underscore, so that two servers may have tools
    /// of the same name.
    pub fn with_tool_name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into()).filter(|prefix| !prefix.is_empty());
        self
    }

    /// Requires the user to approve each call before it runs.
    pub fn require_confirmation(self) -> Self {
        self.with_confirmation_when(|_| true)
    }

    /// Requires the user to approve calls whose arguments satisfy `when`.
    pub fn with_confirmation_when(
        mut self,
        when: impl Fn(&JsonMap) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.confirmation = Some(Arc::new(when));
        self
    }

    /// Caches the server's tool list for this long. Without a cache, each run requests the list
    /// once.
    pub fn with_tool_list_cache_ttl(mut self, ttl: Duration) -> Self {
        self.list_ttl = Some(ttl);
        self
    }

    /// Adds the tool `load_mcp_resource`, with which the model reads the server's resources.
    pub fn use_mcp_resources(mut self) -> Self {
        self.uses_resources = true;
        self
    }

    /// Returns the server that provides the tools.
    pub fn server(&self) -> &McpServer {
        &self.server
    }

    async fn server_tools(&self) -> Result<Vec<ServerTool>, ToolError> {
        if let Some(ttl) = self.list_ttl {
            let cached_list = self
                .cached_list
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some((_, tools)) = cached_list.as_ref().filter(|(at, _)| at.elapsed() < ttl) {
                return Ok(tools.clone());
            }
        }
        let result = self.connection.tools().await;
        let tools = result.map_err(|error| {
            ToolError::new(format!("cannot list the MCP server's tools: {error}"))
        })?;
        if self.list_ttl.is_some() {
            let mut cached_list = self
                .cached_list
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *cached_list = Some((Instant::now(), tools.clone()));
        }
        Ok(tools)
    }

    /// Returns the tools for this run, sorted by name, because a stable order lets providers cache
    /// the prompt.
    fn select_tools(&self, ctx: &ReadonlyContext, mut tools: Vec<ServerTool>) -> Tools {
        tools.retain(|tool| {
            // Check the prefixed name too, because a server could choose a name that becomes
            // reserved with the prefix.
            let named = prefixed_name(self.prefix.as_deref(), &tool.name);
            if [&*tool.name, &*named]
                .iter()
                .any(|it| RESERVED.contains(it))
            {
                let tool = &tool.name;
                tracing::warn!(tool, "dropped an MCP tool with a reserved name");
                return false;
            }
            let filter = self.filter.as_ref();
            filter.is_none_or(|keep| keep(ctx, &tool.name))
        });
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        let tool = |tool| {
            let (connection, confirmation) =
                (Arc::clone(&self.connection), self.confirmation.clone());
            let tool = McpTool::new(self.prefix.as_deref(), tool, connection, confirmation);
            Arc::new(tool) as Arc<dyn Tool>
        };
        let mut tools: Tools = tools.into_iter().map(tool).collect();
        if self.uses_resources {
            let connection = Arc::clone(&self.connection);
            let resources = LoadMcpResource::new(self.prefix.as_deref(), connection);
            tools.push(Arc::new(resources));
        }
        tools
    }

    fn tools_by_run(&self) -> MutexGuard<'_, LruCache<RunId, Tools>> {
        let tools_by_run = self.tools_by_run.lock();
        tools_by_run.unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Toolset for McpToolset {
    fn name(&self) -> &str {
        "McpToolset"
    }

    /// Returns the tools of this run. Requests the list once per run, so that the tools do not
    /// change during the run.
    async fn tools(&self, ctx: &ReadonlyContext) -> Result<Tools, ToolError> {
        let run = RunId::from_context(ctx);
        if let Some(tools) = self.tools_by_run().get(&run) {
            return Ok(tools.clone());
        }
        let tools = self.select_tools(ctx, self.server_tools().await?);
        self.tools_by_run().put(run, tools.clone());
        Ok(tools)
    }

    async fn close(&self) {
        self.connection.close().await;
    }
}

/// Returns the name that the model sees for a tool.
pub(crate) fn prefixed_name(prefix: Option<&str>, name: &str) -> String {
    match prefix {
        Some(prefix) => format!("{prefix}_{name}"),
        None => name.to_owned(),
    }
}

impl fmt::Debug for McpToolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpToolset")
            .field("server", &self.server)
            .field("prefix", &self.prefix)
            .field("list_ttl", &self.list_ttl)
            .field("uses_resources", &self.uses_resources)
            .finish_non_exhaustive()
    }
}

impl From<McpToolset> for ToolSource {
    fn from(set: McpToolset) -> ToolSource {
        ToolSource::Set(Arc::new(set))
    }
}
