//! Promises about stored entries: each is stored once, survives a restart, and is not ingested again
//! after its deletion.

use std::sync::Arc;

use retain_core::{Content, Event, MemoryError, Part};

use super::{MemoryHarness, Sharing, found_texts, session, user_event};

/// Adding the same session again changes nothing.
pub async fn session_added_twice_is_stored_once(harness: MemoryHarness) {
    let memory = harness.service().await;
    let session = session("s1", &["I like green apples.", "Pears are fine."]);
    for _ in 0..3 {
        memory.add_session_to_memory(&session).await.unwrap();
    }
    let apples = found_texts(&*memory, "apples").await;
    let apples = apples.iter().filter(|text| text.contains("apples"));
    assert_eq!(apples.count(), 1);
}

/// A session that has grown adds its new entries and keeps the existing ones.
pub async fn session_that_has_grown_adds_only_its_new_entries(harness: MemoryHarness) {
    let memory = harness.service().await;
    let mut session = session("s1", &["My cat is called Tom."]);
    for number in 2..6 {
        memory.add_session_to_memory(&session).await.unwrap();
        let text = format!("Friend number{number} came to visit.");
        session
            .events
            .push(number, user_event(&format!("e{number}"), &text));
    }
    memory.add_session_to_memory(&session).await.unwrap();
    assert!(found_texts(&*memory, "cat").await[0].contains("Tom"));
    for number in 2..6 {
        let visits = found_texts(&*memory, &format!("number{number}")).await;
        let text = format!("Friend number{number} came to visit.");
        let same = visits.iter().filter(|visit| **visit == text);
        assert_eq!(same.count(), 1, "{number}");
    }
}

/// Single events are added to the entries of their session; existing ones do not change.
pub async fn single_events_are_added_to_existing_entries(harness: MemoryHarness) {
    let memory = harness.service().await;
    let session = session("s1", &["The meeting is on Friday."]);
    memory.add_session_to_memory(&session).await.unwrap();
    let events = [
        Arc::new(user_event("s1-1", "The meeting is on Friday.")),
        Arc::new(user_event("s1-2", "The budget is small.")),
    ];
    for _ in 0..2 {
        let added = memory.add_events_to_memory("app", "ada", &events, Some("s1"), None);
        added.await.unwrap();
    }
    for word in ["meeting", "budget"] {
        let texts = found_texts(&*memory, word).await;
        let same = texts.iter().filter(|text| text.contains(word));
        assert_eq!(same.count(), 1, "{word}: {texts:?}");
    }
}

/// A deleted entry is not found, and adding its session again does not restore it.
pub async fn deleted_entry_is_not_ingested_again(harness: MemoryHarness) {
    let memory = harness.service().await;
    let session = session("s1", &["The code is swordfish.", "The tea is cold."]);
    memory.add_session_to_memory(&session).await.unwrap();
    let entries = memory.search_memory("app", "ada", "swordfish").await;
    let entries = entries.unwrap().memories.into_iter();
    let mut entries = entries.filter(|it| it.content.text_concat().contains("swordfish"));
    let id = entries.next().unwrap().id.unwrap();
    let others = memory.delete_memory("app", "grace", Some(&id)).await;
    others.unwrap();
    for unknown in [None, Some("nobody")] {
        memory.delete_memory("app", "ada", unknown).await.unwrap();
    }
    assert!(found_texts(&*memory, "swordfish").await[0].contains("swordfish"));
    memory.delete_memory("app", "ada", Some(&id)).await.unwrap();
    for _ in 0..2 {
        let left = found_texts(&*memory, "swordfish").await;
        assert!(
            !left.iter().any(|text| text.contains("swordfish")),
            "{left:?}"
        );
        assert!(found_texts(&*memory, "tea").await[0].contains("tea"));
        memory.add_session_to_memory(&session).await.unwrap();
    }
    if harness.sharing != Sharing::Alone {
        let second = harness.service().await;
        second.add_session_to_memory(&session).await.unwrap();
        let left = found_texts(&*second, "swordfish").await;
        assert!(
            !left.iter().any(|text| text.contains("swordfish")),
            "{left:?}"
        );
    }
}

/// A user name that some store does not support either has no entries or is rejected as invalid. It
/// is not reported as a failure of the store.
pub async fn invalid_user_name_has_no_entries_or_is_refused(harness: MemoryHarness) {
    let memory = harness.service().await;
    for (app, user) in [("a\0b", "ada"), ("app", "a\0b")] {
        match memory.search_memory(app, user, "tea").await {
            Ok(found) => assert_eq!(found.memories, []),
            Err(error) => assert!(
                matches!(error, MemoryError::InvalidInput { .. }),
                "{error:?}"
            ),
        }
        let deleted = memory.delete_memory(app, user, Some("id")).await;
        assert!(
            matches!(deleted, Ok(()) | Err(MemoryError::InvalidInput { .. })),
            "{deleted:?}"
        );
    }
}

/// A durable memory keeps its entries when it is reopened.
pub async fn memories_survive_a_restart(harness: MemoryHarness) {
    if harness.sharing != Sharing::Durable {
        return;
    }
    let memory = harness.service().await;
    let session = session("s1", &["The key is under the mat.", "Lock the door."]);
    memory.add_session_to_memory(&session).await.unwrap();
    let before = memory.search_memory("app", "ada", "key").await.unwrap();
    drop(memory);
    let memory = harness.service().await;
    let after = memory.search_memory("app", "ada", "key").await.unwrap();
    assert_eq!(before, after);
    assert!(!after.memories.is_empty());
}

/// An image in the same event as a text is returned with the text, byte for byte.
pub async fn entry_keeps_its_non_text_parts(harness: MemoryHarness) {
    let memory = harness.service().await;
    let bytes: Vec<u8> = (0..=255).collect();
    let parts = vec![
        Part::text("This is my garden."),
        Part::bytes(bytes, "image/png"),
    ];
    let mut event = Event::user_text("");
    event.id = "e1".to_owned();
    event.response.content = Some(Content::new("user", parts));
    let content = event.response.content.clone();
    let mut session = session("s1", &[]);
    session.events.push(1, event);
    memory.add_session_to_memory(&session).await.unwrap();
    let entries = memory.search_memory("app", "ada", "garden").await.unwrap();
    assert_eq!(Some(&entries.memories[0].content), content.as_ref());
    assert_eq!(entries.memories[0].author.as_deref(), Some("user"));
}
