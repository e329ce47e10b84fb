//! `Eraser`: erases a user from every store, and reports what each store deleted and what it cannot
//! guarantee.
//!
//! Sessions are erased first. A run in flight then fails at its next append, and a write that a run
//! makes for its session is refused (see [`SessionOrigin`](crate::SessionOrigin)), so nothing comes
//! back after the memories and artifacts are erased.

use std::{fmt, ops::AddAssign, sync::Arc};

use crate::{
    artifacts::{ArtifactError, ArtifactService},
    error::SessionError,
    memory::{MemoryError, MemoryService},
    service::SessionLog,
};

/// What an erase deleted from one store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EraseReceipt {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of events.
    pub events: u64,
    /// Number of state keys of those sessions and of the user.
    pub state_keys: u64,
    /// Number of artifact versions, if the store has artifacts.
    pub artifacts: u64,
    /// Number of memories, if the store has memories.
    pub memories: u64,
    /// Number of hashes of forgotten memories, if the store has memories.
    pub tombstones: u64,
    /// Number of API keys that were bound to the user, if the store has API keys.
    pub api_keys: u64,
    /// The part of the work that could not be finished.
    pub unfinished: Option<EraseNote>,
}

impl EraseReceipt {
    /// Counts deleted memories and hashes of forgotten ones.
    pub fn of_memories(memories: usize, tombstones: usize) -> EraseReceipt {
        EraseReceipt {
            memories: memories as u64,
            tombstones: tombstones as u64,
            ..EraseReceipt::default()
        }
    }

    /// Counts deleted versions of artifacts.
    pub fn of_artifacts(versions: u64) -> EraseReceipt {
        EraseReceipt {
            artifacts: versions,
            ..EraseReceipt::default()
        }
    }
}

impl AddAssign for EraseReceipt {
    fn add_assign(&mut self, more: EraseReceipt) {
        self.sessions += more.sessions;
        self.events += more.events;
        self.state_keys += more.state_keys;
        self.artifacts += more.artifacts;
        self.memories += more.memories;
        self.tombstones += more.tombstones;
        self.api_keys += more.api_keys;
        self.unfinished = more.unfinished.or(self.unfinished);
    }
}

/// What a store cannot guarantee about erased data, or could not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EraseNote {
    /// Copies of the files are out of reach.
    FileCopies,
    /// Copies of the database server are out of reach.
    DatabaseCopies,
    /// The rows are deleted, but a reader kept the file from being rewritten.
    NotRewritten,
    /// The rows are deleted, but the database did not free their space.
    NotVacuumed,
    /// The service cannot erase, so its data stays.
    NotErased,
}

impl EraseNote {
    /// Its name, for programs.
    pub fn code(self) -> &'static str {
        match self {
            EraseNote::FileCopies => "file_copies",
            EraseNote::DatabaseCopies => "database_copies",
            EraseNote::NotRewritten => "not_rewritten",
            EraseNote::NotVacuumed => "not_vacuumed",
            EraseNote::NotErased => "not_erased",
        }
    }

    /// Whether the erase is incomplete.
    pub fn is_unfinished(self) -> bool {
        match self {
            EraseNote::FileCopies | EraseNote::DatabaseCopies => false,
            EraseNote::NotRewritten | EraseNote::NotVacuumed | EraseNote::NotErased => true,
        }
    }
}

impl fmt::Display for EraseNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EraseNote::FileCopies => {
                "snapshots and backups of the file system, and freed blocks of the disk, may still hold \
                 the data"
            }
            EraseNote::DatabaseCopies => {
                "write-ahead logs, WAL archives, replicas and backups of the database server keep the data \
                 until they expire; free space in its data files may hold old bytes until it is reused \
                 or VACUUM FULL rewrites the tables"
            }
            EraseNote::NotRewritten => {
                "all rows are deleted, but a reader holds an old snapshot, so the file still has their \
                 bytes; erase the user again"
            }
            EraseNote::NotVacuumed => {
                "all rows are deleted, but VACUUM failed, so the tables still have their bytes; run VACUUM \
                 as the owner of the tables, or erase the user again"
            }
            EraseNote::NotErased => {
                "this service does not support erasing: the user's data in it stays"
            }
        })
    }
}

/// Names a store in a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreLabel {
    /// The kind of store, e.g. `sqlite`.
    pub kind: &'static str,
    /// Its address without secrets; `None` if the store is in the memory of the process.
    pub address: Option<String>,
    /// Whether the address names the data completely, as that of a file does. The address of a
    /// database server lacks options, which may select another schema.
    pub is_unique: bool,
    /// What the store cannot guarantee about erased data.
    pub erase_notes: &'static [EraseNote],
}

impl StoreLabel {
    /// Labels a store of this kind without an address.
    pub fn new(kind: &'static str) -> StoreLabel {
        StoreLabel {
            kind,
            address: None,
            is_unique: false,
            erase_notes: &[],
        }
    }

    /// Sets the address.
    pub fn with_address(mut self, address: impl Into<String>) -> StoreLabel {
        self.address = Some(address.into());
        self
    }

    /// Sets an address that names the data completely.
    pub fn with_unique_address(mut self, address: impl Into<String>) -> StoreLabel {
        self.is_unique = true;
        self.with_address(address)
    }

    /// Sets what the store cannot guarantee about erased data.
    pub fn with_erase_notes(mut self, notes: &'static [EraseNote]) -> StoreLabel {
        self.erase_notes = notes;
        self
    }

    /// Whether both labels have the same address.
    pub fn has_same_address(&self, other: &StoreLabel) -> bool {
        self.address.is_some() && self.address == other.address
    }

