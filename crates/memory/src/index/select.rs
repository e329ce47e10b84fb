//! Selects the hits to return: the best ones without duplicates, and not all from one session.
//!
//! Near-duplicates (`duplicates.rs`) become one hit, which lists the others. One session fills at
//! most four fifths of the list (`Ranking::largest_share`) while other sessions have hits with at
//! least half the score. Further hits of that session fill the rest of the list.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap, VecDeque},
};

use super::{
    UserIndex,
    duplicates::SeenHits,
    fuse::Signals,
    postings::Slot,
    sessions::{NONE, SessionNumber},
};
use crate::MemoryQuery;

/// A hit of another session is preferred to a waiting hit if its score is at least this share of
/// the waiting hit's score.
const NEARLY_AS_GOOD: f32 = 0.5;
/// Number of scores compared with the minimum per step.
const AT_A_TIME: usize = 64;

/// A document with its score. Documents are ordered by score and then by time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RankedDocument {
    pub(crate) score: f32,
    timestamp: f64,
    seq: u64,
    pub(crate) slot: Slot,
}

impl Eq for RankedDocument {}

impl Ord for RankedDocument {
    fn cmp(&self, other: &RankedDocument) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then(self.timestamp.total_cmp(&other.timestamp))
            .then(self.seq.cmp(&other.seq))
    }
}

impl PartialOrd for RankedDocument {
    fn partial_cmp(&self, other: &RankedDocument) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A hit with the near-duplicates that it represents.
#[derive(Debug)]
pub(crate) struct ChosenHit {
    pub(crate) ranked: RankedDocument,
    pub(crate) duplicates: Vec<u64>,
}

/// Selects the hits of a search.
pub(crate) fn choose(
    index: &UserIndex,
    signals: &Signals<'_>,
    query: &MemoryQuery,
    allowed: &dyn Fn(u64) -> bool,
) -> Vec<ChosenHit> {
    let limit = query.limit.min(index.len());
    let mut pool = limit.saturating_mul(2).saturating_add(16);
    loop {
        let best = best(index, signals, query.min_score, allowed, pool);
        let all = best.len() < pool;
        let mut selection = HitSelection::new(index, limit);
        for ranked in best {
            selection.offer(ranked);
        }
        if all || selection.is_complete() {
            return selection.finish();
        }
        // Too many candidates were duplicates or belonged to one session: consider more.
        pool = pool.saturating_mul(8);
    }
}

/// Returns the best documents, best first.
fn best(
    index: &UserIndex,
    signals: &Signals<'_>,
    min_score: f32,
    allowed: &dyn Fn(u64) -> bool,
    pool: usize,
) -> Vec<RankedDocument> {
    let mut heap: BinaryHeap<Reverse<RankedDocument>> = BinaryHeap::new();
    // The scores of all matches are higher than `f32::MIN`.
    let mut least = min_score.max(f32::MIN);
    for (first, scores) in signals.scores.chunks(AT_A_TIME).enumerate() {
        // Do not exit early, so that the compiler uses SIMD for this loop.
        if !scores.iter().fold(false, |any, it| any | (*it >= least)) {
            continue;
        }
        for (slot, score) in (first * AT_A_TIME..).zip(scores) {
            let Some(row) = index.documents.rows[slot]
                .as_ref()
                .filter(|_| *score >= least)
            else {
                continue;
            };
            let ranked = RankedDocument {
                score: *score,
                timestamp: row.timestamp,
                seq: row.seq,
                slot: slot as Slot,
            };
            let is_full = heap.len() == pool;
            let is_worse = heap.peek().is_some_and(|worst| worst.0 > ranked);
            if (is_full && is_worse) || !allowed(row.seq) {
                continue;
            }
            if is_full {
                heap.pop();
            }
            heap.push(Reverse(ranked));
            if heap.len() == pool {
                least = heap.peek().map_or(least, |worst| worst.0.score);
            }
        }
    }
    let sorted = heap.into_sorted_vec();
    sorted.into_iter().map(|it| it.0).collect()
}

/// The hits selected so far.
struct HitSelection<'a> {
    index: &'a UserIndex,
    limit: usize,
    /// Maximum number of hits per session.
    session_max: usize,
    seen: SeenHits<'a>,
    /// All hits so far, selected or not, best first.
    hits: Vec<ChosenHit>,
    /// Indexes of the selected hits.
    chosen: Vec<usize>,
    /// Indexes of hits whose session has reached its maximum.
    waiting: VecDeque<usize>,
    chosen_by_session: HashMap<SessionNumber, usize>,
}

impl<'a> HitSelection<'a> {
    fn new(index: &'a UserIndex, limit: usize) -> HitSelection<'a> {
        let session_max = (limit as f32 * index.ranking.largest_share).ceil() as usize;
        HitSelection {
            index,
            limit,
            session_max: session_max.max(1),
            seen: SeenHits::default(),
            hits: Vec::new(),
            chosen: Vec::new(),
            waiting: VecDeque::new(),
            chosen_by_session: HashMap::new(),
        }
    }

    /// Adds the next best document. If the list is full, the document can still become a duplicate
    /// of a selected hit.
    fn offer(&mut self, ranked: RankedDocument) {
        let Some(row) = &self.index.documents.rows[ranked.slot as usize] else {
            return;
        };
        if let Some(earlier) = self.seen.find_or_add(row) {
            self.hits[earlier].duplicates.push(row.seq);
            return;
        }
        let number = self.hits.len();
        self.hits.push(ChosenHit {
            ranked,
            duplicates: Vec::new(),
        });
        self.choose_waiting(ranked.score);
        if self.is_complete() {
            return;
        }
        let session = self.index.documents.session[ranked.slot as usize];
        let count = self.chosen_by_session.entry(session).or_default();
        if session != NONE && *count >= self.session_max {
            self.waiting.push_back(number);
        } else {
            *count += 1;
            self.chosen.push(number);
        }
    }

    /// Selects the waiting hits that score much higher than the next candidate, whose score is
    /// `next_score`.
    fn choose_waiting(&mut self, next_score: f32) {
        while let Some(first) = self.waiting.front()
            && !self.is_complete()
            && next_score < NEARLY_AS_GOOD * self.hits[*first].ranked.score
        {
            self.chosen.extend(self.waiting.pop_front());
        }
    }

    /// Whether the list is full.
    fn is_complete(&self) -> bool {
        self.chosen.len() == self.limit
    }

    fn finish(mut self) -> Vec<ChosenHit> {
        self.choose_waiting(f32::NEG_INFINITY);
        // Hits were offered best first, so the index of a hit is its rank.
        let mut is_chosen = vec![false; self.hits.len()];
        for number in self.chosen {
            is_chosen[number] = true;
        }
        let hits = self.hits.into_iter().zip(is_chosen);
        hits.filter(|it| it.1).map(|it| it.0).collect()
    }
}
