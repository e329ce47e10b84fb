//! Which of the memories that answer are given back: the best, each thing once, and not all from one
//! conversation.
//!
//! - Near-duplicates of one author (the same words in the same order, or 95 % of all their words in
//!   common) are one hit: the best of them, which names the others.
//! - Of one conversation come at most four fifths of the list (`Ranking::largest_share`), as long
//!   as others have hits that score at least half as much. The rest waits, and fills what stays free.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap},
};

use super::{
    UserIndex,
    documents::Row,
    fuse::Signals,
    postings::{Slot, Term},
    sessions::{NONE, SessionNumber},
    types::Question,
};

/// Of the words of two near-duplicates, so many are in both.
const NEARLY_ALL: f32 = 0.95;
/// A hit of another conversation is preferred only if it scores at least this much of what waits.
const NEARLY_AS_GOOD: f32 = 0.5;

/// A memory with its score. The greatest is the best: of equal ones the newest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) score: f32,
    timestamp: f64,
    seq: u64,
    pub(crate) slot: Slot,
}

impl Eq for Ranked {}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then(self.timestamp.total_cmp(&other.timestamp))
            .then(self.seq.cmp(&other.seq))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A hit, with the near-duplicates that it stands for.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) ranked: Ranked,
    pub(crate) duplicates: Vec<u64>,
}

/// Chooses the hits of a search.
pub(crate) fn choose(
    index: &UserIndex,
    signals: &Signals<'_>,
    question: &Question<'_>,
) -> Vec<Chosen> {
    let limit = question.limit.min(index.len());
    let mut pool = limit.saturating_mul(2).saturating_add(16);
    loop {
        let best = best(index, signals, question, pool);
        let all = best.len() < pool;
        let mut choice = Choice::new(index, limit);
        for ranked in best {
            choice.offer(ranked);
        }
        if all || choice.is_settled() {
            return choice.finish();
        }
        // Duplicates or one conversation took too much of what was looked at: look at more.
        pool = pool.saturating_mul(8);
    }
}

