//! The words of a text, and the number of a query's words that a text contains, by ADK's rules,
//! which are Python's.
//!
//! A word is a run of letters, digits and `_`, composed (NFC) and in lower case. Python does not
//! count combining marks as letters: a Thai or Hindi word with vowel signs is several words.
//!
//! The code points that form words are pinned to Unicode 14, as in Python 3.11 (`tables.rs`):
//! scripts added later have no words. Composition and lower case use newer tables. A test compares
//! every code point with Python. Two differences remain: next to U+0295 and U+1171E a capital sigma
//! may become the other small sigma, and code points of later versions have a lower case, though
//! they form no words.

#[cfg(test)]
mod against_python;
mod tables;

use std::{
    borrow::Cow,
    cmp::Ordering,
    collections::{BTreeMap, HashSet},
};

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// Up to this many words are searched for in a text one by one. For longer queries the words of the
/// text are looked up in the query, so that a query of a megabyte costs little more than reading
/// the text.
const FEW: usize = 16;

/// The distinct words of a query.
#[derive(Debug)]
pub(crate) struct QueryWords {
    words: HashSet<String>,
    /// The words with a space on both sides, if there are at most [`FEW`].
    spaced: Vec<String>,
    /// The non-ASCII words, by length.
    beyond_ascii: BTreeMap<usize, HashSet<String>>,
}

impl QueryWords {
    pub(crate) fn new(query: &str) -> QueryWords {
        QueryWords::of(words(&composed(query)).collect())
    }

    fn of(words: HashSet<String>) -> QueryWords {
        let mut beyond_ascii: BTreeMap<usize, HashSet<String>> = BTreeMap::new();
        for word in words.iter().filter(|word| !word.is_ascii()) {
            let as_long = beyond_ascii.entry(word.len()).or_default();
            as_long.insert(word.clone());
        }
        let spaced = words.iter().filter(|_| words.len() <= FEW);
        QueryWords {
            spaced: spaced.map(|word| format!(" {word} ")).collect(),
            words,
            beyond_ascii,
        }
    }
}

/// The searchable form of a text.
#[derive(Debug)]
pub(crate) struct SearchableText {
    /// The words, separated by spaces. A set is hardly faster and takes five times the memory.
    words: Box<str>,
    /// The whole text in lower case; empty for an ASCII text, which needs no substring search.
    lower: Box<str>,
}

impl SearchableText {
    pub(crate) fn new(text: &str) -> SearchableText {
        let text = composed(text);
        let mut spaced = String::from(" ");
        for word in words(&text) {
            spaced.extend([word.as_str(), " "]);
            if !word.is_ascii() {
                script_runs(&word).for_each(|run| spaced.extend([run, " "]));
            }
        }
        let lower = if text.is_ascii() {
            String::new()
        } else {
            text.to_lowercase()
        };
        SearchableText {
            words: spaced.into(),
            lower: lower.into(),
        }
    }

    /// Returns the number of the query's words that the text contains.
    ///
    /// A non-ASCII word also counts inside another word, because many scripts do not separate words
    /// with spaces.
    pub(crate) fn matches(&self, question: &QueryWords) -> usize {
        if question.words.len() > FEW {
            return self.matches_of_many(question);
        }
        let has = |word: &&String| {
            self.words.contains(word.as_str())
                || (!word.is_ascii() && self.lower.contains(word.trim_matches(' ')))
        };
        question.spaced.iter().filter(has).count()
    }

    fn matches_of_many(&self, question: &QueryWords) -> usize {
        let in_text = self.words.split(' ');
        let mut found: HashSet<&String> = in_text
            .filter_map(|word| question.words.get(word))
            .collect();
        for (length, words) in question.beyond_ascii.range(..=self.lower.len()) {
            if words.len() <= FEW {
                found.extend(words.iter().filter(|word| self.lower.contains(*word)));
            } else {
                let pieces = pieces(&self.lower, *length);
                found.extend(pieces.filter_map(|piece| words.get(piece)));
            }
        }
        found.len()
    }
}

/// Returns all substrings of the text with this length in bytes.
fn pieces(text: &str, length: usize) -> impl Iterator<Item = &str> {
    let starts = text.char_indices();
    starts.filter_map(move |(start, _)| text.get(start..start + length))
}

/// Composes letters and marks (NFC).
fn composed(text: &str) -> Cow<'_, str> {
    match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => Cow::Borrowed(text),
        _ => Cow::Owned(text.nfc().collect()),
    }
}

/// Returns the words of a composed text in lower case. Each word is lowered separately, so that a
/// sigma at its end is final whatever follows in the text.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// Splits a word between Latin and other scripts, so that `python` is found in `私はpythonを使う`.
fn script_runs(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let latin = is_latin(rest.chars().next()?);
        let end = rest.find(|c| is_latin(c) != latin).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        Some(run)
    })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || is_in(tables::WORD, c)
}

fn is_latin(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || is_in(tables::LATIN, c)
}

/// Whether one of the sorted ranges contains the character.
fn is_in(ranges: &[(u32, u32)], c: char) -> bool {
    let place = |(first, last): &(u32, u32)| {
        if *last < u32::from(c) {
            Ordering::Less
        } else if *first > u32::from(c) {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    };
    ranges.binary_search_by(place).is_ok()
}

#[cfg(test)]
mod tests {
    use retain_testkit::random::Random;

    use super::*;

    const LETTERS: [&str; 12] = [
        "a", "b", "_", "7", "ß", "é", "e\u{301}", "я", "高", "楼", "İ", "Σ",
    ];

    fn text(random: &mut Random, words: u64) -> String {
        let mut text = String::new();
        for _ in 0..words {
            (0..1 + random.below(3)).for_each(|_| text.push_str(random.pick(&LETTERS)));
            text.push_str(random.pick(&[" ", ", ", "-", "\0"]));
        }
        text
    }

    #[test]
    fn matches_of_many_words_equal_the_sum_of_single_matches() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let words = random.below(400);
            let question = QueryWords::new(&text(&mut random, words));
            let words = random.below(60);
            let searchable = SearchableText::new(&text(&mut random, words));
            let one_by_one = question.words.iter();
            let expected: usize = one_by_one
                .map(|word| searchable.matches(&QueryWords::of(HashSet::from([word.clone()]))))
                .sum();
            assert_eq!(searchable.matches(&question), expected, "seed {seed}");
        }
    }

    #[test]
    fn query_of_several_megabytes_is_searched() {
        let numbers: Vec<String> = (0..200_000).map(|it| format!("w{it} ж{it}")).collect();
        let question = QueryWords::new(&numbers.join(" "));
        let searchable = SearchableText::new(&"w7 x ж8 w400000 Ж12 W7 ".repeat(2_000));
        // Also ж1, which is part of ж12; ж0 and others are not.
        assert_eq!(searchable.matches(&question), 4);
    }
}
