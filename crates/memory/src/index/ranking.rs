//! The ranking parameters. The defaults were chosen by measurements on conversations with known
//! answers, with both short and long messages.

use super::window::Window;

/// Ranking parameters. A score is the weighted mean of the signals that the query has.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ranking {
    /// Weights of the words of neighbors.
    pub window: Window,
    /// Weights of the vectors of neighbors.
    pub context: Window,
    /// Saturation (BM25's k1): the number of occurrences at which a word has half of its maximum
    /// weight.
    pub saturation: f32,
    /// Texts up to this many words count as short.
    pub short_text: f32,
    /// Length normalization of short texts (BM25's b).
    pub short_length: f32,
    /// Length normalization of longer texts.
    pub long_length: f32,
    /// Weight of the author's name, in occurrences of a word.
    pub author_saying: f32,
    /// Weight of the date, in occurrences of a word.
    pub date_saying: f32,
    /// Weight of one letter of an unspaced script, relative to a word.
    pub letter: f32,
    /// Weight of the words.
    pub lexical: f32,
    /// Weight of the session as a whole.
    pub session: f32,
    /// Weight of the author, if the query names one.
    pub author: f32,
    /// Weight of the similarity in meaning of a memory's own words.
    pub meaning: f32,
    /// Weight of the similarity in meaning of a memory together with its neighbors.
    pub context_meaning: f32,
    /// Weight of the similarity of the embeddings.
    pub embedding: f32,
    /// Weight of the time, if the query names one.
    pub time: f32,
    /// Minimum similarity, from 0 to 1, of a hit without a query word, for users with at least a
    /// thousand memories. With fewer memories the minimum is lower: half of this for ten memories.
    pub meaning_floor: f32,
    /// Maximum share of the hits that one session may fill while other sessions have hits with at
    /// least half the score.
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
    /// Returns the weight of one occurrence of a word in a text of `words` words, in units of
    /// 1/65536.
    pub(crate) fn occurrence_weight(&self, words: u32) -> u32 {
        let words = words as f32;
        let short = words.min(self.short_text) / self.short_text - 1.0;
        let long = words.max(self.short_text) / self.short_text - 1.0;
        let length = 1.0 + self.short_length * short + self.long_length * long;
        ((OCCURRENCE as f32 / length) as u32).max(1)
    }

    /// Returns the minimum similarity of a hit without a query word, for a user with this many
    /// memories.
    ///
    /// Among a thousand unrelated memories, some are very similar by chance. Among ten, a memory
    /// that is half as similar is probably relevant.
    pub(crate) fn meaning_floor_among(&self, memories: usize) -> f32 {
        let many = (memories.max(1) as f32 / 10.0).log10() / 2.0;
        self.meaning_floor * (0.5 + 0.5 * many.clamp(0.0, 1.0))
    }
}

/// The weight of one occurrence of a word: an integer, because float sums would depend on the order
/// of addition.
pub(crate) const OCCURRENCE: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_weight_decreases_with_text_length_but_slowly_for_short_texts() {
        let ranking = Ranking::default();
        let worth = |words: u32| ranking.occurrence_weight(words) as f32 / OCCURRENCE as f32;
        assert!(worth(1) / worth(45) < 1.3);
        assert!(worth(45) / worth(450) > 5.0);
        assert!((1..2_000).map(worth).is_sorted_by(|a, b| a >= b));
        assert!(
            ranking.occurrence_weight(u32::MAX) >= 1,
            "0 marks a free slot"
        );
        assert!(ranking.occurrence_weight(0) >= ranking.occurrence_weight(1));
    }

    #[test]
    fn similarity_threshold_is_lower_for_few_memories() {
        let ranking = Ranking::default();
        let floor = |memories| ranking.meaning_floor_among(memories) / ranking.meaning_floor;
        assert_eq!((floor(0), floor(1), floor(10)), (0.5, 0.5, 0.5));
        assert!((0.74..0.76).contains(&floor(100)));
        assert_eq!((floor(1_000), floor(1_000_000)), (1.0, 1.0));
        assert!((1..2_000).map(floor).is_sorted());
    }
}
