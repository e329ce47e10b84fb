//! Predicts from the length of the last summary whether a new one would shorten a request.

use std::sync::Arc;

use retain_core::{Content, Event};

use crate::contents::spans::{Coverage, Span, outermost_spans};

/// Whether a summary of `range` would shorten a request if it were as long as the last summary.
pub(super) fn shortens_request(events: &[Arc<Event>], range: &[Arc<Event>]) -> bool {
    let times = || range.iter().map(|event| event.timestamp);
    let empty_summary = Span {
        start: times().fold(f64::INFINITY, f64::min),
        end: times().fold(f64::NEG_INFINITY, f64::max),
        place: events.len(),
    };
    let before = request_size(events, None);
    let after = request_size(events, Some(empty_summary));
    let last = latest_summary(events).map_or(0, summary_size);
    before > after + last
}

/// Returns the newest summary that no other summary covers.
pub(super) fn latest_summary(events: &[Arc<Event>]) -> Option<&Event> {
    let outermost = outermost_spans(spans(events));
    let latest = outermost.iter().map(|span| span.place).max()?;
    events.get(latest).map(AsRef::as_ref)
}

fn spans(events: &[Arc<Event>]) -> impl Iterator<Item = Span> {
    let spans = events.iter().enumerate();
    spans.filter_map(|(place, event)| {
        Some(Span::from_compaction(
            place,
            event.actions.compaction.as_ref()?,
        ))
    })
}

/// Returns the number of characters in a request with these events, and with `empty_summary` if
/// given.
fn request_size(events: &[Arc<Event>], empty_summary: Option<Span>) -> usize {
    let outermost = outermost_spans(spans(events).chain(empty_summary));
    let covered = Coverage::from_spans(&outermost);
    let summaries = outermost.iter().map(|span| match events.get(span.place) {
        Some(event) => summary_size(event),
        None => content_size(&Content::new("model", Vec::new())),
    });
    let is_sent = |event: &&Arc<Event>| {
        event.actions.compaction.is_none() && !covered.contains(event.timestamp)
    };
    let sent = events.iter().filter(is_sent);
    let sent = sent.filter_map(|event| event.content()).map(content_size);
    summaries.chain(sent).sum()
}

fn summary_size(event: &Event) -> usize {
    let compaction = event.actions.compaction.as_ref();
    compaction.map_or(0, |compaction| content_size(&compaction.compacted_content))
}

/// Returns the number of characters in a content as ADK serializes it; 0 if it cannot be
/// serialized.
fn content_size(content: &Content) -> usize {
    let text = content.to_snake_json();
    text.map_or(0, |text| text.chars().count())
}
