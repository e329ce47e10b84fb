//! Splits texts into words as ADK does in Python, and counts the words of a query that a text
//! contains.
//!
//! A word is a sequence of letters, digits and `_`, composed (NFC) and in lower case. Python does
//! not count combining marks as letters, so a Thai or Hindi word with vowel signs is several words.
//!
//! `tables.rs` lists the code points that form words, as of Unicode 14, the version of Python 3.11.
//! So characters that were added later form no words. Composition and lower case use the newer
//! tables of Rust. A test compares every code point with Python. Two differences remain: next to
//! U+0295 and U+1171E a capital sigma may become the other small sigma, and Rust lower-cases
//! characters that were added after Unicode 14.

#[cfg(test)]
mod against_python;
mod tables;

use std::{
    borrow::Cow,
    cmp::Ordering,
    collections::{BTreeMap, HashSet},
};

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// Maximum number of words in a short query. A text is searched for each word of a short query; a
/// longer query is searched for the words of the text, so that a query of a megabyte takes little
/// longer than reading the text.
const SHORT_QUERY: usize = 16;

/// The distinct words of a query.
#[derive(Debug)]
pub(crate) struct QueryWords {
    words: HashSet<String>,
    /// The words with a space on both sides, if there are at most [`SHORT_QUERY`] words.
    spaced: Vec<String>,
    /// The non-ASCII words, by length.
    non_ascii: BTreeMap<usize, HashSet<String>>,
}

impl QueryWords {
    pub(crate) fn new(query: &str) -> QueryWords {
        QueryWords::from_words(words(&composed(query)).collect())
    }

    fn from_words(words: HashSet<String>) -> QueryWords {
        let mut non_ascii: BTreeMap<usize, HashSet<String>> = BTreeMap::new();
        for word in words.iter().filter(|word| !word.is_ascii()) {
            let same_length = non_ascii.entry(word.len()).or_default();
            same_length.insert(word.clone());
        }
        let spaced = words.iter().filter(|_| words.len() <= SHORT_QUERY);
        QueryWords {
            spaced: spaced.map(|word| format!(" {word} ")).collect(),
            words,
            non_ascii,
        }
    }
}

/// The searchable form of a text.
#[derive(Debug)]
pub(crate) struct SearchableText {
    /// The words, separated by spaces. A set would hardly be faster and would take five times the
    /// memory.
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

    /// Returns how many words of the query the text contains.
    ///
    /// A non-ASCII word also counts inside another word, because many scripts do not separate words
    /// with spaces.
    pub(crate) fn matches(&self, query: &QueryWords) -> usize {
        if query.words.len() > SHORT_QUERY {
            return self.matches_of_long_query(query);
        }
        let has = |word: &&String| {
            self.words.contains(word.as_str())
                || (!word.is_ascii() && self.lower.contains(word.trim_matches(' ')))
        };
        query.spaced.iter().filter(has).count()
    }

    fn matches_of_long_query(&self, query: &QueryWords) -> usize {
        let in_text = self.words.split(' ');
        let mut found: HashSet<&String> =
            in_text.filter_map(|word| query.words.get(word)).collect();
        for (length, words) in query.non_ascii.range(..=self.lower.len()) {
            if words.len() <= SHORT_QUERY {
                found.extend(words.iter().filter(|word| self.lower.contains(*word)));
            } else {
                let substrings = substrings(&self.lower, *length);
                found.extend(substrings.filter_map(|it| words.get(it)));
            }
        }
        found.len()
    }
}

/// Returns all substrings of the text with this length in bytes.
fn substrings(text: &str, length: usize) -> impl Iterator<Item = &str> {
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

/// Returns the lower-case words of a composed text. Each word is converted separately, so that a
/// capital sigma at its end becomes a final sigma whatever follows in the text.
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
    let compare = |(first, last): &(u32, u32)| {
        if *last < u32::from(c) {
            Ordering::Less
        } else if *first > u32::from(c) {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    };
    ranges.binary_search_by(compare).is_ok()
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
            let query = QueryWords::new(&text(&mut random, words));
            let words = random.below(60);
            let searchable = SearchableText::new(&text(&mut random, words));
            let one_by_one = query.words.iter();
            let expected: usize = one_by_one
                .map(|word| {
                    searchable.matches(&QueryWords::from_words(HashSet::from([word.clone()])))
                })
                .sum();
            assert_eq!(searchable.matches(&query), expected, "seed {seed}");
        }
    }

    #[test]
    fn query_of_several_megabytes_is_searched() {
        let numbers: Vec<String> = (0..200_000).map(|it| format!("w{it} ж{it}")).collect();
        let query = QueryWords::new(&numbers.join(" "));
        let searchable = SearchableText::new(&"w7 x ж8 w400000 Ж12 W7 ".repeat(2_000));
        // The fourth match is ж1, which is part of ж12.
        assert_eq!(searchable.matches(&query), 4);
    }
}
