//! Splits a text into words as BERT's uncased tokenizer does: the first half of tokenization.
//!
//! The tokenizer cleans the text, separates ideographs, removes accents, converts to lower case and
//! splits off punctuation. `tables.rs` lists the class that the reference tokenizer gives to each
//! code point, so that a newer Unicode version does not change any vector.

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
        // Decomposition reorders marks, so consecutive characters are processed together.
        let (other, after) = split_where(after, is_plain);
        let cleaned = other.chars().filter_map(clean).flat_map(with_spaces);
        let bare = cleaned.nfd().filter(|c| !is_in(tables::ACCENT, *c));
        bare.flat_map(char::to_lowercase).for_each(|c| words.add(c));
        rest = after;
    }
    words.end_word();
}

/// Splits the text before the first byte for which `cut` is true. `cut` may only test whether the
/// byte is plain, so that the split is between characters.
fn split_where(text: &str, cut: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(cut).unwrap_or(text.len()))
}

/// Whether a byte is an ASCII character that needs no cleaning, only conversion to lower case.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r')
}

/// Collects words: splits at spaces and around every punctuation character.
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
            _ => self.take_punctuation(char::from(byte)),
        }
    }

    fn add(&mut self, c: char) {
        if is_punctuation(c) {
            self.take_punctuation(c);
        } else if c.is_whitespace() {
            self.end_word();
        } else {
            self.word.push(c);
        }
    }

    fn take_punctuation(&mut self, c: char) {
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

/// Removes control, format and private-use characters, and turns separators into spaces. The only
/// ASCII characters that reach this function are control characters.
fn clean(c: char) -> Option<char> {
    match c {
        '\0'..='\u{7f}' => None,
        _ if is_in(tables::REMOVED, c) => None,
        _ if is_in(tables::SPACE, c) => Some(' '),
        _ => Some(c),
    }
}

/// Puts spaces around an ideograph, because each ideograph is a word.
fn with_spaces(c: char) -> impl Iterator<Item = char> {
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

/// Whether one of the sorted ranges contains the character.
fn is_in(ranges: &[(u32, u32)], c: char) -> bool {
    let code = u32::from(c);
    if ranges.first().is_none_or(|(first, _)| code < *first) {
        return false;
    }
    let compare = |(first, last): &(u32, u32)| {
        if *last < code {
            Ordering::Less
        } else if *first > code {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    };
    ranges.binary_search_by(compare).is_ok()
}
