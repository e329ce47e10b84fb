//! Parses a query: its words without stop words, and the authors and times that it names.

use super::{
    UserIndex,
    authors::AuthorNumber,
    calendar::{DatePart, day_of},
    postings::Term,
    scan::{Script, scan},
    stop_words,
    terms::{TermKind, normalize, terms_of},
    time::{Span, find_times},
};

/// Maximum number of query words that are looked up.
const MOST_WORDS: usize = 64;

/// A word of a query.
#[derive(Debug)]
pub(crate) struct Word {
    /// The word as written.
    pub(crate) text: String,
    /// The term of the word, as text.
    key: String,
    /// The number of the term, if a document has it.
    pub(crate) term: Option<Term>,
    /// The authors whose name contains the word.
    pub(crate) authors: Vec<AuthorNumber>,
    /// The part of a date that the word names.
    pub(crate) date: Option<DatePart>,
    /// The weight of the word, not yet adjusted for its rarity.
    pub(crate) weight: f32,
}

/// A parsed query.
#[derive(Debug, Default)]
pub(crate) struct ParsedQuery {
    pub(crate) words: Vec<Word>,
    pub(crate) authors: Vec<AuthorNumber>,
    pub(crate) spans: Vec<Span>,
    /// Whether the query contains any words or emoji.
    pub(crate) has_text: bool,
}

struct Piece<'a> {
    text: &'a str,
    script: Script,
    /// The normalized text.
    normal: String,
}

impl ParsedQuery {
    pub(crate) fn new(index: &UserIndex, text: &str, reference_time: f64) -> ParsedQuery {
        let pieces = pieces(text);
        let normal: Vec<&str> = pieces.iter().map(|it| it.normal.as_str()).collect();
        let times = match day_of(reference_time) {
            Some(today) if index.stem.is_english() => find_times(&normal, today),
            _ => Default::default(),
        };
        let mut parsed = ParsedQuery {
            spans: times.spans,
            has_text: !pieces.is_empty(),
            ..ParsedQuery::default()
        };
        let is_ignored = |at: usize| {
            let is_stop_word = index.stem.is_english() && stop_words::is_stop_word(normal[at]);
            is_stop_word || times.relative.binary_search(&at).is_ok()
        };
        let mut chosen: Vec<usize> = (0..pieces.len()).filter(|at| !is_ignored(*at)).collect();
        // A query of nothing but stop words ("To be or not to be?") searches for them.
        if chosen.is_empty() && parsed.spans.is_empty() {
            chosen = (0..pieces.len()).collect();
        }
        for at in chosen {
            parsed.add_words(index, &pieces[at]);
        }
        parsed.authors = parsed
            .words
            .iter()
            .flat_map(|it| it.authors.clone())
            .collect();
        parsed
    }

    /// Adds the words of a piece that the query does not have yet.
    fn add_words(&mut self, index: &UserIndex, piece: &Piece<'_>) {
        terms_of(
            &piece.normal,
            piece.script,
            &index.stem,
            &mut |key, kind| {
                if self.words.len() >= MOST_WORDS || self.words.iter().any(|it| it.key == key) {
                    return;
                }
                let is_word = kind == TermKind::Word;
                let date = is_word.then(|| DatePart::of_word(&piece.normal)).flatten();
                self.words.push(Word {
                    text: match piece.script {
                        Script::Unspaced => key.to_owned(),
                        _ => piece.text.to_owned(),
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
            text: &text[range],
            script,
            normal,
        }
    };
    scan(text).take(4 * MOST_WORDS).map(piece).collect()
}
