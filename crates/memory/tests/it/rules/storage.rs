//! Which events are stored as memories, the isolation of users and apps, and deletion.

use std::{sync::Arc, time::Duration};

use retain_core::{
    Clock as _, Content, Event, LlmResponse, MemoryEntry, MemoryError, MemoryService as _, Part,
};
use retain_memory::InMemoryMemoryService;
use retain_testkit::{TestClock, TestIds};

use super::{event, hit_ids, session, shared, text};

#[tokio::test]
async fn found_memory_has_content_author_and_time() {
    let memory = InMemoryMemoryService::new();
    let parts = vec![Part::text("red"), Part::text("wine")];
    let session = session("a", "u", "s", vec![event("e1", parts)]);
    memory.add_session_to_memory(&session).await.unwrap();
    let found = memory.search_memory("a", "u", "wine").await.unwrap();
    assert_eq!(
        found.to_json().unwrap(),
        concat!(
            r#"{"memories":[{"content":{"parts":[{"text":"red"},{"text":"wine"}],"role":"user"},"#,
            r#""custom_metadata":{},"id":"e1","author":"user","#,
            r#""timestamp":"2023-11-14T22:13:20.500000"}]}"#
        )
    );
}

#[tokio::test]
async fn search_does_not_cross_users_or_apps() {
    let memory = InMemoryMemoryService::new();
    for (app, user) in [("a/u", "x"), ("a", "u/x"), ("a", "u")] {
        let id = format!("{app} {user}");
        let session = session(app, user, "s", vec![text(&id, "red")]);
        memory.add_session_to_memory(&session).await.unwrap();
    }
    for (app, user) in [("a/u", "x"), ("a", "u/x"), ("a", "u")] {
        let found = memory.search_memory(app, user, "red").await.unwrap();
        let ids: Vec<_> = found
            .memories
            .iter()
            .map(|m| m.id.clone().unwrap())
            .collect();
        assert_eq!(ids, [format!("{app} {user}")]);
    }
    let unknown_user = memory.search_memory("a", "x", "red").await.unwrap();
    assert!(unknown_user.memories.is_empty());
}

#[tokio::test]
async fn session_added_again_is_replaced_in_place() {
    let memory = InMemoryMemoryService::new();
    let events = vec![text("1", "red"), text("2", "red")];
    let mut first = session("a", "u", "s1", events);
    memory.add_session_to_memory(&first).await.unwrap();
    let second = session("a", "u", "s2", vec![text("3", "red")]);
    memory.add_session_to_memory(&second).await.unwrap();
    assert_eq!(hit_ids(&memory, "red").await, ["1", "2", "3"]);

    first.events.push(3, text("4", "red"));
    memory.add_session_to_memory(&first).await.unwrap();
    assert_eq!(hit_ids(&memory, "red").await, ["1", "2", "4", "3"]);

    // An event with a known id and other text replaces the stored event.
    let rewritten = session("a", "u", "s1", vec![text("1", "blue")]);
    memory.add_session_to_memory(&rewritten).await.unwrap();
    assert_eq!(hit_ids(&memory, "red").await, ["3"]);
    assert_eq!(hit_ids(&memory, "blue").await, ["1"]);
}

#[tokio::test]
async fn repeated_events_are_added_once_per_session() {
    let memory = InMemoryMemoryService::new();
    let whole = session("a", "u", "s", vec![text("1", "red")]);
    memory.add_session_to_memory(&whole).await.unwrap();
    let more = shared(vec![
        text("1", "red"),
        text("2", "red"),
        text("2", "red blue"),
    ]);
    for session in [Some("s"), None, Some("")] {
        let add = memory.add_events_to_memory("a", "u", &more, session, None);
        add.await.unwrap();
    }
    // Events without a session id belong to a separate session, which does not have these ids.
    assert_eq!(hit_ids(&memory, "red").await, ["1", "2", "1", "2"]);
    assert!(hit_ids(&memory, "blue").await.is_empty());
    // Adding a whole session replaces events that were added separately.
    memory.add_session_to_memory(&whole).await.unwrap();
    assert_eq!(hit_ids(&memory, "red").await, ["1", "1", "2"]);
}

#[tokio::test]
async fn events_with_the_same_id_in_a_session_are_all_stored() {
    let memory = InMemoryMemoryService::new();
    let twice = session("a", "u", "s", vec![text("1", "red"), text("1", "red")]);
    memory.add_session_to_memory(&twice).await.unwrap();
    assert_eq!(hit_ids(&memory, "red").await, ["1", "1"]);
}

