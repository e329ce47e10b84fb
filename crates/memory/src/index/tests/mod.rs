//! Tests of the index as a whole.

mod finding;
mod languages;
mod lists;
mod same_as_built_anew;

use std::sync::Arc;

use super::*;

/// Monday, 8 May 2023, around noon.
const A_MONDAY: f64 = 1_683_547_200.0;
const DAY: f64 = 86_400.0;

/// Many threads search one index.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<UserIndex>();
};

/// A memory of a conversation.
fn said(seq: u64, session: &str, author: &str, text: &str) -> Document {
    Document {
        seq,
        session: (!session.is_empty()).then(|| session.into()),
        order: seq,
        author: (!author.is_empty()).then(|| author.into()),
        timestamp: A_MONDAY,
        text: text.into(),
        meaning: None,
        embedding: Vec::new(),
    }
}

/// A memory without a session.
fn note(seq: u64, text: &str) -> Document {
    said(seq, "", "", text)
}

fn index_of(documents: impl IntoIterator<Item = Document>) -> UserIndex {
    fill(UserIndex::new(), documents)
}

fn fill(mut index: UserIndex, documents: impl IntoIterator<Item = Document>) -> UserIndex {
    documents.into_iter().for_each(|it| index.insert(it));
    index
}

/// A query on [`A_MONDAY`].
fn query(text: &str) -> MemoryQuery {
    MemoryQuery::new(text).with_reference_time(A_MONDAY)
}

fn ask_for(index: &UserIndex, text: &str, limit: usize) -> Vec<Hit> {
    index.search(&query(text).with_limit(limit), &[], &|_| true)
}

fn ask(index: &UserIndex, text: &str) -> Vec<Hit> {
    ask_for(index, text, 10)
}

fn found(index: &UserIndex, text: &str) -> Vec<u64> {
    ask(index, text).iter().map(|it| it.seq).collect()
}

/// A fake of word vectors: words of one group have the same meaning.
struct Groups;

const GROUPS: [&[&str]; 4] = [
    &["dog", "puppy", "pet", "kitten"],
    &["car", "vehicle", "engine"],
    &["rain", "storm", "weather"],
    &["guitar", "music", "song"],
];

impl LocalEmbedder for Groups {
    fn dims(&self) -> usize {
        40
    }

    fn embed(&self, text: &str) -> (Vec<i8>, f32) {
        let mut vector = vec![0_i8; 40];
        for word in text.split(|it: char| !it.is_alphabetic()) {
            let word = word.to_lowercase();
            if let Some(group) = GROUPS.iter().position(|it| it.contains(&word.as_str())) {
                vector[group] = vector[group].saturating_add(100);
            } else if !word.is_empty() {
                let other = 4 + word.bytes().map(usize::from).sum::<usize>() % 36;
                vector[other] = vector[other].saturating_add(20);
            }
        }
        (vector, 1.0)
    }
}

fn with_groups(documents: impl IntoIterator<Item = Document>) -> UserIndex {
    fill(UserIndex::with_local_embedder(Arc::new(Groups)), documents)
}

/// The sum of all signals.
fn sum_of_parts(it: &Explanation) -> f32 {
    let words = it.lexical + it.session + it.author;
    words + it.meaning + it.context + it.embedding + it.time
}
