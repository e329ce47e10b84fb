//! Compares the word pieces of random texts with those of the Python package `tokenizers`.
//!
//! A failure prints the seed of its text: `RETAIN_SEED=7 RETAIN_TEXTS=1` runs that text alone.

use retain_core::Json;
use retain_testkit::{
    oracle::{Oracle, Reference, is_long, setting},
    random::Random,
};

use super::{ids, texts, vectors};

const SEED: u64 = 20_261_116;
const TEXTS: u64 = 6000;

#[test]
fn word_piece_ids_of_random_texts_match_the_reference() {
    let Some(oracle) = start("word pieces of random texts") else {
        return;
    };
    let count = if is_long() { TEXTS * 10 } else { TEXTS };
    let count = setting("RETAIN_TEXTS").unwrap_or(count);
    let first = setting("RETAIN_SEED").unwrap_or(SEED);
    let texts = (first..first + count).map(|seed| texts::random(&mut Random::new(seed)));
    let texts: Vec<String> = texts.collect();
    let mut known = 0;
    for ((seed, text), theirs) in (first..).zip(&texts).zip(ask(oracle, &texts)) {
        let ours = vectors().word_piece().ids(text);
        assert_eq!(ours, theirs, "RETAIN_SEED={seed} RETAIN_TEXTS=1: {text:?}");
        let unknown = vectors().word_piece().unknown();
        known += ours.iter().filter(|id| **id != unknown).count() as u64;
    }
    assert!(
        known > count * 5,
        "too few known word pieces: {known} in {count} texts"
    );
}

#[test]
fn word_pieces_of_every_code_point_match_the_reference() {
    let Some(oracle) = start("word pieces of every code point") else {
        return;
    };
    // Code points beyond these ranges are not assigned.
    let code_points: Vec<char> = ('\0'..'\u{32400}')
        .chain('\u{e0000}'..'\u{e0200}')
        .collect();
    let texts: Vec<String> = code_points
        .chunks(64)
        .map(|some| some.iter().map(|c| format!("{c} a{c}b ")).collect())
        .collect();
    for (text, theirs) in texts.iter().zip(ask(oracle, &texts)) {
        assert_eq!(vectors().word_piece().ids(text), theirs, "{text:?}");
    }
}

fn start(test: &str) -> Option<Oracle> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/word_pieces.py");
    Oracle::start_with(Reference::Tokenizers, test, script, |command| {
        command.arg("answer");
    })
}

/// Returns the reference's ids of each text.
fn ask(mut oracle: Oracle, texts: &[String]) -> Vec<Vec<u16>> {
    let texts: Vec<Json> = texts.iter().map(|text| text.as_str().into()).collect();
    let answers = oracle.ask_all(&texts);
    oracle.stop();
    answers.iter().map(ids).collect()
}
