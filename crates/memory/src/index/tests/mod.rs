//! Tests of the index as a whole.

mod hit_list;
mod languages;
mod rebuild;
mod search;

use std::sync::Arc;

use super::*;

/// Monday, 8 May 2023, at noon.
const A_MONDAY: f64 = 1_683_547_200.0;
const DAY: f64 = 86_400.0;

/// Checks that threads can share an index.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<UserIndex>();
};

/// Creates a memory; an empty session or author means none.
fn message(seq: u64, session: &str, author: &str, text: &str) -> Document {
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

/// Creates a memory without a session and an author.
fn note(seq: u64, text: &str) -> Document {
    message(seq, "", "", text)
}

fn index_of(documents: impl IntoIterator<Item = Document>) -> UserIndex {
    fill(UserIndex::new(), documents)
}

fn fill(mut index: UserIndex, documents: impl IntoIterator<Item = Document>) -> UserIndex {
    documents.into_iter().for_each(|it| index.insert(it));
    index
}

/// Creates a query that is asked on [`A_MONDAY`].
fn query(text: &str) -> MemoryQuery {
    MemoryQuery::new(text).with_reference_time(A_MONDAY)
}

fn search_with_limit(index: &UserIndex, text: &str, limit: usize) -> Vec<Hit> {
    index.search(&query(text).with_limit(limit), &[], &|_| true)
}

fn search(index: &UserIndex, text: &str) -> Vec<Hit> {
    search_with_limit(index, text, 10)
}

fn hit_seqs(index: &UserIndex, text: &str) -> Vec<u64> {
    search(index, text).iter().map(|it| it.seq).collect()
}

/// Fake word vectors: the words of a group have equal meanings.
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

/// Creates an index with the fake word vectors.
fn index_with_groups(documents: impl IntoIterator<Item = Document>) -> UserIndex {
    fill(UserIndex::with_local_embedder(Arc::new(Groups)), documents)
}

/// Returns the sum of the contributions of all signals.
fn sum_of_parts(it: &Explanation) -> f32 {
    let words = it.lexical + it.session + it.author;
    words + it.meaning + it.context + it.embedding + it.time
}
