//! The promises that every session store keeps, as tests; a simple model and a history checker that
//! find violations which no single promise covers; a clock and ids that tests control.
//!
//! A store runs the whole contract with one line, [`session_promises!`], which turns each promise
//! into a test.

pub mod artifacts;
pub mod broken;
pub mod callsites;
pub mod clock;
pub mod crash;
mod driver;
pub mod fold;
pub mod harness;
pub mod history;
mod judge;
pub mod memory;
pub mod model;
pub mod oracle;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod promises;
pub mod random;
pub mod scratch;
pub mod wrapper;

pub use artifacts::ArtifactHarness;
pub use clock::{TestClock, TestIds};
pub use harness::{Harness, Persistence, Settings};
pub use memory::{MemoryHarness, MemoryStoreHarness};
pub use wrapper::SharedStore;
