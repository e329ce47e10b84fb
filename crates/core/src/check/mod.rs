//! What a check of stored data reports, and the rules that decide what is damage.
//!
//! Stores read rows and pass them to [`SessionCheck`]; the rules for a session's log and state are
//! there, once for all stores.

mod artifacts;
mod problem;
mod session;

pub use artifacts::check_artifacts;
pub use problem::{Damage, Location, Problem, Problems};
pub use session::{
    EventColumns, SessionCheck, SessionFacts, SessionRepair, SessionVerdict, StateColumns,
};

use crate::{error::Result, transfer_store::TransferStore};

/// What a repair has changed, and what it could not repair.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The problems that no longer exist.
    pub repaired: Vec<Problem>,
    /// The problems that a check still finds.
    pub remaining: Vec<Problem>,
}

/// Checks a store, repairs what can be derived from the logs, and checks it again.
///
/// Changes nothing if the database itself is damaged: a row that cannot be found because of the
/// damage looks like one that does not exist.
pub async fn repair_store(store: &dyn TransferStore) -> Result<RepairReport> {
    let found = store.check().await?;
    let is_storage = |it: &Problem| matches!(it.damage, Damage::Storage { .. });
    let is_damaged = found.iter().any(|it| is_storage(it) && !it.is_repairable);
    if !is_damaged && found.iter().any(|problem| problem.is_repairable) {
        store.repair(&found).await?;
    } else {
        return Ok(RepairReport {
            repaired: Vec::new(),
            remaining: found,
        });
    }
    let remaining = store.check().await?;
    let is_gone = |problem: &Problem| !remaining.contains(problem);
    Ok(RepairReport {
        repaired: found.into_iter().filter(is_gone).collect(),
        remaining,
    })
}
