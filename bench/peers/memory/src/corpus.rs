//! Generates the chats of the speed part. They are the same in every run.
//!
//! A turn is about 200 bytes of words with Zipf frequencies. The most frequent words are English
//! stop words, about half of all words, as in real chats. The other words are built from syllables.
//! Each session has its own words that recur in its turns. A session can be generated without those
//! before it.

use crate::{Session, Turn};

/// Turns per session.
pub const TURNS: u64 = 20;
const WORDS: usize = 30_000;
/// The number of words that recur in a session, and their share of its words in percent.
const TOPIC: u64 = 40;
const TOPICAL: u64 = 15;
/// A turn ends with the sentence that reaches this length.
const TURN_BYTES: usize = 175;
/// The time of the first session, and the interval between sessions, in seconds.
const FIRST_TIME: f64 = 1_700_000_000.0;
const SESSION_INTERVAL: f64 = 40_000.0;

const STOP_WORDS: &str = "the i to you and a it that of in is my so for was but we have on me \
    with be are this just like do not at what if your they about all can there had up or know \
    would one how he as she out when get her them think some him from has more did then will by \
    here an really been who could were am too because no into their other than over only very \
    now us also any back still even way where much which off well after down these before our \
    why again should those most such being every few both between while its through own once \
    same under until during does doing having against further whom nor each above below";

/// SplitMix64: small, fast, and the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn from_seed(seed: u64, number: u64) -> Random {
        let mut random = Random(seed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The kind of a question. A question is 5 to 8 words of one turn.
#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The words of the turn, including stop words.
    Spoken,
    /// The words of the turn without stop words.
    Content,
}

/// The vocabulary, and the generator of sessions and questions.
pub struct Corpus {
    seed: u64,
    words: Vec<String>,
    small: usize,
    /// Cumulative frequencies up to each word.
    sums: Vec<f64>,
}

impl Corpus {
    pub fn new(seed: u64) -> Corpus {
        let mut words: Vec<String> = STOP_WORDS.split_whitespace().map(str::to_owned).collect();
        let small = words.len();
        let mut known: std::collections::HashSet<String> = words.iter().cloned().collect();
        let mut random = Random::from_seed(seed, u64::MAX);
        while words.len() < WORDS {
            let word = invented_word(&mut random);
            if known.insert(word.clone()) {
                words.push(word);
            }
        }
        let mut sum = 0.0;
        let sums = (1..=words.len()).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Corpus {
            seed,
            small,
            sums: sums.collect(),
            words,
        }
    }

    /// Chooses a word by its frequency.
    fn word(&self, random: &mut Random) -> usize {
        let last = self.sums.last().copied().unwrap_or_default();
        let at = random.fraction() * last;
        self.sums.partition_point(|sum| *sum < at)
    }

    /// Returns the session with this number.
    pub fn session(&self, number: u64) -> Session {
        let mut random = Random::from_seed(self.seed, number);
        let invented = (self.words.len() - self.small) as u64;
        let topic = (0..TOPIC).map(|_| self.small + random.below(invented) as usize);
        let topic: Vec<usize> = topic.collect();
        let turns = (0..TURNS).map(|turn| Turn {
            id: format!("e{number}-{turn}"),
            author: ["Ada", "Grace"][(turn % 2) as usize].to_owned(),
            text: self.text(&topic, &mut random),
        });
        Session {
            id: format!("session-{number}"),
            turns: turns.collect(),
            time: FIRST_TIME + SESSION_INTERVAL * number as f64,
        }
    }

    fn text(&self, topic: &[usize], random: &mut Random) -> String {
        let mut text = String::new();
        while text.len() < TURN_BYTES {
            let length = 5 + random.below(8);
            for at in 0..length {
                let word = match random.below(100) < TOPICAL {
                    true => topic[random.below(TOPIC) as usize],
                    false => self.word(random),
                };
                let word = &self.words[word];
                if at == 0 {
                    text.extend(word.chars().take(1).flat_map(char::to_uppercase));
                    text.push_str(&word[1..]);
                } else {
                    text.push(' ');
                    text.push_str(word);
                }
            }
            text.push_str([". ", "! ", "? ", ". "][random.below(4) as usize]);
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Returns the id of a turn in the first `sessions` sessions, and a question about it.
    pub fn question(&self, kind: Kind, sessions: u64, number: u64) -> (String, String) {
        let mut random = Random::from_seed(!self.seed, number);
        let session = self.session(random.below(sessions));
        let turn = &session.turns[random.below(TURNS) as usize];
        let words = turn.text.split_whitespace();
        let words = words.map(|word| word.trim_end_matches(['.', '!', '?']).to_lowercase());
        let mut words: Vec<String> = words.collect();
        if kind == Kind::Content {
            let small = &self.words[..self.small];
            words.retain(|word| !small.contains(word));
        }
        let wanted = (5 + random.below(4) as usize).min(words.len());
        let first = random.below((words.len() - wanted + 1) as u64) as usize;
        (turn.id.clone(), words[first..first + wanted].join(" "))
    }
}

/// Returns a word of two to four syllables.
fn invented_word(random: &mut Random) -> String {
    const FIRST: [&str; 20] = [
        "b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st",
        "tr", "ch",
    ];
    const THEN: [&str; 10] = ["a", "e", "i", "o", "u", "ar", "en", "il", "on", "ea"];
    let syllables = 2 + random.below(100) / 45;
    let syllable = |_| {
        let first = FIRST[random.below(FIRST.len() as u64) as usize];
        [first, THEN[random.below(THEN.len() as u64) as usize]].concat()
    };
    (0..syllables).map(syllable).collect()
}