#[tokio::test]
async fn event_without_parts_is_not_stored() {
    let memory = InMemoryMemoryService::new();
    let bare = Event {
        id: "1".into(),
        ..Event::new("user", LlmResponse::default())
    };
    let empty = Event {
        id: "2".into(),
        ..Event::new("user", LlmResponse::from_content(Content::default()))
    };
    let events = shared(vec![bare, empty, event("3", vec![])]);
    let add = memory.add_events_to_memory("a", "u", &events, None, None);
    add.await.unwrap();
    // Nothing was stored, so events with these ids are new.
    let events = shared(vec![text("1", "red"), text("2", "red"), text("3", "red")]);
    let add = memory.add_events_to_memory("a", "u", &events, None, None);
    add.await.unwrap();
    assert_eq!(hit_ids(&memory, "red").await, ["1", "2", "3"]);
}

#[tokio::test]
async fn deleted_event_is_not_ingested_again() {
    let memory = InMemoryMemoryService::new();
    let whole = session("a", "u", "s", vec![text("1", "red"), text("2", "red")]);
    memory.add_session_to_memory(&whole).await.unwrap();
    let other = shared(vec![text("1", "red"), text("3", "red")]);
    let add = memory.add_events_to_memory("a", "u", &other, None, None);
    add.await.unwrap();

    memory.delete_memory("a", "u", Some("1")).await.unwrap();
    assert_eq!(hit_ids(&memory, "red").await, ["2", "3"]);
    memory.add_session_to_memory(&whole).await.unwrap();
    let add = memory.add_events_to_memory("a", "u", &other, Some("t"), None);
    add.await.unwrap();
    assert_eq!(hit_ids(&memory, "red").await, ["2", "3", "3"]);
}

#[tokio::test]
async fn deleting_an_unknown_id_leaves_no_tombstone() {
    let memory = InMemoryMemoryService::new();
    let other = session("a", "u", "t", vec![text("2", "blue")]);
    memory.add_session_to_memory(&other).await.unwrap();
    let whole = session("a", "u", "s", vec![text("1", "red")]);
    for id in [None, Some(""), Some("1")] {
        memory.delete_memory("a", "u", id).await.unwrap();
    }
    memory.add_session_to_memory(&whole).await.unwrap();
    for (user, id) in [("u", None), ("u", Some("")), ("v", Some("1"))] {
        memory.delete_memory("a", user, id).await.unwrap();
    }
    assert_eq!(hit_ids(&memory, "red").await, ["1"]);
}

#[tokio::test]
async fn add_memory_is_unsupported() {
    let memory = InMemoryMemoryService::new();
    let entries = [MemoryEntry::default()];
    let add = memory.add_memory("a", "u", &entries, None);
    let error = add.await.unwrap_err();
    assert!(matches!(
        error,
        MemoryError::Unsupported {
            method: "add_memory"
        }
    ));
}

#[tokio::test]
async fn ingested_event_without_id_and_time_gets_both() {
    let clock = TestClock::default();
    let memory = InMemoryMemoryService::new()
        .with_clock(Arc::new(clock.clone()))
        .with_ids(Arc::new(TestIds::new("new")));
    clock.tick(Duration::from_secs(60));
    let events = shared(vec![Event::user_text("red"), Event::user_text("red wine")]);
    let add = memory.add_events_to_memory("a", "u", &events, None, None);
    add.await.unwrap();
    let found = memory.search_memory("a", "u", "red").await.unwrap();
    assert_eq!(found.memories.len(), 2);
    let (first, second) = (&found.memories[0], &found.memories[1]);
    assert!(first.id.as_deref().is_some_and(|id| id.starts_with("new")));
    assert_ne!(first.id, second.id);
    assert_eq!(first.timestamp_seconds(), Some(clock.now()));
    assert!(events[0].id.is_empty());
}

#[tokio::test]
async fn timestamp_outside_the_calendar_is_omitted() {
    let memory = InMemoryMemoryService::new();
    let late = Event {
        timestamp: 1e15,
        ..text("1", "red")
    };
    let session = session("a", "u", "s", vec![late]);
    memory.add_session_to_memory(&session).await.unwrap();
    let found = memory.search_memory("a", "u", "red").await.unwrap();
    assert_eq!(found.memories[0].timestamp, None);
}
