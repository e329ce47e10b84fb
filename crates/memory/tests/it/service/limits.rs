//! Limits per user, TTLs and repeated ids.

use std::{sync::Arc, time::Duration};

use retain_core::{
    Content, Event, Forget, MemoryEntry, MemoryError, MemoryLimits, MemoryService as _,
    MemoryUpdate, Quotas, Session, Usage,
};
use retain_memory::IngestOptions;

use super::{InMemory, found_texts, in_memory, receipt, session_with};

/// Creates a direct entry.
fn entry(id: &str, text: &str) -> MemoryEntry {
    MemoryEntry {
        content: Content::user(text),
        id: Some(id.to_owned()),
        ..MemoryEntry::default()
    }
}

fn event(id: &str, text: &str) -> Arc<Event> {
    let mut event = Event::user_text(text);
    event.id = id.to_owned();
    Arc::new(event)
}

fn session_of_messages(id: &str, count: usize) -> Session {
    let texts = (0..count).map(|n| Event::user_text(format!("{id} says {n}")));
    session_with(id, texts.collect())
}

/// Creates options with a TTL.
fn with_ttl(seconds: u64) -> IngestOptions {
    IngestOptions::default().with_ttl(Duration::from_secs(seconds))
}

async fn count_entries(memory: &InMemory) -> u64 {
    memory.statistics("app", "ada").await.unwrap().entries
}

#[tokio::test]
async fn entries_with_equal_ids_are_applied_in_order() {
    let (memory, _) = in_memory();
    let options = IngestOptions::default();
    let events = [event("e", "pears"), event("e", "plums"), event("f", "figs")];
    let added = memory.add_events_with("app", "ada", &events, Some("s1"), &options);
    let expected = receipt(2, 0, 1);
    assert_eq!(added.await.unwrap(), expected);
    let record = memory.get("app", "ada", "e").await.unwrap().unwrap();
    assert_eq!(record.content.text_concat(), "pears");

    let entries = [
        entry("fact", "Ada is a pilot."),
        entry("fact", "Ada is a captain."),
    ];
    for expected in [
        receipt(1, 1, 0),
        // Each entry differs from the memory stored at that moment, so both replace it.
        receipt(0, 2, 0),
    ] {
        let added = memory
            .add_memory_with("app", "ada", &entries, &options)
            .await;
        assert_eq!(added.unwrap(), expected);
        assert_eq!(found_texts(&memory, "captain").await, ["Ada is a captain."]);
        assert!(found_texts(&memory, "pilot").await.is_empty());
    }
    // The third event equals the memory of the first round. It must not be skipped, because the
    // second event has replaced that memory by then.
    let mut session = Session::new("app", "ada", "s2");
    for (position, text) in [(1, "apples"), (2, "melons"), (3, "apples")] {
        session.events.push(position, event("g", text));
    }
    for _ in 0..2 {
        memory.add_session_with(&session, &options).await.unwrap();
        let record = memory.get("app", "ada", "g").await.unwrap().unwrap();
        assert_eq!(record.content.text_concat(), "apples");
    }
}

#[tokio::test]
async fn edit_is_rejected_over_the_limit() {
    let (memory, _) = in_memory();
    let memory = memory.with_limits(MemoryLimits::default().with_bytes(300));
    memory
        .add_session_to_memory(&session_of_messages("s1", 3))
        .await
        .unwrap();
    let long = MemoryUpdate::default().with_content(Content::user("x".repeat(200)));
    let rejected = memory.update("app", "ada", "s1-1", long).await;
    let error = rejected.unwrap_err().to_string();
    assert!(error.contains("bytes of a user's memories"), "{error}");
    let without_text = MemoryUpdate::default().with_content(Content::user(" "));
    let rejected = memory.update("app", "ada", "s1-1", without_text).await;
    assert!(matches!(rejected, Err(MemoryError::InvalidInput { .. })));
    assert_eq!(found_texts(&memory, "s1 says 0").await[0], "s1 says 0");
}

#[tokio::test]
async fn author_names_count_against_the_byte_limit() {
    let (memory, _) = in_memory();
    let memory = memory.with_limits(MemoryLimits::default().with_bytes(1000));
    let long_author = Event::model_text("b".repeat(2000), "hello");
    let session = session_with("s1", vec![long_author]);
    let rejected = memory.add_session_to_memory(&session).await;
    assert!(matches!(rejected, Err(MemoryError::LimitExceeded { .. })));
}

#[tokio::test]
async fn ingest_over_the_rate_limit_resumes_later() {
    let (memory, clock) = in_memory();
    let memory = memory.with_limits(MemoryLimits::default().with_entries_per_minute(600));
    let session = session_of_messages("s1", 1200);
    let rejected = memory.add_session_to_memory(&session).await;
    let error = rejected.unwrap_err().to_string();
    assert!(error.contains("within a minute"), "{error}");
    assert_eq!(count_entries(&memory).await, 500);
    clock.tick(Duration::from_secs(60));
    let options = IngestOptions::default();
    let rejected = memory.add_session_with(&session, &options).await;
    assert!(rejected.is_err());
    clock.tick(Duration::from_secs(60));
    let added = memory.add_session_with(&session, &options).await.unwrap();
    assert_eq!((added.unchanged, added.added), (1000, 200));
    assert_eq!(count_entries(&memory).await, 1200);
}

