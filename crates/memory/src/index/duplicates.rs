//! Finds near-duplicates among hits: two texts of one author with equal words in equal order, or
//! with 95 % of their words in common.
//!
//! Prefix filtering avoids comparing all pairs: two sets with nearly all terms in common have a
//! common term among the first few of each, in any fixed order.

use std::{cmp::Ordering, collections::HashMap};

use super::{authors::AuthorNumber, documents::Row, postings::Term};

/// The minimum percentage of words that near-duplicates share.
const NEARLY_ALL: usize = 95;
/// Number of leading hits that later hits are compared with, to bound the time.
const MOST_COMPARED: usize = 1_000;

/// The hits so far, indexed by their words to find duplicates.
#[derive(Debug, Default)]
pub(crate) struct SeenHits<'a> {
    rows: Vec<&'a Row>,
    by_text: HashMap<(AuthorNumber, u64), usize>,
    by_term: HashMap<(AuthorNumber, Term), Vec<usize>>,
}

impl<'a> SeenHits<'a> {
    /// Returns the earlier hit that `row` duplicates, or adds `row` as a new hit.
    pub(crate) fn find_or_add(&mut self, row: &'a Row) -> Option<usize> {
        let text = (row.author, row.fingerprint);
        let equal = self.by_text.get(&text).copied();
        if let Some(earlier) = equal.or_else(|| self.find_similar(row)) {
            return Some(earlier);
        }
        let number = self.rows.len();
        self.rows.push(row);
        self.by_text.insert(text, number);
        let terms = prefix_terms(row).filter(|_| number < MOST_COMPARED);
        for term in terms {
            let key = (row.author, term);
            self.by_term.entry(key).or_default().push(number);
        }
        None
    }

    fn find_similar(&self, row: &Row) -> Option<usize> {
        let candidates = prefix_terms(row).filter_map(|term| self.by_term.get(&(row.author, term)));
        let is_similar = |it: &&usize| {
            let other = self.rows[**it];
            have_similar_lengths(row, other) && have_similar_terms(&row.terms, &other.terms)
        };
        // Choose the earliest hit, so that the result does not depend on term numbers.
        candidates.flatten().filter(is_similar).min().copied()
    }
}

/// Returns each term once, highest number first, because newer terms are rarer.
fn distinct(terms: &[Term]) -> impl Iterator<Item = Term> {
    terms.chunk_by(|a, b| a == b).rev().map(|it| it[0])
}

/// Returns the first few terms of a text. Near-duplicates share at least one of them.
fn prefix_terms(row: &Row) -> impl Iterator<Item = Term> {
    let all = distinct(&row.terms).count();
    let shared = (all * NEARLY_ALL).div_ceil(100);
    distinct(&row.terms).take(all - shared + 1)
}

/// Whether neither text has at least twice as many words as the other: a cheap test before the
/// exact one. It rejects near-duplicates of which one repeats a word very often.
fn have_similar_lengths(a: &Row, b: &Row) -> bool {
    let (a, b) = (a.terms.len(), b.terms.len());
    a.min(b) * 2 > a.max(b)
}

/// Whether two texts have nearly all terms in common.
fn have_similar_terms(a: &[Term], b: &[Term]) -> bool {
    let (mut a, mut b) = (distinct(a).peekable(), distinct(b).peekable());
    let (mut common, mut all) = (0, 0);
    while let Some(order) = match (a.peek(), b.peek()) {
        (Some(x), Some(y)) => Some(y.cmp(x)),
        (Some(_), None) => Some(Ordering::Less),
        (None, Some(_)) => Some(Ordering::Greater),
        (None, None) => None,
    } {
        all += 1;
        common += usize::from(order == Ordering::Equal);
        if order != Ordering::Greater {
            a.next();
        }
        if order != Ordering::Less {
            b.next();
        }
    }
    common * 100 >= all * NEARLY_ALL
}

#[cfg(test)]
mod tests {
    use retain_testkit::random::Random;

    use super::*;

    fn row(terms: Vec<Term>) -> Row {
        Row {
            seq: 0,
            order: 0,
            timestamp: 0.0,
            author: 0,
            words: terms.len() as u32,
            fingerprint: terms.iter().fold(7, |sum: u64, it| {
                sum.wrapping_mul(31).wrapping_add(u64::from(*it))
            }),
            terms: terms.into(),
        }
    }

    #[test]
    fn duplicate_candidates_include_every_duplicate() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let base: Vec<Term> = (0..10 + random.below(60) as Term)
                .map(|it| it * 3)
                .collect();
            let mut texts = Vec::new();
            for _ in 0..30 {
                let mut terms = base.clone();
                for _ in 0..random.below(6) {
                    let at = random.below(terms.len() as u64) as usize;
                    match random.below(3) {
                        0 => drop(terms.remove(at)),
                        1 => terms.push(random.below(300) as Term),
                        _ => terms[at] = random.below(300) as Term,
                    }
                }
                terms.sort_unstable();
                texts.push(row(terms));
            }
            let mut seen = SeenHits::default();
            let mut distinct_rows: Vec<&Row> = Vec::new();
            for text in &texts {
                let is_equal = |it: &&Row| it.terms == text.terms;
                let is_similar = |it: &&Row| {
                    have_similar_lengths(it, text) && have_similar_terms(&it.terms, &text.terms)
                };
                let expected = distinct_rows
                    .iter()
                    .position(is_equal)
                    .or_else(|| distinct_rows.iter().position(is_similar));
                assert_eq!(seen.find_or_add(text), expected, "seed {seed}");
                if expected.is_none() {
                    distinct_rows.push(text);
                }
            }
        }
    }
}
