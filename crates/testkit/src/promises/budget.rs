//! Promises about memory: what a request reads counts against its budget, page by page.

use futures_util::StreamExt as _;
use retain_core::{
    Event, ExportScope, ListSessions, SessionError, SessionKey, Window,
    budget::{BudgetUse, ByteBudget, Meter},
};

use super::common::*;
use crate::harness::Harness;

const KB: usize = 1024;

/// Creates a session of 40 events of 100 KiB.
async fn large_session(log: &Log) -> SessionKey {
    let key = create(log, "s").await;
    for number in 1..=40 {
        let mut event = Event::user_text("x".repeat(100 * KB));
        event.id = format!("e{number}");
        append(log, &key, event).await;
    }
    key
}

/// A page ends before the event with which it exceeds its size, and has at least one event.
pub async fn page_is_limited_by_bytes_and_has_at_least_one_event(harness: Harness) {
    let log = harness.service();
    let key = create(&log, "s").await;
    for bytes in [10, 10, 10, 30, 1, 1, 1, 1] {
        append(&log, &key, Event::user_text("x".repeat(bytes * KB))).await;
    }
    let (mut pages, mut position) = (Vec::new(), 0);
    while position < 8 {
        let page = read_window(&log, &key, Window::page(position, 3, 25 * KB)).await;
        let positions = loaded_positions(&page);
        position = *positions.last().expect("a page has at least one event");
        pages.push(positions);
    }
    let expected = [vec![1, 2], vec![3], vec![4], vec![5, 6, 7], vec![8]];
    assert_eq!(pages, expected);
    let end = read_window(&log, &key, Window::page(8, 3, 25 * KB)).await;
    assert!(end.events.is_empty());
}

/// A tail that is not read holds one page of a large session, and none while it waits for events.
pub async fn tail_holds_one_page_of_a_large_session(harness: Harness) {
    let log = harness.service();
    let key = large_session(&log).await;
    let budget = ByteBudget::new(64 * KB * KB);
    let request = Meter::new(&budget, BudgetUse::Requests);
    let mut tail = request.scope(async { log.tail(&key, 0) }).await;
    for _ in 0..40 {
        next_events(&mut tail, 1).await;
        let held = budget.used_for(BudgetUse::Streams);
        assert!(held <= 512 * KB, "a tail holds {held} bytes");
    }
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(50), tail.next());
    assert!(waiting.await.is_err(), "the log has no more events");
    assert_eq!(budget.used(), 0);
    drop(tail);
}

/// An export that is not read holds one page of a large session.
pub async fn export_holds_one_page_of_a_large_session(harness: Harness) {
    let log = harness.service();
    let key = large_session(&log).await;
    let budget = ByteBudget::new(64 * KB * KB);
    let request = Meter::new(&budget, BudgetUse::Requests);
    let mut lines = request
        .scope(async { log.export(ExportScope::Session(key)) })
        .await;
    let mut count = 0;
    while let Some(line) = within_a_minute(lines.next()).await {
        line.unwrap();
        count += 1;
        let held = budget.used_for(BudgetUse::Streams);
        assert!(held <= 512 * KB, "an export holds {held} bytes");
    }
    assert_eq!(count, 42);
    drop((lines, request));
    assert_eq!(budget.used(), 0);
}

/// A page of a list counts only its own sessions, with their states.
pub async fn page_of_a_list_counts_only_its_sessions(harness: Harness) {
    let log = harness.service();
    for number in 0..50 {
        let state = format!(r#"{{"k":"{}"}}"#, "x".repeat(10 * KB));
        create_with(&log, &format!("s{number}"), &state).await;
    }
    let budget = ByteBudget::new(400 * KB);
    let mut page = ListSessions::new(APP).include_state().with_limit(1);
    let mut listed = 0;
    loop {
        let request = Meter::new(&budget, BudgetUse::Requests);
        let found = request.scope(log.list(page.clone())).await.unwrap();
        assert!(request.charged() <= 100 * KB, "{}", request.charged());
        listed += found.sessions.len();
        let Some(next) = found.next else {
            break;
        };
        page.after = Some(next);
    }
    assert_eq!((listed, budget.used()), (50, 0));
    // A list of all sessions either needs no memory of its own or is refused before it is complete.
    let request = Meter::new(&budget, BudgetUse::Requests);
    let all = request.scope(log.list_sessions(APP, None)).await;
    assert!(
        matches!(all, Ok(_) | Err(SessionError::OverBudget(_))),
        "{all:?}"
    );
    assert!(request.charged() <= 400 * KB);
}
