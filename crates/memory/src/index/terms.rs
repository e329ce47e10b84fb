//! Turns a text into terms, the keys of the index.
//!
//! Each piece of [`scan`] is normalized (NFKC) and converted to lower case. A word is stemmed, and
//! its Latin letters lose their accents. Text in a script without spaces yields each pair of
//! adjacent letters as a term, and each single letter as a term of lower weight.

use unicode_normalization::UnicodeNormalization as _;

use super::{
    language::WordStemmer,
    scan::{Script, is_mark, scan},
};

/// Maximum number of characters per word; longer words are truncated, so that a megabyte without a
/// space does not become a key of the index.
const LONGEST_WORD: usize = 64;

/// The kind of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TermKind {
    /// A word, or a pair of letters of a script without spaces.
    Word,
    /// One letter of a script without spaces.
    Letter,
}

/// Calls `take` for each term of a text in order.
pub(crate) fn each_term(text: &str, stem: &WordStemmer, mut take: impl FnMut(&str, TermKind)) {
    let mut word = String::new();
    for (range, script) in scan(text) {
        normalize(&text[range], &mut word);
        terms_of(&word, script, stem, &mut take);
    }
}

/// Calls `take` for each term of one normalized piece.
pub(crate) fn terms_of(
    word: &str,
    script: Script,
    stem: &WordStemmer,
    take: &mut impl FnMut(&str, TermKind),
) {
    match script {
        Script::Spaced => {
            let stemmed = stem.stem(truncated(word));
            if stemmed.is_ascii() {
                take(&stemmed, TermKind::Word);
            } else {
                take(&without_accents(&stemmed), TermKind::Word);
            }
        }
        Script::Emoji => take(word, TermKind::Word),
        Script::Unspaced => pairs(word, take),
    }
}

/// Normalizes a piece: converts it to lower case, applies NFKC, and drops possessive endings, inner
/// signs and ordinal endings. `Anna's` becomes `anna`, `don't` `dont`, `10,000` `10000`, and `8th`
/// `8`.
pub(crate) fn normalize(piece: &str, into: &mut String) {
    into.clear();
    if piece.is_ascii() {
        into.push_str(piece);
        into.make_ascii_lowercase();
    } else {
        into.extend(piece.nfkc().flat_map(char::to_lowercase));
    }
    if into.contains(['\'', '\u{2019}']) {
        let length = into
            .strip_suffix("'s")
            .or_else(|| into.strip_suffix("\u{2019}s"))
            .map_or(into.len(), str::len);
        into.truncate(length);
        into.retain(|it| it != '\'' && it != '\u{2019}');
    }
    if into.starts_with(|it: char| it.is_ascii_digit()) {
        into.retain(|it| it != ',');
        if let Some(digits) = ordinal(into) {
            into.truncate(digits);
        }
    }
}

/// Returns the first [`LONGEST_WORD`] characters of a word.
fn truncated(word: &str) -> &str {
    match word.char_indices().nth(LONGEST_WORD) {
        Some((end, _)) => &word[..end],
        None => word,
    }
}

/// Returns the number of digits if the word is an ordinal number: digits followed by `st`, `nd`,
/// `rd` or `th`.
fn ordinal(word: &str) -> Option<usize> {
    let digits = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending))?;
    digits
        .bytes()
        .all(|it| it.is_ascii_digit())
        .then_some(digits.len())
}

/// Removes the accents of Latin letters, so that a search for Jose finds José. Other letters stay:
/// й is not an accented и.
fn without_accents(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    for letter in word.chars() {
        let mut parts = std::iter::once(letter).nfd();
        match parts.next() {
            Some(base) if base.is_ascii_alphabetic() => plain.push(base),
            _ => plain.push(letter),
        }
    }
    plain
}

/// Calls `take` for each letter, with its marks, and for each pair of adjacent letters.
fn pairs(run: &str, take: &mut impl FnMut(&str, TermKind)) {
    let mut starts = run
        .char_indices()
        .filter(|(_, letter)| !is_mark(*letter))
        .map(|(at, _)| at)
        .skip(1)
        .chain([run.len()]);
    let mut before = None;
    let mut at = 0;
    loop {
        let Some(end) = starts.next() else { return };
        take(&run[at..end], TermKind::Letter);
        if let Some(before) = before {
            take(&run[before..end], TermKind::Word);
        }
        before = Some(at);
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Language;

    fn terms(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        each_term(text, &Language::English.stemmer(), |term, _| {
            found.push(term.to_owned());
        });
        found
    }

    #[test]
    fn terms_ignore_letter_case_suffixes_punctuation_and_accents() {
        assert_eq!(
            terms("Anna’s PAINTINGS don't cost 10,000 on the 8th; José ﬁts"),
            [
                "anna", "paint", "dont", "cost", "10000", "on", "the", "8", "jose", "fit"
            ]
        );
        assert_eq!(terms("Ａｂｃ １２"), ["abc", "12"]);
        assert_eq!(terms("мой дом"), ["мой", "дом"], "other scripts stay");
    }

    #[test]
    fn text_without_spaces_yields_letters_and_letter_pairs() {
        assert_eq!(terms("東京都"), ["東", "京", "東京", "都", "京都"]);
        assert_eq!(terms("ｶﾞ"), ["ガ"], "composed before it is split");
        assert_eq!(terms("น้ำใจ").len(), 7, "marks stay with their letter");
        let mut kinds = Vec::new();
        each_term("東京", &Language::None.stemmer(), |_, kind| {
            kinds.push(kind);
        });
        assert_eq!(kinds, [TermKind::Letter, TermKind::Letter, TermKind::Word]);
    }

    #[test]
    fn very_long_word_is_truncated() {
        let long = "x".repeat(1 << 20);
        assert_eq!(terms(&long)[0].len(), LONGEST_WORD);
        assert_eq!(terms(&"я".repeat(1 << 16)), ["я".repeat(LONGEST_WORD)]);
    }
}
