//! Step: summaries replace the events that they summarize.

use retain_core::EventCompaction;

use super::{
    event_view::EventView,
    spans::{Coverage, Span, compare_times, outermost_spans},
};

/// Returns the events that no summary covers, and each summary at the end of its span, ordered by
/// time.
///
/// A summary supersedes those whose spans lie within its span. Of several with the same span, the
/// latest stays. Summaries whose spans only overlap all stay.
pub(super) fn with_summaries<'a>(
    views: &[EventView<'a>],
    agent_name: &'a str,
) -> Vec<EventView<'a>> {
    let author = match agent_name {
        "" => "model",
        name => name,
    };
    let spans = views.iter().enumerate();
    let spans =
        spans.filter_map(|(place, view)| Some(Span::from_compaction(place, compaction(view)?)));
    let spans = outermost_spans(spans);
    let covered = Coverage::from_spans(&spans);
    let mut placed: Vec<(f64, usize, EventView<'a>)> = Vec::with_capacity(views.len());
    for span in &spans {
        if let Some(compaction) = compaction(&views[span.place]) {
            let content = &compaction.compacted_content;
            let summary = EventView::of_summary(&views[span.place], content, author);
            placed.push((span.end, span.place, summary));
        }
    }
    for (place, view) in views.iter().enumerate() {
        if compaction(view).is_none() && !covered.contains(view.event.timestamp) {
            placed.push((view.event.timestamp, place, view.clone()));
        }
    }
    placed.sort_by(|a, b| compare_times(a.0, b.0).then(a.1.cmp(&b.1)));
    placed.into_iter().map(|(_, _, view)| view).collect()
}

fn compaction<'t>(view: &'t EventView<'_>) -> Option<&'t EventCompaction> {
    view.event.actions.compaction.as_ref()
}
