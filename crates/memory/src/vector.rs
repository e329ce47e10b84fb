//! An in-memory memory service that ranks entries by an embedder alone.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use retain_core::{
    Clock, Embedder, EraseReceipt, Event, Ids, JsonMap, MemoryEntry, MemoryError, MemoryService,
    RandomIds, SearchMemoryResponse, Session, StoreLabel, SystemClock, derived_memory_id,
    timestamp_text,
};

use crate::service::{embedding::embed, text::spoken_text};

/// A volatile memory service that ranks entries by the cosine between their vector and the query's.
/// Each entry is embedded once, when it is added.
///
/// A search returns the five nearest entries by default.
#[derive(Debug)]
pub struct VectorMemoryService {
    embedder: Arc<dyn Embedder>,
    users: Mutex<HashMap<(String, String), UserVectors>>,
    top_k: usize,
    min_score: Option<f32>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// Maximum number of texts per embedder call.
const BATCH: usize = 64;

/// The memories of one user.
#[derive(Debug, Default)]
struct UserVectors {
    /// The memories, in order of arrival.
    memories: Vec<Memory>,
    /// Maps each id to the indexes of its memories; several if sessions share the id with different
    /// content.
    indexes: HashMap<String, Vec<usize>>,
    deleted: HashSet<String>,
}

#[derive(Debug)]
struct Memory {
    session: Option<String>,
    entry: MemoryEntry,
    vector: Vec<f32>,
}

/// How to handle an added entry.
enum EntryAction {
    Add,
    /// Replace the memory at this index, whose content differs.
    Replace(usize),
    /// Skip an entry that is stored, perhaps from another session, or was deleted.
    Skip,
}

impl UserVectors {
    fn action_for(&self, session: Option<&str>, entry: &MemoryEntry) -> EntryAction {
        let id = entry.id.as_deref().unwrap_or_default();
        if self.deleted.contains(id) {
            return EntryAction::Skip;
        }
        let mut action = EntryAction::Add;
        for &at in self.indexes.get(id).into_iter().flatten() {
            let stored = &self.memories[at];
            if stored.entry.content == entry.content {
                return EntryAction::Skip;
            }
            if stored.session.as_deref() == session {
                action = EntryAction::Replace(at);
            }
        }
        action
    }

    /// Stores a new or changed memory.
    fn store(&mut self, memory: Memory) {
        match self.action_for(memory.session.as_deref(), &memory.entry) {
            EntryAction::Add => {
                let id = memory.entry.id.clone().unwrap_or_default();
                self.indexes
                    .entry(id)
                    .or_default()
                    .push(self.memories.len());
                self.memories.push(memory);
            }
            EntryAction::Replace(at) => self.memories[at] = memory,
            EntryAction::Skip => {}
        }
    }

    /// Deletes all memories with this id and skips them in later ingests. An unknown id is ignored.
    fn delete(&mut self, id: &str) {
        if self.indexes.remove(id).is_none() {
            return;
        }
        self.deleted.insert(id.to_owned());
        self.memories
            .retain(|it| it.entry.id.as_deref() != Some(id));
        self.index_ids();
    }

    /// Fills `indexes` again after memories were removed.
    fn index_ids(&mut self) {
        self.indexes.clear();
        for (at, memory) in self.memories.iter().enumerate() {
            let id = memory.entry.id.clone().unwrap_or_default();
            self.indexes.entry(id).or_default().push(at);
        }
    }
}

impl UserVectors {
    /// Deletes the memories of these sessions and returns their number.
    fn delete_sessions(&mut self, ids: &[String]) -> u64 {
        let before = self.memories.len();
        self.memories
            .retain(|memory| !memory.session.as_ref().is_some_and(|id| ids.contains(id)));
        self.index_ids();
        (before - self.memories.len()) as u64
    }
}

impl VectorMemoryService {
    /// Creates an empty service.
    pub fn new(embedder: Arc<dyn Embedder>) -> VectorMemoryService {
        VectorMemoryService {
            embedder,
            users: Mutex::default(),
            top_k: 5,
            min_score: None,
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
        }
    }

    /// Sets the maximum number of hits (default 5).
    pub fn with_top_k(mut self, top_k: usize) -> Self {
        self.top_k = top_k;
        self
    }

    /// Sets the minimum cosine of a hit, from -1 to 1 (default: none).
    pub fn with_min_score(mut self, score: f32) -> Self {
        self.min_score = Some(score);
        self
    }

    /// Takes the time of events without one from `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Takes the ids of entries without one from `ids`.
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    fn users(&self) -> MutexGuard<'_, HashMap<(String, String), UserVectors>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the event as an entry, if it has text.
    fn entry(&self, event: &Event) -> Option<MemoryEntry> {
        let content = event.content().filter(|_| !event.is_partial())?;
        if spoken_text(content).is_empty() {
            return None;
        }
        let id = match event.id.is_empty() {
            true => {
                let text = content.to_json().unwrap_or_default();
                derived_memory_id(&event.author, event.timestamp, &text)
            }
            false => event.id.clone(),
        };
        let timestamp = match event.timestamp == 0.0 {
            true => self.clock.now(),
            false => event.timestamp,
        };
        Some(MemoryEntry {
            content: content.clone(),
            id: Some(id),
            author: Some(event.author.clone()),
            timestamp: timestamp_text(timestamp),
            ..MemoryEntry::default()
        })
    }

