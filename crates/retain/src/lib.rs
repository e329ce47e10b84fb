//! Durable sessions, scoped state and long-term memory for AI agents, with the semantics of
//! Google's Agent Development Kit (ADK).
//!
//! A session is an append-only log of events; state, history and everything else is a view of it.
//! What has been acknowledged is never lost, changed or reordered.
//!
//! ```
//! use retain::{Event, SessionService as _, SqliteSessionService, State};
//!
//! # #[tokio::main] async fn main() -> retain::Result<()> {
//! // A file would be sqlite:///sessions.db; this one goes with the program.
//! let sessions = SqliteSessionService::connect("sqlite::memory:").await?;
//! let state = State::from([("user:name", "Ada")]);
//! let mut session = sessions.create_session("travel", "ada", Some(state), None).await?;
//!
//! let mut event = Event::user_text("I prefer rooms on high floors.");
//! event.actions.state_delta.insert("user:floor", "high");
//! sessions.append_event(&mut session, event).await?;
//!
//! // Another session of the same user sees what the user's sessions share.
//! let other = sessions.create_session("travel", "ada", None, None).await?;
//! assert_eq!(other.state["user:floor"], "high");
//! # Ok(()) }
//! ```
//!
//! | to | look at |
//! |---|---|
//! | run an agent | [`Runner`], [`LlmAgent`], [`FunctionTool`], [`Model`] |
//! | ask Gemini, OpenAI, Claude, Ollama | [`models`] |
//! | run ADK's YAML agents | [`AgentConfig`], [`AgentsDir`], [`ConfigRegistry`] |
//! | use tools of MCP servers | `McpToolset` |
//! | keep sessions | [`SessionService`], [`SqliteSessionService`], `PostgresSessionService`, [`InMemorySessionService`] |
//! | remember beyond one conversation | [`MemoryService`], [`SqliteMemoryService`], [`SearchMemory`], [`InMemoryMemoryService`] |
//! | keep files beside sessions | [`ArtifactService`], [`FileArtifactService`], [`SqliteArtifactService`] |
//! | go beyond ADK: positions, runs, rewind, fork, tail, export | [`SessionLog`] |
//! | move everything to another store | [`Migration`] |
//! | write a store of your own | [`SessionStore`], [`StoreSessionService`] |

#[cfg(feature = "otel")]
pub mod otel;

