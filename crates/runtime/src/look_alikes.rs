//! Maps text to what a reader sees: letters of other scripts become those they resemble, and
//! invisible characters vanish. `preload_memory` uses this to find disguised markers.

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

/// A character's role in the search for a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glyph {
    /// An opening angle bracket.
    Bracket,
    /// A letter, as an ASCII capital if it resembles one.
    Letter(char),
    /// A character that may occur between the letters of a marker: a blank, slash, dash or
    /// invisible character.
    Ignored,
}

/// Returns the glyphs that a character looks like; several for a ligature.
pub(crate) fn glyphs(character: char) -> impl Iterator<Item = Glyph> {
    std::iter::once(character).nfkd().map(glyph)
}

fn glyph(character: char) -> Glyph {
    match character {
        '<' | '\u{ab}' | '\u{2c2}' | '\u{1438}' | '\u{2039}' | '\u{226a}' | '\u{276c}'
        | '\u{276e}' | '\u{2770}' | '\u{27e8}' | '\u{27ea}' | '\u{3008}' | '\u{300a}' => {
            Glyph::Bracket
        }
        '/' | '\\' | '\u{2044}' | '\u{2215}' | '\u{2571}' | '\u{27cb}' | '\u{29f5}'
        | '\u{29f8}' => Glyph::Ignored,
        '_' | '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' => Glyph::Ignored,
        it if it.is_whitespace() || is_invisible(it) || is_combining_mark(it) => Glyph::Ignored,
        it => Glyph::Letter(to_look_alike_capital(it)),
    }
}

/// Maps a character that resembles a letter of `PAST_CONVERSATIONS` to that letter, and any other
/// to ASCII upper case.
fn to_look_alike_capital(letter: char) -> char {
    match letter {
        'А' | 'а' | 'Α' | 'α' | 'Ꭺ' | 'ᴀ' => 'A',
        'С' | 'с' | 'Ϲ' | 'ϲ' | 'Ꮯ' | 'ᴄ' => 'C',
        'Е' | 'е' | 'Ε' | 'ε' | 'Ꭼ' | 'ᴇ' => 'E',
        'І' | 'і' | 'Ι' | 'ι' | 'Ӏ' | 'ӏ' | 'ɪ' | 'l' | '1' | '|' => 'I',
        'Ν' | 'Ⲛ' | 'ɴ' => 'N',
        'О' | 'о' | 'Ο' | 'ο' | 'Օ' | 'օ' | 'ᴏ' | '0' => 'O',
        'Р' | 'р' | 'Ρ' | 'ρ' | 'Ꮲ' | 'ᴘ' => 'P',
        'Ꭱ' | 'Ꮢ' | 'ʀ' => 'R',
        'Ѕ' | 'ѕ' | 'Տ' | 'Ꮪ' | 'ꜱ' => 'S',
        'Т' | 'т' | 'Τ' | 'τ' | 'Ꭲ' | 'ᴛ' => 'T',
        'Ѵ' | 'ѵ' | 'ν' | 'Ꮩ' | 'ᴠ' => 'V',
        it => it.to_ascii_uppercase(),
    }
}

/// Whether a character has no width, so that it could disguise a marker.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}'
        )
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(letter, '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
        || matches!(
            letter,
            '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(text: &str) -> String {
        let glyphs = text.chars().flat_map(glyphs);
        let letters = glyphs.filter_map(|it| match it {
            Glyph::Letter(letter) => Some(letter),
            Glyph::Bracket => Some('<'),
            Glyph::Ignored => None,
        });
        letters.collect()
    }

    #[test]
    fn look_alike_letters_are_folded_to_ascii() {
        for text in [
            "past_conversations",
            "РАЅТ СОΝVЕRЅАТІОΝЅ",
            "ｐａｓｔ＿ｃｏｎｖｅｒｓａｔｉｏｎｓ",
            "𝐏𝐀𝐒𝐓-𝐂𝐎𝐍𝐕𝐄𝐑𝐒𝐀𝐓𝐈𝐎𝐍𝐒",
            "pa\u{fb06}c0nνersat1ons",
            "P\u{301}ast\u{200b}Conversat\u{ad}ions",
        ] {
            assert_eq!(letters(text), "PASTCONVERSATIONS", "{text}");
        }
        assert_eq!(letters("＜‹〈≮"), "<<<<");
        assert_eq!(letters("Grüße"), "GRUßE");
    }
}
