//! The documents and the search results of the index.

use std::sync::Arc;

/// A memory as the index stores it.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// The number of the memory, unique for the user: later memories have higher numbers.
    pub seq: u64,
    /// The session of the memory. Adjacent memories of a session are neighbors.
    pub session: Option<Arc<str>>,
    /// The position of the memory in its session.
    pub order: u64,
    /// The author.
    pub author: Option<Arc<str>>,
    /// The time of the message, in seconds since 1970.
    pub timestamp: f64,
    /// The text of the message.
    pub text: String,
    /// The vector of the text from the [`LocalEmbedder`](super::LocalEmbedder) of the index, if
    /// known. The index computes the vector if it is missing or has the wrong length.
    pub meaning: Option<Vec<i8>>,
    /// The vector from the configured embedder; empty if there is none.
    pub embedding: Vec<f32>,
}

/// A document that matches the query.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The number of the document.
    pub seq: u64,
    /// How well the document matches, from 0 to 1. Scores are comparable within a search, and
    /// roughly comparable between searches.
    pub score: f32,
    /// Why the document matched.
    pub explanation: Explanation,
}

/// Why a document matched: the contribution of each signal, and the matched words.
///
/// A signal is between 0 and 1. Its contribution is its value times its weight
/// ([`Ranking`](super::Ranking)), divided by the sum of the weights of all signals that the query
/// has: a query that names no author has no author signal. The contributions add up to the score,
/// and the weights of the words to `lexical`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The matched words of the query, in descending order of weight.
    pub words: Vec<MatchedWord>,
    /// The contribution of the words of the document, its neighbors, its author and its date.
    pub lexical: f32,
    /// The contribution of the session as a whole.
    pub session: f32,
    /// The contribution of the author, if the query names one.
    pub author: f32,
    /// The contribution of the similarity in meaning of the document's own words.
    pub meaning: f32,
    /// The contribution of the similarity in meaning of the document together with its neighbors.
    pub context: f32,
    /// The contribution of the similarity of the embeddings.
    pub embedding: f32,
    /// The contribution of the time, if the query names one.
    pub time: f32,
    /// The numbers of near-duplicates that this hit represents: documents of the same author with
    /// nearly the same words.
    pub duplicates: Vec<u64>,
}

/// A matched word of the query.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MatchedWord {
    /// The word as written in the query.
    pub word: String,
    /// Where it matched.
    pub place: MatchPlace,
    /// The word's contribution to the score.
    pub weight: f32,
}

/// Where a word matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchPlace {
    /// In the message itself.
    Own,
    /// In a neighboring message.
    Near,
    /// In the author's name.
    Author,
    /// In the date.
    Date,
}
