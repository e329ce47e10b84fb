//! The range that is summarized after every `interval` runs.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use retain_core::Event;

use super::{SlidingWindow, self_contained};

/// Returns the events to summarize, without earlier summaries; `None` if there are fewer than
/// `interval` new runs or if a call in the first event is still pending.
pub(super) fn range(events: &[Arc<Event>], window: &SlidingWindow) -> Option<Vec<Arc<Event>>> {
    let runs = group_by_run(events);
    let last_summarized_time = last_summarized_time(events);
    let is_new = |run: &Run<'_>| run.latest > last_summarized_time;
    let new = runs.iter().filter(|run| is_new(run)).count();
    if new < window.interval {
        return None;
    }
    let first_new = runs.iter().position(is_new)?;
    let start = &runs[first_new.saturating_sub(window.overlap)];
    let end = runs.iter().rev().find(|run| is_new(run))?;
    let first = events.iter().position(|event| belongs_to(event, start))?;
    let last = events.iter().rposition(|event| belongs_to(event, end))?;
    let mut range: Vec<Arc<Event>> = events.get(first..=last)?.to_vec();
    range.retain(|event| event.actions.compaction.is_none());
    range.truncate(self_contained::prefix_len(&range, events));
    (!range.is_empty()).then_some(range)
}

/// A run, with the timestamp of its latest event.
struct Run<'e> {
    id: &'e str,
    latest: f64,
}

fn belongs_to(event: &Event, run: &Run<'_>) -> bool {
    event.invocation_id == run.id
}

/// Returns the runs in the order of their first events.
fn group_by_run(events: &[Arc<Event>]) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for event in events {
        let id = event.invocation_id.as_str();
        if id.is_empty() || event.actions.compaction.is_some() {
            continue;
        }
        match places.entry(id) {
            Entry::Occupied(place) => {
                let run = &mut runs[*place.get()];
                run.latest = run.latest.max(event.timestamp);
            }
            Entry::Vacant(place) => {
                place.insert(runs.len());
                let latest = event.timestamp.max(0.0);
                runs.push(Run { id, latest });
            }
        }
    }
    runs
}

/// Returns the end of the newest summary's time span; 0 without a summary.
fn last_summarized_time(events: &[Arc<Event>]) -> f64 {
    let summaries = events.iter().rev();
    let mut ends =
        summaries.filter_map(|event| Some(event.actions.compaction.as_ref()?.end_timestamp));
    ends.find(|end| *end != 0.0).unwrap_or(0.0)
}