#[tokio::test]
async fn default_rate_limit_allows_an_import_and_limits_a_flood() {
    let limits = MemoryLimits::default();
    // Within a minute, an import can add five years of messages at 100 a day. A flood needs at
    // least five minutes to reach the maximum number of entries.
    assert!(limits.entries_per_minute >= 100 * 365 * 5);
    assert!(limits.entries_per_minute * 5 <= limits.entries);
}

#[tokio::test]
async fn expired_memories_do_not_count_against_limits() {
    let (memory, clock) = in_memory();
    let memory = memory.with_limits(MemoryLimits::default().with_entries(2).with_bytes(200));
    let options = IngestOptions::default();
    memory
        .add_session_with(&session_of_messages("s1", 2), &with_ttl(10))
        .await
        .unwrap();
    assert!(
        memory
            .add_session_with(&session_of_messages("s2", 1), &options)
            .await
            .is_err()
    );
    // No sweep has run yet, because less than a minute has passed.
    clock.tick(Duration::from_secs(10));
    assert_eq!(count_entries(&memory).await, 0);
    let added = memory
        .add_session_with(&session_of_messages("s2", 2), &options)
        .await;
    assert_eq!(added.unwrap().added, 2);
}

#[tokio::test]
async fn ingest_deletes_expired_memories_as_fast_as_they_expire() {
    let (memory, clock) = in_memory();
    memory
        .add_session_with(&session_of_messages("s1", 3500), &with_ttl(10))
        .await
        .unwrap();
    clock.tick(Duration::from_secs(60));
    for n in 0..4 {
        let more = session_of_messages(&format!("more{n}"), 1);
        memory.add_session_to_memory(&more).await.unwrap();
    }
    // The ingests have deleted all expired memories.
    assert_eq!(memory.expire().await.unwrap(), 0);
}

#[tokio::test]
async fn expired_direct_entry_can_be_added_again() {
    let (memory, clock) = in_memory();
    let ttl = with_ttl(10);
    let away = [entry("away", "Ada is on holiday.")];
    for is_swept in [false, true] {
        let added = memory.add_memory_with("app", "ada", &away, &ttl);
        let added = added.await.unwrap();
        assert_eq!(added.unchanged + added.forgotten, 0, "{added:?}");
        assert_eq!(
            found_texts(&memory, "holiday").await,
            ["Ada is on holiday."]
        );
        clock.tick(Duration::from_secs(10));
        assert!(found_texts(&memory, "holiday").await.is_empty());
        if is_swept {
            assert_eq!(memory.expire().await.unwrap(), 1);
        }
    }
    let added = memory.add_memory_with("app", "ada", &away, &ttl);
    assert_eq!(added.await.unwrap().added, 1);
    // Unlike an expired memory, a forgotten one cannot be added again.
    let ids = Forget::Ids(vec!["away".to_owned()]);
    memory.forget("app", "ada", ids).await.unwrap();
    let added = memory.add_memory_with("app", "ada", &away, &ttl);
    assert_eq!(added.await.unwrap().forgotten, 1);
}

#[tokio::test]
async fn app_quota_counts_the_entries_of_all_users() {
    let (memory, clock) = in_memory();
    let quotas = Quotas::default()
        .with_user(Usage::default().with_memories(3))
        .with_app(Usage::default().with_memories(4));
    let memory = memory.with_quotas(quotas.clone());
    memory
        .add_session_to_memory(&session_of_messages("s1", 3))
        .await
        .unwrap();
    let mut other = session_of_messages("s2", 2);
    other.user_id = "bob".to_owned();
    let refused = memory.add_session_to_memory(&other).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "quota exceeded: app \"app\" uses 3 of 4 memories, and the request does not fit \
         (max-memories-per-app); delete data or raise the quota"
    );
    // Entries that exist already need no room, and forgotten ones make room at once.
    memory
        .add_session_to_memory(&session_of_messages("s1", 3))
        .await
        .unwrap();
    let one = Forget::Ids(vec!["s1-1".to_owned()]);
    memory.forget("app", "ada", one).await.unwrap();
    memory.add_session_to_memory(&other).await.unwrap();
    assert_eq!(memory.usage("app", None).await.unwrap(), 4);
    let own = memory
        .add_session_to_memory(&session_of_messages("s3", 2))
        .await
        .unwrap_err();
    assert!(own.to_string().contains("max-memories-per-user"), "{own}");
    let counts: Vec<u64> = quotas.rejections().map(|(_, _, count)| count).collect();
    assert_eq!(counts.iter().sum::<u64>(), 2);
    drop(clock);
}
