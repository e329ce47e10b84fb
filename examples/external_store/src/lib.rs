//! A session store outside of Retain, as a template: [`JournalStore`] appends every change to a
//! file.
//!
//! A store makes no decisions. [`StoreSessionService`](retain::store::StoreSessionService) has the
//! rules of sessions, and `plan_append` and `plan_renewal` decide about appends and leases. The
//! store provides the guarantees of a database:
//!
//! 1. **Atomic**: a method stores everything or nothing. Here: one transaction is one line.
//! 2. **Isolated**: a decision and its write see the same data. Here: a file lock around both.
//! 3. **Durable**: data that a method has acknowledged survives a crash. Here: the line is synced
//!    before the method returns.
//! 4. **Fresh**: a read sees the writes of all processes. Here: it first applies the new lines.
//!
//! | file | contains | a store on a database has instead |
//! |---|---|---|
//! | `store.rs` | `SessionStore` | the same methods, with SQL |
//! | `transfer.rs` | `TransferStore`: import, export, migration | the same methods, with SQL |
//! | `maintenance.rs` | `MaintenanceStore`: pending work, leases of tasks, expired sessions | the same methods, with SQL |
//! | `tables.rs` | the data in memory, and how a change alters it | tables |
//! | `change.rs` | changes as JSON | the decoding of rows |
//! | `journal.rs` | the file: lock, append, replay, rewrite | a driver and its transactions |
//!
//! `tests/it/promises.rs` runs all session promises of Retain, its contract tests, on the store.

mod change;
mod journal;
mod maintenance;
mod store;
mod tables;
mod transfer;

pub use store::JournalStore;