/// What a store of one's own is made of.
pub use retain_core::{
    Admission, ArtifactNames, ArtifactPlace, ArtifactStore, Batch, ChangeHub, Changes,
    ConnectStore, DraftId, Head, Lease, LeaseUse, ListQuery, LogHeader, NewArtifact, NewEvent,
    NewSession, Plan, ScopedState, SessionStore, Snapshot, Standing, StateOwner,
    StoreArtifactService, StoreSessionService, StoredArtifact, Want, Written, check_growth,
    check_limit, plan_append, plan_renewal,
};
/// Keys of a server.
pub use retain_core::{
    ApiKey, KEY_SECRET_BYTES, KeyRefused, KeyScope, KeyStore, KeyText, is_same_secret,
};
pub use retain_core::{
    Append, Appended, ArtifactError, ArtifactKey, ArtifactReference, ArtifactService,
    ArtifactVersion, Blob, BoxError, Bytes, Clock, CodeExecutionResult, Conflict, Content,
    CreateSession, Embedder, EraseReceipt, Event, EventActions, EventCompaction, EventStream,
    Events, ExecutableCode, ExportScope, Extra, FileData, FunctionCall, FunctionDeclaration,
    FunctionResponse, GenerateContentConfig, GetSessionConfig, IdSet, Ids, ImportReceipt, Json,
    JsonError, JsonMap, Limited, Limits, LineStream, ListCursor, ListSessions,
    ListSessionsResponse, LlmResponse, MemoryEntry, MemoryError, MemoryService, ModelTool, Number,
    Origin, Part, RandomIds, Result, Rewind, RunOptions, RunToken, RunUse, ScopedDelta,
    SearchMemoryResponse, Session, SessionError, SessionKey, SessionLog, SessionMeta,
    SessionService, ShapeOf, Shaped, SharedSession, State, StateDelta, StateScope, Sweeper,
    SystemClock, TrackedState, Transcription, USER_ARTIFACT_PREFIX, UsageMetadata, VideoMetadata,
    Window, apply_event_to_session, artifact_tombstone, running, timestamp_text, wire_shapes,
    within_run, within_runs,
};
/// Memories: what is known of them, which are meant, how much there may be, and what a store of
/// one's own is made of.
pub use retain_core::{
    Forget, ForgetReceipt, KeptMemory, KnownMemory, MemoryAbout, MemoryAdded, MemoryBatch,
    MemoryChanges, MemoryEdit, MemoryFacts, MemoryFilter, MemoryKind, MemoryLimits, MemoryMark,
    MemoryOrigin, MemoryPlan, MemoryRecord, MemoryRestore, MemoryRows, MemoryScope,
    MemoryStatistics, MemoryStore, MemoryTotals, MemoryUpdate, MemoryVector, MemoryVectors,
    NewEmbedding, NewMemory, OriginKind, PreparedMemory, Repeats, Tombstone, derived_memory_id,
    plan_batch, plan_edit, plan_edited, plan_growth, plan_restore,
};
/// Everything of one store to another.
pub use retain_core::{
    Migration, MigrationCounts, MigrationError, MigrationPhase, MigrationReport, MigrationSide,
    MigrationSurvey, MigrationWatch, Unwatched,
};
/// Tools of MCP servers.
#[cfg(feature = "mcp")]
pub use retain_mcp::{self as mcp, HttpServer, McpServer, McpToolset, StdioServer};
pub use retain_memory::{
    FoundMemory, InMemoryMemoryService, IngestOptions, ListMemories, LongTermMemory, MemoryPage,
    SearchMemory, StoreMemoryService, VectorMemoryService,
    index::{Explanation, Language, MatchedWord, Place},
    static_vectors,
};
/// Agents, and what runs them.
pub use retain_runtime::{
    Agent, AgentCallbacks, AgentConfig, AgentTool, AgentsDir, BeforeModel, BeforeTool, BlockingRun,
    BuildError, BuiltInPlanner, CallbackContext, CompactionConfig, CompactionError, ConfigError,
    ConfigRegistry, CustomAgentConfig, EventSummarizer, Example, ExampleProvider, ExampleTool,
    Examples, FinishedCall, FunctionTool, Hooked, IncludeContents, Instruction, IntoAgent,
    InvocationContext, LiveState, LlmAgent, LlmAgentBuilder, LlmEventSummarizer, LlmRequest,
    LoadArtifactsTool, LoopAgent, LoopAgentBuilder, Model, ModelCapabilities, ModelError,
    ModelRegistry, ModelSideTool, ModelSpec, ModelStream, OfflineModel, OutputSchema,
    ParallelAgent, ParallelAgentBuilder, Planner, Plugin, PreloadMemoryTool, ReadMessage,
    ReadonlyContext, Reloaded, RunConfig, RunError, RunHandle, RunRequest, RunStream, Runner,
    RunnerBuilder, SaveFilesAsArtifactsPlugin, ScriptedModel, ScriptedReply, SequentialAgent,
    SequentialAgentBuilder, SharedContent, StreamAggregator, StreamingMode, Summary, Telemetry,
    Tool, ToolCall, ToolConfirmation, ToolContext, ToolError, ToolMap, ToolOutput, ToolSource,
    Toolset, code_execution, compaction, contents, exit_loop_tool, get_user_choice_tool,
    google_search, load_artifacts_tool, load_memory_tool, preload_memory_tool, python_text,
    request_input_tool, telemetry, template, url_context,
};
#[cfg(feature = "sqlite")]
pub use retain_stores::{
    Durability, SqliteArtifactService, SqliteArtifactStore, SqliteKeyStore, SqliteMemoryStore,
    SqliteOptions, SqliteSessionService, SqliteStore,
};
pub use retain_stores::{
    FileArtifactService, FileArtifactStore, InMemoryArtifactService, InMemoryArtifactStore,
    InMemoryKeyStore, InMemoryMemoryStore, InMemorySessionService, InMemoryStore,
};
#[cfg(feature = "postgres")]
pub use retain_stores::{
    PostgresArtifactService, PostgresArtifactStore, PostgresKeyStore, PostgresMemoryStore,
    PostgresOptions, PostgresSessionService, PostgresStore,
};

/// Models over HTTP, chosen by name: `gemini-…`, `openai/…`, `ollama/…`, `claude-…` and more.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use retain::{LlmAgent, models::{ModelSettings, Models}};
/// // Models::from_env() takes keys from the usual variables.
/// let models = Models::new(ModelSettings::of([("GOOGLE_API_KEY", "AIza…")]))?;
/// let agent = LlmAgent::builder("assistant")
///     .models(models.registry())
///     .model("gemini-3.5-flash")
///     .build()?;
/// # let _ = agent;
/// # Ok(()) }
/// ```
#[cfg(feature = "models")]
pub mod models {
    pub use retain_models::*;
}

/// Long-term memory in the database of a [`SqliteSessionService`].
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use retain::{Event, MemoryService as _, Session, SqliteMemoryService, SqliteSessionService};
/// let sessions = SqliteSessionService::connect("sqlite::memory:").await?;
/// let memory = SqliteMemoryService::over(sessions.store().memory());
/// let mut session = Session::new("app", "ada", "s1");
/// session.events.push(1, Event::user_text("My favourite tea is Earl Grey."));
/// memory.add_session_to_memory(&session).await?;
/// assert_eq!(memory.search_memory("app", "ada", "tea").await?.memories.len(), 1);
/// # Ok(()) }
/// ```
#[cfg(feature = "sqlite")]
pub type SqliteMemoryService = StoreMemoryService<SqliteMemoryStore>;

/// Long-term memory in the database of a [`PostgresSessionService`]: over [`PostgresStore::memory`].
#[cfg(feature = "postgres")]
pub type PostgresMemoryService = StoreMemoryService<PostgresMemoryStore>;

/// The guide's programs, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agents.md")]
struct AgentsGuide;

/// The guide to configurations, likewise.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agent-configs.md")]
struct AgentConfigsGuide;

/// The guide to MCP servers, likewise.
#[cfg(all(doctest, feature = "mcp"))]
#[doc = include_str!("../../../docs/mcp.md")]
struct McpGuide;

/// The guide to memory, likewise.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../docs/memory.md")]
struct MemoryGuide;

/// The guide to models, likewise.
#[cfg(all(doctest, feature = "models"))]
#[doc = include_str!("../../../docs/models.md")]
struct ModelsGuide;
