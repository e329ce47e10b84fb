//! Options and results beyond ADK's.

use retain_core::{MemoryEntry, MemoryFilter, MemoryInfo, MemoryRecord};

use crate::index::Explanation;

/// A memory that matches a query.
#[derive(Debug, Clone)]
pub struct MemoryHit {
    /// The entry as ADK defines it.
    pub entry: MemoryEntry,
    /// Its source.
    pub info: MemoryInfo,
    /// Its score from 0 to 1.
    pub score: f32,
    /// Why it matched.
    pub explanation: Explanation,
}

/// Options of a listing.
#[derive(Debug, Clone)]
pub struct ListMemories {
    /// Which memories to list.
    pub filter: MemoryFilter,
    /// Maximum number per page.
    pub limit: usize,
    /// Continue after [`MemoryPage::next`]; `None` starts at the beginning.
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

/// A page of memories in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct MemoryPage {
    /// The memories.
    pub memories: Vec<MemoryRecord>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<u64>,
}
