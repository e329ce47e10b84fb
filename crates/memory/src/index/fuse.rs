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
    vectors::Likeness,
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
    /// None without a meaning.
    likeness: Option<Likeness<'a>>,
    meaning: Scale,
    context: Scale,
    /// By slot; not a number for those that cannot be compared.
    embedded: Vec<f32>,
    embedding: Scale,
    /// By author: whether the question names them.
    named: Vec<bool>,
    /// Weights that sum up to 1 over the signals that the question has.
    pub(crate) weights: Parts,
    /// By slot: the score but for context, which is the dearest to work out.
    without_context: Vec<f32>,
}

impl<'a> Signals<'a> {
    pub(crate) fn new(index: &'a UserIndex, asked: &'a Asked, question: &Question<'_>) -> Self {
        let meaning = index.meaning.as_ref().map(|it| it.embed(question.text).0);
        let likeness = meaning.and_then(|it| index.vectors.compared_with(&it));
        let slots = likeness.as_ref().map_or(0, |_| index.documents.slots());
        let own = |slot| likeness.as_ref().map_or(0.0, |it| it.own(slot));
        let (documents, window) = (&index.documents, &index.ranking.context);
        let in_context = |slot| {
            let likeness = likeness.as_ref();
            likeness.map_or(0.0, |it| it.in_context(slot, documents, window))
        };
        let embedded = index.embeddings.likeness(question.embedding);
        let mut signals = Signals {
            asked,
            lexical: look_up(index, asked),
            meaning: Scale::of(index, slots, own),
            context: Scale::of(index, slots, in_context),
            embedding: Scale::of(index, embedded.len(), |slot| embedded[slot as usize]),
            likeness,
            embedded,
            named: index.authors.table(&asked.authors),
            weights: Parts::default(),
            without_context: Vec::new(),
            index,
        };
        signals.weights = signals.weigh();
        signals.without_context = signals.scores_without_context();
        signals
    }

    fn weigh(&self) -> Parts {
        let ranking = &self.index.ranking;
        let only_if = |is: bool, weight: f32| if is { weight } else { 0.0 };
        let has_words = !self.asked.words.is_empty();
        let has_meaning = self.likeness.is_some();
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

    /// Signal by signal: walks over whole columns, which the compiler does several rows at a time.
    fn scores_without_context(&self) -> Vec<f32> {
        let weights = &self.weights;
        let documents = &self.index.documents;
        let by_words = self.lexical.scores.iter();
        let mut scores: Vec<f32> = by_words.map(|it| it * weights.lexical).collect();
        for (score, session) in scores.iter_mut().zip(&documents.session) {
            let level = self.lexical.sessions.get(*session as usize);
            *score += weights.session * level.copied().unwrap_or(0.0);
        }
        if weights.author > 0.0 {
            for (score, author) in scores.iter_mut().zip(&documents.author) {
                let is_named = self.named.get(*author as usize);
                *score += weights.author * f32::from(u8::from(is_named == Some(&true)));
            }
        }
        let own = self.likeness.as_ref().map_or(&[][..], |it| it.own_of_all());
        for (score, likeness) in scores.iter_mut().zip(own) {
            *score += weights.meaning * self.meaning.level(*likeness);
        }
        for (score, likeness) in scores.iter_mut().zip(&self.embedded) {
            *score += weights.embedding * self.embedding.level(*likeness);
        }
        if weights.time > 0.0 {
            for (at, score) in scores.iter_mut().enumerate() {
                *score += weights.time * self.time(at);
            }
        }
        scores
    }

    /// What a memory scores without its context, nearly.
    #[inline]
    pub(crate) fn score_without_context(&self, slot: Slot) -> f32 {
        self.without_context[slot as usize]
    }

    /// The score of a memory. Nothing if it does not answer the question at all, or scores less than
    /// `least`.
    #[inline]
    pub(crate) fn score(&self, slot: Slot, least: f32) -> Option<f32> {
        // Sums are rounded, and those here are added in another order.
        let nearly_least = least - 1e-5;
        let without_context = self.without_context[slot as usize];
        if without_context + self.weights.context < nearly_least
            || without_context + self.weights.context * self.context_level(slot) < nearly_least
        {
            return None;
        }
        let levels = self.levels(slot)?;
        Some(levels.times(&self.weights).sum()).filter(|it| *it >= least)
    }

    #[inline]
    fn context_level(&self, slot: Slot) -> f32 {
        let Some(likeness) = &self.likeness else {
            return 0.0;
        };
        let (documents, window) = (&self.index.documents, &self.index.ranking.context);
        let in_context = likeness.in_context(slot, documents, window);
        self.context.level(in_context)
    }

    /// What each signal gives to a memory that answers.
    pub(crate) fn parts(&self, slot: Slot) -> Parts {
        let levels = self.levels(slot).unwrap_or_default();
        levels.times(&self.weights)
    }

    /// Each signal from 0 to 1; nothing if the memory does not answer at all.
    fn levels(&self, slot: Slot) -> Option<Parts> {
        let mut levels = self.levels_without_context(slot);
        levels.context = self.context_level(slot);
        let floor = self.index.ranking.meaning_floor;
        let by_words = levels.lexical > 0.0 || levels.time > 0.0;
        let by_meaning = levels.meaning >= floor || levels.embedding >= floor;
        let is_there = self.index.documents.worth[slot as usize] != 0;
        (is_there && (by_words || by_meaning)).then_some(levels)
    }

    fn levels_without_context(&self, slot: Slot) -> Parts {
        let at = slot as usize;
        let documents = &self.index.documents;
        let session = self.lexical.sessions.get(documents.session[at] as usize);
        let is_named = self.named.get(documents.author[at] as usize);
        let embedded = self.embedded.get(at);
        let likeness = self.likeness.as_ref();
        Parts {
            lexical: self.lexical.scores[at],
            session: session.copied().unwrap_or(0.0),
            author: f32::from(u8::from(is_named.copied().unwrap_or(false))),
            meaning: likeness.map_or(0.0, |it| self.meaning.level(it.own(slot))),
            context: 0.0,
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
