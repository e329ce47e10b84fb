//! Step: summaries take the place of the events they sum up.

use std::cmp::Ordering;

use retain_core::EventCompaction;

use super::turn::Turn;

/// The turns without those that a summary covers, with the summaries at the end of their spans,
/// all in the order of time.
///
/// A summary whose span lies in that of another is superseded by it; of equal ones the latest
/// stays. Spans that only overlap keep both summaries.
pub(super) fn with_summaries<'a>(turns: &[Turn<'a>], agent_name: &'a str) -> Vec<Turn<'a>> {
    let author = match agent_name {
        "" => "model",
        name => name,
    };
    let spans = kept_spans(turns);
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
    placed.sort_by(|a, b| by_time(a.0, b.0).then(a.1.cmp(&b.1)));
    placed.into_iter().map(|(_, _, turn)| turn).collect()
}

/// A total order in which both zeros are equal.
fn by_time(a: f64, b: f64) -> Ordering {
    (a + 0.0).total_cmp(&(b + 0.0))
}

fn compaction<'t>(turn: &'t Turn<'_>) -> Option<&'t EventCompaction> {
    turn.event.actions.compaction.as_ref()
}

/// What a summary stands for: times, and the place of its event.
#[derive(Clone, Copy)]
struct Span {
    start: f64,
    end: f64,
    place: usize,
}

/// The spans that lie in no other.
fn kept_spans(turns: &[Turn<'_>]) -> Vec<Span> {
    let spans = turns.iter().enumerate().filter_map(|(place, turn)| {
        let compaction = compaction(turn)?;
        Some(Span {
            start: compaction.start_timestamp,
            end: compaction.end_timestamp,
            place,
        })
    });
    let is_odd = |span: &Span| span.start.is_nan() || span.end.is_nan();
    let (mut kept, mut spans): (Vec<Span>, Vec<Span>) = spans.partition(is_odd);
    // Whatever may contain a span stands before it.
    spans.sort_by(|a, b| {
        by_time(a.start, b.start)
            .then(by_time(b.end, a.end))
            .then(b.place.cmp(&a.place))
    });
    let mut latest_end = None;
    for span in spans {
        if latest_end.is_none_or(|latest| span.end > latest) {
            latest_end = Some(span.end);
            kept.push(span);
        }
    }
    kept
}

/// The union of spans, as disjoint ones in their order.
struct Coverage(Vec<(f64, f64)>);

impl Coverage {
    fn of(spans: &[Span]) -> Coverage {
        let forward = spans.iter().filter(|span| span.start <= span.end);
        let mut spans: Vec<(f64, f64)> = forward.map(|span| (span.start, span.end)).collect();
        spans.sort_by(|a, b| by_time(a.0, b.0).then(by_time(a.1, b.1)));
        let mut union: Vec<(f64, f64)> = Vec::with_capacity(spans.len());
        for (start, end) in spans {
            match union.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => union.push((start, end)),
            }
        }
        Coverage(union)
    }

    fn contains(&self, time: f64) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= time);
        let span = after.checked_sub(1).and_then(|place| self.0.get(place));
        span.is_some_and(|(_, end)| time <= *end)
    }
}
