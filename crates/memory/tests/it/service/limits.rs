//! Limits, TTLs and repeated ids: what counts against a limit, and how.

use std::{sync::Arc, time::Duration};

use retain_core::{
    Content, Event, Forget, IngestReceipt, MemoryEntry, MemoryError, MemoryLimits,
    MemoryService as _, MemoryUpdate, Session,
};
use retain_memory::IngestOptions;

use super::{InMemory, found, in_memory, session_with};

fn given(id: &str, text: &str) -> MemoryEntry {
    MemoryEntry {
        content: Content::user(text),
        id: Some(id.to_owned()),
        ..MemoryEntry::default()
    }
}

fn said(id: &str, text: &str) -> Arc<Event> {
    let mut event = Event::user_text(text);
    event.id = id.to_owned();
    Arc::new(event)
}

fn turns(id: &str, count: usize) -> Session {
    let texts = (0..count).map(|n| Event::user_text(format!("{id} says {n}")));
    session_with(id, texts.collect())
}

fn seconds(seconds: u64) -> IngestOptions {
    IngestOptions {
        ttl: Some(Duration::from_secs(seconds)),
        ..IngestOptions::default()
    }
}

async fn entries(memory: &InMemory) -> u64 {
    memory.statistics("app", "ada").await.unwrap().entries
}

#[tokio::test]
async fn repeated_id_in_a_call_is_applied_in_order() {
    let (memory, _) = in_memory();
    let any = IngestOptions::default();
    let events = [said("e", "pears"), said("e", "plums"), said("f", "figs")];
    let added = memory.add_events_with("app", "ada", &events, Some("s1"), &any);
    let expected = IngestReceipt {
        added: 2,
        known: 1,
        ..IngestReceipt::default()
    };
    assert_eq!(added.await.unwrap(), expected);
    let record = memory.get("app", "ada", "e").await.unwrap().unwrap();
    assert_eq!(record.content.text_concat(), "pears");

    let entries = [
        given("fact", "Ada is a pilot."),
        given("fact", "Ada is a captain."),
    ];
    for expected in [
        IngestReceipt {
            added: 1,
            replaced: 1,
            ..IngestReceipt::default()
        },
        // Each entry differs from the one stored before it, so both replace it.
        IngestReceipt {
            replaced: 2,
            ..IngestReceipt::default()
        },
    ] {
        let added = memory.add_memory_with("app", "ada", &entries, &any).await;
        assert_eq!(added.unwrap(), expected);
        assert_eq!(found(&memory, "captain").await, ["Ada is a captain."]);
        assert!(found(&memory, "pilot").await.is_empty());
    }
    // Like the first case, but in one call. The last event equals the stored memory, but must not
    // be skipped, because the second event changes the memory in between.
    let mut session = Session::new("app", "ada", "s2");
    for (position, text) in [(1, "apples"), (2, "melons"), (3, "apples")] {
        session.events.push(position, said("g", text));
    }
    for _ in 0..2 {
        memory.add_session_with(&session, &any).await.unwrap();
        let record = memory.get("app", "ada", "g").await.unwrap().unwrap();
        assert_eq!(record.content.text_concat(), "apples");
    }
}

#[tokio::test]
async fn edit_is_rejected_over_the_limit() {
    let (memory, _) = in_memory();
    let memory = memory.with_limits(MemoryLimits {
        bytes: 300,
        ..MemoryLimits::default()
    });
    memory.add_session_to_memory(&turns("s1", 3)).await.unwrap();
    let long = MemoryUpdate {
        content: Some(Content::user("x".repeat(200))),
        ..MemoryUpdate::default()
    };
    let refused = memory.update("app", "ada", "s1-1", long).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("bytes of a user's memories"), "{error}");
    let silent = MemoryUpdate {
        content: Some(Content::user(" ")),
        ..MemoryUpdate::default()
    };
    let refused = memory.update("app", "ada", "s1-1", silent).await;
    assert!(matches!(refused, Err(MemoryError::InvalidInput { .. })));
    assert_eq!(found(&memory, "s1 says 0").await[0], "s1 says 0");
}