    /// Embeds and stores new entries in batches. If the embedder fails, earlier batches stay
    /// stored. Holds no lock while it calls the embedder.
    async fn add(
        &self,
        (app, user): (&str, &str),
        session: Option<&str>,
        mut all: Vec<MemoryEntry>,
    ) -> Result<(), MemoryError> {
        let key = (app.to_owned(), user.to_owned());
        if let Some(user) = self.users().get(&key) {
            all.retain(|entry| !matches!(user.action_for(session, entry), EntryAction::Skip));
        }
        for new in all.chunks(BATCH) {
            let texts: Vec<String> = new.iter().map(|it| spoken_text(&it.content)).collect();
            let vectors = embed(&*self.embedder, &texts).await;
            let vectors = vectors.map_err(MemoryError::backend)?;
            let mut users = self.users();
            let user = users.entry(key.clone()).or_default();
            for (entry, vector) in new.iter().zip(vectors) {
                // `store` checks again: another caller may have added or deleted the entry
                // meanwhile.
                user.store(Memory {
                    session: session.map(str::to_owned),
                    entry: entry.clone(),
                    vector: normalized(vector),
                });
            }
        }
        Ok(())
    }
}

#[async_trait]
impl MemoryService for VectorMemoryService {
    async fn add_session_to_memory(&self, session: &Session) -> Result<(), MemoryError> {
        let entries = session.events.iter().filter_map(|event| self.entry(event));
        let owner = (session.app_name.as_str(), session.user_id.as_str());
        self.add(owner, Some(&session.id), entries.collect()).await
    }

    async fn search_memory(
        &self,
        app_name: &str,
        user_id: &str,
        query: &str,
    ) -> Result<SearchMemoryResponse, MemoryError> {
        if query.trim().is_empty() {
            return Ok(SearchMemoryResponse::default());
        }
        let vectors = embed(&*self.embedder, &[query.to_owned()]).await;
        let mut vectors = vectors.map_err(MemoryError::backend)?;
        let query = normalized(vectors.pop().unwrap_or_default());
        let users = self.users();
        let user = users.get(&(app_name.to_owned(), user_id.to_owned()));
        let memories = user.map(|user| user.memories.as_slice());
        let memories = memories.unwrap_or_default().iter();
        let scored = memories.map(|it| (product(&it.vector, &query), &it.entry));
        let is_near = |score: f32| self.min_score.is_none_or(|least| score >= least);
        let mut near: Vec<(f32, &MemoryEntry)> =
            scored.filter(|(score, _)| is_near(*score)).collect();
        // A stable sort keeps the order of arrival for ties.
        near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let best = near.into_iter().take(self.top_k);
        Ok(SearchMemoryResponse {
            memories: best.map(|(_, entry)| entry.clone()).collect(),
            ..SearchMemoryResponse::default()
        })
    }

    /// Adds an entry with this metadata for each event that has text.
    async fn add_events_to_memory(
        &self,
        app_name: &str,
        user_id: &str,
        events: &[Arc<Event>],
        session_id: Option<&str>,
        custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        let entries = events.iter().filter_map(|event| self.entry(event));
        let entries = entries.map(|entry| MemoryEntry {
            custom_metadata: custom_metadata.cloned().unwrap_or_default(),
            ..entry
        });
        let owner = (app_name, user_id);
        self.add(owner, session_id, entries.collect()).await
    }

    /// Adds the entries. Merges the metadata into that of each entry, which takes precedence.
    async fn add_memory(
        &self,
        app_name: &str,
        user_id: &str,
        memories: &[MemoryEntry],
        custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        let complete = |memory: &MemoryEntry| {
            let mut memory = memory.clone();
            let mut metadata = custom_metadata.cloned().unwrap_or_default();
            for (key, value) in memory.custom_metadata.iter() {
                metadata.insert(key, value.clone());
            }
            memory.custom_metadata = metadata;
            let id = memory.id.filter(|id| !id.is_empty());
            memory.id = Some(id.unwrap_or_else(|| self.ids.new_id()));
            memory
        };
        if memories
            .iter()
            .any(|it| spoken_text(&it.content).is_empty())
        {
            let reason = "has no text; expected at least one text part";
            return Err(MemoryError::invalid_input("memory", reason));
        }
        let memories = memories.iter().map(complete).collect();
        self.add((app_name, user_id), None, memories).await
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

    /// Deletes the entry permanently: later ingests skip it. A missing or unknown id is ignored.
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
        let (memories, deleted) = (erased.memories.len(), erased.deleted.len());
        Ok(EraseReceipt::of_memories(memories, deleted))
    }

    fn store_label(&self) -> StoreLabel {
        StoreLabel::new("in memory")
    }
}

/// Normalizes a vector to length one, so that dot products are cosines.
fn normalized(mut vector: Vec<f32>) -> Vec<f32> {
    let length = product(&vector, &vector).sqrt();
    match length > 0.0 && length.is_finite() {
        true => vector.iter_mut().for_each(|number| *number /= length),
        // A NaN would sort before all numbers. A zero vector has cosine 0 with every query.
        false => vector.fill(0.0),
    }
    vector
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
