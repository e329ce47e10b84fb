//! Finds the passage that answers a question, by shared words weighted by rarity.
//!
//! A passage is one sentence, or two adjacent sentences if the second adds words of the question.
//! Each sentence is scanned once, so the time is linear in the length of the text.

use std::{cmp::Ordering, collections::HashMap};

use crate::{
    intent::is_question,
    passages::{Passage, Speaker},
    stop_words::content_words,
    words::{sentences, stem, words},
};

/// Maximum number of question words used for matching.
const WORDS_MAX: usize = 64;

/// The topic of a question.
#[derive(Debug)]
pub(super) struct Topic {
    /// The content words as they appear in the question.
    pub(super) words: Vec<String>,
    /// Maps each stem to its bit in a set of matches.
    stems: HashMap<String, usize>,
}

/// A passage that matches the question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match<'p, 'a> {
    pub(super) passage: &'p Passage<'a>,
    /// The sentences to quote.
    pub(super) quote: &'a str,
    /// Whether the quote contains at least two thirds of the topic words of the question.
    pub(super) is_sure: bool,
    weight: f64,
    /// Number of quoted sentences; one is preferred to two.
    sentences: usize,
    /// The index of the first quoted sentence in the passage.
    index: usize,
}

/// A sentence, with a bit set of the question words that it contains.
struct Sentence<'p, 'a> {
    passage: &'p Passage<'a>,
    text: &'a str,
    matches: u64,
    /// The index of the sentence in the passage.
    index: usize,
    /// The byte offset of the sentence in the passage.
    start: usize,
}

impl Topic {
    /// Extracts the topic of `question`.
    pub(super) fn from_question(question: &str) -> Topic {
        let mut stems = HashMap::new();
        let mut topic_words = Vec::new();
        for word in content_words(words(question).take(1_000).collect()) {
            if stems.len() == WORDS_MAX {
                break;
            }
            let index = stems.len();
            stems.entry(stem(&word)).or_insert_with(|| {
                topic_words.push(word);
                index
            });
        }
        Topic {
            words: topic_words,
            stems,
        }
    }

    /// Returns the best match, if any passage matches.
    pub(super) fn find<'p, 'a>(&self, passages: &'p [Passage<'a>]) -> Option<Match<'p, 'a>> {
        let sentences = self.sentences(passages);
        let weights = self.weights(&sentences);
        let mut best: Option<Match<'p, 'a>> = None;
        for (at, sentence) in sentences.iter().enumerate() {
            let single = self.rate(&weights, sentence, None);
            let next = sentences.get(at + 1).filter(|next| next.follows(sentence));
            let pair = next.and_then(|next| self.rate(&weights, sentence, Some(next)));
            for found in single.into_iter().chain(pair) {
                if best.is_none_or(|best| found.cmp(&best) == Ordering::Greater) {
                    best = Some(found);
                }
            }
        }
        best
    }

    /// Returns all sentences except questions, with the question words in each.
    fn sentences<'p, 'a>(&self, passages: &'p [Passage<'a>]) -> Vec<Sentence<'p, 'a>> {
        let mut all = Vec::new();
        for passage in passages {
            for (index, (start, text)) in sentences(passage.text).into_iter().enumerate() {
                if is_question(text) {
                    continue;
                }
                let bits = words(text).filter_map(|word| self.stems.get(&stem(&word)).copied());
                let matches = bits.fold(0, |matches, bit| matches | 1 << bit);
                all.push(Sentence {
                    passage,
                    text,
                    matches,
                    index,
                    start,
                });
            }
        }
        all
    }

    /// Returns the weight of each question word; rarer words weigh more.
    fn weights(&self, sentences: &[Sentence<'_, '_>]) -> Vec<f64> {
        let mut weights = Vec::with_capacity(self.stems.len());
        for index in 0..self.stems.len() {
            let has_word = |sentence: &&Sentence<'_, '_>| sentence.matches & (1 << index) != 0;
            let count = sentences.iter().filter(has_word).count();
            weights.push((1.0 + sentences.len() as f64 / count.max(1) as f64).ln());
        }
        weights
    }

    /// Rates the sentence, together with the next one if given. Returns `None` if too few words
    /// match.
    fn rate<'p, 'a>(
        &self,
        weights: &[f64],
        first: &Sentence<'p, 'a>,
        next: Option<&Sentence<'p, 'a>>,
    ) -> Option<Match<'p, 'a>> {
        let matches = first.matches | next.map_or(0, |next| next.matches);
        let (matched, total) = (matches.count_ones() as usize, self.stems.len());
        if matched == 0 || matched * 3 < total {
            return None;
        }
        let weights = weights.iter().enumerate();
        let weights = weights.filter(|(index, _)| matches & (1 << index) != 0);
        Some(Match {
            passage: first.passage,
            quote: next.map_or(first.text, |next| first.up_to(next)),
            is_sure: matched * 3 >= total * 2,
            weight: weights.map(|(_, weight)| weight).sum(),
            sentences: 1 + usize::from(next.is_some()),
            index: first.index,
        })
    }
}

