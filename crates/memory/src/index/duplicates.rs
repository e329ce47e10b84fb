//! Finds near-duplicates among hits: texts by the same author with the same words in the same
//! order, or with 95 % of their words in common.
//!
//! Prefix filtering avoids comparing all pairs: two sets with nearly all terms in common share one
//! of their first few terms in any fixed order.

use std::{cmp::Ordering, collections::HashMap};

use super::{authors::AuthorNumber, documents::Row, postings::Term};

/// The percentage of words that near-duplicates share.
const NEARLY_ALL: usize = 95;
/// Only the first hits of a very long list are compared, to bound the time.
const MOST_COMPARED: usize = 1_000;

/// The hits so far, indexed for finding duplicates.
#[derive(Debug, Default)]
pub(crate) struct SeenHits<'a> {
    rows: Vec<&'a Row>,
    by_text: HashMap<(AuthorNumber, u64), usize>,
    by_term: HashMap<(AuthorNumber, Term), Vec<usize>>,
}

impl<'a> SeenHits<'a> {
    /// Return the earlier hit that this one duplicates, or add it.
    pub(crate) fn earlier(&mut self, row: &'a Row) -> Option<usize> {
        let text = (row.author, row.fingerprint);
        let same = self.by_text.get(&text).copied();
        if let Some(same) = same.or_else(|| self.similar(row)) {
            return Some(same);
        }
        let number = self.rows.len();
        self.rows.push(row);
        self.by_text.insert(text, number);
        let terms = first_few(row).filter(|_| number < MOST_COMPARED);
        for term in terms {
            let key = (row.author, term);
            self.by_term.entry(key).or_default().push(number);
        }
        None
    }

    fn similar(&self, row: &Row) -> Option<usize> {
        let candidates = first_few(row).filter_map(|term| self.by_term.get(&(row.author, term)));
        let is_similar = |it: &&usize| {
            let other = self.rows[**it];
            lengths_allow(row, other) && are_similar(&row.terms, &other.terms)
        };
        // The earliest, so that the result does not depend on term numbers.
        candidates.flatten().filter(is_similar).min().copied()
    }
}

/// Each term once, newest numbers first, because those are rarer.
fn distinct(terms: &[Term]) -> impl Iterator<Item = Term> {
    terms.chunk_by(|a, b| a == b).rev().map(|it| it[0])
}

/// The first terms of a text. Near-duplicates share at least one of them.
fn first_few(row: &Row) -> impl Iterator<Item = Term> {
    let all = distinct(&row.terms).count();
    let shared = (all * NEARLY_ALL).div_ceil(100);
    distinct(&row.terms).take(all - shared + 1)
}

/// A cheap test: if one text is twice as long as the other, they share too few words, unless words
/// repeat often.
fn lengths_allow(a: &Row, b: &Row) -> bool {
    let (a, b) = (a.terms.len(), b.terms.len());
    a.min(b) * 2 > a.max(b)
}

/// Whether two texts have nearly all words in common.
fn are_similar(a: &[Term], b: &[Term]) -> bool {
    let (mut a, mut b) = (distinct(a).peekable(), distinct(b).peekable());
    let (mut both, mut all) = (0, 0);
    while let Some(order) = match (a.peek(), b.peek()) {
        (Some(x), Some(y)) => Some(y.cmp(x)),
        (Some(_), None) => Some(Ordering::Less),
        (None, Some(_)) => Some(Ordering::Greater),
        (None, None) => None,
    } {
        all += 1;
        both += usize::from(order == Ordering::Equal);
        if order != Ordering::Greater {
            a.next();
        }
        if order != Ordering::Less {
            b.next();
        }
    }
    both * 100 >= all * NEARLY_ALL
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
            let mut kept: Vec<&Row> = Vec::new();
            for text in &texts {
                let is_same = |it: &&Row| it.terms == text.terms;
                let is_similar =
                    |it: &&Row| lengths_allow(it, text) && are_similar(&it.terms, &text.terms);
                let expected = kept
                    .iter()
                    .position(is_same)
                    .or_else(|| kept.iter().position(is_similar));
                assert_eq!(seen.earlier(text), expected, "seed {seed}");
                if expected.is_none() {
                    kept.push(text);
                }
            }
        }
    }
}
