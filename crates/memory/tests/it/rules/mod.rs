//! The rules of the memory service that searches by words, one test per rule. The parity test shows
//! that they are ADK's; these tests make them readable.

mod keeping;
mod matching;

use std::sync::Arc;

use retain_core::{Content, Event, LlmResponse, MemoryService as _, Part, Session};
use retain_memory::InMemoryMemoryService;

/// Creates an event with an id, a time and these parts.
fn event(id: &str, parts: Vec<Part>) -> Event {
    let content = Content {
        parts: Some(parts),
        ..Content::user("")
    };
    Event {
        id: id.into(),
        timestamp: 1_700_000_000.5,
        ..Event::new("user", LlmResponse::of(content))
    }
}

fn text(id: &str, text: &str) -> Event {
    event(id, vec![Part::text(text)])
}

fn session(app: &str, user: &str, id: &str, events: Vec<Event>) -> Session {
    let mut session = Session::new(app, user, id);
    session.events.extend((1..).zip(events));
    session
}

fn shared(events: Vec<Event>) -> Vec<Arc<Event>> {
    events.into_iter().map(Arc::new).collect()
}

/// Returns the ids that a search finds for the user `u` of the app `a`.
async fn found(memory: &InMemoryMemoryService, query: &str) -> Vec<String> {
    let found = memory.search_memory("a", "u", query).await;
    let memories = found.expect("a search succeeds").memories.into_iter();
    memories.filter_map(|memory| memory.id).collect()
}
