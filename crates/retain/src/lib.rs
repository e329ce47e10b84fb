//! Durable sessions, scoped state and long-term memory for AI agents, with the semantics of
//! Google's Agent Development Kit (ADK).
//!
//! A session is an append-only log of events; state and history are views of it.
//! An acknowledged event is never lost, changed or reordered.
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! use retain::{Event, SessionService as _, SqliteSessionService, State};
//!
//! # #[tokio::main] async fn main() -> retain::Result<()> {
//! // Use sqlite:///sessions.db for a file; this database ends with the program.
//! let sessions = SqliteSessionService::connect("sqlite::memory:").await?;
//! let state = State::from([("user:name", "Ada")]);
//! let mut session = sessions.create_session("travel", "ada", Some(state), None).await?;
//!
//! let mut event = Event::user_text("I prefer rooms on high floors.");
//! event.actions.state_delta.insert("user:floor", "high");
//! sessions.append_event(&mut session, event).await?;
//!
//! // Another session of the same user sees the user's keys.
//! let other = sessions.create_session("travel", "ada", None, None).await?;
//! assert_eq!(other.state["user:floor"], "high");
//! # Ok(()) }
//! # main().unwrap(); }
//! ```
//!
//! | to | see |
//! |---|---|
//! | store sessions, read them, rewind, fork, follow, export | [`session`] |
//! | read and write state | [`state`] |
//! | remember beyond one session | [`memory`] |
//! | store files that belong to a session or a user | [`artifact`] |
//! | build agents, in Rust or from ADK's YAML | [`agent`] |
//! | give agents tools, including those of MCP servers | [`tool`] |
//! | call Gemini, OpenAI, Claude, Ollama or your own model | [`model`] |
//! | run agents | [`runner`] |
//! | write your own store, migrate between stores | [`store`] |
//! | serve agents over HTTP | `server` |
//! | test agents and stores | [`testing`] |
//!
//! The crate root also exports the names that most programs use.
//!
//! | feature | adds |
//! |---|---|
//! | `sqlite` (default) | SQLite, compiled in |
//! | `postgres` | PostgreSQL |
//! | `models` | models and embedders over HTTP |
//! | `mcp` | tools of MCP servers |
//! | `server` | the HTTP server |
//! | `otel` | export of spans over OTLP |
//! | `testing` | contract tests for stores; a clock and ids for tests |
//! | `full` | all of these except `testing` |

pub mod agent;
pub mod artifact;
pub mod memory;
pub mod model;
#[cfg(feature = "otel")]
pub mod otel;
pub mod runner;
#[cfg(feature = "server")]
pub mod server;
pub mod session;
pub mod state;
pub mod store;
pub mod testing;
pub mod tool;

#[cfg(feature = "sqlite")]
pub use memory::SqliteMemoryService;
#[cfg(feature = "postgres")]
pub use session::PostgresSessionService;
#[cfg(feature = "sqlite")]
pub use session::SqliteSessionService;
pub use {
    agent::{Agent, CallbackContext, LlmAgent},
    memory::{InMemoryMemoryService, MemoryService},
    model::{Content, FunctionCall, Model},
    runner::Runner,
    session::{
        BoxError, DatabaseSessionService, Event, GetSessionConfig, InMemorySessionService, Result,
        Session, SessionError, SessionLog, SessionService,
    },
    state::{Json, State},
    testing::ScriptedModel,
    tool::{FunctionTool, ToolContext, ToolError},
};

/// The programs in the guides, compiled as doctests.
#[cfg(doctest)]
mod guides {
    macro_rules! guides {
        ($($(#[$when:meta])* $name:ident = $file:literal;)*) => {
            $($(#[$when])* #[doc = include_str!(concat!("../../../", $file))] struct $name;)*
        };
    }

    guides! {
        #[cfg(feature = "sqlite")] Readme = "README.md";
        #[cfg(feature = "sqlite")] LibraryReadme = "crates/retain/README.md";
        Agents = "docs/agents.md";
        AgentConfigs = "docs/agent-configs.md";
        #[cfg(feature = "mcp")] Mcp = "docs/mcp.md";
        #[cfg(feature = "sqlite")] Memory = "docs/memory.md";
        #[cfg(feature = "sqlite")] Migrate = "docs/migrate.md";
        #[cfg(feature = "models")] Models = "docs/models.md";
        #[cfg(feature = "postgres")] Postgresql = "docs/postgresql.md";
        #[cfg(all(feature = "otel", feature = "server"))] Telemetry = "docs/telemetry.md";
    }
}
