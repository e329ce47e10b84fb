//! The authors of documents. Each has a number, and the terms of its name are searchable.

use std::{collections::HashMap, sync::Arc};

use super::{
    language::WordStemmer,
    sessions::NONE,
    terms::{TermKind, each_term},
};

/// The number of an author.
pub(crate) type AuthorNumber = u32;

#[derive(Debug, Default)]
struct Author {
    name: Option<Arc<str>>,
    terms: Vec<String>,
    memories: u32,
}

/// All authors with at least one document.
#[derive(Debug, Default)]
pub(crate) struct Authors {
    numbers: HashMap<Arc<str>, AuthorNumber>,
    authors: Vec<Author>,
    free: Vec<AuthorNumber>,
}

impl Authors {
    /// Counts one more document of an author, and returns the author's number.
    pub(crate) fn insert(&mut self, name: &Arc<str>, stem: &WordStemmer) -> AuthorNumber {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => self.add(name, stem),
        };
        self.authors[number as usize].memories += 1;
        number
    }

    /// Counts one document fewer, and deletes an author without documents.
    pub(crate) fn remove(&mut self, number: AuthorNumber) {
        let Some(author) = self.authors.get_mut(number as usize) else {
            return;
        };
        author.memories -= 1;
        if author.memories == 0 {
            if let Some(name) = std::mem::take(author).name {
                self.numbers.remove(&name);
            }
            self.free.push(number);
        }
    }

    /// Assigns a number to a new author. The number of a removed author is reused.
    fn add(&mut self, name: &Arc<str>, stem: &WordStemmer) -> AuthorNumber {
        let mut terms = Vec::new();
        each_term(name, stem, |term, kind| {
            if kind == TermKind::Word {
                terms.push(term.to_owned());
            }
        });
        let author = Author {
            name: Some(Arc::clone(name)),
            terms,
            memories: 0,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.authors[number as usize] = author;
                number
            }
            None => {
                self.authors.push(author);
                (self.authors.len() - 1) as AuthorNumber
            }
        };
        self.numbers.insert(Arc::clone(name), number);
        number
    }

    /// Returns the authors whose name contains a term.
    pub(crate) fn named(&self, term: &str) -> Vec<AuthorNumber> {
        let has = |it: &Author| it.terms.iter().any(|name_term| name_term == term);
        let numbers = self.authors.iter().enumerate();
        numbers
            .filter(|(_, author)| has(author))
            .map(|(number, _)| number as AuthorNumber)
            .filter(|number| *number != NONE)
            .collect()
    }

    /// Returns for each author number whether it is in `numbers`.
    pub(crate) fn table(&self, numbers: &[AuthorNumber]) -> Vec<bool> {
        let mut table = vec![false; self.authors.len()];
        for number in numbers {
            table[*number as usize] = true;
        }
        table
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |it: &Author| {
            let terms: usize = it.terms.iter().map(|term| term.capacity() + 40).sum();
            size_of::<Author>() + 48 + terms + it.name.as_ref().map_or(0, |name| name.len())
        };
        self.authors.iter().map(bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Language;

    #[test]
    fn author_is_found_by_name_until_its_last_entry_is_removed() {
        let stem = Language::English.stemmer();
        let mut authors = Authors::default();
        let ada = authors.insert(&"Ada Lovelace".into(), &stem);
        assert_eq!(authors.insert(&"Ada Lovelace".into(), &stem), ada);
        let bob = authors.insert(&"Bob".into(), &stem);
        assert_eq!(authors.named("ada"), [ada]);
        assert_eq!(authors.named("bob"), [bob]);
        authors.remove(ada);
        assert_eq!(authors.named("ada"), [ada]);
        authors.remove(ada);
        assert!(authors.named("ada").is_empty());
        assert_eq!(
            authors.insert(&"Cid".into(), &stem),
            ada,
            "the number of the removed author is reused"
        );
    }
}
