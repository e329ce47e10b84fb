//! Parse a query: its content words, and the authors and times that it names.

use super::{
    UserIndex,
    authors::AuthorNumber,
    calendar::{DatePart, day_of},
    postings::Term,
    scan::{Script, scan},
    stop_words::is_question_word,
    terms::{TermKind, normalize, terms_of},
    time::{Span, find_times},
};

/// Maximum number of words that are looked up.
const MOST_WORDS: usize = 64;

/// A word of a query.
#[derive(Debug)]
pub(crate) struct Word {
    /// The word as written.
    pub(crate) shown: String,
    key: String,
    /// Its term, if a document has it.
    pub(crate) term: Option<Term>,
    /// Authors with that name.
    pub(crate) authors: Vec<AuthorNumber>,
    /// The part of a date that it names.
    pub(crate) date: Option<DatePart>,
    /// Its weight, without its rarity.
    pub(crate) weight: f32,
}

/// A parsed query.
#[derive(Debug, Default)]
pub(crate) struct ParsedQuestion {
    pub(crate) words: Vec<Word>,
    pub(crate) authors: Vec<AuthorNumber>,
    pub(crate) spans: Vec<Span>,
    /// Whether it has anything but punctuation.
    pub(crate) says_something: bool,
}

struct Piece<'a> {
    shown: &'a str,
    script: Script,
    normal: String,
}

impl ParsedQuestion {
    pub(crate) fn new(index: &UserIndex, text: &str, reference_time: f64) -> ParsedQuestion {
        let pieces = pieces(text);
        let normal: Vec<&str> = pieces.iter().map(|it| it.normal.as_str()).collect();
        let times = match day_of(reference_time) {
            Some(today) if index.stem.is_english() => find_times(&normal, today),
            _ => Default::default(),
        };
        let mut parsed = ParsedQuestion {
            spans: times.spans,
            says_something: !pieces.is_empty(),
            ..ParsedQuestion::default()
        };
        let only_asks = |at: usize| {
            let is_question_word = index.stem.is_english() && is_question_word(normal[at]);
            is_question_word || times.relative.binary_search(&at).is_ok()
        };
        let mut chosen: Vec<usize> = (0..pieces.len()).filter(|at| !only_asks(*at)).collect();
        // If the query has only such words ("To be or not to be?"), search for them.
        if chosen.is_empty() && parsed.spans.is_empty() {
            chosen = (0..pieces.len()).collect();
        }
        for at in chosen {
            parsed.take(index, &pieces[at]);
        }
        parsed.authors = parsed
            .words
            .iter()
            .flat_map(|it| it.authors.clone())
            .collect();
        parsed
    }

    fn take(&mut self, index: &UserIndex, piece: &Piece<'_>) {
        terms_of(
            &piece.normal,
            piece.script,
            &index.stem,
            &mut |key, grain| {
                if self.words.len() >= MOST_WORDS || self.words.iter().any(|it| it.key == key) {
                    return;
                }
                let is_word = grain == TermKind::Word;
                let date = is_word.then(|| DatePart::of_word(&piece.normal)).flatten();
                self.words.push(Word {
                    shown: match piece.script {
                        Script::Unspaced => key.to_owned(),
                        _ => piece.shown.to_owned(),
                    },
                    term: index.postings.find(key),
                    authors: index.authors.named(key),
                    date,
                    weight: if is_word { 1.0 } else { index.ranking.letter },
                    key: key.to_owned(),
                });
            },
        );
    }
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let piece = |(range, script): (std::ops::Range<usize>, Script)| {
        let mut normal = String::new();
        normalize(&text[range.clone()], &mut normal);
        Piece {
            shown: &text[range],
            script,
            normal,
        }
    };
    scan(text).take(4 * MOST_WORDS).map(piece).collect()
}
