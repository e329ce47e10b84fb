//! Which texts a query finds, and in which order.

use retain_core::{MemoryService as _, Part};
use retain_memory::InMemoryMemoryService;

use super::{event, hit_ids, session, text};

/// Whether a memory with this text matches the query.
async fn matches(text: &str, query: &str) -> bool {
    let memory = InMemoryMemoryService::new();
    let session = session("a", "u", "s", vec![super::text("1", text)]);
    memory
        .add_session_to_memory(&session)
        .await
        .expect("a session is ingested");
    !hit_ids(&memory, query).await.is_empty()
}

async fn assert_all_match(pairs: &[(&str, &str)]) {
    for (text, query) in pairs {
        assert!(matches(text, query).await, "{query:?} in {text:?}");
    }
}

async fn assert_none_match(pairs: &[(&str, &str)]) {
    for (text, query) in pairs {
        assert!(!matches(text, query).await, "{query:?} in {text:?}");
    }
}

#[tokio::test]
async fn one_common_word_matches_in_any_case() {
    assert_all_match(&[
        ("I prefer high FLOORS.", "which floors?"),
        ("snake_case2", "SNAKE_CASE2"),
        ("room 12", "12"),
    ])
    .await;
    assert_none_match(&[
        ("I prefer high floors.", "floor"),
        ("snake_case", "snake"),
        ("anything", ""),
        ("", "anything"),
        ("?!", "?!"),
    ])
    .await;
}

#[tokio::test]
async fn non_ascii_word_matches_inside_another() {
    assert_all_match(&[
        ("我喜欢高楼层", "高楼"),
        ("Fußböden", "ßbö"),
        ("ДОМАШНИЙ", "маш"),
        ("ห้องพัก", "ห้อง"),
    ])
    .await;
    assert_none_match(&[("Fußboden", "boden"), ("foo", "öö")]).await;
}

#[tokio::test]
async fn latin_word_next_to_another_script_is_a_separate_word() {
    assert_all_match(&[
        ("私はPythonを使う", "python"),
        ("私はPythonを使う", "使う"),
        ("éaя_b2", "_b2"),
        ("éaя_b2", "éa"),
    ])
    .await;
    assert_none_match(&[
        ("私はPythonを使う", "thon"),
        // ADK treats full-width letters as another script.
        ("ａbｃ", "ab"),
        // A text is split between scripts, a query is not.
        ("python", "私はpython"),
    ])
    .await;
}

#[tokio::test]
async fn composed_and_decomposed_letters_match() {
    assert_all_match(&[
        ("cafe\u{301}", "café"),
        ("café", "CAFE\u{301}"),
        ("\u{1112}\u{1161}\u{11ab}", "한"),
    ])
    .await;
    assert_none_match(&[
        ("cafe", "café"),
        ("café", "cafe"),
        ("ﬁn", "fin"),
        ("x²", "x2"),
    ])
    .await;
}

#[tokio::test]
async fn lower_casing_matches_python() {
    assert_all_match(&[
        ("ΟΔΟΣ", "οδος"),
        ("οδος", "ΟΔΟΣ"),
        ("STRAẞE", "straße"),
        ("İstanbul", "i\u{307}stanbul"),
        // The combining dot after the i separates the rest of the word from it.
        ("İstanbul", "stanbul"),
    ])
    .await;
    assert_none_match(&[("ΟΔΟΣ", "οδοσ"), ("strasse", "straße")]).await;
}

#[tokio::test]
async fn combining_marks_end_a_word() {
    // Python does not count a Thai vowel sign as a letter, so it splits the first query into two
    // words.
    assert_all_match(&[("ข", "ก\u{e31}ข"), ("x\u{301}y", "y")]).await;
}

#[tokio::test]
async fn only_text_parts_of_an_event_are_searched() {
    let memory = InMemoryMemoryService::new();
    let thought = Part {
        thought: Some(true),
        ..Part::text("quietly")
    };
    let call = Part {
        function_call: Some(retain_core::FunctionCall::new(
            "lookup",
            retain_core::Json::Null,
        )),
        ..Part::default()
    };
    let parts = vec![Part::text("one"), call, Part::text(""), thought];
    let session = session("a", "u", "s", vec![event("1", parts)]);
    memory.add_session_to_memory(&session).await.unwrap();
    assert_eq!(hit_ids(&memory, "one").await, ["1"]);
    assert_eq!(hit_ids(&memory, "quietly").await, ["1"]);
    assert!(hit_ids(&memory, "lookup onequietly").await.is_empty());
}

#[tokio::test]
async fn hits_are_ordered_by_matched_words_then_arrival() {
    let memory = InMemoryMemoryService::new();
    let first = vec![
        text("1", "red"),
        text("2", "red green red"),
        text("3", "red"),
    ];
    let second = vec![text("4", "green blue red"), text("5", "blue red")];
    for (id, events) in [("z", first), ("a", second)] {
        let session = session("a", "u", id, events);
        memory.add_session_to_memory(&session).await.unwrap();
    }
    let ids = hit_ids(&memory, "Red, green, blue! RED").await;
    assert_eq!(ids, ["4", "2", "5", "1", "3"]);
}

#[tokio::test]
async fn search_returns_at_most_ten_hits() {
    let memory = InMemoryMemoryService::new();
    let mut events: Vec<_> = (0..15).map(|n| text(&n.to_string(), "red")).collect();
    events.push(text("best", "red blue"));
    let session = session("a", "u", "s", events);
    memory.add_session_to_memory(&session).await.unwrap();
    let ids = hit_ids(&memory, "red blue").await;
    assert_eq!(ids, ["best", "0", "1", "2", "3", "4", "5", "6", "7", "8"]);
}
