//! Compares word pieces with recordings of the reference tokenizer, so that no Python is needed.

use retain_core::Json;

use super::{ids, vectors};

const RECORDED: &str = include_str!("../../../testdata/word_pieces.jsonl");

#[test]
fn word_piece_ids_of_recorded_texts_match_the_recording() {
    let mut count = 0;
    for line in RECORDED.lines() {
        let recorded = Json::parse(line).expect("a recorded line");
        let text = recorded[0].as_str().expect("a text");
        let ours = vectors().word_piece().ids(text);
        assert_eq!(ours, ids(&recorded[1]), "{text:?}");
        count += 1;
    }
    assert!(count > 300, "{count} recorded texts");
}

#[test]
fn word_longer_than_100_characters_is_unknown() {
    let word_piece = vectors().word_piece();
    for letter in ["a", "é", "ж"] {
        let hundred = word_piece.ids(&letter.repeat(100));
        assert!(!hundred.contains(&word_piece.unknown()), "{letter}");
        let more = word_piece.ids(&letter.repeat(101));
        assert_eq!(more, [word_piece.unknown()], "{letter}");
    }
}

#[test]
fn special_token_names_are_ordinary_text() {
    let word_piece = vectors().word_piece();
    assert_eq!(word_piece.ids("[MASK]"), word_piece.ids("[ mask ]"));
    assert_eq!(word_piece.ids("##ing"), word_piece.ids("# # ing"));
}
