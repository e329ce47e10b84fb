//! The index of one user's memories: what is said where, and which of it answers a question.
//!
//! A view of the store's rows: it is built from them, brought up to date by them, and can be thrown
//! away at any time.

mod types;

pub use types::{Document, Explanation, Hit, MatchedWord, Place, Question};

/// The memories of one user, ready to be asked.
#[derive(Debug, Default)]
pub struct UserIndex {
    documents: std::collections::BTreeMap<u64, Document>,
}

impl UserIndex {
    /// An index of nothing.
    pub fn new() -> UserIndex {
        UserIndex::default()
    }

    /// Takes a document up. One with the same number is replaced.
    pub fn insert(&mut self, document: Document) {
        self.documents.insert(document.seq, document);
    }

    /// Forgets a document. It is no error if it is not there.
    pub fn remove(&mut self, seq: u64) {
        self.documents.remove(&seq);
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// About how many bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        self.documents.values().map(|it| it.text.len() + 256).sum()
    }

    /// The documents that answer the question, the best first.
    pub fn search(&self, question: &Question<'_>) -> Vec<Hit> {
        let words: Vec<String> = question
            .text
            .split_whitespace()
            .map(str::to_lowercase)
            .collect();
        let mut hits: Vec<Hit> = Vec::new();
        for document in self
            .documents
            .values()
            .filter(|it| (question.allowed)(it.seq))
        {
            let text = document.text.to_lowercase();
            let score = words
                .iter()
                .filter(|word| text.contains(word.as_str()))
                .count() as f32;
            if score > 0.0 {
                hits.push(Hit {
                    seq: document.seq,
                    score,
                    explanation: Explanation::default(),
                });
            }
        }
        hits.sort_by(|a, b| b.score.total_cmp(&a.score));
        hits.truncate(question.limit);
        hits
    }
}
