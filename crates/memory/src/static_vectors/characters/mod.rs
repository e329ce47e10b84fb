//! From a text to words, as BERT's uncased tokenizer does it: the first half of the way to word pieces.
//!
//! A text is cleaned, ideographs are set apart, letters are taken apart from their accents and made
//! small, and punctuation is cut off. Which code points are which is pinned to the reference
//! (`tables.rs`), so that a newer Unicode does not change vectors that are stored already.

mod tables;

use std::cmp::Ordering;

use unicode_normalization::UnicodeNormalization as _;

/// Calls `take` for each word of the text, in order.
pub(super) fn for_each_word(text: &str, take: impl FnMut(&str)) {
    let word = String::with_capacity(32);
    let mut words = Words { word, take };
    let mut rest = text;
    while !rest.is_empty() {
        let (plain, after) = split_where(rest, |byte| !is_plain(byte));
        plain.bytes().for_each(|byte| words.add_plain(byte));
        // Taking apart puts marks in order, so all that is between plain characters goes together.
        let (other, after) = split_where(after, is_plain);
        let cleaned = other.chars().filter_map(clean).flat_map(set_apart);
        let bare = cleaned.nfd().filter(|c| !is_in(tables::ACCENT, *c));
        bare.flat_map(char::to_lowercase).for_each(|c| words.add(c));
        rest = after;
    }
    words.end_word();
}

/// The text before the first such byte, and the rest. Such bytes, or all others, are plain ones.
fn split_where(text: &str, cut: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(cut).unwrap_or(text.len()))
}

/// Whether a byte is a character that only needs to be made small.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r')
}

/// Cuts at spaces, and around every punctuation.
struct Words<F> {
    word: String,
    take: F,
}

impl<F: FnMut(&str)> Words<F> {
    fn add_plain(&mut self, byte: u8) {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => self.word.push(char::from(byte)),
            b'A'..=b'Z' => self.word.push(char::from(byte.to_ascii_lowercase())),
            b' ' | b'\t' | b'\n' | b'\r' => self.end_word(),
            _ => self.take_alone(char::from(byte)),
        }
    }

    fn add(&mut self, c: char) {
        if is_punctuation(c) {
            self.take_alone(c);
        } else if c.is_whitespace() {
            self.end_word();
        } else {
            self.word.push(c);
        }
    }

    fn take_alone(&mut self, c: char) {
        self.end_word();
        (self.take)(c.encode_utf8(&mut [0; 4]));
    }

    fn end_word(&mut self) {
        if !self.word.is_empty() {
            (self.take)(&self.word);
            self.word.clear();
        }
    }
}

/// Nothing for what is no text, a space for all that separates words. ASCII comes here only if it is
/// not plain.
fn clean(c: char) -> Option<char> {
    match c {
        '\0'..='\u{7f}' => None,
        _ if is_in(tables::REMOVED, c) => None,
        _ if is_in(tables::SPACE, c) => Some(' '),
        _ => Some(c),
    }
}

/// Ideographs get spaces around them: each is a word.
fn set_apart(c: char) -> impl Iterator<Item = char> {
    let space = is_in(tables::IDEOGRAPH, c).then_some(' ');
    space.into_iter().chain([c]).chain(space)
}

fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_punctuation()
    } else {
        is_in(tables::PUNCTUATION, c)
    }
}

/// Whether one of the ranges, which stand in order, has the character.
fn is_in(ranges: &[(u32, u32)], c: char) -> bool {
    let code = u32::from(c);
    if ranges.first().is_none_or(|(first, _)| code < *first) {
        return false;
    }
    let place = |(first, last): &(u32, u32)| {
        if *last < code {
            Ordering::Less
        } else if *first > code {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    };
    ranges.binary_search_by(place).is_ok()
}
