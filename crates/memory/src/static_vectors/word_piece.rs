//! Splits words into word pieces exactly as BERT's uncased tokenizer does: the second half of
//! tokenization.
//!
//! The split is greedy: the first piece is the longest one that starts the word, the next one is
//! the longest that continues it, and so on. A word is unknown if no piece fits, or if it has more
//! than 100 characters.

use super::{StaticVectorsError, characters::for_each_word};

/// The token for words that cannot be split into pieces.
const UNKNOWN: &str = "[UNK]";
/// The prefix of tokens that continue a word.
const INSIDE: &str = "##";
/// Maximum number of characters in a known word.
const LONGEST_WORD: usize = 100;
/// Maximum length of a piece in bytes, and size of the buffer for the hashes of its prefixes.
const LONGEST_PIECE: usize = 64;

/// Splits texts into the word pieces of BERT uncased.
///
/// Names of special tokens in a text, such as `[MASK]`, are ordinary text.
#[derive(Debug)]
pub struct WordPiece {
    tokens: Vec<&'static str>,
    /// A hash table of tokens: open addressing, half empty.
    slots: Vec<Slot>,
    longest_piece: usize,
    unknown: u16,
}

/// A slot of the hash table. The tag holds more bits of the hash, so that a lookup rarely compares
/// different texts.
#[derive(Debug, Clone, Copy)]
struct Slot {
    id: u16,
    tag: u16,
}

const EMPTY: Slot = Slot {
    id: u16::MAX,
    tag: 0,
};

/// The position of a piece in a word.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PiecePosition {
    Start,
    Inside,
}

impl WordPiece {
    /// Builds the tokenizer from a vocabulary with one token per line; the ids are the line
    /// numbers.
    pub(super) fn new(vocabulary: &'static str) -> Result<WordPiece, StaticVectorsError> {
        let tokens: Vec<&str> = vocabulary.split_terminator('\n').collect();
        let longest_piece = tokens.iter().map(|it| it.len()).max().unwrap_or(0);
        let unknown = tokens.iter().position(|it| *it == UNKNOWN);
        let unknown = unknown.and_then(|it| u16::try_from(it).ok());
        let fits = tokens.len() < usize::from(u16::MAX) && longest_piece <= LONGEST_PIECE;
        let (Some(unknown), true) = (unknown, fits) else {
            return Err(StaticVectorsError::Corrupt);
        };
        let mut pieces = WordPiece {
            slots: vec![EMPTY; (tokens.len() * 2).next_power_of_two()],
            tokens,
            longest_piece,
            unknown,
        };
        for id in 0..pieces.tokens.len() as u16 {
            pieces.insert(id);
        }
        Ok(pieces)
    }

    /// Returns the ids of the text's pieces, in order.
    pub fn ids(&self, text: &str) -> Vec<u16> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 4);
        for_each_word(text, |word| self.split(word, &mut ids));
        ids
    }

    /// Returns the id of the piece that replaces words that cannot be split.
    pub fn unknown(&self) -> u16 {
        self.unknown
    }

    /// Returns the number of tokens.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    fn insert(&mut self, id: u16) {
        let token = self.tokens[usize::from(id)];
        let (position, text) = match token.strip_prefix(INSIDE) {
            Some(text) if !text.is_empty() => (PiecePosition::Inside, text),
            _ => (PiecePosition::Start, token),
        };
        let hash = text.bytes().fold(position.seed(), step);
        let (mut at, tag) = self.address(hash);
        while self.slots[at].id != EMPTY.id {
            at = (at + 1) % self.slots.len();
        }
        self.slots[at] = Slot { id, tag };
    }

    /// Appends the ids of a word's pieces.
    fn split(&self, word: &str, ids: &mut Vec<u16>) {
        let before = ids.len();
        let too_long = word.len() > LONGEST_WORD && word.chars().count() > LONGEST_WORD;
        let (mut rest, mut position) = (word, PiecePosition::Start);
        while !rest.is_empty() {
            let found = if too_long {
                None
            } else {
                self.longest(rest, position)
            };
            let Some((id, length)) = found else {
                ids.truncate(before);
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            (rest, position) = (&rest[length..], PiecePosition::Inside);
        }
    }

    /// Returns the longest piece that the text starts with, and its length in bytes.
    fn longest(&self, text: &str, position: PiecePosition) -> Option<(u16, usize)> {
        let limit = text.len().min(self.longest_piece);
        let mut hashes = [0; LONGEST_PIECE];
        let mut hash = position.seed();
        for (slot, byte) in hashes.iter_mut().zip(&text.as_bytes()[..limit]) {
            hash = step(hash, *byte);
            *slot = hash;
        }
        let lengths = (1..=limit).rev().filter(|it| text.is_char_boundary(*it));
        let mut found = lengths.map(|length| {
            let id = self.find(&text[..length], hashes[length - 1], position)?;
            Some((id, length))
        });
        found.find_map(|it| it)
    }

    fn find(&self, text: &str, hash: u64, position: PiecePosition) -> Option<u16> {
        let (mut at, tag) = self.address(hash);
        loop {
            let slot = self.slots[at];
            if slot.id == EMPTY.id {
                return None;
            }
            if slot.tag == tag && position.is_token(self.tokens[usize::from(slot.id)], text) {
                return Some(slot.id);
            }
            at = (at + 1) % self.slots.len();
        }
    }

    /// Returns the first slot and the tag of a hash. The number of slots is a power of two.
    fn address(&self, hash: u64) -> (usize, u16) {
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = (mixed >> 40) as usize & (self.slots.len() - 1);
        (at, mixed as u16 ^ (mixed >> 16) as u16)
    }
}

impl PiecePosition {
    fn seed(self) -> u64 {
        match self {
            PiecePosition::Start => 0xcbf2_9ce4_8422_2325,
            PiecePosition::Inside => 0x8422_2325_cbf2_9ce4,
        }
    }

    /// Whether the token is this text at this position of a word.
    fn is_token(self, token: &str, text: &str) -> bool {
        match self {
            PiecePosition::Start => token == text,
            PiecePosition::Inside => token.strip_prefix(INSIDE) == Some(text),
        }
    }
}

/// Performs one step of the FNV-1a hash: from the hash of a text without its last byte to that of
/// the whole text.
fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}
