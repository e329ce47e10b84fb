//! Combines the signals into one score.
//!
//! Each signal is scaled to 0..1: words by the share of the query that matches, similarities by how
//! far they exceed the mean of all documents. The score is the weighted mean of the signals that
//! the query has. For example, authors count only if the query names one.

use super::{
    UserIndex,
    calendar::day_of,
    lexical::{Lexical, look_up},
    parsed_query::ParsedQuery,
    postings::Slot,
    scale::{Sample, Scale},
    vectors::Similarities,
};

/// One number per signal: its contribution to a score, or its weight.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ScoreParts {
    pub(crate) lexical: f32,
    pub(crate) session: f32,
    pub(crate) author: f32,
    pub(crate) meaning: f32,
    pub(crate) context: f32,
    pub(crate) embedding: f32,
    pub(crate) time: f32,
}

impl ScoreParts {
    /// Returns the sum over all signals. The sum of contributions is the score.
    pub(crate) fn sum(&self) -> f32 {
        let words = self.lexical + self.session + self.author;
        words + self.meaning + self.context + self.embedding + self.time
    }
}

/// The score of a document that does not match.
pub(crate) const NO_MATCH: f32 = f32::NEG_INFINITY;

/// The value of each signal of a query for every document.
pub(crate) struct Signals<'a> {
    index: &'a UserIndex,
    pub(crate) query: &'a ParsedQuery,
    pub(crate) lexical: Lexical,
    /// The similarities by word vectors; `None` without a table, or if the table knows no word of
    /// the query.
    similarities: Option<Similarities>,
    meaning: Scale,
    context: Scale,
    /// The similarities by embedding, by slot; NaN for vectors that cannot be compared.
    embedded: Vec<f32>,
    embedding: Scale,
    /// Whether the query names each author, by author number.
    named: Vec<bool>,
    /// The weight of each signal of the query; their sum is 1.
    pub(crate) weights: ScoreParts,
    /// The score by slot, or [`NO_MATCH`].
    pub(crate) scores: Vec<f32>,
}

impl<'a> Signals<'a> {
    pub(crate) fn new(
        index: &'a UserIndex,
        query: &'a ParsedQuery,
        text: &str,
        embedding: &[f32],
    ) -> Self {
        let meaning = index.meaning.as_ref();
        let meaning = meaning.filter(|it| it.knows(text));
        let meaning = meaning.map(|it| it.embed(text).0);
        let window = &index.ranking.context;
        let compare = |it: Vec<i8>| index.vectors.compare(&it, &index.documents, window);
        let similarities = meaning.and_then(compare);
        let embedded = index.embeddings.similarities(embedding);
        let sample = Sample::from_index(index);
        let (own, in_context) = match &similarities {
            Some(it) => (&it.own[..], &it.in_context[..]),
            None => (&[][..], &[][..]),
        };
        let mut signals = Signals {
            query,
            lexical: look_up(index, query),
            meaning: Scale::from_sample(&sample, own),
            context: Scale::from_sample(&sample, in_context),
            embedding: Scale::from_sample(&sample, &embedded),
            similarities,
            embedded,
            named: index.authors.table(&query.authors),
            weights: ScoreParts::default(),
            scores: Vec::new(),
            index,
        };
        signals.weights = signals.query_weights();
        signals.scores = signals.all_scores();
        signals
    }

    /// Returns the weights of the signals that the query has, scaled to a sum of 1.
    fn query_weights(&self) -> ScoreParts {
        let ranking = &self.index.ranking;
        let only_if = |has_signal: bool, weight: f32| if has_signal { weight } else { 0.0 };
        let has_words = !self.query.words.is_empty();
        let has_meaning = self.similarities.is_some();
        let weights = ScoreParts {
            lexical: only_if(has_words, ranking.lexical),
            session: only_if(has_words, ranking.session),
            author: only_if(!self.query.authors.is_empty(), ranking.author),
            meaning: only_if(has_meaning, ranking.meaning),
            context: only_if(has_meaning, ranking.context_meaning),
            embedding: only_if(!self.embedded.is_empty(), ranking.embedding),
            time: only_if(!self.query.spans.is_empty(), ranking.time),
        };
        let total = weights.sum();
        let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
        weights.times(&ScoreParts::all(scale))
    }