impl Match<'_, '_> {
    /// Orders matches: sure ones win, then statements of the user, then those with more weight.
    /// Among equals the latest statement wins, because it replaces earlier ones.
    fn cmp(&self, other: &Self) -> Ordering {
        let is_users = |found: &Self| found.passage.speaker == Speaker::User;
        self.is_sure
            .cmp(&other.is_sure)
            .then(is_users(self).cmp(&is_users(other)))
            .then(self.weight.total_cmp(&other.weight))
            .then(self.passage.recency.cmp(&other.passage.recency))
            .then(other.sentences.cmp(&self.sentences))
            .then(self.index.cmp(&other.index))
    }
}

impl<'a> Sentence<'_, 'a> {
    fn follows(&self, other: &Sentence<'_, '_>) -> bool {
        std::ptr::eq(self.passage, other.passage) && self.index == other.index + 1
    }

    /// Returns the text from this sentence to the end of `next`, which follows it.
    fn up_to(&self, next: &Sentence<'_, 'a>) -> &'a str {
        let range = self.start..next.start + next.text.len();
        self.passage.text.get(range).unwrap_or(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passages::{Passages, Source};

    fn find(question: &str, statements: &[(&str, Speaker<'static>)]) -> Option<(String, bool)> {
        let mut passages = Passages::default();
        for (text, speaker) in statements {
            passages.add_message(text, *speaker, Source::Conversation);
        }
        let found = Topic::from_question(question).find(&passages.all)?;
        Some((found.quote.to_owned(), found.is_sure))
    }

    fn find_sure(question: &str, statements: &[&str]) -> String {
        let statements: Vec<_> = statements
            .iter()
            .map(|text| (*text, Speaker::User))
            .collect();
        let (quote, is_sure) = find(question, &statements).expect("a passage must match");
        assert!(is_sure, "{quote}");
        quote
    }

    #[test]
    fn search_matches_other_forms_of_a_word() {
        let statements = ["My sister lives in Bergen.", "I planned two trips."];
        assert_eq!(
            find_sure("Where does my sister live?", &statements),
            statements[0]
        );
        assert_eq!(
            find_sure("Which trip was I planning?", &statements),
            statements[1]
        );
    }

    #[test]
    fn answer_quotes_one_sentence_of_a_long_text() {
        let statements = ["A room in Oslo please. I prefer high floors. It is cold."];
        assert_eq!(
            find_sure("Which floor do I prefer?", &statements),
            "I prefer high floors."
        );
    }

    #[test]
    fn answer_quotes_two_sentences_if_the_second_has_the_answer() {
        let statements = ["Look. I have a sister. Her name is Anna. She is kind."];
        let quote = find_sure("What is the name of my sister?", &statements);
        assert_eq!(quote, "I have a sister. Her name is Anna.");
    }

    #[test]
    fn rare_words_weigh_more() {
        let statements = ["A ferry came.", "My train is late.", "That train again."];
        let statements = statements.map(|text| (text, Speaker::User));
        let (quote, is_sure) = find("Is it the train or the ferry?", &statements).unwrap();
        assert_eq!((quote.as_str(), is_sure), ("A ferry came.", false));
    }

    #[test]
    fn latest_statement_is_quoted() {
        let statements = ["My favorite color is red.", "My favorite color is blue."];
        assert_eq!(
            find_sure("What is my favorite color?", &statements),
            statements[1]
        );
        let statements = ["My favorite color is red. No! My favorite color is blue."];
        let latest = "My favorite color is blue.";
        assert_eq!(find_sure("What is my favorite color?", &statements), latest);
    }

    #[test]
    fn user_statements_rank_above_others() {
        let statements = [
            ("My favorite color is red.", Speaker::User),
            ("Your favorite color is blue.", Speaker::Agent),
        ];
        let (quote, _) = find("What is my favorite color?", &statements).unwrap();
        assert_eq!(quote, statements[0].0);
        let (quote, _) = find("What is my favorite color?", &statements[1..]).unwrap();
        assert_eq!(quote, statements[1].0);
    }

    #[test]
    fn question_is_not_quoted_as_an_answer() {
        let statements = [("What is my favorite color?", Speaker::User)];
        assert!(find("What is my favorite color?", &statements).is_none());
    }

    #[test]
    fn partial_match_is_uncertain_and_weak_match_is_ignored() {
        let statements = [("My favorite project is Alpha.", Speaker::User)];
        let (_, is_sure) = find("What is my favorite color?", &statements).unwrap();
        assert!(!is_sure);
        assert!(
            find(
                "Which dish at which restaurant is my favorite meal?",
                &statements
            )
            .is_none()
        );
        assert!(find("Why?", &statements).is_none());
    }
}
