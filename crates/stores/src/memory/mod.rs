//! Where memories are kept: in memory here, on the session database in `sqlite/memory` and
//! `postgres/memory`.

mod in_memory;

pub use in_memory::InMemoryMemoryStore;

/// So many touched memories of a user are noted. Who is further behind reads all of them anew.
pub(crate) const TOUCHED_MAX: usize = 4096;

/// How memories are removed, which decides what hash is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// By their ids: they stay out of every session.
    ById,
    /// Those that a filter means: they stay out of their session.
    ByAddress,
    /// Their time is up: turns stay out of their session; what was given may be given again.
    Expiry,
}
