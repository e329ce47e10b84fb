//! The time spans of summaries: which spans count, and what they cover.

use std::cmp::Ordering;

use retain_core::EventCompaction;

/// The time span that a summary covers, and the index of its event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) place: usize,
}

impl Span {
    pub(crate) fn from_compaction(place: usize, compaction: &EventCompaction) -> Span {
        Span {
            start: compaction.start_timestamp,
            end: compaction.end_timestamp,
            place,
        }
    }
}

/// Compares times in a total order in which both zeros are equal.
pub(super) fn compare_times(a: f64, b: f64) -> Ordering {
    (a + 0.0).total_cmp(&(b + 0.0))
}

/// Returns the spans that no other span contains. Of equal spans, the latest stays.
pub(crate) fn outermost_spans(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let has_nan = |span: &Span| span.start.is_nan() || span.end.is_nan();
    let (mut outermost, mut spans): (Vec<Span>, Vec<Span>) = spans.partition(has_nan);
    // Sort so that a span precedes any span that it may contain.
    spans.sort_by(|a, b| {
        compare_times(a.start, b.start)
            .then(compare_times(b.end, a.end))
            .then(b.place.cmp(&a.place))
    });
    let mut latest_end = None;
    for span in spans {
        if latest_end.is_none_or(|latest| span.end > latest) {
            latest_end = Some(span.end);
            outermost.push(span);
        }
    }
    outermost
}

/// The union of spans, as disjoint spans in order.
pub(crate) struct Coverage(Vec<(f64, f64)>);

impl Coverage {
    pub(crate) fn from_spans(spans: &[Span]) -> Coverage {
        let forward = spans.iter().filter(|span| span.start <= span.end);
        let mut spans: Vec<(f64, f64)> = forward.map(|span| (span.start, span.end)).collect();
        spans.sort_by(|a, b| compare_times(a.0, b.0).then(compare_times(a.1, b.1)));
        let mut union: Vec<(f64, f64)> = Vec::with_capacity(spans.len());
        for (start, end) in spans {
            match union.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => union.push((start, end)),
            }
        }
        Coverage(union)
    }

    pub(crate) fn contains(&self, time: f64) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= time);
        let span = after.checked_sub(1).and_then(|place| self.0.get(place));
        span.is_some_and(|(_, end)| time <= *end)
    }
}
