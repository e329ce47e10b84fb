//! The numbers of the ranking. They were measured on conversations whose answers are known; the
//! defaults are for chats and for long answers alike.

use super::window::Window;

/// What counts how much. A score is the weighted mean of the signals that the question has.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ranking {
    /// What words of neighbours are worth.
    pub window: Window,
    /// What vectors of neighbours are worth.
    pub context: Window,
    /// How soon it stops to matter that a word is said again (BM25's k1), in sayings.
    pub saturation: f32,
    /// Texts up to this many words are short: their length says little.
    pub short_text: f32,
    /// How much the length of a short text counts (BM25's b).
    pub short_length: f32,
    /// How much length beyond that counts.
    pub long_length: f32,
    /// What the author's name is worth, in sayings of a word.
    pub author_saying: f32,
    /// What the date is worth, in sayings of a word.
    pub date_saying: f32,
    /// What one letter of a script without spaces is worth, beside a word.
    pub letter: f32,
    /// Weight of the words.
    pub lexical: f32,
    /// Weight of the conversation as a whole.
    pub session: f32,
    /// Weight of the author, if the question names one.
    pub author: f32,
    /// Weight of the meaning of its own words.
    pub meaning: f32,
    /// Weight of the meaning of its words and those around.
    pub context_meaning: f32,
    /// Weight of the given embedder.
    pub embedding: f32,
    /// Weight of the time, if the question names one.
    pub time: f32,
    /// Found by meaning alone, without a word in common: only from this much on (0 to 1). That is among a
    /// thousand memories and more; among few less is asked, among ten half.
    pub meaning_floor: f32,
    /// At most this share of a list is of one conversation, while others have nearly as good ones.
    pub largest_share: f32,
}

impl Default for Ranking {
    fn default() -> Ranking {
        Ranking {
            window: Window::WORDS,
            context: Window::WORDS,
            saturation: 0.4,
            short_text: 45.0,
            short_length: 0.2,
            long_length: 0.75,
            author_saying: 1.0,
            date_saying: 1.0,
            letter: 0.2,
            lexical: 1.0,
            session: 0.1,
            author: 0.1,
            meaning: 0.3,
            context_meaning: 0.45,
            embedding: 0.5,
            time: 0.2,
            meaning_floor: 0.5,
            largest_share: 0.8,
        }
    }
}

impl Ranking {
    /// What one saying of a word is worth in a text of so many words, in 65536ths.
    pub(crate) fn worth(&self, words: u32) -> u32 {
        let words = words as f32;
        let short = words.min(self.short_text) / self.short_text - 1.0;
        let long = words.max(self.short_text) / self.short_text - 1.0;
        let length = 1.0 + self.short_length * short + self.long_length * long;
        ((SAYING as f32 / length) as u32).max(1)
    }

    /// What is asked of a memory that is found by its meaning alone, among so many memories: of up to ten
    /// half as much as of a thousand.
    ///
    /// Of a thousand that have nothing to do with the question, some stand out far by chance. Of ten,
    /// what stands out half as far is likely to be meant, and none of them could stand out much farther.
    pub(crate) fn meaning_floor_among(&self, memories: usize) -> f32 {
        let many = (memories.max(1) as f32 / 10.0).log10() / 2.0;
        self.meaning_floor * (0.5 + 0.5 * many.clamp(0.0, 1.0))
    }
}

/// One saying of a word. Whole numbers, so that sums do not depend on the order of adding.
pub(crate) const SAYING: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_counts_little_among_short_texts_and_much_among_long_ones() {
        let ranking = Ranking::default();
        let worth = |words: u32| ranking.worth(words) as f32 / SAYING as f32;
        assert!(worth(1) / worth(45) < 1.3);
        assert!(worth(45) / worth(450) > 5.0);
        assert!((1..2_000).map(worth).is_sorted_by(|a, b| a >= b));
        assert!(ranking.worth(u32::MAX) >= 1, "0 is for no memory");
        assert!(ranking.worth(0) >= ranking.worth(1));
    }

    #[test]
    fn among_few_memories_less_is_asked_of_a_meaning() {
        let ranking = Ranking::default();
        let floor = |memories| ranking.meaning_floor_among(memories) / ranking.meaning_floor;
        assert_eq!((floor(0), floor(1), floor(10)), (0.5, 0.5, 0.5));
        assert!((0.74..0.76).contains(&floor(100)));
        assert_eq!((floor(1_000), floor(1_000_000)), (1.0, 1.0));
        assert!((1..2_000).map(floor).is_sorted());
    }
}
