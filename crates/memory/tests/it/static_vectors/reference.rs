//! The same ids as the reference, the package `tokenizers`, for thousands of texts.
//!
//! The seed of a failing text is printed: `RETAIN_SEED=7 RETAIN_TEXTS=1` runs it alone.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use retain_core::Json;
use retain_testkit::{
    oracle::{is_long, setting, tokenizers_python},
    random::Random,
};

use super::{ids, texts, vectors};

const SEED: u64 = 20_261_116;
const TEXTS: u64 = 6000;

#[test]
fn random_texts_have_the_ids_of_the_reference() {
    let Some(python) = tokenizers_python("word pieces of random texts") else {
        return;
    };
    let count = if is_long() { TEXTS * 10 } else { TEXTS };
    let count = setting("RETAIN_TEXTS").unwrap_or(count);
    let first = setting("RETAIN_SEED").unwrap_or(SEED);
    let texts = (first..first + count).map(|seed| texts::random(&mut Random::new(seed)));
    let texts: Vec<String> = texts.collect();
    let mut known = 0;
    for ((seed, text), theirs) in (first..).zip(&texts).zip(ask(&python, &texts)) {
        let ours = vectors().word_piece().ids(text);
        assert_eq!(ours, theirs, "RETAIN_SEED={seed} RETAIN_TEXTS=1: {text:?}");
        let unknown = vectors().word_piece().unknown();
        known += ours.iter().filter(|id| **id != unknown).count() as u64;
    }
    assert!(
        known > count * 5,
        "texts that are all unknown prove nothing"
    );
}

#[test]
fn every_code_point_is_cut_as_the_reference_cuts_it() {
    let Some(python) = tokenizers_python("word pieces of every code point") else {
        return;
    };
    // What is beyond is not assigned.
    let code_points: Vec<char> = ('\0'..'\u{32400}')
        .chain('\u{e0000}'..'\u{e0200}')
        .collect();
    let texts: Vec<String> = code_points
        .chunks(64)
        .map(|some| some.iter().map(|c| format!("{c} a{c}b ")).collect())
        .collect();
    for (text, theirs) in texts.iter().zip(ask(&python, &texts)) {
        assert_eq!(vectors().word_piece().ids(text), theirs, "{text:?}");
    }
}

/// The ids that the reference gives to each text.
fn ask(python: &Path, texts: &[String]) -> Vec<Vec<u16>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut process = Command::new(python)
        .arg(root.join("testdata").join("word_pieces.py"))
        .arg("answer")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python can be started");
    let mut input = process.stdin.take().expect("a pipe");
    let lines: Vec<String> = texts.iter().map(|it| line(it)).collect();
    // Answers come while texts are still being written: neither side may wait for the other.
    let writer = thread::spawn(move || {
        input
            .write_all(lines.concat().as_bytes())
            .expect("Python reads");
    });
    let output = process.wait_with_output().expect("Python answers");
    writer.join().expect("all texts were written");
    assert!(output.status.success(), "the reference failed");
    let answers = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<Vec<u16>> = answers
        .lines()
        .map(|line| ids(&Json::parse(line).expect("JSON")))
        .collect();
    assert_eq!(answers.len(), texts.len());
    answers
}

fn line(text: &str) -> String {
    let text = Json::from(text).to_json().expect("a text is JSON");
    text + "\n"
}
