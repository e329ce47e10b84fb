//! How much the words of neighbors count for a memory. The answer is often next to a message with
//! the words of the query.

/// Number of preceding neighbors that count.
pub(crate) const BEFORE: usize = 3;
/// Number of following neighbors that count.
pub(crate) const AFTER: usize = 2;

/// The weight of a word, by the distance between its message and the memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The weight of words in the memory itself.
    pub own: f32,
    /// The weights of words in the three preceding messages, nearest first.
    pub before: [f32; BEFORE],
    /// The weights of words in the two following messages, nearest first.
    pub after: [f32; AFTER],
}

impl Window {
    /// The window for words, chosen by measurement.
    pub(crate) const WORDS: Window = Window {
        own: 6.0,
        before: [4.0, 2.0, 1.0],
        after: [3.0, 1.0],
    };
}