/// The best memories, the best first.
fn best(
    index: &UserIndex,
    signals: &Signals<'_>,
    question: &Question<'_>,
    pool: usize,
) -> Vec<Ranked> {
    let mut heap: BinaryHeap<Reverse<Ranked>> = BinaryHeap::new();
    let mut least = sure_score(index, signals, question, pool).max(question.min_score);
    for slot in 0..index.documents.slots() as Slot {
        let Some(score) = signals.score(slot, least) else {
            continue;
        };
        let Some(row) = &index.documents.rows[slot as usize] else {
            continue;
        };
        let ranked = Ranked {
            score,
            timestamp: row.timestamp,
            seq: row.seq,
            slot,
        };
        let is_full = heap.len() == pool;
        let is_worse = heap.peek().is_some_and(|worst| worst.0 > ranked);
        if (is_full && is_worse) || !(question.allowed)(row.seq) {
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
    let sorted = heap.into_sorted_vec();
    sorted.into_iter().map(|it| it.0).collect()
}

/// A score that `pool` memories reach for sure: those that are best without their context tell. So the
/// context of most others need not be looked at.
fn sure_score(
    index: &UserIndex,
    signals: &Signals<'_>,
    question: &Question<'_>,
    pool: usize,
) -> f32 {
    let mut best: BinaryHeap<Reverse<(OrderedScore, Slot)>> = BinaryHeap::new();
    let mut least = f32::MIN_POSITIVE;
    for slot in 0..index.documents.slots() as Slot {
        let score = signals.score_without_context(slot);
        if score <= least {
            continue;
        }
        best.push(Reverse((OrderedScore(score), slot)));
        if best.len() > pool {
            best.pop();
            least = best.peek().map_or(least, |it| it.0.0.0);
        }
    }
    let is_allowed = |slot: &Slot| {
        let row = index.documents.rows[*slot as usize].as_ref();
        row.is_some_and(|row| (question.allowed)(row.seq))
    };
    let slots = best.into_iter().map(|it| it.0.1).filter(is_allowed);
    let scores: Vec<f32> = slots
        .filter_map(|slot| signals.score(slot, f32::MIN))
        .collect();
    if scores.len() < pool {
        return f32::MIN;
    }
    scores.into_iter().fold(f32::INFINITY, f32::min)
}

/// A score in its order.
#[derive(PartialEq)]
struct OrderedScore(f32);

impl Eq for OrderedScore {}

impl Ord for OrderedScore {
    fn cmp(&self, other: &OrderedScore) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for OrderedScore {
    fn partial_cmp(&self, other: &OrderedScore) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

struct Choice<'a> {
    index: &'a UserIndex,
    limit: usize,
    most_of_one: usize,
    chosen: Vec<Chosen>,
    waiting: Vec<Chosen>,
    of_session: HashMap<SessionNumber, usize>,
}

impl<'a> Choice<'a> {
    fn new(index: &'a UserIndex, limit: usize) -> Choice<'a> {
        let most_of_one = (limit as f32 * index.ranking.largest_share).ceil() as usize;
        Choice {
            index,
            limit,
            most_of_one: most_of_one.max(1),
            chosen: Vec::new(),
            waiting: Vec::new(),
            of_session: HashMap::new(),
        }
    }

    /// Offers the next best.
    fn offer(&mut self, ranked: Ranked) {
        if self.joins_a_duplicate(ranked) || self.chosen.len() == self.limit {
            return;
        }
        self.take_waiting_above(ranked.score);
        if self.chosen.len() == self.limit {
            return;
        }
        let session = self.index.documents.session[ranked.slot as usize];
        let taken = self.of_session.entry(session).or_default();
        let hit = Chosen {
            ranked,
            duplicates: Vec::new(),
        };
        if session != NONE && *taken >= self.most_of_one {
            self.waiting.push(hit);
        } else {
            *taken += 1;
            self.chosen.push(hit);
        }
    }

    /// What waits is taken when what comes now is not nearly as good.
    fn take_waiting_above(&mut self, score: f32) {
        while self.chosen.len() < self.limit
            && self
                .waiting
                .first()
                .is_some_and(|it| score < NEARLY_AS_GOOD * it.ranked.score)
        {
            self.chosen.push(self.waiting.remove(0));
        }
    }

    fn joins_a_duplicate(&mut self, ranked: Ranked) -> bool {
        let rows = &self.index.documents.rows;
        let Some(row) = &rows[ranked.slot as usize] else {
            return true;
        };
        let known = self.chosen.iter_mut().chain(&mut self.waiting);
        for hit in known {
            if let Some(of_hit) = &rows[hit.ranked.slot as usize]
                && are_duplicates(of_hit, row)
            {
                hit.duplicates.push(row.seq);
                return true;
            }
        }
        false
    }

    /// Whether looking at more would change nothing.
    fn is_settled(&self) -> bool {
        self.chosen.len() == self.limit
    }

    fn finish(mut self) -> Vec<Chosen> {
        self.take_waiting_above(f32::NEG_INFINITY);
        self.chosen.sort_by_key(|it| Reverse(it.ranked));
        self.chosen
    }
}

fn are_duplicates(a: &Row, b: &Row) -> bool {
    if a.author != b.author {
        return false;
    }
    if a.fingerprint == b.fingerprint && a.words == b.words {
        return true;
    }
    let (shorter, longer) = (
        a.terms.len().min(b.terms.len()),
        a.terms.len().max(b.terms.len()),
    );
    // Cheap: texts of other lengths cannot have nearly all words in common, unless they repeat them.
    shorter * 2 > longer && in_common(&a.terms, &b.terms) >= NEARLY_ALL
}

/// The share of all words of two texts that are in both. The terms are sorted and may repeat.
fn in_common(a: &[Term], b: &[Term]) -> f32 {
    let mut a = a.chunk_by(|x, y| x == y).map(|it| it[0]).peekable();
    let mut b = b.chunk_by(|x, y| x == y).map(|it| it[0]).peekable();
    let (mut both, mut all) = (0_u32, 0_u32);
    while let Some(order) = match (a.peek(), b.peek()) {
        (Some(x), Some(y)) => Some(x.cmp(y)),
        (Some(_), None) => Some(Ordering::Less),
        (None, Some(_)) => Some(Ordering::Greater),
        (None, None) => None,
    } {
        all += 1;
        both += u32::from(order == Ordering::Equal);
        if order != Ordering::Greater {
            a.next();
        }
        if order != Ordering::Less {
            b.next();
        }
    }
    both as f32 / all.max(1) as f32
}
