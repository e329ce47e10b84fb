//! After any sequence of inserts and removals, the index gives the same results as a newly built
//! one.

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
    let mut document = said(seq, session, author, &text(random));
    // Positions repeat and come in any order.
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

fn assert_same(random: &mut Random, index: &UserIndex, anew: &UserIndex, seed: u64) {
    let embedding: Vec<f32> = (0..8).map(|_| random.below(200) as f32 - 100.0).collect();
    for _ in 0..6 {
        let text = text(random);
        let has_embedding = random.chance(50);
        let query = query(&text).with_limit(1 + random.below(20) as usize);
        let embedding: &[f32] = if has_embedding { &embedding } else { &[] };
        let search = |index: &UserIndex| index.search(&query, embedding, &|seq| seq % 7 != 0);
        let shown = |hits: Vec<Hit>| -> Vec<_> {
            let shown = |it: Hit| (it.seq, it.score.to_bits(), it.explanation);
            hits.into_iter().map(shown).collect()
        };
        let (hits, expected) = (shown(search(index)), shown(search(anew)));
        assert_eq!(hits, expected, "seed {seed}, question {text:?}");
    }
}

#[test]
fn index_equals_a_rebuilt_one_after_random_changes() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let with_local_embedder = random.chance(50);
        let mut index = new_index(with_local_embedder);
        let mut kept: BTreeMap<u64, Document> = BTreeMap::new();
        let mut known = TermCache::default();
        for _ in 0..random.below(120) {
            let seq = 1 + random.below(60);
            if random.chance(35) {
                index.remove(seq);
                kept.remove(&seq);
            } else {
                let document = document(&mut random, seq);
                index.insert_with(document.clone(), Some(&mut known));
                kept.insert(seq, document);
            }
        }
        let anew = fill(new_index(with_local_embedder), kept.values().cloned());
        assert_eq!(index.len(), kept.len(), "seed {seed}");
        assert_same(&mut random, &index, &anew, seed);
    }
}

#[test]
fn index_of_thousands_of_documents_equals_a_rebuilt_one() {
    let mut random = Random::new(7);
    let documents: Vec<_> = (1..4_200).map(|seq| document(&mut random, seq)).collect();
    let forward = with_groups(documents.iter().cloned());
    let mut backward = with_groups(documents.iter().rev().cloned());
    for document in &documents[..500] {
        backward.remove(document.seq);
        backward.insert(document.clone());
    }
    assert_same(&mut random, &backward, &forward, 7);
}

#[test]
fn emptied_index_releases_memory() {
    let mut random = Random::new(3);
    let mut index = with_groups((1..300).map(|seq| document(&mut random, seq)));
    let full = index.bytes();
    (1..300).for_each(|seq| index.remove(seq));
    assert!(index.is_empty());
    assert!(ask(&index, "tea dog rain").is_empty());
    assert!(index.bytes() < full, "{} of {full}", index.bytes());
}
