//! Vectors of texts are similar for similar meanings, equal on every machine, and zero without
//! known words.

use retain_memory::static_vectors::{DIMS, StaticVector};

use super::vectors;

#[test]
fn similar_text_is_nearer_than_unrelated_text() {
    let cosine = |a: &str, b: &str| vectors().embed(a).dot(&vectors().embed(b));
    let triples = [
        ("I bought a dog", "my new puppy", "the tax return"),
        (
            "Where does he work?",
            "a job at the bank",
            "a walk in the woods",
        ),
        (
            "illness",
            "she went to the hospital",
            "she went to the concert",
        ),
        ("Which instruments?", "I play the violin", "I play football"),
        (
            "MARRIAGE",
            "our wedding was in June",
            "our meeting was in June",
        ),
    ];
    for (text, similar, unrelated) in triples {
        let (to_similar, to_unrelated) = (cosine(text, similar), cosine(text, unrelated));
        assert!(
            to_similar > to_unrelated + 0.05,
            "{text}: {to_similar} {to_unrelated}"
        );
    }
}

#[test]
fn frequent_words_and_punctuation_weigh_less() {
    let cosine = |a: &str, b: &str| vectors().embed(a).dot(&vectors().embed(b));
    for (frequent, rare) in [("the", "violin"), ("and", "hospital"), ("was", "kitten")] {
        let both = format!("{frequent} {rare}");
        let (to_rare, to_frequent) = (cosine(&both, rare), cosine(&both, frequent));
        assert!(
            to_rare > to_frequent + 0.1,
            "{both}: {to_rare} {to_frequent}"
        );
    }
    let with_punctuation = cosine("violin, concert...?!", "Concert VIOLIN");
    assert!(with_punctuation > 0.95, "{with_punctuation}");
}

#[test]
fn text_has_cosine_one_with_itself() {
    for text in ["violin", "the", "Zürich, 8 May", "a b c d e f g", "高楼"] {
        let vector = vectors().embed(text);
        assert!((0.99999..=1.0).contains(&vector.dot(&vector)), "{text}");
        assert_eq!(vector.numbers().iter().map(|it| it.abs()).max(), Some(127));
    }
}

#[test]
fn unknown_words_do_not_change_the_vector() {
    let long = "x".repeat(500);
    for text in ["", " \n", "\0", "🫠", long.as_str()] {
        assert_eq!(vectors().embed(text), StaticVector::ZERO, "{text:?}");
    }
    let with = vectors().embed(&format!("violin {long} 🫠"));
    assert_eq!(with, vectors().embed("violin"));
}

/// Pins the vector of a text. If its bytes change, stored vectors no longer match the table, so the
/// id of the table must change too.
#[test]
fn embedding_bytes_and_table_id_are_pinned() {
    assert_eq!(vectors().dims(), DIMS);
    let bytes = vectors()
        .embed("Ada lives in Zürich, on a high floor.")
        .to_bytes();
    let sum = bytes.iter().fold(0_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    let found = format!("{} {sum:016x}", vectors().id());
    assert_eq!(
        found,
        "all-MiniLM-L6-v2/static-256/4255dfd635c2d899 6842862fee02aabc"
    );
}
