//! Step: summaries replace the events that they summarize.

use retain_core::EventCompaction;

use super::{
    spans::{Coverage, Span, compare_times, outermost_spans},
    turn::Turn,
};

/// Returns the turns without those that a summary covers, with the summaries at the end of their
/// spans, ordered by time.
///
/// A summary supersedes others whose spans lie within its own; of equal spans the latest stays.
/// Both summaries of overlapping spans stay.
pub(super) fn with_summaries<'a>(turns: &[Turn<'a>], agent_name: &'a str) -> Vec<Turn<'a>> {
    let author = match agent_name {
        "" => "model",
        name => name,
    };
    let spans = turns.iter().enumerate();
    let spans = spans.filter_map(|(place, turn)| Some(Span::of(place, compaction(turn)?)));
    let spans = outermost_spans(spans);
    let covered = Coverage::of(&spans);
    let mut placed: Vec<(f64, usize, Turn<'a>)> = Vec::with_capacity(turns.len());
    for span in &spans {
        if let Some(compaction) = compaction(&turns[span.place]) {
            let content = &compaction.compacted_content;
            let summary = Turn::of_summary(&turns[span.place], content, author);
            placed.push((span.end, span.place, summary));
        }
    }
    for (place, turn) in turns.iter().enumerate() {
        if compaction(turn).is_none() && !covered.contains(turn.event.timestamp) {
            placed.push((turn.event.timestamp, place, turn.clone()));
        }
    }
    placed.sort_by(|a, b| compare_times(a.0, b.0).then(a.1.cmp(&b.1)));
    placed.into_iter().map(|(_, _, turn)| turn).collect()
}

fn compaction<'t>(turn: &'t Turn<'_>) -> Option<&'t EventCompaction> {
    turn.event.actions.compaction.as_ref()
}
