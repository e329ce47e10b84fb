//! Scripted models for tests. The feature `testing` adds the contract tests for stores, and a clock
//! and ids that a test controls.

pub use retain_runtime::{ScriptedModel, ScriptedReply};
#[cfg(feature = "testing")]
pub use retain_testkit::{
    ArtifactHarness, Harness, MemoryHarness, MemoryStoreHarness, Persistence, Settings,
    SharedStore, TestClock, TestIds, artifact_promises, memory_promises, memory_store_promises,
    promises, scratch, session_promises,
};
