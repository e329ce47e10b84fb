//! Memories in memory, found by words: ADK's service of this name. Gone with the process.
//!
//! Events come in by session and are kept as they are, shared. What is needed to search in one is
//! worked out when it is first searched, and kept with it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use async_trait::async_trait;
use retain_core::{
    Clock, Content, Event, Ids, JsonMap, MemoryEntry, MemoryError, MemoryService, RandomIds,
    SearchMemoryResponse, Session, SystemClock, timestamp_text,
};

use crate::words::{Question, Searchable};

/// The session of events that were added without one. ADK's name for it.
const NO_SESSION: &str = "__unknown_session_id__";
/// A search finds no more than this.
const FOUND_MAX: usize = 10;

/// Memories that live as long as the process, found by the words they share with a question.
///
/// A search gives at most ten memories: those that have the most words of the question, in the
/// order they came in where they have as many. It answers as ADK 2.13's class of the same name; it
/// is meant for tests and for trying things out.
#[derive(Debug)]
pub struct InMemoryMemoryService {
    users: Mutex<HashMap<(String, String), UserMemory>>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// What is known of a user of an app.
#[derive(Debug, Default)]
struct UserMemory {
    /// In the order in which they were first added.
    sessions: Vec<Arc<Vec<Arc<Remembered>>>>,
    /// Where a session stands among them.
    places: HashMap<String, usize>,
    /// Event ids that were deleted. They stay out when their session is added again.
    deleted: HashSet<String>,
}

/// An event with content.
#[derive(Debug)]
struct Remembered {
    event: Arc<Event>,
    /// Made by the first search.
    searchable: OnceLock<Searchable>,
}

impl Default for InMemoryMemoryService {
    fn default() -> InMemoryMemoryService {
        InMemoryMemoryService::new()
    }
}

impl InMemoryMemoryService {
    /// A service that knows nothing yet.
    pub fn new() -> InMemoryMemoryService {
        InMemoryMemoryService {
            users: Mutex::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
        }
    }

    /// Takes the time of events that have none from `clock`.
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Takes the ids of events that have none from `ids`.
    pub fn with_ids(mut self, ids: impl Ids) -> Self {
        self.ids = Arc::new(ids);
        self
    }

    fn users(&self) -> MutexGuard<'_, HashMap<(String, String), UserMemory>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The events that have something to remember, with the id and the time that an append would
    /// have given them: in ADK every event has both from the start.
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
    /// Keeps the session's events in place of those it had before.
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
        let question = Question::new(query);
        let mut found: Vec<(usize, &Remembered)> = Vec::new();
        for remembered in known.iter().flatten().flat_map(|session| session.iter()) {
            let matches = remembered.searchable().matches(&question);
            if matches > 0 {
                found.push((matches, remembered));
            }
        }
        // Stable: where the number is the same, the order of arrival stays.
        found.sort_by_key(|(matches, _)| std::cmp::Reverse(*matches));
        let best = found.into_iter().take(FOUND_MAX);
        Ok(SearchMemoryResponse {
            memories: best.filter_map(|(_, found)| found.entry()).collect(),
            ..SearchMemoryResponse::default()
        })
    }

    /// Keeps these events beside those of the session, unless their ids are there already. The
    /// metadata means nothing here.
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

    /// Forgets the event with this id, in all sessions of the user and for good. Without an id, or
    /// with one that is not known, nothing happens.
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
        // A session that has grown mostly shares its events with what it was.
        let before: HashMap<*const Event, &Arc<Remembered>> = before
            .iter()
            .map(|remembered| (Arc::as_ptr(&remembered.event), remembered))
            .collect();
        let kept = events
            .into_iter()
            .filter(|event| !self.deleted.contains(&event.id))
            .map(|event| match before.get(&Arc::as_ptr(&event)) {
                Some(remembered) => Arc::clone(remembered),
                None => Remembered::new(event),
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
                list.push(Remembered::new(event));
            }
        }
        *self.session_mut(session) = kept;
    }

    fn delete(&mut self, id: &str) {
        let has_id = |remembered: &Arc<Remembered>| remembered.event.id == id;
        for session in &mut self.sessions {
            if session.iter().any(has_id) {
                Arc::make_mut(session).retain(|remembered| !has_id(remembered));
                self.deleted.insert(id.to_owned());
            }
        }
    }

    /// What is kept of a session; a new one stands behind all others. Searches that are under way
    /// keep what they began with.
    fn session_mut(&mut self, session: &str) -> &mut Arc<Vec<Arc<Remembered>>> {
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

impl Remembered {
    fn new(event: Arc<Event>) -> Arc<Remembered> {
        Arc::new(Remembered {
            event,
            searchable: OnceLock::new(),
        })
    }

    fn searchable(&self) -> &Searchable {
        self.searchable.get_or_init(|| {
            let parts = parts_of(&self.event)
                .map(Content::parts)
                .unwrap_or_default();
            let texts = parts.iter().filter_map(|part| part.text.as_deref());
            let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
            Searchable::new(&texts.join(" "))
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
