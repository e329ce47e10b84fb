//! Vectors of memories from the compiled-in table of word vectors. An ingest computes them, the
//! store keeps them, and the index ranks by them. Without them and without an embedder, a search
//! matches words only.

use std::sync::OnceLock;

use retain_core::{MemoryError, MemoryRecord, MemoryVector, PreparedMemory};

use super::{cache::off_executor, text::spoken_text};
use crate::static_vectors::{DIMS, StaticVector, StaticVectors};

/// The table of word vectors; `None` if it is disabled or unavailable.
pub(super) type WordVectors = Option<&'static StaticVectors>;

/// Maximum size of the texts that are embedded on the executor. Moving so little work to another
/// thread would take longer than the work.
const SHORT_BYTES: usize = 16 * 1024;

/// Returns the compiled-in table. The first call parses it, off the executor.
pub(super) async fn table() -> Result<WordVectors, MemoryError> {
    static TABLE: OnceLock<WordVectors> = OnceLock::new();
    match TABLE.get() {
        Some(table) => Ok(*table),
        None => off_executor(|| *TABLE.get_or_init(read)).await,
    }
}

fn read() -> WordVectors {
    match StaticVectors::get() {
        Ok(table) => Some(table),
        Err(error) => {
            tracing::warn!(%error, "word vectors are unavailable; searching memories by words only");
            None
        }
    }
}

/// Computes the vectors of new memories: off the executor if there is much text.
pub(super) async fn with_vectors(
    mut memories: Vec<PreparedMemory>,
    table: &'static StaticVectors,
) -> Result<Vec<PreparedMemory>, MemoryError> {
    let bytes: usize = memories.iter().map(|it| it.content_json.len()).sum();
    let work = move || {
        for memory in &mut memories {
            let vector = table.embed(&spoken_text(&memory.new.content));
            memory.new.vectors.fixed = Some(MemoryVector {
                model: table.id().to_owned(),
                dims: DIMS,
                bytes: vector.to_bytes().to_vec(),
            });
        }
        memories
    };
    match bytes <= SHORT_BYTES {
        true => Ok(work()),
        false => off_executor(work).await,
    }
}

/// Returns the stored vector of a memory, if this table produced it.
pub(super) fn stored(record: &MemoryRecord, table: WordVectors) -> Option<Vec<i8>> {
    let vector = record.vectors.fixed.as_ref()?;
    let is_current = vector.model == table?.id();
    let vector = StaticVector::from_bytes(&vector.bytes).filter(|_| is_current)?;
    Some(vector.numbers().to_vec())
}
