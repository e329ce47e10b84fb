//! What a memory has from its neighbours: an answer is often next to the words that were asked.

/// How many places before and after a memory lend it something.
pub(crate) const BEFORE: usize = 3;
/// See [`BEFORE`].
pub(crate) const AFTER: usize = 2;

/// What a word is worth by where it was said, relative to the memory: a share of its own word's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// In the memory itself.
    pub own: f32,
    /// In the one before, the second before, the third before.
    pub before: [f32; BEFORE],
    /// In the next one, and the one after it.
    pub after: [f32; AFTER],
}

impl Window {
    /// Measured for words.
    pub(crate) const WORDS: Window = Window {
        own: 6.0,
        before: [4.0, 2.0, 1.0],
        after: [3.0, 1.0],
    };
}
