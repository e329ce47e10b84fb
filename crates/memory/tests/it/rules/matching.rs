//! Which texts a question finds, and in which order.

use retain_core::{MemoryService as _, Part};
use retain_memory::InMemoryMemoryService;

use super::{event, found, session, text};

/// Whether a memory of the text is found.
async fn finds(text: &str, query: &str) -> bool {
    let memory = InMemoryMemoryService::new();
    let session = session("a", "u", "s", vec![super::text("1", text)]);
    memory
        .add_session_to_memory(&session)
        .await
        .expect("memory takes it");
    !found(&memory, query).await.is_empty()
}

async fn all_find(pairs: &[(&str, &str)]) {
    for (text, query) in pairs {
        assert!(finds(text, query).await, "{query:?} in {text:?}");
    }
}

async fn none_find(pairs: &[(&str, &str)]) {
    for (text, query) in pairs {
        assert!(!finds(text, query).await, "{query:?} in {text:?}");
    }
}

#[tokio::test]
async fn one_shared_word_is_enough_and_case_does_not_matter() {
    all_find(&[
        ("I prefer high FLOORS.", "which floors?"),
        ("snake_case2", "SNAKE_CASE2"),
        ("room 12", "12"),
    ])
    .await;
    none_find(&[
        ("I prefer high floors.", "floor"),
        ("snake_case", "snake"),
        ("anything", ""),
        ("", "anything"),
        ("?!", "?!"),
    ])
    .await;
}

#[tokio::test]
async fn a_word_beyond_ascii_is_also_found_inside_another() {
    all_find(&[
        ("我喜欢高楼层", "高楼"),
        ("Fußböden", "ßbö"),
        ("ДОМАШНИЙ", "маш"),
        ("ห้องพัก", "ห้อง"),
    ])
    .await;
    none_find(&[("Fußboden", "boden"), ("foo", "öö")]).await;
}

#[tokio::test]
async fn a_latin_word_inside_another_script_is_a_word() {
    all_find(&[
        ("私はPythonを使う", "python"),
        ("私はPythonを使う", "使う"),
        ("éaя_b2", "_b2"),
        ("éaя_b2", "éa"),
    ])
    .await;
    none_find(&[
        ("私はPythonを使う", "thon"),
        // Full-width letters are another script to ADK.
        ("ａbｃ", "ab"),
        // Only the text is cut, never the question.
        ("python", "私はpython"),
    ])
    .await;
}

#[tokio::test]
async fn composed_and_decomposed_letters_are_the_same() {
    all_find(&[
        ("cafe\u{301}", "café"),
        ("café", "CAFE\u{301}"),
        ("\u{1112}\u{1161}\u{11ab}", "한"),
    ])
    .await;
    none_find(&[
        ("cafe", "café"),
        ("café", "cafe"),
        ("ﬁn", "fin"),
        ("x²", "x2"),
    ])
    .await;
}

#[tokio::test]
async fn lower_case_is_that_of_python() {
    all_find(&[
        ("ΟΔΟΣ", "οδος"),
        ("οδος", "ΟΔΟΣ"),
        ("STRAẞE", "straße"),
        ("İstanbul", "i\u{307}stanbul"),
        // The dot is a run of its own.
        ("İstanbul", "stanbul"),
    ])
    .await;
    none_find(&[("ΟΔΟΣ", "οδοσ"), ("strasse", "straße")]).await;
}

#[tokio::test]
async fn marks_end_a_word() {
    // A Thai vowel sign is no letter in Python, unlike elsewhere: the question has two words.
    all_find(&[("ข", "ก\u{e31}ข"), ("x\u{301}y", "y")]).await;
}

#[tokio::test]
async fn all_texts_of_an_event_count_and_nothing_else_does() {
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
    assert_eq!(found(&memory, "one").await, ["1"]);
    assert_eq!(found(&memory, "quietly").await, ["1"]);
    assert!(found(&memory, "lookup onequietly").await.is_empty());
}

#[tokio::test]
async fn more_words_come_first_and_equals_in_the_order_they_came() {
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
    let ids = found(&memory, "Red, green, blue! RED").await;
    assert_eq!(ids, ["4", "2", "5", "1", "3"]);
}

#[tokio::test]
async fn ten_are_found_at_most() {
    let memory = InMemoryMemoryService::new();
    let mut events: Vec<_> = (0..15).map(|n| text(&n.to_string(), "red")).collect();
    events.push(text("best", "red blue"));
    let session = session("a", "u", "s", events);
    memory.add_session_to_memory(&session).await.unwrap();
    let ids = found(&memory, "red blue").await;
    assert_eq!(ids, ["best", "0", "1", "2", "3", "4", "5", "6", "7", "8"]);
}
