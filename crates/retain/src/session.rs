//! Sessions: events, the services that store them, and the session log with operations that ADK
//! lacks.

mod database;

pub use database::{DatabaseSessionService, SqlSessionService};
pub use retain_core::{
    Append, AppendReceipt, Archive, ArchiveKinds, BoxError, CancellationToken, Conflict,
    CreateSession, EncodedSessions, EraseError, EraseNote, EraseReceipt, EraseReport, ErasedStore,
    Eraser, Event, EventActions, EventCompaction, EventStream, Events, ExportScope,
    GetSessionConfig, IdSet, ImportReceipt, LimitKind, Limits, LineStream, ListCursor,
    ListSessions, ListSessionsResponse, Origin, PlainSessionLog, Result, Rewind, RunOptions,
    RunToken, RunUse, Session, SessionError, SessionKey, SessionLog, SessionMeta, SessionOrigin,
    SessionService, SharedSession, Sweep, SweepReceipt, Window, apply_event_to_session,
};
pub use retain_stores::InMemorySessionService;
#[cfg(feature = "sqlite")]
pub use retain_stores::{Durability, SqliteOptions, SqliteSessionService};
#[cfg(feature = "postgres")]
pub use retain_stores::{PostgresOptions, PostgresSessionService};