    /// Whether both labels must name the same data.
    pub fn is_same_store(&self, other: &StoreLabel) -> bool {
        self.is_unique && other.is_unique && self.has_same_address(other)
    }
}

/// What an erase deleted from a store, and what the store cannot guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErasedStore {
    /// The store.
    pub store: StoreLabel,
    /// What was deleted.
    pub receipt: EraseReceipt,
    /// What the store cannot guarantee, or could not finish.
    pub notes: Vec<EraseNote>,
}

/// The receipt of an erase over all stores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EraseReport {
    /// The stores, each once.
    pub stores: Vec<ErasedStore>,
}

impl EraseReport {
    /// What all stores deleted together.
    pub fn total(&self) -> EraseReceipt {
        let mut total = EraseReceipt::default();
        self.stores.iter().for_each(|it| total += it.receipt);
        total
    }

    /// Whether every store finished its work.
    pub fn is_complete(&self) -> bool {
        let mut notes = self.stores.iter().flat_map(|it| &it.notes);
        !notes.any(|note| note.is_unfinished())
    }

    fn add(&mut self, store: StoreLabel, receipt: EraseReceipt, more: Option<EraseNote>) {
        let known = self.stores.iter_mut();
        let mut known = known.filter(|it| it.store.has_same_address(&store));
        if let Some(known) = known.next() {
            known.receipt += receipt;
            add_notes(&mut known.notes, receipt.unfinished.into_iter().chain(more));
            return;
        }
        let mut notes = store.erase_notes.to_vec();
        add_notes(&mut notes, receipt.unfinished.into_iter().chain(more));
        self.stores.push(ErasedStore {
            store,
            receipt,
            notes,
        });
    }
}

fn add_notes(notes: &mut Vec<EraseNote>, more: impl Iterator<Item = EraseNote>) {
    for note in more {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
}

/// Why an erase failed. Part of the user's data may be left: erase the user again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EraseError {
    /// The session store failed. Memories and artifacts in other stores were not erased.
    #[error(transparent)]
    Sessions(#[from] SessionError),
    /// The memory service failed. The sessions are erased; artifacts in other stores are not.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The artifact service failed. The sessions and memories are erased.
    #[error(transparent)]
    Artifacts(#[from] ArtifactError),
}

/// Erases users from sessions, memories and artifacts, wherever they are stored.
#[derive(Debug, Clone)]
pub struct Eraser {
    sessions: Arc<dyn SessionLog>,
    memory: Arc<dyn MemoryService>,
    artifacts: Arc<dyn ArtifactService>,
}

impl Eraser {
    /// Creates an eraser over these services.
    pub fn new(
        sessions: Arc<dyn SessionLog>,
        memory: Arc<dyn MemoryService>,
        artifacts: Arc<dyn ArtifactService>,
    ) -> Eraser {
        Eraser {
            sessions,
            memory,
            artifacts,
        }
    }

    /// Erases all data of a user irrecoverably. An interrupted erase returns no report; repeat it.
    pub async fn erase_user(&self, app: &str, user: &str) -> Result<EraseReport, EraseError> {
        let mut report = EraseReport::default();
        let sessions = self.sessions.store_label();
        let erased = self.sessions.erase_user(app, user).await?;
        report.add(sessions.clone(), erased, None);
        let memory = self.memory.store_label();
        if memory.is_same_store(&sessions) {
            // The session store has erased them; only this process may still hold copies.
            self.memory.evict_user(app, user);
        } else {
            match self.memory.erase_user(app, user).await {
                Ok(erased) => report.add(memory, erased, None),
                Err(MemoryError::Unsupported { .. }) => {
                    report.add(memory, EraseReceipt::default(), Some(EraseNote::NotErased));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let artifacts = self.artifacts.store_label();
        if !artifacts.is_same_store(&sessions) {
            let erased = self.artifacts.erase_user(app, user).await?;
            report.add(artifacts, erased, None);
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_addresses_tell_that_stores_are_the_same() {
        let server = StoreLabel::new("postgres").with_address("postgresql://ada@host/db");
        assert!(server.has_same_address(&server) && !server.is_same_store(&server));
        let file = StoreLabel::new("sqlite").with_unique_address("sqlite:///a.db");
        assert!(file.is_same_store(&file));
        assert!(!StoreLabel::new("in memory").is_same_store(&StoreLabel::new("in memory")));
    }

    #[test]
    fn erase_report_lists_each_store_once_with_its_notes() {
        let file = StoreLabel::new("sqlite")
            .with_address("sqlite:///a.db")
            .with_erase_notes(&[EraseNote::FileCopies]);
        let in_memory = StoreLabel::new("in memory");
        let memories = EraseReceipt {
            memories: 2,
            unfinished: Some(EraseNote::NotRewritten),
            ..EraseReceipt::default()
        };
        let mut report = EraseReport::default();
        report.add(file.clone(), EraseReceipt::default(), None);
        assert!(report.is_complete());
        report.add(file, memories, None);
        report.add(in_memory.clone(), EraseReceipt::default(), None);
        report.add(
            in_memory,
            EraseReceipt::default(),
            Some(EraseNote::NotErased),
        );
        let notes = report.stores.iter().map(|it| it.notes.clone());
        let expected = [
            vec![EraseNote::FileCopies, EraseNote::NotRewritten],
            vec![],
            vec![EraseNote::NotErased],
        ];
        assert_eq!(notes.collect::<Vec<_>>(), expected);
        assert_eq!(report.total().memories, 2);
        assert!(!report.is_complete());
    }
}
