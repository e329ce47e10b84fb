//! ADK's in-memory memory service: word search, lost when the process ends.
//!
//! Each session has a list of its events, which are shared with the caller and not copied. The
//! first search of an event caches the event's words.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use async_trait::async_trait;
use retain_core::{
    Clock, Content, EraseReceipt, Event, Ids, JsonMap, MemoryEntry, MemoryError, MemoryService,
    RandomIds, SearchMemoryResponse, Session, StoreLabel, SystemClock, timestamp_text,
};

use crate::words::{QueryWords, SearchableText};

/// The session id of events that were added without one, as in ADK.
const NO_SESSION: &str = "__unknown_session_id__";
/// Maximum number of hits.
const HITS_MAX: usize = 10;

/// A volatile memory service that finds entries by the words that they share with the query.
///
/// A search returns at most ten entries: those with the most words of the query, ties in order of
/// arrival. Its results equal those of `InMemoryMemoryService` in ADK 2.13. The service is meant
/// for tests and experiments.
#[derive(Debug)]
pub struct InMemoryMemoryService {
    users: Mutex<HashMap<(String, String), UserMemory>>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// One user's memories in an app.
#[derive(Debug, Default)]
struct UserMemory {
    /// The sessions, in the order in which they were first added.
    sessions: Vec<Arc<Vec<Arc<IndexedEvent>>>>,
    /// Maps each session id to its index in `sessions`.
    indexes: HashMap<String, usize>,
    /// Deleted event ids. They are skipped when their session is added again.
    deleted: HashSet<String>,
}

/// An event with content, and its words.
#[derive(Debug)]
struct IndexedEvent {
    event: Arc<Event>,
    /// The words, which the first search extracts.
    searchable: OnceLock<SearchableText>,
}

impl Default for InMemoryMemoryService {
    fn default() -> InMemoryMemoryService {
        InMemoryMemoryService::new()
    }
}

impl InMemoryMemoryService {
    /// Creates an empty service.
    pub fn new() -> InMemoryMemoryService {
        InMemoryMemoryService {
            users: Mutex::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
        }
    }

