//! How much the words of neighbors count for a memory: an answer is often next to a message with
//! the words of the query.

/// Number of neighbors before a memory that count.
pub(crate) const BEFORE: usize = 3;
/// Number of neighbors after a memory that count.
pub(crate) const AFTER: usize = 2;

/// The weight of a word by the distance of its message from the memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// In the memory itself.
    pub own: f32,
    /// In the three messages before, nearest first.
    pub before: [f32; BEFORE],
    /// In the two messages after, nearest first.
    pub after: [f32; AFTER],
}

impl Window {
    /// The weights for words, chosen by measurement.
    pub(crate) const WORDS: Window = Window {
        own: 6.0,
        before: [4.0, 2.0, 1.0],
        after: [3.0, 1.0],
    };
}
