//! The rules of `InMemoryMemoryService`, which equal ADK's, each with a readable test. `parity`
//! compares the service with google-adk on random operations.

mod matching;
mod storage;

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
        ..Event::new("user", LlmResponse::from_content(content))
    }
}

/// Creates an event with one text.
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

/// Returns the ids that a search by user `u` of app `a` finds.
async fn hit_ids(memory: &InMemoryMemoryService, query: &str) -> Vec<String> {
    let found = memory.search_memory("a", "u", query).await;
    let memories = found.expect("a search succeeds").memories.into_iter();
    memories.filter_map(|memory| memory.id).collect()
}
