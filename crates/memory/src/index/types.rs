//! What goes into the index and what comes out of it.

use std::sync::Arc;

/// One memory, as the index needs it.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// Its number among the user's memories: dense enough, never used twice, ascending by arrival.
    pub seq: u64,
    /// The conversation it was said in. Memories of one conversation are neighbours.
    pub session: Option<Arc<str>>,
    /// Its place in the conversation.
    pub order: u64,
    /// Who said it.
    pub author: Option<Arc<str>>,
    /// When it was said, in seconds since 1970.
    pub timestamp: f64,
    /// What was said.
    pub text: String,
    /// What the index's [`Meaning`](super::Meaning) says of the text, if that was worked out before; it
    /// is worked out otherwise. One of another length is none.
    pub meaning: Option<Vec<i8>>,
    /// What it means, as the embedder that was given says; empty if there is none.
    pub embedding: Vec<f32>,
}

/// A document that answers the question.
#[derive(Debug, Clone)]
pub struct Hit {
    /// Its number.
    pub seq: u64,
    /// How well it answers: 0 to 1, to be compared within one search and, roughly, between searches.
    pub score: f32,
    /// Why it was found.
    pub explanation: Explanation,
}

/// Why a document was found: what each signal gave, and the words that matched.
///
/// A signal is between 0 and 1. What it gave is the signal times its share of the weights
/// ([`Ranking`](super::Ranking)) of those signals that the question has: one that names no author has no
/// signal of authors. So what the signals gave adds up to the score, and the weights of the words add up
/// to `lexical`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explanation {
    /// The words of the question that were found, the weightiest first.
    pub words: Vec<MatchedWord>,
    /// From the words of the document, its neighbours, its author and its date.
    pub lexical: f32,
    /// From the conversation as a whole.
    pub session: f32,
    /// Because the question names its author.
    pub author: f32,
    /// From the meaning of its own words.
    pub meaning: f32,
    /// From the meaning of its words and those around it.
    pub context: f32,
    /// From the embedder that was given.
    pub embedding: f32,
    /// Because it is from the time that the question names.
    pub time: f32,
    /// Near-duplicates that it stands for: of the same author, with the same or nearly the same words.
    pub duplicates: Vec<u64>,
}

/// A word of the question that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchedWord {
    /// As it stands in the question.
    pub word: String,
    /// Where it was found.
    pub place: MatchPlace,
    /// What it gave.
    pub weight: f32,
}

/// Where a word was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchPlace {
    /// In what was said.
    Own,
    /// In what was said right before or after.
    Near,
    /// As the author's name.
    Author,
    /// In the date.
    Date,
}
