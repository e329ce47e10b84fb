//! Random texts in many scripts, and queries for them.
//!
//! All characters are older than Unicode 14, so every current Python supports them.

use retain_testkit::random::Random;
use unicode_normalization::UnicodeNormalization as _;

/// Alphabets: letters, marks and digits that occur together in words.
const ALPHABETS: &[&str] = &[
    "abcdefgxyzABCXYZ",
    "aeiouAEIOUéèêüößẞÅåñøæŒœłŁ",
    "aeoAEO\u{301}\u{308}\u{30a}\u{327}\u{323}n\u{303}",
    "iIıİjJ\u{307}",
    "ǅǆǄﬁﬂĳĲſʰªº",
    "σςΣΟΔΟοδάΆΩω\u{2126}\u{345}",
    "abΣσ'’.\u{ad}\u{301}",
    "дбжиЖИйЙёЁщъѣѢ\u{306}",
    "我喜欢高楼层的房间国际〇々",
    "ひらがなカタカナーガカ\u{3099}パ",
    "한국어가각\u{1112}\u{1161}\u{11ab}",
    "กขคงจฉชพักห้อง\u{e31}\u{e34}\u{e49}๑๒",
    "ابتثجحخسلمآأؤ\u{64b}\u{651}\u{653}٠١٢",
    "שלוםאבג\u{5b0}\u{5bc}",
    "हिन्दीकखग\u{93c}\u{958}१२",
    "ｆｕｌｌＷＩＤＥ１２",
    "012345789²³½Ⅷⅷ٣",
    "_abc_09_",
    "𐐀𐐨𐐁𐐩𝐀𝐛𝟘",
    "ᲐაბᲑᎠꭰᏸ",
    "Ⓐⓐ™℃\u{212a}\u{212b}",
    "😀👩\u{200d}👩\u{fe0f}🇩🇪❤✝",
];

const SEPARATORS: &[&str] = &[
    " ", " ", " ", " ", ", ", ".", "-", "’", "'", "\n", "\u{a0}", "\u{3000}", "。", "、", "/",
    "\u{200b}", "\0", "…", "¿", "",
];

/// A small set of random words, so that texts and queries have words in common.
pub(crate) struct Vocabulary(Vec<String>);

impl Vocabulary {
    pub(crate) fn random(random: &mut Random) -> Vocabulary {
        Vocabulary((0..20).map(|_| word(random)).collect())
    }

    pub(crate) fn text(&self, random: &mut Random) -> String {
        let mut text = String::new();
        for number in 0..random.below(9) {
            if number > 0 {
                text += random.pick(SEPARATORS);
            }
            text += &random.pick(&self.0);
        }
        text
    }

    /// Returns a query of words and of pieces of existing texts, each in a random form.
    pub(crate) fn query(&self, texts: &[String], random: &mut Random) -> String {
        let mut query = String::new();
        for _ in 0..1 + random.below(5) {
            let piece = match random.below(4) {
                0 if !texts.is_empty() => piece_of(&random.pick(texts), random),
                1 => {
                    let word = random.pick(&self.0);
                    piece_of(&word, random)
                }
                2 if random.chance(30) => word(random),
                _ => random.pick(&self.0),
            };
            query += &reshaped(piece, random);
            query += random.pick(SEPARATORS);
        }
        query
    }
}

/// Returns a word with letters of one script, or of two.
fn word(random: &mut Random) -> String {
    let mut word = String::new();
    for _ in 0..if random.chance(30) { 2 } else { 1 } {
        let letters: Vec<char> = random.pick(ALPHABETS).chars().collect();
        for _ in 0..1 + random.below(5) {
            word.push(random.pick(&letters));
        }
    }
    word
}

fn piece_of(text: &str, random: &mut Random) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.is_empty() {
        return String::new();
    }
    let from = random.below(letters.len() as u64) as usize;
    let len = 1 + random.below(6) as usize;
    letters.iter().skip(from).take(len).collect()
}

/// Changes the case or the Unicode normalization of a text, or nothing.
fn reshaped(text: String, random: &mut Random) -> String {
    match random.below(8) {
        0 => text.to_uppercase(),
        1 => text.to_lowercase(),
        2 => text.nfd().collect(),
        3 => text.nfc().collect(),
        4 => text.nfkc().collect(),
        _ => text,
    }
}