#[tokio::test]
async fn author_names_count_against_the_byte_limit() {
    let (memory, _) = in_memory();
    let memory = memory.with_limits(MemoryLimits {
        bytes: 1000,
        ..MemoryLimits::default()
    });
    let loud = Event::model_text("b".repeat(2000), "hello");
    let session = session_with("s1", vec![loud]);
    let refused = memory.add_session_to_memory(&session).await;
    assert!(matches!(refused, Err(MemoryError::LimitExceeded { .. })));
}

#[tokio::test]
async fn ingest_over_the_rate_limit_resumes_later() {
    let (memory, clock) = in_memory();
    let memory = memory.with_limits(MemoryLimits {
        entries_per_minute: 600,
        ..MemoryLimits::default()
    });
    let session = turns("s1", 1200);
    let refused = memory.add_session_to_memory(&session).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("within a minute"), "{error}");
    assert_eq!(entries(&memory).await, 500);
    clock.tick(Duration::from_secs(60));
    let any = IngestOptions::default();
    let refused = memory.add_session_with(&session, &any).await;
    assert!(refused.is_err());
    clock.tick(Duration::from_secs(60));
    let added = memory.add_session_with(&session, &any).await.unwrap();
    assert_eq!((added.known, added.added), (1000, 200));
    assert_eq!(entries(&memory).await, 1200);
}

#[tokio::test]
async fn default_rate_limit_allows_an_import_and_limits_a_flood() {
    let limits = MemoryLimits::default();
    // One minute admits 100 messages a day for five years; filling the memory takes at least five
    // minutes.
    assert!(limits.entries_per_minute >= 100 * 365 * 5);
    assert!(limits.entries_per_minute * 5 <= limits.entries);
}

#[tokio::test]
async fn expired_memories_do_not_count_against_limits() {
    let (memory, clock) = in_memory();
    let memory = memory.with_limits(MemoryLimits {
        entries: 2,
        bytes: 200,
        ..MemoryLimits::default()
    });
    let any = IngestOptions::default();
    memory
        .add_session_with(&turns("s1", 2), &seconds(10))
        .await
        .unwrap();
    assert!(
        memory
            .add_session_with(&turns("s2", 1), &any)
            .await
            .is_err()
    );
    // Within the same minute, so that no sweep has run.
    clock.tick(Duration::from_secs(10));
    assert_eq!(entries(&memory).await, 0);
    let added = memory.add_session_with(&turns("s2", 2), &any).await;
    assert_eq!(added.unwrap().added, 2);
}

#[tokio::test]
async fn ingest_deletes_expired_memories_as_fast_as_they_expire() {
    let (memory, clock) = in_memory();
    memory
        .add_session_with(&turns("s1", 3500), &seconds(10))
        .await
        .unwrap();
    clock.tick(Duration::from_secs(60));
    for n in 0..4 {
        let more = turns(&format!("more{n}"), 1);
        memory.add_session_to_memory(&more).await.unwrap();
    }
    // No expired memory is left to delete.
    assert_eq!(memory.expire().await.unwrap(), 0);
}

#[tokio::test]
async fn expired_direct_entry_can_be_added_again() {
    let (memory, clock) = in_memory();
    let ttl = seconds(10);
    let away = [given("away", "Ada is on holiday.")];
    for is_swept in [false, true] {
        let added = memory.add_memory_with("app", "ada", &away, &ttl);
        let added = added.await.unwrap();
        assert_eq!(added.known + added.forgotten, 0, "{added:?}");
        assert_eq!(found(&memory, "holiday").await, ["Ada is on holiday."]);
        clock.tick(Duration::from_secs(10));
        assert!(found(&memory, "holiday").await.is_empty());
        if is_swept {
            assert_eq!(memory.expire().await.unwrap(), 1);
        }
    }
    let added = memory.add_memory_with("app", "ada", &away, &ttl);
    assert_eq!(added.await.unwrap().added, 1);
    // A memory that was forgotten explicitly stays forgotten and is counted as such.
    let ids = Forget::Ids(vec!["away".to_owned()]);
    memory.forget("app", "ada", ids).await.unwrap();
    let added = memory.add_memory_with("app", "ada", &away, &ttl);
    assert_eq!(added.await.unwrap().forgotten, 1);
}
