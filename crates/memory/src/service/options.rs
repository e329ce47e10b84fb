//! What is asked of the memory beyond ADK, and what it answers.

use retain_core::{MemoryAbout, MemoryEntry, MemoryFilter, MemoryRecord};

use crate::index::Explanation;

/// A memory that answers a question.
#[derive(Debug, Clone)]
pub struct MemoryHit {
    /// The memory, as ADK has it.
    pub entry: MemoryEntry,
    /// Where it comes from.
    pub about: MemoryAbout,
    /// How well it answers, from 0 to 1.
    pub score: f32,
    /// Why it was found.
    pub explanation: Explanation,
}

/// Which memories are listed.
#[derive(Debug, Clone)]
pub struct ListMemories {
    /// These.
    pub filter: MemoryFilter,
    /// At most so many at a time.
    pub limit: usize,
    /// Behind what [`MemoryPage::next`] said; from the beginning if nothing is said.
    pub after: Option<u64>,
}

impl Default for ListMemories {
    fn default() -> ListMemories {
        ListMemories {
            filter: MemoryFilter::default(),
            limit: 100,
            after: None,
        }
    }
}

/// Some of a user's memories, in the order of their arrival.
#[derive(Debug, Clone, Default)]
pub struct MemoryPage {
    /// The memories.
    pub memories: Vec<MemoryRecord>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}
