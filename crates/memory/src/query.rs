//! The query of a memory search: one struct from the API down to the index.

use retain_core::MemoryFilter;

/// A memory search: the text to search for, the limits of the result and the filter.
///
/// ```
/// use retain_core::MemoryFilter;
/// use retain_memory::MemoryQuery;
/// let query = MemoryQuery::new("Which floor?")
///     .with_limit(5)
///     .with_filter(MemoryFilter::default().with_author("user"));
/// assert_eq!(query.limit, 5);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MemoryQuery {
    /// The text to search for, in natural language.
    pub text: String,
    /// Maximum number of hits (default 10).
    pub limit: usize,
    /// Approximate token budget for all hits together, at four bytes per token.
    pub token_budget: Option<usize>,
    /// Which memories may be returned.
    pub filter: MemoryFilter,
    /// Minimum score, from 0 to 1.
    pub min_score: f32,
    /// The time to which "yesterday" is relative, in seconds since 1970. The default is the time of
    /// the search. [`UserIndex`](crate::index::UserIndex) alone has no clock: without this value it
    /// ignores relative times.
    pub reference_time: Option<f64>,
}

impl MemoryQuery {
    /// Creates a query for `text` with the default limit and no filter.
    pub fn new(text: impl Into<String>) -> MemoryQuery {
        MemoryQuery {
            text: text.into(),
            limit: 10,
            token_budget: None,
            filter: MemoryFilter::default(),
            min_score: 0.0,
            reference_time: None,
        }
    }

    /// Sets the maximum number of hits.
    pub fn with_limit(mut self, limit: usize) -> MemoryQuery {
        self.limit = limit;
        self
    }

    /// Sets the approximate token budget for all hits together.
    pub fn with_token_budget(mut self, tokens: usize) -> MemoryQuery {
        self.token_budget = Some(tokens);
        self
    }

    /// Sets which memories may be returned.
    pub fn with_filter(mut self, filter: MemoryFilter) -> MemoryQuery {
        self.filter = filter;
        self
    }

    /// Sets the minimum score.
    pub fn with_min_score(mut self, score: f32) -> MemoryQuery {
        self.min_score = score;
        self
    }

    /// Sets the time to which "yesterday" is relative.
    pub fn with_reference_time(mut self, seconds: f64) -> MemoryQuery {
        self.reference_time = Some(seconds);
        self
    }

    /// Whether the query uses only a text and a limit, which every memory service supports.
    pub fn is_plain(&self) -> bool {
        self.token_budget.is_none()
            && self.filter.is_any()
            && self.min_score == 0.0
            && self.reference_time.is_none()
    }
}