    /// Takes the time of events without one from `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Takes the ids of events without one from `ids`.
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    fn users(&self) -> MutexGuard<'_, HashMap<(String, String), UserMemory>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the events with content. Adds a missing id or time, because in ADK every event has
    /// both.
    fn events_with_content(&self, events: impl Iterator<Item = Arc<Event>>) -> Vec<Arc<Event>> {
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
    /// Replaces the stored events of the session.
    async fn add_session_to_memory(&self, session: &Session) -> Result<(), MemoryError> {
        let events = (0..session.events.len()).filter_map(|at| session.events.get_shared(at));
        let events = self.events_with_content(events);
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
        let sessions = self.users().get(&key).map(|user| user.sessions.clone());
        let query = QueryWords::new(query);
        let mut hits: Vec<(usize, &IndexedEvent)> = Vec::new();
        for event in sessions.iter().flatten().flat_map(|session| session.iter()) {
            let matches = event.searchable().matches(&query);
            if matches > 0 {
                hits.push((matches, event));
            }
        }
        // A stable sort keeps the order of arrival for ties.
        hits.sort_by_key(|(matches, _)| std::cmp::Reverse(*matches));
        let best = hits.into_iter().take(HITS_MAX);
        Ok(SearchMemoryResponse {
            memories: best.filter_map(|(_, event)| event.entry()).collect(),
            ..SearchMemoryResponse::default()
        })
    }

    /// Adds events to the session, except those whose id it already has. The metadata is ignored,
    /// as in ADK.
    async fn add_events_to_memory(
        &self,
        app_name: &str,
        user_id: &str,
        events: &[Arc<Event>],
        session_id: Option<&str>,
        _custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        let events = self.events_with_content(events.iter().cloned());
        let session = session_id.filter(|id| !id.is_empty()).unwrap_or(NO_SESSION);
        let key = (app_name.to_owned(), user_id.to_owned());
        let mut users = self.users();
        users.entry(key).or_default().extend(session, events);
        Ok(())
    }

    async fn delete_expired_sessions(
        &self,
        app_name: &str,
        user_id: &str,
        session_ids: &[String],
    ) -> Result<u64, MemoryError> {
        let key = (app_name.to_owned(), user_id.to_owned());
        let mut users = self.users();
        let user = users.get_mut(&key);
        Ok(user.map_or(0, |user| user.delete_sessions(session_ids)))
    }

    /// Deletes the event with this id permanently, in all sessions of the user. A missing or
    /// unknown id is ignored.
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

    async fn erase_user(&self, app_name: &str, user_id: &str) -> Result<EraseReceipt, MemoryError> {
        let key = (app_name.to_owned(), user_id.to_owned());
        let erased = self.users().remove(&key).unwrap_or_default();
        let memories = erased.sessions.iter().map(|session| session.len());
        Ok(EraseReceipt::of_memories(
            memories.sum(),
            erased.deleted.len(),
        ))
    }

    fn store_label(&self) -> StoreLabel {
        StoreLabel::new("in memory")
    }
}

impl UserMemory {
    fn replace(&mut self, session: &str, events: Vec<Arc<Event>>) {
        let before = std::mem::take(self.session_mut(session));
        // A session that has grown shares most events with its earlier version: reuse their words.
        let before: HashMap<*const Event, &Arc<IndexedEvent>> = before
            .iter()
            .map(|indexed| (Arc::as_ptr(&indexed.event), indexed))
            .collect();
        let stored = events
            .into_iter()
            .filter(|event| !self.deleted.contains(&event.id))
            .map(|event| match before.get(&Arc::as_ptr(&event)) {
                Some(indexed) => Arc::clone(indexed),
                None => IndexedEvent::new(event),
            })
            .collect();
        *self.session_mut(session) = Arc::new(stored);
    }

    fn extend(&mut self, session: &str, events: Vec<Arc<Event>>) {
        let mut stored = std::mem::take(self.session_mut(session));
        let known = stored.iter().map(|indexed| indexed.event.id.clone());
        let mut known: HashSet<String> = known.collect();
        let list = Arc::make_mut(&mut stored);
        for event in events {
            if !self.deleted.contains(&event.id) && known.insert(event.id.clone()) {
                list.push(IndexedEvent::new(event));
            }
        }
        *self.session_mut(session) = stored;
    }

    fn delete(&mut self, id: &str) {
        let has_id = |indexed: &Arc<IndexedEvent>| indexed.event.id == id;
        for session in &mut self.sessions {
            if session.iter().any(has_id) {
                Arc::make_mut(session).retain(|indexed| !has_id(indexed));
                self.deleted.insert(id.to_owned());
            }
        }
    }

    /// Deletes the events of these sessions and returns their number. The sessions keep their
    /// places in the order.
    fn delete_sessions(&mut self, ids: &[String]) -> u64 {
        let indexes = ids.iter().filter_map(|id| self.indexes.get(id));
        let deleted = indexes.map(|index| std::mem::take(&mut self.sessions[*index]).len());
        deleted.sum::<usize>() as u64
    }

    /// Returns the events of a session, and adds the session if it is new. A running search keeps
    /// the old list, so a concurrent change copies it.
    fn session_mut(&mut self, session: &str) -> &mut Arc<Vec<Arc<IndexedEvent>>> {
        let index = match self.indexes.get(session) {
            Some(index) => *index,
            None => {
                self.sessions.push(Arc::default());
                self.indexes
                    .insert(session.to_owned(), self.sessions.len() - 1);
                self.sessions.len() - 1
            }
        };
        &mut self.sessions[index]
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

/// Returns the event's content, if it has parts.
fn parts_of(event: &Event) -> Option<&Content> {
    event
        .content()
        .filter(|content| !content.parts().is_empty())
}
