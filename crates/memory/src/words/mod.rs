//! The words of a text, and how many of a question's words a text has: ADK's rules, which are
//! Python's rules.
//!
//! A word is a run of letters, digits and `_`, composed (NFC) and in lower case. The marks of a
//! script are no letters in Python: a Thai or Hindi word with vowel signs is several words.
//!
//! Which code points make words is pinned to Unicode 14, that of Python 3.11 (`tables.rs`): in
//! scripts that came later there are no words. Composing and lower case come from newer tables.
//! A test compares all of it with Python, code point by code point. What remains is exotic:
//! beside U+0295 and U+1171E a capital sigma may become the other small one, and code points of
//! later versions have a lower case here, though no words are made of them.

#[cfg(test)]
mod against_python;
mod tables;

use std::{borrow::Cow, cmp::Ordering, collections::BTreeSet};

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// The words of a question, each once and between spaces.
#[derive(Debug)]
pub(crate) struct Question(BTreeSet<String>);

impl Question {
    pub(crate) fn new(query: &str) -> Question {
        let query = composed(query);
        let spaced = words(&query).map(|word| format!(" {word} "));
        Question(spaced.collect())
    }
}

/// What is known of a text to answer questions with.
#[derive(Debug)]
pub(crate) struct Searchable {
    /// The words, each between spaces. A set of them is hardly faster and takes five times the room.
    words: Box<str>,
    /// The whole text in lower case; empty for an ASCII text, in which nothing is looked for.
    lower: Box<str>,
}

impl Searchable {
    pub(crate) fn new(text: &str) -> Searchable {
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
        Searchable {
            words: spaced.into(),
            lower: lower.into(),
        }
    }

    /// How many words of the question the text has.
    ///
    /// A word beyond ASCII also counts when it stands inside another: many scripts put no spaces
    /// between words.
    pub(crate) fn matches(&self, question: &Question) -> usize {
        let has = |word: &&String| {
            self.words.contains(word.as_str())
                || (!word.is_ascii() && self.lower.contains(word.trim_matches(' ')))
        };
        question.0.iter().filter(has).count()
    }
}

/// The text with letters and marks put together where there is a letter for both.
fn composed(text: &str) -> Cow<'_, str> {
    match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => Cow::Borrowed(text),
        _ => Cow::Owned(text.nfc().collect()),
    }
}

/// The words of a composed text, in lower case. A word is taken by itself: a sigma at its end is
/// final, whatever follows in the text.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// The word cut wherever Latin meets another script, so that `python` is found in `私はpythonを使う`.
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

/// Whether one of the ranges, which stand in order, has the character.
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
