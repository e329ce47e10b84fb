//! Splits a text into words, the first step to terms.
//!
//! A word is a sequence of letters, digits and marks. Text in a script without spaces, or in
//! Korean, is separated from text in other scripts. An emoji is a word. An apostrophe between
//! letters, and a point or comma between digits, belong to the word.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

/// The script of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Spaces separate words.
    Spaced,
    /// Spaces separate only some words, or none.
    Unspaced,
    /// One pictograph.
    Emoji,
}

/// Iterates over the pieces of a text: their ranges and scripts.
pub(crate) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

pub(crate) fn scan(text: &str) -> Scan<'_> {
    Scan { text, at: 0 }
}

impl Iterator for Scan<'_> {
    type Item = (Range<usize>, Script);

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.text[self.at..].char_indices();
        let (start, script, mut end) = rest
            .find_map(|(offset, letter)| {
                let start = self.at + offset;
                script_of(letter).map(|script| (start, script, start + letter.len_utf8()))
            })
            .or_else(|| {
                self.at = self.text.len();
                None
            })?;
        if script != Script::Emoji {
            end = self.end_of_piece(end, script);
        }
        self.at = end;
        Some((start..end, script))
    }
}

impl Scan<'_> {
    fn end_of_piece(&self, mut end: usize, script: Script) -> usize {
        let mut last = self.text[..end].chars().next_back();
        let mut rest = self.text[end..].chars().peekable();
        while let Some(letter) = rest.next() {
            let belongs = script_of(letter) == Some(script)
                || is_mark(letter)
                || (script == Script::Spaced && joins(last, letter, rest.peek().copied()));
            if !belongs {
                break;
            }
            end += letter.len_utf8();
            last = Some(letter);
        }
        end
    }
}

/// Whether a sign between two letters or digits joins them: `don't`, `10,000`, `3.14`.
fn joins(before: Option<char>, sign: char, after: Option<char>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return false;
    };
    match sign {
        '\'' | '\u{2019}' => before.is_alphabetic() && after.is_alphabetic(),
        '.' | ',' => before.is_ascii_digit() && after.is_ascii_digit(),
        _ => false,
    }
}

/// Whether a character is a combining mark, which belongs to the letter before it.
pub(crate) fn is_mark(letter: char) -> bool {
    !letter.is_ascii() && is_combining_mark(letter)
}

fn script_of(letter: char) -> Option<Script> {
    if letter.is_ascii() {
        return letter.is_ascii_alphanumeric().then_some(Script::Spaced);
    }
    if is_emoji(letter) {
        return Some(Script::Emoji);
    }
    if !letter.is_alphanumeric() {
        return None;
    }
    Some(if is_unspaced(letter) {
        Script::Unspaced
    } else {
        Script::Spaced
    })
}

fn is_unspaced(letter: char) -> bool {
    matches!(letter,
        '\u{0E00}'..='\u{0EFF}'         // Thai, Lao
        | '\u{1000}'..='\u{109F}'       // Myanmar
        | '\u{1100}'..='\u{11FF}'       // Hangul letters
        | '\u{1780}'..='\u{17FF}'       // Khmer
        | '\u{3005}'..='\u{3007}'       // signs that repeat a Han letter, and zero
        | '\u{3040}'..='\u{31FF}'       // Kana, Bopomofo, Hangul
        | '\u{3400}'..='\u{4DBF}'       // Han
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7FF}'       // Hangul syllables
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FF66}'..='\u{FFDC}'       // half-width Kana and Hangul
        | '\u{1B000}'..='\u{1B16F}'
        | '\u{20000}'..='\u{3FFFF}')
}

fn is_emoji(letter: char) -> bool {
    // Exclude the skin tones (1F3FB to 1F3FF), which only modify the preceding emoji.
    matches!(letter,
        '\u{203C}' | '\u{2049}'
        | '\u{231A}'..='\u{23FF}'
        | '\u{2600}'..='\u{27BF}'
        | '\u{2B05}'..='\u{2B55}'
        | '\u{1F000}'..='\u{1F3FA}'
        | '\u{1F400}'..='\u{1FAFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<&str> {
        scan(text).map(|(range, _)| &text[range]).collect()
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(
            pieces("Well-being, user_id; x9!"),
            ["Well", "being", "user", "id", "x9"]
        );
        assert_eq!(pieces(""), [""; 0]);
        assert_eq!(pieces("?! … —\0"), [""; 0]);
    }

    #[test]
    fn punctuation_inside_words_and_numbers_does_not_split_them() {
        assert_eq!(
            pieces("don't Anna’s 'quoted' 10,000 3.14, end. 5.a"),
            [
                "don't", "Anna’s", "quoted", "10,000", "3.14", "end", "5", "a"
            ]
        );
    }

    #[test]
    fn text_in_a_script_without_spaces_is_split_from_other_scripts() {
        assert_eq!(pieces("iPhoneを買う ok"), ["iPhone", "を買う", "ok"]);
        assert_eq!(scan("東京").next(), Some((0..6, Script::Unspaced)));
        assert_eq!(pieces("서울에서 만나요"), ["서울에서", "만나요"]);
        assert_eq!(pieces("नमस्ते दुनिया"), ["नमस्ते", "दुनिया"]);
    }

    #[test]
    fn emoji_is_a_word_and_its_skin_tone_is_dropped() {
        assert_eq!(pieces("ok👍🏽🎉yes"), ["ok", "👍", "🎉", "yes"]);
    }
}
