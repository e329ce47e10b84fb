//! ADK's in-memory memory service: word search, lost when the process ends.
//!
//! Events are stored by session, shared and unchanged. The words of an event are extracted on its
//! first search and cached.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use async_trait::async_trait;
use retain_core::{
    Clock, Content, Event, Ids, JsonMap, MemoryEntry, MemoryError, MemoryService, RandomIds,
    SearchMemoryResponse, Session, SystemClock, timestamp_text,
};

use crate::words::{QueryWords, SearchableText};

/// The session id of events that were added without one, as in ADK.
const NO_SESSION: &str = "__unknown_session_id__";
/// Maximum number of hits.
const FOUND_MAX: usize = 10;

/// A volatile memory service that finds entries by the words that they share with the query.
///
/// A search returns at most ten entries: those with the most words of the query, ties in order of
/// arrival. It returns the same results as ADK 2.13's class of the same name and is meant for tests
/// and experiments.
#[derive(Debug)]
pub struct InMemoryMemoryService {
    users: Mutex<HashMap<(String, String), UserMemory>>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// The memories of one user of an app.
#[derive(Debug, Default)]
struct UserMemory {
    /// In the order in which sessions were first added.
    sessions: Vec<Arc<Vec<Arc<IndexedEvent>>>>,
    /// The index of each session.
    places: HashMap<String, usize>,
    /// Deleted event ids. They are skipped when their session is added again.
    deleted: HashSet<String>,
}

/// An event with content.
#[derive(Debug)]
struct IndexedEvent {
    event: Arc<Event>,
    /// Extracted by the first search.
    searchable: OnceLock<SearchableText>,
}

impl Default for InMemoryMemoryService {
    fn default() -> InMemoryMemoryService {
        InMemoryMemoryService::new()
    }
}

impl InMemoryMemoryService {
    /// Create an empty service.
    pub fn new() -> InMemoryMemoryService {
        InMemoryMemoryService {
            users: Mutex::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
        }
    }

    /// Take the time of events without one from `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Take the ids of events without one from `ids`.
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    fn users(&self) -> MutexGuard<'_, HashMap<(String, String), UserMemory>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The events with content. Events without id or time get both, because in ADK every event has
    /// them.
    fn memorable(&self, events: impl Iterator<Item = Arc<Event>>) -> Vec<Arc<Event>> {
        let has_parts = |event: &Arc<Event>| parts_of(event).is_some();
        let complete = |mut event: Arc<Event>| {
            if event.id.is_empty() {
                Arc::make_mut(&mut event).id = self.ids.new_id();
            }
            if event.timestamp == 0.0 {
                Arc::make_mut(&mut event).timestamp = self.clock.now();
            }
            event
        };
        events.filter(has_parts).map(complete).collect()
    }
}

#[async_trait]
impl MemoryService for InMemoryMemoryService {
    /// Replace the stored events of the session.
    async fn add_session_to_memory(&self, session: &Session) -> Result<(), MemoryError> {
        let events = (0..session.events.len()).filter_map(|at| session.events.get_shared(at));
        let events = self.memorable(events);
        let key = (session.app_name.clone(), session.user_id.clone());
        let mut users = self.users();
        users.entry(key).or_default().replace(&session.id, events);
        Ok(())
    }

    async fn search_memory(
        &self,
        app_name: &str,
        user_id: &str,
        query: &str,
    ) -> Result<SearchMemoryResponse, MemoryError> {
        let key = (app_name.to_owned(), user_id.to_owned());
        let known = self.users().get(&key).map(|user| user.sessions.clone());
        let question = QueryWords::new(query);
        let mut found: Vec<(usize, &IndexedEvent)> = Vec::new();
        for remembered in known.iter().flatten().flat_map(|session| session.iter()) {
            let matches = remembered.searchable().matches(&question);
            if matches > 0 {
                found.push((matches, remembered));
            }
        }
        // A stable sort keeps the order of arrival for ties.
        found.sort_by_key(|(matches, _)| std::cmp::Reverse(*matches));
        let best = found.into_iter().take(FOUND_MAX);
        Ok(SearchMemoryResponse {
            memories: best.filter_map(|(_, found)| found.entry()).collect(),
            ..SearchMemoryResponse::default()
        })
    }

