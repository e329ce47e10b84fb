//! Stores: the traits that a database implements to hold sessions, memories, artifacts and API
//! keys, the existing stores, and migration between them.
//!
//! To write your own store, implement [`SessionStore`] and wrap it in a [`StoreSessionService`],
//! which applies all the rules. `retain::testing` has the contract tests that every store must
//! pass.

/// The budget that limits the memory of requests and caches.
pub use retain_core::budget::{
    BudgetUse, ByteBudget, EvictBytes, Meter, OverBudget, Reservation, charge, event_cost,
    json_cost,
};
/// The rules that every store applies in the same way.
pub use retain_core::store_rules as rules;
/// Types for implementing a session store.
pub use retain_core::{
    Admission, AppendOutcome, Batch, ChangeHub, Changes, Clock, ConnectStore, DraftId, EventLookup,
    ExpiredSession, ExpiryReceipt, Head, Ids, Lease, LeaseUpdate, LeaseUse, ListFields, ListQuery,
    Listing, LogHeader, MaintenanceStore, NewEvent, NewSession, PendingStatistics, PendingWork,
    Plan, RandomIds, ReadDetail, SchemaReport, ScopedState, SessionRow, SessionRowParts,
    SessionRows, SessionStatus, SessionStore, SessionWork, Snapshot, StateOwner, StateText,
    StoreLabel, StoreSessionService, SystemClock, TaskLease, TransferStore, check_growth,
    check_limit, duration_us, plan_append, plan_renewal, seconds,
};
/// API keys of a server, and the trait of the stores that hold them.
pub use retain_core::{
    ApiKey, KEY_SECRET_BYTES, KeyRejection, KeyScope, KeyStore, KeyText, is_same_secret,
};
/// Types for implementing an artifact store.
pub use retain_core::{
    ArtifactAddress, ArtifactNaming, ArtifactStore, NewArtifact, StoreArtifactService,
    StoredArtifact,
};
/// Types for checking and repairing stored data.
pub use retain_core::{
    Damage, EventColumns, Location, Problem, Problems, RepairReport, SessionCheck, SessionFacts,
    SessionRepair, SessionVerdict, StateColumns, check_artifacts, repair_store,
};
/// Types for implementing a memory store.
pub use retain_core::{
    ExistingMemory, MemoryBatch, MemoryChanges, MemoryEdit, MemoryMark, MemoryPlan, MemoryRecord,
    MemoryRestore, MemoryRows, MemoryScope, MemoryStore, MemoryTotals, MemoryVector, MemoryVectors,
    NewEmbedding, NewMemory, PreparedMemory, RepeatPolicy, SourceMemory, Tombstone,
    derived_memory_id, plan_batch, plan_edit, plan_edited, plan_growth, plan_restore,
};
/// How much apps and users have stored, and how much they may store.
pub use retain_core::{
    FreeSpace, QuotaExceeded, QuotaKind, QuotaMeter, QuotaReservation, QuotaRoom, QuotaScope,
    Quotas, Usage, check_rooms,
};
/// Types for copying everything from one store to another.
pub use retain_core::{
    Migration, MigrationCounts, MigrationError, MigrationObserver, MigrationPhase, MigrationReport,
    MigrationSide, MigrationSurvey, NoObserver,
};
/// For backups of all stores as one unit.
#[cfg(feature = "sqlite")]
pub use retain_stores::{
    BackupError, BackupFile, BackupManifest, BackupPartInfo, RestoreReport, StoreFiles, StoreKind,
    StoreSet, back_up, read_backup, restore_backup,
};
#[cfg(feature = "sqlite")]
pub use retain_stores::{
    DiskSpace, SpaceProbe, SqliteArtifactStore, SqliteKeyStore, SqliteMemoryStore, SqliteStore,
};
pub use retain_stores::{
    FileArtifactStore, InMemoryArtifactStore, InMemoryKeyStore, InMemoryMemoryStore, InMemoryStore,
};
#[cfg(feature = "postgres")]
pub use retain_stores::{
    PostgresArtifactStore, PostgresKeyStore, PostgresMemoryStore, PostgresStore,
};
