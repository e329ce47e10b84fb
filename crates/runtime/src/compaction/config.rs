//! The configuration of compaction: its triggers and its summarizer.

use std::{sync::Arc, time::Duration};

use super::{Compactor, EventSummarizer, LlmEventSummarizer};
use crate::{agents::Agent, error::BuildError};

/// A trigger of compaction: after every `interval` runs, the runner summarizes those runs and the
/// `overlap` runs before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindow {
    /// The number of new runs that trigger a summary. At least 1.
    pub interval: usize,
    /// The number of earlier runs that a summary covers again, so that summaries overlap.
    pub overlap: usize,
}

/// A trigger of compaction: when a prompt has at least `tokens` tokens, the runner summarizes all
/// but the newest events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenThreshold {
    /// The number of prompt tokens that triggers a summary. At least 1.
    pub tokens: u32,
    /// The number of newest events that are not summarized. More are retained if a call would
    /// otherwise be separated from its answer.
    pub retained_events: usize,
}

/// When the sessions of a runner are compacted, and by which summarizer. Set one trigger or both.
///
/// ```
/// use retain_runtime::CompactionConfig;
/// let config = CompactionConfig::new()
///     .with_sliding_window(5, 1)
///     .with_token_threshold(100_000, 20);
/// ```
#[must_use]
#[derive(Debug, Clone)]
pub struct CompactionConfig {
    window: Option<SlidingWindow>,
    threshold: Option<TokenThreshold>,
    summarizer: Option<Arc<dyn EventSummarizer>>,
    time_limit: Duration,
}

impl Default for CompactionConfig {
    fn default() -> CompactionConfig {
        CompactionConfig {
            window: None,
            threshold: None,
            summarizer: None,
            time_limit: Duration::from_secs(120),
        }
    }
}

impl CompactionConfig {
    /// Creates a configuration without triggers; add
    /// [`with_sliding_window`](Self::with_sliding_window),
    /// [`with_token_threshold`](Self::with_token_threshold), or both.
    pub fn new() -> CompactionConfig {
        CompactionConfig::default()
    }

    /// Sets a [`SlidingWindow`]: after every `interval` runs, the runner summarizes those runs and
    /// the `overlap` runs before them.
    pub fn with_sliding_window(mut self, interval: usize, overlap: usize) -> Self {
        self.window = Some(SlidingWindow { interval, overlap });
        self
    }

    /// Sets a [`TokenThreshold`]: when a prompt has at least `tokens` tokens, the runner summarizes
    /// all but the newest `retained_events` events.
    pub fn with_token_threshold(mut self, tokens: u32, retained_events: usize) -> Self {
        self.threshold = Some(TokenThreshold {
            tokens,
            retained_events,
        });
        self
    }

    /// Sets the summarizer. By default the model of the runner's root agent writes the summaries.
    pub fn with_summarizer(mut self, summarizer: Arc<dyn EventSummarizer>) -> Self {
        self.summarizer = Some(summarizer);
        self
    }

    /// Sets the time limit for one summary. On a timeout nothing is stored, and the next run tries
    /// again. The default is 2 minutes, several times what a model needs for a long history.
    /// `Duration::MAX` disables the limit.
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Builds a runner's compactor, or returns an error if the configuration is invalid.
    pub(crate) fn build(self, root: &dyn Agent) -> Result<Compactor, BuildError> {
        let invalid = |reason| Err(BuildError::new("compaction", reason));
        if self.window.is_none() && self.threshold.is_none() {
            return invalid("has no trigger; call `with_sliding_window` or `with_token_threshold`");
        }
        if self.window.is_some_and(|window| window.interval == 0) {
            return invalid("has a sliding window with an interval of 0; set it to 1 or more");
        }
        if self
            .threshold
            .is_some_and(|threshold| threshold.tokens == 0)
        {
            return invalid("has a threshold of 0 tokens; set it to 1 or more");
        }
        let model = root.as_llm_agent().and_then(|root| root.model());
        let summarizer = match (self.summarizer, model) {
            (Some(summarizer), _) => summarizer,
            (None, Some(model)) => Arc::new(LlmEventSummarizer::new(Arc::clone(model))),
            (None, None) => {
                return invalid(
                    "has no summarizer: the agent has no model; call `with_summarizer`",
                );
            }
        };
        Ok(Compactor {
            window: self.window,
            threshold: self.threshold,
            summarizer,
            time_limit: self.time_limit,
        })
    }
}
