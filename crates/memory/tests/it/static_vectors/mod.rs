//! The compiled-in word vectors: word pieces, which must equal those of the reference tokenizer,
//! and the vectors of texts.

mod fixtures;
mod meaning;
mod reference;
mod texts;

use retain_core::Json;
use retain_memory::static_vectors::StaticVectors;

fn vectors() -> &'static StaticVectors {
    StaticVectors::get().expect("the table is not corrupt")
}

fn ids(json: &Json) -> Vec<u16> {
    let ids = json.as_array().expect("ids").iter();
    ids.map(|id| id.as_u64().expect("an id") as u16).collect()
}
