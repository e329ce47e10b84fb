//! Where memories are kept: in memory here, on SQLite in `sqlite/memory`.

mod in_memory;

pub use in_memory::InMemoryMemoryStore;

/// So many touched memories of a user are noted. Who is further behind reads all of them anew.
pub(crate) const TOUCHED_MAX: usize = 4096;