    /// Adds up the signals column by column, so that the compiler uses SIMD. Adds in the order of
    /// [`ScoreParts::sum`], so that each score equals the sum of its explanation.
    fn all_scores(&self) -> Vec<f32> {
        let weights = &self.weights;
        let documents = &self.index.documents;
        let by_words = self.lexical.scores.iter();
        let mut scores: Vec<f32> = by_words.map(|it| it * weights.lexical).collect();
        if weights.session > 0.0 {
            for (score, session) in scores.iter_mut().zip(&documents.session) {
                let level = self.lexical.sessions.get(*session as usize);
                *score += weights.session * level.copied().unwrap_or(0.0);
            }
        }
        if weights.author > 0.0 {
            for (score, author) in scores.iter_mut().zip(&documents.author) {
                let is_named = self.named.get(*author as usize);
                *score += weights.author * f32::from(u8::from(is_named == Some(&true)));
            }
        }
        let mut matches = self.word_matches();
        let floor = self.index.ranking.meaning_floor_among(self.index.len());
        if let Some(similarities) = &self.similarities {
            let both = similarities.own.iter().zip(&similarities.in_context);
            for ((score, matches), (own, in_context)) in
                scores.iter_mut().zip(&mut matches).zip(both)
            {
                let level = self.meaning.level(*own);
                *score += weights.meaning * level;
                *score += weights.context * self.context.level(*in_context);
                *matches |= level >= floor;
            }
        }
        for ((score, matches), similarity) in
            scores.iter_mut().zip(&mut matches).zip(&self.embedded)
        {
            let level = self.embedding.level(*similarity);
            *score += weights.embedding * level;
            *matches |= level >= floor;
        }
        self.add_times(&mut scores, &mut matches);
        for ((score, matches), worth) in scores.iter_mut().zip(matches).zip(&documents.worth) {
            *score = if matches & (*worth != 0) {
                *score
            } else {
                NO_MATCH
            };
        }
        scores
    }

    fn word_matches(&self) -> Vec<bool> {
        let by_words = self.lexical.scores.iter();
        by_words.map(|it| *it > 0.0).collect()
    }

    fn add_times(&self, scores: &mut [f32], matches: &mut [bool]) {
        if self.weights.time <= 0.0 {
            return;
        }
        for (at, (score, matches)) in scores.iter_mut().zip(matches).enumerate() {
            let fit = self.time(at);
            *score += self.weights.time * fit;
            *matches |= fit > 0.0;
        }
    }

    /// Returns the contribution of each signal to the score of a document.
    pub(crate) fn parts(&self, slot: Slot) -> ScoreParts {
        self.levels(slot).times(&self.weights)
    }

    /// Returns the value of each signal for a document, from 0 to 1.
    fn levels(&self, slot: Slot) -> ScoreParts {
        let at = slot as usize;
        let documents = &self.index.documents;
        let session = self.lexical.sessions.get(documents.session[at] as usize);
        let is_named = self.named.get(documents.author[at] as usize);
        let embedded = self.embedded.get(at);
        let similarities = self.similarities.as_ref();
        ScoreParts {
            lexical: self.lexical.scores[at],
            session: session.copied().unwrap_or(0.0),
            author: f32::from(u8::from(is_named.copied().unwrap_or(false))),
            meaning: similarities.map_or(0.0, |it| self.meaning.level(it.own[at])),
            context: similarities.map_or(0.0, |it| self.context.level(it.in_context[at])),
            embedding: embedded.map_or(0.0, |it| self.embedding.level(*it)),
            time: self.time(at),
        }
    }

    /// Returns how well a document's time fits the times that the query names, from 0 to 1.
    fn time(&self, at: usize) -> f32 {
        if self.query.spans.is_empty() {
            return 0.0;
        }
        let timestamp = self.index.documents.rows[at]
            .as_ref()
            .map(|it| it.timestamp);
        let Some(day) = timestamp.and_then(day_of) else {
            return 0.0;
        };
        let fits = self.query.spans.iter().map(|it| it.fit(day));
        fits.fold(0.0, f32::max)
    }
}

impl ScoreParts {
    fn all(value: f32) -> ScoreParts {
        ScoreParts {
            lexical: value,
            session: value,
            author: value,
            meaning: value,
            context: value,
            embedding: value,
            time: value,
        }
    }

    fn times(&self, other: &ScoreParts) -> ScoreParts {
        ScoreParts {
            lexical: self.lexical * other.lexical,
            session: self.session * other.session,
            author: self.author * other.author,
            meaning: self.meaning * other.meaning,
            context: self.context * other.context,
            embedding: self.embedding * other.embedding,
            time: self.time * other.time,
        }
    }
}
