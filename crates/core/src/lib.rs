//! ADK's data types and rules: events, sessions, state, and the ports to databases, clocks and ids.
//! This crate does no I/O of its own; it awaits only its ports.
//!
//! Start at [`SessionService`] to use sessions, at [`SessionStore`] to implement a store, and at
//! [`StoreSessionService`] to read the rules between the two.

mod actions;
mod archive;
mod artifacts;
pub mod budget;
#[doc(hidden)]
pub mod calendar;
mod check;
mod content;
mod erase;
mod error;
mod event;
mod events;
mod hub;
mod json;
mod keys;
mod lease;
mod limits;
mod list;
mod log;
mod maintenance;
mod memory;
mod migrate;
mod origin;
mod plain_log;
mod plan;
mod ports;
#[doc(hidden)]
pub mod prompt_text;
pub mod python_text;
mod quota;
mod redact;
mod request;
mod response;
mod service;
mod session;
mod state;
mod store;
pub mod store_rules;
mod transfer_store;
mod wire;
pub mod wire_shapes;

pub use actions::{EventActions, EventCompaction, ToolConfirmation};
pub use archive::{Archive, ArchiveKinds};
pub use artifacts::{
    ArtifactAddress, ArtifactError, ArtifactKey, ArtifactNaming, ArtifactReference,
    ArtifactService, ArtifactStore, ArtifactVersion, ExpiringArtifacts, NewArtifact,
    StoreArtifactService, StoredArtifact, USER_ARTIFACT_PREFIX, artifact_tombstone,
};
pub use check::{
    Damage, EventColumns, Location, Problem, Problems, RepairReport, SessionCheck, SessionFacts,
    SessionRepair, SessionVerdict, StateColumns, check_artifacts, repair_store,
};
pub use content::{
    Blob, CodeExecutionResult, Content, ExecutableCode, FileData, FunctionCall, FunctionResponse,
    Part, Transcription, VideoMetadata,
};
pub use erase::{
    EraseError, EraseNote, EraseReceipt, EraseReport, ErasedStore, Eraser, StoreLabel,
};
pub use error::{BoxError, Conflict, Result, SessionError};
pub use event::Event;
pub use events::Events;
pub use hub::ChangeHub;
pub use json::{DEPTH_MAX, Json, JsonError, JsonMap, Number};
pub use keys::{
    ApiKey, KEY_SECRET_BYTES, KeyRejection, KeyScope, KeyStore, KeyText, is_same_secret,
};
pub use lease::{Admission, Lease, LeaseUse};
pub use limits::{LimitKind, Limits, check as check_limit, check_growth};
pub use list::{EncodedSessions, SessionRow, SessionRowParts, SessionRows, StateText};
pub use log::{ConnectStore, StoreSessionService, Sweep, SweepReceipt};
pub use maintenance::{
    ExpiredSession, ExpiryReceipt, MaintenanceStore, PendingStatistics, PendingWork, SessionWork,
    TaskLease,
};
pub use memory::{
    Embedder, ExistingMemory, FilterFields, Forget, ForgetReceipt, IngestReceipt, MemoryBatch,
    MemoryChanges, MemoryEdit, MemoryEntry, MemoryError, MemoryFilter, MemoryInfo, MemoryKind,
    MemoryLimits, MemoryMark, MemoryOrigin, MemoryPlan, MemoryRecord, MemoryRestore, MemoryRows,
    MemoryScope, MemoryService, MemoryStatistics, MemoryStore, MemoryTotals, MemoryUpdate,
    MemoryVector, MemoryVectors, NewEmbedding, NewMemory, OriginKind, PreparedMemory, RepeatPolicy,
    SearchMemoryResponse, SourceMemory, Tombstone, derived_memory_id, plan_batch, plan_edit,
    plan_edited, plan_growth, plan_restore, timestamp_text,
};
pub use migrate::{
    Migration, MigrationCounts, MigrationError, MigrationObserver, MigrationPhase, MigrationReport,
    MigrationSide, MigrationSurvey, NoObserver,
};
pub use origin::SessionOrigin;
pub use plain_log::PlainSessionLog;
pub use plan::{Plan, SessionStatus, plan_append, plan_renewal};
pub use ports::{Clock, Ids, RandomIds, SystemClock, duration_us, micros, seconds};
pub use quota::{
    QuotaExceeded, QuotaKind, QuotaMeter, QuotaReservation, QuotaRoom, QuotaScope, Quotas, Usage,
    check_rooms,
};
pub use redact::{redacted, try_redacted};
pub use request::{FunctionDeclaration, GenerateContentConfig, ModelTool};
pub use response::{LlmResponse, UsageMetadata};
pub use service::{
    Append, AppendReceipt, CreateSession, EventStream, ExportScope, ImportReceipt, LineStream,
    ListSessions, Rewind, RunOptions, RunToken, RunUse, SessionLog, SessionService, SharedSession,
};
pub use session::{
    GetSessionConfig, ListCursor, ListSessionsResponse, Origin, Session, SessionKey, SessionMeta,
    Window, apply_event_to_session,
};
pub use state::{ScopedDelta, State, StateDelta, StateScope, TrackedState};
pub use store::{
    AppendOutcome, Batch, Changes, EventLookup, FreeSpace, Head, LeaseUpdate, ListFields,
    ListQuery, Listing, NewEvent, NewSession, ReadDetail, ScopedState, SessionStore, Snapshot,
};
/// Cancels a wait; see [`RunOptions::cancel`].
pub use tokio_util::sync::CancellationToken;
pub use transfer_store::{DraftId, LogHeader, SchemaReport, StateOwner, TransferStore};
pub use wire::{Bytes, Extra, IdSet, ShapeOf, Shaped};

/// ADK's object schemas as data, for parsers, validators, YAML files and API descriptions.
#[doc(hidden)]
pub mod adk {
    pub use crate::wire::{
        EnumSchema, FieldSchema, ObjectSchema, Presence, UnknownFields, ValueType, table,
    };
}
