//! What is known beyond one conversation: what is remembered, and the port behind which it is kept.
//!
//! Events go in through [`MemoryService`], from sessions or one by one; what fits a question comes
//! back as [`MemoryEntry`]s, with times as text.

mod entry;
mod service;
mod timestamp;

pub use entry::{MemoryEntry, SearchMemoryResponse};
pub use service::{MemoryError, MemoryService};
pub use timestamp::timestamp_text;
