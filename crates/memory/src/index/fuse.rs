//! From signals to one score.
//!
//! Every signal is brought to 0..1 on a scale of its own that does not depend on which memories
//! compete: words by the share of the question that they answer, likenesses by how far they stand
//! out from those of all memories. The score is the weighted mean of the signals that the question
//! has; a question that names no author is not judged by authors.

use super::{
    UserIndex,
    calendar::day_of,
    lexical::{Lexical, look_up},
    postings::Slot,
    question::Asked,
    scale::Scale,
    types::Question,
    vectors::cosine,
};

/// What each signal gave to a score; they add up to it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Parts {
    pub(crate) lexical: f32,
    pub(crate) session: f32,
    pub(crate) author: f32,
    pub(crate) meaning: f32,
    pub(crate) context: f32,
    pub(crate) embedding: f32,
    pub(crate) time: f32,
}

impl Parts {
    /// The score.
    pub(crate) fn sum(&self) -> f32 {
        let words = self.lexical + self.session + self.author;
        words + self.meaning + self.context + self.embedding + self.time
    }
}

/// All that is known about how memories answer a question.
pub(crate) struct Signals<'a> {
    index: &'a UserIndex,
    pub(crate) asked: &'a Asked,
    pub(crate) lexical: Lexical,
    /// Of each memory's own words to the question, by slot; empty without a meaning.
    likeness: Vec<f32>,
    meaning: Scale,
    context: Scale,
    /// By slot; not a number for those that cannot be compared.
    embedded: Vec<f32>,
    embedding: Scale,
    /// By author: whether the question names them.
    named: Vec<bool>,
    /// Weights that sum up to 1 over the signals that the question has.
    pub(crate) weights: Parts,
}

impl<'a> Signals<'a> {
    pub(crate) fn new(index: &'a UserIndex, asked: &'a Asked, question: &Question<'_>) -> Self {
        let likeness = likeness(index, question.text);
        let embedded = embedded(index, question.embedding);
        let in_context = |slot| {
            index
                .vectors
                .in_context(slot, &likeness, &index.documents, &index.ranking.context)
        };
        let mut signals = Signals {
            asked,
            lexical: look_up(index, asked),
            meaning: Scale::of(index, likeness.len(), |slot| likeness[slot as usize]),
            context: Scale::of(index, likeness.len(), in_context),
            embedding: Scale::of(index, embedded.len(), |slot| embedded[slot as usize]),
            likeness,
            embedded,
            named: index.authors.table(&asked.authors),
            weights: Parts::default(),
            index,
        };
        signals.weights = signals.weigh();
        signals
    }

    fn weigh(&self) -> Parts {
        let ranking = &self.index.ranking;
        let only_if = |is: bool, weight: f32| if is { weight } else { 0.0 };
        let has_words = !self.asked.words.is_empty();
        let has_meaning = !self.likeness.is_empty();
        let weights = Parts {
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
        weights.times(&Parts::all(scale))
    }

    /// The score of a memory. Nothing if it does not answer the question at all, or is sure to score
    /// less than `least`.
    pub(crate) fn score(&self, slot: Slot, least: f32) -> Option<f32> {
        let parts = self.parts_without_context(slot)?;
        // Context is the dearest to work out, and most memories are far from where it matters.
        if parts.sum() + self.weights.context < least {
            return None;
        }
        let parts = self.with_context(slot, parts);
        Some(parts.sum()).filter(|it| *it >= least)
    }

    /// What each signal gives to a memory that answers.
    pub(crate) fn parts(&self, slot: Slot) -> Parts {
        match self.parts_without_context(slot) {
            Some(parts) => self.with_context(slot, parts),
            None => Parts::default(),
        }
    }

    #[inline]
    fn parts_without_context(&self, slot: Slot) -> Option<Parts> {
        let at = slot as usize;
        let documents = &self.index.documents;
        let by_words = self.lexical.scores[at];
        let time = self.time(at);
        let level =
            |values: &[f32], scale: &Scale| values.get(at).map_or(0.0, |it| scale.level(*it));
        let meaning = level(&self.likeness, &self.meaning);
        let embedding = level(&self.embedded, &self.embedding);
        let floor = self.index.ranking.meaning_floor;
        let answers = by_words > 0.0 || time > 0.0 || meaning >= floor || embedding >= floor;
        if !answers || documents.worth[at] == 0 {
            return None;
        }
        let session = self.lexical.sessions.get(documents.session[at] as usize);
        let is_named = self.named.get(documents.author[at] as usize);
        let levels = Parts {
            lexical: by_words,
            session: session.copied().unwrap_or(0.0),
            author: f32::from(u8::from(is_named.copied().unwrap_or(false))),
            meaning,
            context: 0.0,
            embedding,
            time,
        };
        Some(levels.times(&self.weights))
    }

    fn with_context(&self, slot: Slot, parts: Parts) -> Parts {
        if self.likeness.is_empty() {
            return parts;
        }
        let index = self.index;
        let window = &index.ranking.context;
        let likeness = index
            .vectors
            .in_context(slot, &self.likeness, &index.documents, window);
        Parts {
            context: self.weights.context * self.context.level(likeness),
            ..parts
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

impl Parts {
    fn all(value: f32) -> Parts {
        Parts {
            lexical: value,
            session: value,
            author: value,
            meaning: value,
            context: value,
            embedding: value,
            time: value,
        }
    }

    fn times(&self, other: &Parts) -> Parts {
        Parts {
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

fn likeness(index: &UserIndex, text: &str) -> Vec<f32> {
    match &index.meaning {
        Some(meaning) => index.vectors.likeness(&meaning.embed(text).0),
        None => Vec::new(),
    }
}

fn embedded(index: &UserIndex, question: &[f32]) -> Vec<f32> {
    if question.is_empty() || index.embeddings.is_empty() {
        return Vec::new();
    }
    let of_slot = |it: &Box<[f32]>| cosine(question, it).unwrap_or(f32::NAN);
    index.embeddings.iter().map(of_slot).collect()
}
