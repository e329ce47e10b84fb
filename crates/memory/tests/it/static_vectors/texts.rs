//! Random texts: typical messages in many scripts, and meaningless sequences of characters.

use retain_testkit::random::Random;

const WORDS: &[&str] = &[
    "I",
    "you",
    "don't",
    "she's",
    "Monday",
    "tomorrow",
    "kittens",
    "unbelievable",
    "rescheduling",
    "photographer's",
    "3:30pm",
    "$1,299.99",
    "2023-05-08",
    "hiking",
    "Zürich",
    "naïve",
    "café",
    "CAFÉ",
    "https://example.com/a?b=c#d",
    "ada@example.com",
    "lol",
    "OMG!!!",
    "sooooo",
    "btw,",
    "(really)",
    "well-being",
    "e.g.",
    "antidisestablishmentarianism",
    "snake_case",
    "#hashtag",
    "@someone",
    "50%",
    "\u{ab}quoted\u{bb}",
    "“smart”",
    "it’s",
    "…",
    "—",
    "[CLS]",
    "[MASK]",
    "##ing",
    "\u{fffd}",
    "the",
    "a",
    "of",
    "my",
    "went",
    "swimming",
];

const ALPHABETS: &[&str] = &[
    "abcdefghijklmnopqrstuvwxyz",
    "ABCxyz012",
    "éèêüößẞÅåñøæŒœłŁİıǅﬁﬂ",
    "aeonc\u{301}\u{308}\u{30a}\u{327}\u{323}\u{303}",
    "σςΣΟΔάΆΩω\u{2126}\u{345}",
    "дбжиЖИйЙёЁщъѣѢ\u{306}",
    "我喜欢高楼层的房间国际〇々\u{f900}\u{2f800}",
    "ひらがなカタカナーガパ\u{3099}",
    "한국어가각\u{1112}\u{1161}\u{11ab}",
    "กขคงจ\u{e31}\u{e34}\u{e49}๑๒",
    "ابتثجحخسلمآأ\u{64b}\u{651}\u{653}٠١٢،؟\u{200f}",
    "שלוםאבג\u{5b0}\u{5bc}־",
    "हिन्दीकखग\u{93c}\u{958}१२।",
    "ｆｕｌｌＷＩＤＥ１２！",
    "²³½Ⅷ™℃€£¥°§",
    "😀👩\u{200d}👩\u{fe0f}🇩🇪❤✝🏽",
    "\u{1d165}\u{1d16e}\u{302e}\u{16ff0}\u{301}\u{334}\0\u{200b}",
    "𐐀𐐨𝐀𝐛𝟘𠀀\u{2b820}\u{2b91f}\u{2b920}",
];

const SEPARATORS: &[&str] = &[
    " ", " ", " ", " ", " ", "  ", ", ", ". ", "\n", "\r\n", "\t", "", "-", "'", "\u{a0}",
    "\u{3000}", "\u{85}", "\u{2028}", "\u{200b}", "\u{ad}", "\0", "\u{7f}", "\u{1c}", "\u{feff}",
];

pub(crate) fn random(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..random.below(20) {
        text += &word(random);
        text += random.pick(SEPARATORS);
    }
    text
}

fn word(random: &mut Random) -> String {
    match random.below(20) {
        0..10 => random.pick(WORDS).to_owned(),
        10..16 => {
            let length = 1 + random.below(8);
            letters(random, length)
        }
        16 => {
            // Words with more than 100 characters are unknown.
            let length = 97 + random.below(8);
            letters(random, length)
        }
        17 => random.pick(WORDS).to_uppercase(),
        18 => any_characters(random),
        _ => random.pick(WORDS).repeat(1 + random.below(3) as usize),
    }
}

fn letters(random: &mut Random, length: u64) -> String {
    let alphabet: Vec<char> = random.pick(ALPHABETS).chars().collect();
    (0..length).map(|_| random.pick(&alphabet)).collect()
}

fn any_characters(random: &mut Random) -> String {
    let bits = 8 + random.below(13);
    let numbers = (0..1 + random.below(6)).map(|_| random.below(1 << bits) as u32);
    numbers.filter_map(char::from_u32).collect()
}
