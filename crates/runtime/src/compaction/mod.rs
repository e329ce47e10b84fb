//! Compaction: a summary replaces old events in model requests.
//!
//! A summary is stored as another event, which names the time span that it covers; no event is ever
//! deleted. Pure functions, equal to those of ADK 2.13, choose the events to summarize:
//!
//! ```text
//! sliding_window    after every `interval` runs
//! token_threshold   when the prompt grows too long, before a model call and after a run
//!   tokens            the length of a prompt
//! self_contained    a range never separates a call from its answer
//! size              a range must be longer than its summary
//! transcript        the prompt of the default summarizer
//! summarizer        writes the summary and the event that carries it
//! ```
//!
//! The step `compaction` of [`contents`] replaces the covered events in a request by the summaries.
//!
//! [`contents`]: crate::contents

mod config;
mod self_contained;
mod size;
mod sliding_window;
mod summarizer;
mod token_threshold;
mod tokens;
mod transcript;

use std::sync::Arc;

use retain_core::{Event, Events};

pub use config::{CompactionConfig, SlidingWindow, TokenThreshold};
pub use summarizer::{CompactionError, EventSummarizer, LlmEventSummarizer, Summary};
pub(crate) use summarizer::{Compactor, summary_event};
pub use tokens::prompt_tokens;
pub use transcript::{prompt, transcript};

use crate::contents::{ContentsOptions, valid_shared_events};

/// Returns the events to summarize after the latest run, oldest first; `None` if no summary is due.
///
/// ```
/// use retain_core::{Event, Events};
/// use retain_runtime::compaction::{SlidingWindow, sliding_window_range};
/// let mut events = Events::default();
/// for (position, run) in [(1, "e-1"), (2, "e-2")] {
///     let mut event = Event::user_text("Hi");
///     event.invocation_id = run.into();
///     event.timestamp = position as f64;
///     events.push(position, event);
/// }
/// let every_two = SlidingWindow { interval: 2, overlap: 1 };
/// assert_eq!(sliding_window_range(&events, &every_two).unwrap().len(), 2);
/// let every_three = SlidingWindow { interval: 3, overlap: 1 };
/// assert!(sliding_window_range(&events, &every_three).is_none());
/// ```
pub fn sliding_window_range(events: &Events, window: &SlidingWindow) -> Option<Vec<Arc<Event>>> {
    let events = retain_scope(valid_shared_events(events), None);
    let range = sliding_window::range(&events, window)?;
    size::shortens_request(&events, &range).then_some(range)
}

/// Returns the events to summarize before the agent's model is called; `None` if no summary is due.
///
/// If there is an earlier summary, it is the first of these events, and the new summary replaces
/// it.
pub fn token_threshold_range(
    events: &Events,
    threshold: &TokenThreshold,
    agent: &ContentsOptions<'_>,
) -> Option<Vec<Arc<Event>>> {
    if prompt_tokens(events, agent)? < i64::from(threshold.tokens) {
        return None;
    }
    let events = retain_scope(valid_shared_events(events), agent.isolation_scope);
    let range = token_threshold::range(&events, threshold.retained_events)?;
    size::shortens_request(&events, &range).then_some(range)
}

fn retain_scope(mut events: Vec<Arc<Event>>, scope: Option<&str>) -> Vec<Arc<Event>> {
    events.retain(|event| event.isolation_scope.as_deref() == scope);
    events
}
