//! Combine the signals into one score.
//!
//! Each signal is scaled to 0..1 independently of the competing documents: words by the matched
//! share of the query, similarities by how far they stand out from all documents. The score is the
//! weighted mean of the signals that the query has; without an author's name in the query, authors
//! do not count.

use super::{
    UserIndex,
    calendar::day_of,
    lexical::{Lexical, look_up},
    postings::Slot,
    question::ParsedQuestion,
    scale::{Sample, Scale},
    vectors::Similarities,
};

/// The share of each signal; they add up to the score.
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
    /// The score.
    pub(crate) fn sum(&self) -> f32 {
        let words = self.lexical + self.session + self.author;
        words + self.meaning + self.context + self.embedding + self.time
    }
}

/// The score of a document that does not match.
pub(crate) const NO_ANSWER: f32 = f32::NEG_INFINITY;

/// The signals of a query for all documents.
pub(crate) struct Signals<'a> {
    index: &'a UserIndex,
    pub(crate) asked: &'a ParsedQuestion,
    pub(crate) lexical: Lexical,
    /// `None` without word vectors.
    likeness: Option<Similarities>,
    meaning: Scale,
    context: Scale,
    /// By slot; NaN for vectors that cannot be compared.
    embedded: Vec<f32>,
    embedding: Scale,
    /// By author: whether the query names them.
    named: Vec<bool>,
    /// Weights that add up to 1 over the signals of the query.
    pub(crate) weights: ScoreParts,
    /// By slot: the score, or [`NO_ANSWER`].
    pub(crate) scores: Vec<f32>,
}

impl<'a> Signals<'a> {
    pub(crate) fn new(
        index: &'a UserIndex,
        asked: &'a ParsedQuestion,
        text: &str,
        embedding: &[f32],
    ) -> Self {
        let meaning = index.meaning.as_ref();
        let meaning = meaning.filter(|it| it.knows(text));
        let meaning = meaning.map(|it| it.embed(text).0);
        let window = &index.ranking.context;
        let compared = |it: Vec<i8>| index.vectors.compared_with(&it, &index.documents, window);
        let likeness = meaning.and_then(compared);
        let embedded = index.embeddings.likeness(embedding);
        let sample = Sample::of(index);
        let (own, in_context) = match &likeness {
            Some(it) => (&it.own[..], &it.in_context[..]),
            None => (&[][..], &[][..]),
        };
        let mut signals = Signals {
            asked,
            lexical: look_up(index, asked),
            meaning: Scale::of(&sample, own),
            context: Scale::of(&sample, in_context),
            embedding: Scale::of(&sample, &embedded),
            likeness,
            embedded,
            named: index.authors.table(&asked.authors),
            weights: ScoreParts::default(),
            scores: Vec::new(),
            index,
        };
        signals.weights = signals.weigh();
        signals.scores = signals.all_scores();
        signals
    }

    fn weigh(&self) -> ScoreParts {
        let ranking = &self.index.ranking;
        let only_if = |is: bool, weight: f32| if is { weight } else { 0.0 };
        let has_words = !self.asked.words.is_empty();
        let has_meaning = self.likeness.is_some();
        let weights = ScoreParts {
            lexical: only_if(has_words, ranking.lexical),
            session: only_if(has_words, ranking.session),
            author: only_if(!self.asked.authors.is_empty(), ranking.author),
            meaning: only_if(has_meaning, ranking.meaning),
            context: only_if(has_meaning, ranking.context_meaning),
            embedding: only_if(!self.embedded.is_empty(), ranking.embedding),
            time: only_if(!self.asked.spans.is_empty(), ranking.time),
        };
        let total = weights.sum();
        let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
        weights.times(&ScoreParts::all(scale))
    }

    /// Compute column by column, so that the compiler uses SIMD. Signals are added in the order of
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
        let mut answers = self.answers_by_words();
        let floor = self.index.ranking.meaning_floor_among(self.index.len());
        if let Some(likeness) = &self.likeness {
            let both = likeness.own.iter().zip(&likeness.in_context);
            for ((score, answers), (own, in_context)) in
                scores.iter_mut().zip(&mut answers).zip(both)
            {
                let level = self.meaning.level(*own);
                *score += weights.meaning * level;
                *score += weights.context * self.context.level(*in_context);
                *answers |= level >= floor;
            }
        }
        for ((score, answers), likeness) in scores.iter_mut().zip(&mut answers).zip(&self.embedded)
        {
            let level = self.embedding.level(*likeness);
            *score += weights.embedding * level;
            *answers |= level >= floor;
        }
        self.add_times(&mut scores, &mut answers);
        for ((score, answers), worth) in scores.iter_mut().zip(answers).zip(&documents.worth) {
            *score = if answers & (*worth != 0) {
                *score
            } else {
                NO_ANSWER
            };
        }
        scores
    }

    fn answers_by_words(&self) -> Vec<bool> {
        let by_words = self.lexical.scores.iter();
        by_words.map(|it| *it > 0.0).collect()
    }

    fn add_times(&self, scores: &mut [f32], answers: &mut [bool]) {
        if self.weights.time <= 0.0 {
            return;
        }
        for (at, (score, answers)) in scores.iter_mut().zip(answers).enumerate() {
            let fit = self.time(at);
            *score += self.weights.time * fit;
            *answers |= fit > 0.0;
        }
    }

    /// The share of each signal for a document.
    pub(crate) fn parts(&self, slot: Slot) -> ScoreParts {
        self.levels(slot).times(&self.weights)
    }

    /// Each signal from 0 to 1.
    fn levels(&self, slot: Slot) -> ScoreParts {
        let at = slot as usize;
        let documents = &self.index.documents;
        let session = self.lexical.sessions.get(documents.session[at] as usize);
        let is_named = self.named.get(documents.author[at] as usize);
        let embedded = self.embedded.get(at);
        let likeness = self.likeness.as_ref();
        ScoreParts {
            lexical: self.lexical.scores[at],
            session: session.copied().unwrap_or(0.0),
            author: f32::from(u8::from(is_named.copied().unwrap_or(false))),
            meaning: likeness.map_or(0.0, |it| self.meaning.level(it.own[at])),
            context: likeness.map_or(0.0, |it| self.context.level(it.in_context[at])),
            embedding: embedded.map_or(0.0, |it| self.embedding.level(*it)),
            time: self.time(at),
        }
    }

    fn time(&self, at: usize) -> f32 {
        if self.asked.spans.is_empty() {
            return 0.0;
        }
        let timestamp = self.index.documents.rows[at]
            .as_ref()
            .map(|it| it.timestamp);
        let Some(day) = timestamp.and_then(day_of) else {
            return 0.0;
        };
        let fits = self.asked.spans.iter().map(|it| it.fit(day));
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
