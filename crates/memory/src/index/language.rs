//! Stemming: turns the forms of a word into one term.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};

/// The language of the stemmer. Words of other scripts stay unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Language {
    /// No stemming: a word matches only itself.
    None,
    /// English.
    #[default]
    English,
    /// Arabic.
    Arabic,
    /// Danish.
    Danish,
    /// Dutch.
    Dutch,
    /// Finnish.
    Finnish,
    /// French.
    French,
    /// German.
    German,
    /// Greek.
    Greek,
    /// Hungarian.
    Hungarian,
    /// Italian.
    Italian,
    /// Norwegian.
    Norwegian,
    /// Portuguese.
    Portuguese,
    /// Romanian.
    Romanian,
    /// Russian.
    Russian,
    /// Spanish.
    Spanish,
    /// Swedish.
    Swedish,
    /// Tamil.
    Tamil,
    /// Turkish.
    Turkish,
}

impl Language {
    pub(crate) fn stemmer(self) -> WordStemmer {
        let algorithm = match self {
            Language::None => None,
            Language::English => Some(Algorithm::English),
            Language::Arabic => Some(Algorithm::Arabic),
            Language::Danish => Some(Algorithm::Danish),
            Language::Dutch => Some(Algorithm::Dutch),
            Language::Finnish => Some(Algorithm::Finnish),
            Language::French => Some(Algorithm::French),
            Language::German => Some(Algorithm::German),
            Language::Greek => Some(Algorithm::Greek),
            Language::Hungarian => Some(Algorithm::Hungarian),
            Language::Italian => Some(Algorithm::Italian),
            Language::Norwegian => Some(Algorithm::Norwegian),
            Language::Portuguese => Some(Algorithm::Portuguese),
            Language::Romanian => Some(Algorithm::Romanian),
            Language::Russian => Some(Algorithm::Russian),
            Language::Spanish => Some(Algorithm::Spanish),
            Language::Swedish => Some(Algorithm::Swedish),
            Language::Tamil => Some(Algorithm::Tamil),
            Language::Turkish => Some(Algorithm::Turkish),
        };
        WordStemmer {
            stemmer: algorithm.map(Stemmer::create),
            english: self == Language::English,
        }
    }
}

/// Stems lowercase words.
pub(crate) struct WordStemmer {
    stemmer: Option<Stemmer>,
    english: bool,
}

impl WordStemmer {
    /// Returns the stem of a word. A word with a digit is its own stem. In English, so is a word
    /// with non-ASCII letters.
    pub(crate) fn stem<'a>(&self, word: &'a str) -> Cow<'a, str> {
        match &self.stemmer {
            Some(_) if self.english && !word.bytes().all(|it| it.is_ascii_lowercase()) => {
                Cow::Borrowed(word)
            }
            Some(_) if word.contains(|it: char| it.is_numeric()) => Cow::Borrowed(word),
            Some(stemmer) => stemmer.stem(word),
            None => Cow::Borrowed(word),
        }
    }

    /// Whether the English stop words and time expressions apply.
    pub(crate) fn is_english(&self) -> bool {
        self.english
    }
}

impl std::fmt::Debug for WordStemmer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("WordStemmer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stemmer_merges_word_forms_and_keeps_other_scripts() {
        let english = Language::English.stemmer();
        assert_eq!(english.stem("painting"), english.stem("painted"));
        assert_eq!(english.stem("бегущий"), "бегущий");
        assert_eq!(english.stem("b2b2ing"), "b2b2ing");
        let russian = Language::Russian.stemmer();
        assert_eq!(russian.stem("книгами"), russian.stem("книга"));
        assert_eq!(Language::None.stemmer().stem("painting"), "painting");
    }
}
