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
    sessions::NONE,
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
    likeness: Likeness,
    context: Likeness,
    embedding: Likeness,
    /// Weights that sum up to 1 over the signals that the question has.
    pub(crate) weights: Parts,
}

/// How like each memory is, by slot, and how like memories are in general.
#[derive(Default)]
struct Likeness {
    by_slot: Vec<f32>,
    mean: f32,
    spread: f32,
}

/// Standing out from the mean by this many standard deviations is as like as can be.
const OUTSTANDING: f32 = 5.0;

impl Likeness {
    fn new(by_slot: Vec<f32>, index: &UserIndex) -> Likeness {
        // Whole numbers: their sum is the same in whatever order memories came.
        const WHOLE: f32 = 1_048_576.0;
        let (mut count, mut sum, mut squares) = (0_i64, 0_i64, 0_i128);
        for (value, worth) in by_slot.iter().zip(&index.documents.worth) {
            if *worth != 0 && value.is_finite() {
                let whole = (value * WHOLE) as i64;
                count += 1;
                sum += whole;
                squares += i128::from(whole * whole);
            }
        }
        let count = count.max(1) as f64;
        let mean = sum as f64 / count;
        let variance = (squares as f64 / count - mean * mean).max(0.0);
        Likeness {
            by_slot,
            mean: mean as f32 / WHOLE,
            spread: (variance.sqrt() as f32 / WHOLE).max(0.02),
        }
    }

    /// 0 for what is like the average, 1 for what stands out.
    fn level(&self, slot: usize, outstanding: f32) -> f32 {
        match self.by_slot.get(slot) {
            Some(value) if value.is_finite() => {
                ((value - self.mean) / (outstanding * self.spread)).clamp(0.0, 1.0)
            }
            _ => 0.0,
        }
    }

    fn is_empty(&self) -> bool {
        self.by_slot.is_empty()
    }
}

impl<'a> Signals<'a> {
    pub(crate) fn new(index: &'a UserIndex, asked: &'a Asked, question: &Question<'_>) -> Self {
        let likeness = likeness(index, question.text);
        let context = in_context(index, &likeness);
        let mut signals = Signals {
            index,
            asked,
            lexical: look_up(index, asked),
            likeness: Likeness::new(likeness, index),
            context: Likeness::new(context, index),
            embedding: Likeness::new(embedded(index, question.embedding), index),
            weights: Parts::default(),
        };
        signals.weights = signals.weigh();
        signals
    }

    fn weigh(&self) -> Parts {
        let ranking = &self.index.ranking;
        let only_if = |is: bool, weight: f32| if is { weight } else { 0.0 };
        let mut weights = Parts {
            lexical: only_if(!self.asked.words.is_empty(), ranking.lexical),
            session: only_if(!self.asked.words.is_empty(), ranking.session),
            author: only_if(!self.asked.authors.is_empty(), ranking.author),
            meaning: only_if(!self.likeness.is_empty(), ranking.meaning),
            context: only_if(!self.likeness.is_empty(), ranking.context_meaning),
            embedding: only_if(!self.embedding.is_empty(), ranking.embedding),
            time: only_if(!self.asked.spans.is_empty(), ranking.time),
        };
        let total = weights.sum();
        if total > 0.0 {
            weights = weights.times(&Parts::all(1.0 / total));
        }
        weights
    }

    /// What each signal gives to a memory; nothing if it does not answer the question at all.
    pub(crate) fn parts(&self, slot: Slot) -> Option<Parts> {
        let at = slot as usize;
        let documents = &self.index.documents;
        let session = documents.session[at];
        let author = documents.author[at];
        let levels = Parts {
            lexical: self.lexical.scores[at],
            session: self
                .lexical
                .sessions
                .get(session as usize)
                .copied()
                .unwrap_or(0.0),
            author: f32::from(u8::from(
                author != NONE && self.asked.authors.contains(&author),
            )),
            meaning: self.likeness.level(at, self.index.ranking.z),
            context: self.context.level(at, self.index.ranking.z),
            embedding: self.embedding.level(at, self.index.ranking.z),
            time: self.time(at),
        };
        let floor = self.index.ranking.meaning_floor;
        let answers = documents.worth[at] != 0
            && (levels.lexical > 0.0
                || levels.time > 0.0
                || levels.meaning >= floor
                || levels.embedding >= floor);
        answers.then(|| levels.times(&self.weights))
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

fn in_context(index: &UserIndex, likeness: &[f32]) -> Vec<f32> {
    let slots = 0..likeness.len() as Slot;
    let window = &index.ranking.context;
    slots
        .map(|slot| {
            index
                .vectors
                .in_context(slot, likeness, &index.documents, window)
        })
        .collect()
}

fn embedded(index: &UserIndex, question: &[f32]) -> Vec<f32> {
    if question.is_empty() || index.embeddings.is_empty() {
        return Vec::new();
    }
    let of_slot = |it: &Box<[f32]>| cosine(question, it).unwrap_or(f32::NAN);
    index.embeddings.iter().map(of_slot).collect()
}