    /// Add events to the session and skip known ids. The metadata is ignored.
    async fn add_events_to_memory(
        &self,
        app_name: &str,
        user_id: &str,
        events: &[Arc<Event>],
        session_id: Option<&str>,
        _custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        let events = self.memorable(events.iter().cloned());
        let session = session_id.filter(|id| !id.is_empty()).unwrap_or(NO_SESSION);
        let key = (app_name.to_owned(), user_id.to_owned());
        let mut users = self.users();
        users.entry(key).or_default().extend(session, events);
        Ok(())
    }

    /// Delete the event with this id permanently, in all sessions of the user. A missing or unknown
    /// id is ignored.
    async fn delete_memory(
        &self,
        app_name: &str,
        user_id: &str,
        memory_id: Option<&str>,
    ) -> Result<(), MemoryError> {
        let key = (app_name.to_owned(), user_id.to_owned());
        if let Some(id) = memory_id
            && let Some(user) = self.users().get_mut(&key)
        {
            user.delete(id);
        }
        Ok(())
    }
}

impl UserMemory {
    fn replace(&mut self, session: &str, events: Vec<Arc<Event>>) {
        let before = std::mem::take(self.session_mut(session));
        // A session that has grown shares most events with its earlier version.
        let before: HashMap<*const Event, &Arc<IndexedEvent>> = before
            .iter()
            .map(|remembered| (Arc::as_ptr(&remembered.event), remembered))
            .collect();
        let kept = events
            .into_iter()
            .filter(|event| !self.deleted.contains(&event.id))
            .map(|event| match before.get(&Arc::as_ptr(&event)) {
                Some(remembered) => Arc::clone(remembered),
                None => IndexedEvent::new(event),
            })
            .collect();
        *self.session_mut(session) = Arc::new(kept);
    }

    fn extend(&mut self, session: &str, events: Vec<Arc<Event>>) {
        let mut kept = std::mem::take(self.session_mut(session));
        let known = kept.iter().map(|remembered| remembered.event.id.clone());
        let mut known: HashSet<String> = known.collect();
        let list = Arc::make_mut(&mut kept);
        for event in events {
            if !self.deleted.contains(&event.id) && known.insert(event.id.clone()) {
                list.push(IndexedEvent::new(event));
            }
        }
        *self.session_mut(session) = kept;
    }

    fn delete(&mut self, id: &str) {
        let has_id = |remembered: &Arc<IndexedEvent>| remembered.event.id == id;
        for session in &mut self.sessions {
            if session.iter().any(has_id) {
                Arc::make_mut(session).retain(|remembered| !has_id(remembered));
                self.deleted.insert(id.to_owned());
            }
        }
    }

    /// The events of a session; a new session is added at the end. Running searches keep their
    /// snapshot.
    fn session_mut(&mut self, session: &str) -> &mut Arc<Vec<Arc<IndexedEvent>>> {
        let place = match self.places.get(session) {
            Some(place) => *place,
            None => {
                self.sessions.push(Arc::default());
                self.places
                    .insert(session.to_owned(), self.sessions.len() - 1);
                self.sessions.len() - 1
            }
        };
        &mut self.sessions[place]
    }
}

impl IndexedEvent {
    fn new(event: Arc<Event>) -> Arc<IndexedEvent> {
        Arc::new(IndexedEvent {
            event,
            searchable: OnceLock::new(),
        })
    }

    fn searchable(&self) -> &SearchableText {
        self.searchable.get_or_init(|| {
            let parts = parts_of(&self.event)
                .map(Content::parts)
                .unwrap_or_default();
            let texts = parts.iter().filter_map(|part| part.text.as_deref());
            let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
            SearchableText::new(&texts.join(" "))
        })
    }

    fn entry(&self) -> Option<MemoryEntry> {
        Some(MemoryEntry {
            content: parts_of(&self.event)?.clone(),
            id: Some(self.event.id.clone()),
            author: Some(self.event.author.clone()),
            timestamp: timestamp_text(self.event.timestamp),
            ..MemoryEntry::default()
        })
    }
}

/// The event's content, if it has parts.
fn parts_of(event: &Event) -> Option<&Content> {
    event
        .content()
        .filter(|content| !content.parts().is_empty())
}
