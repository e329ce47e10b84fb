//! What is asked of the memory beyond ADK, and what it answers.

use retain_core::{MemoryAbout, MemoryEntry, MemoryFilter, MemoryRecord};

use crate::index::Explanation;

/// A search, with everything that can be said about it.
///
/// ```
/// use retain_core::MemoryFilter;
/// use retain_memory::SearchMemory;
/// let search = SearchMemory::new("Which floor?")
///     .limit(5)
///     .filter(MemoryFilter { author: Some("user".into()), ..MemoryFilter::default() });
/// assert_eq!(search.limit, 5);
/// ```
#[derive(Debug, Clone)]
pub struct SearchMemory {
    /// The question, in words.
    pub query: String,
    /// At most so many memories. 10 if nothing is said.
    pub limit: usize,
    /// At most so many tokens in all of them, roughly: four bytes are taken for one.
    pub token_budget: Option<usize>,
    /// Which memories may be found.
    pub filter: MemoryFilter,
    /// No memories below this score, from 0 to 1.
    pub min_score: f32,
    /// What "yesterday" is relative to, in seconds since 1970. Now, if nothing is said.
    pub reference_time: Option<f64>,
}

impl SearchMemory {
    /// Searches for this.
    pub fn new(query: impl Into<String>) -> SearchMemory {
        SearchMemory {
            query: query.into(),
            limit: 10,
            token_budget: None,
            filter: MemoryFilter::default(),
            min_score: 0.0,
            reference_time: None,
        }
    }

    /// At most so many memories.
    pub fn limit(mut self, limit: usize) -> SearchMemory {
        self.limit = limit;
        self
    }

    /// At most so many tokens in all of them, roughly.
    pub fn token_budget(mut self, tokens: usize) -> SearchMemory {
        self.token_budget = Some(tokens);
        self
    }

    /// Only these.
    pub fn filter(mut self, filter: MemoryFilter) -> SearchMemory {
        self.filter = filter;
        self
    }

    /// Nothing below this score.
    pub fn min_score(mut self, score: f32) -> SearchMemory {
        self.min_score = score;
        self
    }

    /// What "yesterday" is relative to.
    pub fn reference_time(mut self, seconds: f64) -> SearchMemory {
        self.reference_time = Some(seconds);
        self
    }
}

/// A memory that answers a question.
#[derive(Debug, Clone)]
pub struct FoundMemory {
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
