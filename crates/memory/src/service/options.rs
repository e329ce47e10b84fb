//! Options and results beyond ADK's.

use retain_core::{MemoryEntry, MemoryFilter, MemoryInfo, MemoryRecord};

use crate::index::Explanation;

/// A memory that matches a query.
#[derive(Debug, Clone)]
pub struct MemoryHit {
    /// The entry as ADK defines it.
    pub entry: MemoryEntry,
    /// The source of the entry.
    pub info: MemoryInfo,
    /// The score of the hit, from 0 to 1.
    pub score: f32,
    /// Why the entry matched.
    pub explanation: Explanation,
}

/// Options of a listing.
#[derive(Debug, Clone)]
#[non_exhaustive]
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

impl ListMemories {
    /// Sets which memories to list.
    pub fn with_filter(mut self, filter: MemoryFilter) -> ListMemories {
        self.filter = filter;
        self
    }

    /// Sets the maximum number per page.
    pub fn with_limit(mut self, limit: usize) -> ListMemories {
        self.limit = limit;
        self
    }

    /// Continues after [`MemoryPage::next`].
    pub fn with_after(mut self, next: u64) -> ListMemories {
        self.after = Some(next);
        self
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
