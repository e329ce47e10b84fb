//! The range that is summarized when a prompt grows too long: all but the newest events.

use std::{collections::HashSet, sync::Arc};

use retain_core::{Event, EventCompaction, LlmResponse};

use super::{self_contained, size};

/// Returns the last summary and the events after it, except the newest `retained`; `None` if that
/// leaves no event to summarize.
pub(super) fn range(events: &[Arc<Event>], retained: usize) -> Option<Vec<Arc<Event>>> {
    let summary = size::latest_summary(events);
    let compaction = summary.and_then(|summary| summary.actions.compaction.as_ref());
    let last_summarized_time = compaction.map_or(0.0, |compaction| compaction.end_timestamp);
    let is_new = |event: &&Arc<Event>| {
        event.actions.compaction.is_none() && event.timestamp > last_summarized_time
    };
    let mut range: Vec<Arc<Event>> = events.iter().filter(is_new).cloned().collect();
    if range.len() <= retained {
        return None;
    }
    range.truncate(split_index(&range, retained));
    range.truncate(self_contained::prefix_len(&range, events));
    if range.is_empty() {
        return None;
    }
    if let (Some(summary), Some(compaction)) = (summary, compaction) {
        range.insert(0, Arc::new(seed_event(summary, compaction)));
    }
    Some(range)
}

/// Returns the number of events that are not retained. More events are retained if a retained
/// answer would otherwise lose its call.
fn split_index(events: &[Arc<Event>], retained: usize) -> usize {
    if retained == 0 {
        return events.len();
    }
    let wanted = events.len() - retained;
    let mut without_call: HashSet<&str> = HashSet::new();
    for (place, event) in events.iter().enumerate().rev() {
        without_call.extend(self_contained::response_ids(event));
        for id in self_contained::call_ids(event) {
            without_call.remove(id);
        }
        if without_call.is_empty() && place <= wanted {
            return place;
        }
    }
    0
}

/// Returns the earlier summary as the first event to summarize, so that the new summary covers it.
fn seed_event(summary: &Event, compaction: &EventCompaction) -> Event {
    let content = compaction.compacted_content.clone();
    Event {
        timestamp: compaction.start_timestamp,
        branch: summary.branch.clone(),
        isolation_scope: summary.isolation_scope.clone(),
        ..Event::new("model", LlmResponse::from_content(content))
    }
}
