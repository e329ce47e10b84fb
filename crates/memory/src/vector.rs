//! Memories in memory, found by meaning: whatever an embedder says is near.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use retain_core::{
    Clock, Embedder, Event, Ids, JsonMap, MemoryEntry, MemoryError, MemoryService, RandomIds,
    SearchMemoryResponse, Session, SystemClock, derived_memory_id, timestamp_text,
};

use crate::service::{embedding::embed, text::spoken_text};

/// Memories that live as long as the process, found by how near their vectors are to that of the
/// question. Each is embedded once, when it is added.
///
/// By default a search gives the five nearest.
#[derive(Debug)]
pub struct VectorMemoryService {
    embedder: Arc<dyn Embedder>,
    users: Mutex<HashMap<(String, String), Known>>,
    top_k: usize,
    min_score: Option<f32>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// What is known of a user.
#[derive(Debug, Default)]
struct Known {
    memories: Vec<(MemoryEntry, Vec<f32>)>,
    /// Ids that are known, and those that were deleted.
    ids: HashSet<String>,
}

impl VectorMemoryService {
    /// A service that knows nothing yet.
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

    /// Gives at most so many memories. Default: 5.
    pub fn with_top_k(mut self, top_k: usize) -> Self {
        self.top_k = top_k;
        self
    }

    /// Gives no memories that are less near than this, as a cosine from -1 to 1.
    pub fn with_min_score(mut self, score: f32) -> Self {
        self.min_score = Some(score);
        self
    }

    /// Takes the time of events that have none from `clock`.
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Takes the ids of memories that have none from `ids`.
    pub fn with_ids(mut self, ids: impl Ids) -> Self {
        self.ids = Arc::new(ids);
        self
    }

    fn users(&self) -> MutexGuard<'_, HashMap<(String, String), Known>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event as a memory, if it says something.
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

    /// Embeds what is new and keeps it. Nothing is locked while the embedder works.
    async fn add(&self, app: &str, user: &str, all: Vec<MemoryEntry>) -> Result<(), MemoryError> {
        let key = (app.to_owned(), user.to_owned());
        let is_new = |entry: &MemoryEntry| {
            let users = self.users();
            let ids = users.get(&key).map(|known| &known.ids);
            let id = entry.id.as_deref().unwrap_or_default();
            !ids.is_some_and(|ids| ids.contains(id))
        };
        let new: Vec<MemoryEntry> = all.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = new.iter().map(|it| spoken_text(&it.content)).collect();
        let vectors = embed(&*self.embedder, &texts).await;
        let vectors = vectors.map_err(MemoryError::backend)?;
        let mut users = self.users();
        let known = users.entry(key.clone()).or_default();
        for (entry, vector) in new.into_iter().zip(vectors) {
            // Another caller may have added or deleted it meanwhile.
            if known.ids.insert(entry.id.clone().unwrap_or_default()) {
                known.memories.push((entry, normal(vector)));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl MemoryService for VectorMemoryService {
    async fn add_session_to_memory(&self, session: &Session) -> Result<(), MemoryError> {
        let entries = session.events.iter().filter_map(|event| self.entry(event));
        let (app, user) = (&session.app_name, &session.user_id);
        self.add(app, user, entries.collect()).await
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
        let question = normal(vectors.pop().unwrap_or_default());
        let users = self.users();
        let known = users.get(&(app_name.to_owned(), user_id.to_owned()));
        let memories = known.map(|known| known.memories.as_slice());
        let memories = memories.unwrap_or_default().iter();
        let scored = memories.map(|(entry, vector)| (product(vector, &question), entry));
        let is_near = |score: f32| self.min_score.is_none_or(|least| score >= least);
        let mut near: Vec<(f32, &MemoryEntry)> =
            scored.filter(|(score, _)| is_near(*score)).collect();
        // Stable: where they are as near, the order of arrival stays.
        near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let best = near.into_iter().take(self.top_k);
        Ok(SearchMemoryResponse {
            memories: best.map(|(_, entry)| entry.clone()).collect(),
            ..SearchMemoryResponse::default()
        })
    }

    /// The metadata becomes the notes of each memory.
    async fn add_events_to_memory(
        &self,
        app_name: &str,
        user_id: &str,
        events: &[Arc<Event>],
        _session_id: Option<&str>,
        custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        let entries = events.iter().filter_map(|event| self.entry(event));
        let entries = entries.map(|entry| MemoryEntry {
            custom_metadata: custom_metadata.cloned().unwrap_or_default(),
            ..entry
        });
        self.add(app_name, user_id, entries.collect()).await
    }

    /// The metadata is added to the notes of each memory, which go first.
    async fn add_memory(
        &self,
        app_name: &str,
        user_id: &str,
        memories: &[MemoryEntry],
        custom_metadata: Option<&JsonMap>,
    ) -> Result<(), MemoryError> {
        let complete = |memory: &MemoryEntry| {
            let mut memory = memory.clone();
            let mut notes = custom_metadata.cloned().unwrap_or_default();
            for (key, value) in memory.custom_metadata.iter() {
                notes.insert(key, value.clone());
            }
            memory.custom_metadata = notes;
            memory.id.get_or_insert_with(|| self.ids.new_id());
            memory
        };
        let memories = memories.iter().map(complete).collect();
        self.add(app_name, user_id, memories).await
    }

    /// Forgets the memory for good. Without an id, or with one that is not known, nothing happens.
    async fn delete_memory(
        &self,
        app_name: &str,
        user_id: &str,
        memory_id: Option<&str>,
    ) -> Result<(), MemoryError> {
        let key = (app_name.to_owned(), user_id.to_owned());
        if let Some(id) = memory_id
            && let Some(known) = self.users().get_mut(&key)
        {
            known
                .memories
                .retain(|(it, _)| it.id.as_deref() != Some(id));
        }
        Ok(())
    }
}

/// The vector with a length of one, so that products are cosines.
fn normal(mut vector: Vec<f32>) -> Vec<f32> {
    let length = product(&vector, &vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|number| *number /= length);
    }
    vector
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
