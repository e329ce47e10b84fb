//! After any sequence of inserts and removals, the index has the same results as an index that is
//! built from the remaining documents.

use std::collections::BTreeMap;

use retain_testkit::random::Random;

use super::*;

const WORDS: [&str; 24] = [
    "tea", "milk", "dog", "puppy", "car", "engine", "rain", "storm", "guitar", "song", "paint",
    "painted", "Ada", "Bob", "May", "8", "東京", "京都", "👍", "the", "not", "summer", "2023",
    "weather",
];

fn text(random: &mut Random) -> String {
    let most = if random.chance(10) { 200 } else { 12 };
    let words = 1 + random.below(most);
    let words: Vec<&str> = (0..words).map(|_| random.pick(&WORDS)).collect();
    words.join(" ")
}

fn document(random: &mut Random, seq: u64) -> Document {
    let session = random.pick(&["", "a", "b", "c"]);
    let author = random.pick(&["", "Ada", "Bob", "Cid Lee"]);
    let mut document = message(seq, session, author, &text(random));
    // Documents arrive in any order of positions, and positions repeat.
    document.order = random.below(30);
    document.timestamp = A_MONDAY - random.below(400) as f64 * DAY;
    if random.chance(40) {
        let number = |random: &mut Random| random.below(200) as f32 - 100.0;
        document.embedding = (0..8).map(|_| number(random)).collect();
    }
    document
}

fn new_index(with_local_embedder: bool) -> UserIndex {
    match with_local_embedder {
        true => UserIndex::with_local_embedder(Arc::new(Groups)),
        false => UserIndex::new(),
    }
}

/// Asserts that random searches have equal results in both indexes.
fn assert_equal_results(random: &mut Random, index: &UserIndex, rebuilt: &UserIndex, seed: u64) {
    let embedding: Vec<f32> = (0..8).map(|_| random.below(200) as f32 - 100.0).collect();
    for _ in 0..6 {
        let text = text(random);
        let has_embedding = random.chance(50);
        let query = query(&text).with_limit(1 + random.below(20) as usize);
        let embedding: &[f32] = if has_embedding { &embedding } else { &[] };
        let search = |index: &UserIndex| index.search(&query, embedding, &|seq| seq % 7 != 0);
        let results = |hits: Vec<Hit>| -> Vec<_> {
            let result = |it: Hit| (it.seq, it.score.to_bits(), it.explanation);
            hits.into_iter().map(result).collect()
        };
        let (hits, expected) = (results(search(index)), results(search(rebuilt)));
        assert_eq!(hits, expected, "seed {seed}, query {text:?}");
    }
}

#[test]
fn index_equals_a_rebuilt_one_after_random_changes() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let with_local_embedder = random.chance(50);
        let mut index = new_index(with_local_embedder);
        let mut remaining: BTreeMap<u64, Document> = BTreeMap::new();
        let mut cache = TermCache::default();
        for _ in 0..random.below(120) {
            let seq = 1 + random.below(60);
            if random.chance(35) {
                index.remove(seq);
                remaining.remove(&seq);
            } else {
                let document = document(&mut random, seq);
                index.insert_with(document.clone(), Some(&mut cache));
                remaining.insert(seq, document);
            }
        }
        let rebuilt = fill(new_index(with_local_embedder), remaining.values().cloned());
        assert_eq!(index.len(), remaining.len(), "seed {seed}");
        assert_equal_results(&mut random, &index, &rebuilt, seed);
    }
}

#[test]
fn index_of_thousands_of_documents_equals_a_rebuilt_one() {
    let mut random = Random::new(7);
    let documents: Vec<_> = (1..4_200).map(|seq| document(&mut random, seq)).collect();
    let forward = index_with_groups(documents.iter().cloned());
    let mut backward = index_with_groups(documents.iter().rev().cloned());
    for document in &documents[..500] {
        backward.remove(document.seq);
        backward.insert(document.clone());
    }
    assert_equal_results(&mut random, &backward, &forward, 7);
}

#[test]
fn emptied_index_releases_memory() {
    let mut random = Random::new(3);
    let mut index = index_with_groups((1..300).map(|seq| document(&mut random, seq)));
    let full = index.bytes();
    (1..300).for_each(|seq| index.remove(seq));
    assert!(index.is_empty());
    assert!(search(&index, "tea dog rain").is_empty());
    assert!(
        index.bytes() < full,
        "{} of {full} bytes are left",
        index.bytes()
    );
}
