//! Text embeddings without an API key or a download, from a compiled-in table of word vectors.
//!
//! ```text
//! text → words (characters/) → word pieces (word_piece.rs) → rows (table.rs) → sum, direction (vector.rs)
//! ```
//!
//! `scripts/distill-static-vectors` distilled the table from all-MiniLM-L6-v2; `data/README.md`
//! gives its origin and license. The rows of frequent words are scaled down, so the sum of the rows
//! is a weighted sum. A text has the same vector on every machine.
//!
//! ```
//! use retain_memory::static_vectors::StaticVectors;
//!
//! # fn main() -> Result<(), retain_memory::static_vectors::StaticVectorsError> {
//! let vectors = StaticVectors::get()?;
//! let query = vectors.embed("Which pets does she have?");
//! let cat = vectors.embed("I adopted a kitten from the animal shelter.");
//! let car = vectors.embed("The engine needs new oil.");
//! assert!(query.dot(&cat) > query.dot(&car));
//! # Ok(()) }
//! ```

mod characters;
mod table;
mod vector;
mod word_piece;

use std::{error::Error, fmt, sync::OnceLock};

use table::Table;

use crate::index::LocalEmbedder;

pub use vector::{StaticVector, scan};
pub use word_piece::WordPiece;

/// The number of dimensions of a vector.
pub const DIMS: usize = 256;

const FILE: &[u8] = include_bytes!("../../data/static-vectors.bin");

/// The compiled-in word vectors.
#[derive(Debug)]
pub struct StaticVectors {
    id: String,
    table: Table,
    word_piece: WordPiece,
}

/// Why the word vectors are unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StaticVectorsError {
    /// The checksum or the layout of the compiled-in table is wrong.
    Corrupt,
}

impl StaticVectors {
    /// Returns the compiled-in table. The first call verifies it, which takes a few milliseconds.
    pub fn get() -> Result<&'static StaticVectors, StaticVectorsError> {
        static VECTORS: OnceLock<Result<StaticVectors, StaticVectorsError>> = OnceLock::new();
        let vectors = VECTORS.get_or_init(|| StaticVectors::read(FILE));
        vectors.as_ref().map_err(|error| *error)
    }

    fn read(file: &'static [u8]) -> Result<StaticVectors, StaticVectorsError> {
        let table = Table::read(file)?;
        let word_piece = WordPiece::new(table.vocabulary)?;
        if word_piece.len() != table.scales.len() {
            return Err(StaticVectorsError::Corrupt);
        }
        let id = format!("all-MiniLM-L6-v2/static-{DIMS}/{:016x}", table.checksum);
        Ok(StaticVectors {
            id,
            table,
            word_piece,
        })
    }

    /// Returns the name of the model and the checksum of the table. Store this id with each vector:
    /// vectors with different ids cannot be compared.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the number of dimensions of a vector.
    pub fn dims(&self) -> usize {
        DIMS
    }

    /// Returns the tokenizer that splits texts into the table's tokens.
    pub fn word_piece(&self) -> &WordPiece {
        &self.word_piece
    }

    /// Embeds a text. Unknown words do not count. The vector of a text without known words is zero.
    pub fn embed(&self, text: &str) -> StaticVector {
        let mut sum = [0.0; DIMS];
        for id in self.word_piece.ids(text) {
            // The rows of the unknown token and of all special tokens are zero.
            if let Some((row, scale)) = self.table.row(usize::from(id)) {
                vector::add(&mut sum, scale, &row.map(u8::cast_signed));
            }
        }
        StaticVector::from_floats(&sum)
    }
}

impl LocalEmbedder for StaticVectors {
    fn dims(&self) -> usize {
        DIMS
    }

    fn embed(&self, text: &str) -> (Vec<i8>, f32) {
        let vector = StaticVectors::embed(self, text);
        (vector.numbers().to_vec(), vector.scale())
    }

    /// Whether the query has a Latin letter. The table's words are English; of other scripts it has
    /// only single letters, which carry no meaning.
    fn knows(&self, query: &str) -> bool {
        query.contains(|it: char| it.is_ascii_alphabetic())
    }
}

impl fmt::Display for StaticVectorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StaticVectorsError::Corrupt => "the compiled-in table of word vectors is corrupt",
        })
    }
}

impl Error for StaticVectorsError {}
