//! Turns events, and memories that a caller adds directly, into entries. It stores nothing.

use std::{sync::Arc, time::Duration};

use retain_core::{
    Content, Event, JsonMap, MemoryEntry, MemoryError, MemoryKind, MemoryOrigin, NewMemory, Part,
    derived_memory_id, duration_us, seconds,
};

use super::text::{spoken_text, texts_in};

/// Options of an ingest.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct IngestOptions {
    /// Time to live (default: the service's).
    pub ttl: Option<Duration>,
    /// Whether to ingest tool responses, with the tool as author (default: as the service is
    /// configured).
    pub tool_responses: Option<bool>,
    /// Custom metadata for all entries.
    pub custom_metadata: JsonMap,
}

impl IngestOptions {
    /// Sets the time to live.
    pub fn with_ttl(mut self, ttl: Duration) -> IngestOptions {
        self.ttl = Some(ttl);
        self
    }

    /// Sets whether to ingest tool responses.
    pub fn with_tool_responses(mut self, ingest: bool) -> IngestOptions {
        self.tool_responses = Some(ingest);
        self
    }

    /// Sets the custom metadata of all entries.
    pub fn with_custom_metadata(mut self, metadata: JsonMap) -> IngestOptions {
        self.custom_metadata = metadata;
        self
    }
}

/// [`IngestOptions`] with the service's defaults, the session and the time of the ingest.
pub(super) struct Ingest<'a> {
    pub(super) session: Option<&'a str>,
    pub(super) ttl: Option<Duration>,
    pub(super) tool_responses: bool,
    pub(super) custom_metadata: &'a JsonMap,
    pub(super) now_us: i64,
}

impl Ingest<'_> {
    /// Returns the entries of an event: one for its text, and one for each tool response.
    pub(super) fn event(&self, position: u64, event: &Arc<Event>) -> Vec<NewMemory> {
        let Some(content) = event.content().filter(|_| !event.is_partial()) else {
            return Vec::new();
        };
        let mut memories = Vec::new();
        let event_id = match event.id.is_empty() {
            true => derived_id(event, content),
            false => event.id.clone(),
        };
        let base = NewMemory {
            kind: MemoryKind::Turn,
            session: self.session.map(str::to_owned),
            position,
            event_id: Some(event_id.clone()),
            timestamp: match event.timestamp == 0.0 {
                true => seconds(self.now_us),
                false => event.timestamp,
            },
            expires_us: self.expires_us(),
            custom_metadata: self.custom_metadata.clone(),
            ..NewMemory::default()
        };
        if !spoken_text(content).is_empty() {
            memories.push(NewMemory {
                id: event_id.clone(),
                author: Some(event.author.clone()),
                origin: match event.author == "user" {
                    true => MemoryOrigin::Person,
                    false => MemoryOrigin::Agent,
                },
                content: content.clone(),
                ..base.clone()
            });
        }
        if self.tool_responses {
            let parts = content.parts().iter().enumerate();
            memories.extend(parts.filter_map(|(at, part)| {
                let (name, text) = tool_text(part)?;
                Some(NewMemory {
                    id: format!("{event_id}#{at}"),
                    author: Some(name.clone()),
                    origin: MemoryOrigin::Tool { name },
                    content: Content::new("user", vec![Part::text(text)]),
                    ..base.clone()
                })
            }));
        }
        memories
    }

    /// Returns the entry of a directly added memory. `new_id` generates a missing id.
    pub(super) fn entry(
        &self,
        entry: &MemoryEntry,
        new_id: impl FnOnce() -> String,
    ) -> Result<NewMemory, MemoryError> {
        if spoken_text(&entry.content).is_empty() {
            let reason = "has no text; expected at least one text part";
            return Err(MemoryError::invalid_input("memory", reason));
        }
        let mut custom_metadata = self.custom_metadata.clone();
        for (key, value) in entry.custom_metadata.iter() {
            custom_metadata.insert(key, value.clone());
        }
        let id = entry.id.clone().filter(|id| !id.is_empty());
        let timestamp = entry.timestamp_seconds();
        Ok(NewMemory {
            id: id.unwrap_or_else(new_id),
            kind: MemoryKind::Direct,
            author: entry.author.clone(),
            origin: MemoryOrigin::Direct,
            timestamp: timestamp.unwrap_or_else(|| seconds(self.now_us)),
            expires_us: self.expires_us(),
            content: entry.content.clone(),
            custom_metadata,
            ..NewMemory::default()
        })
    }

    fn expires_us(&self) -> Option<i64> {
        let ttl = self.ttl?;
        Some(self.now_us.saturating_add(duration_us(ttl)))
    }
}

/// Derives an id from the event's content, so that an event without an id is ingested only once.
fn derived_id(event: &Event, content: &Content) -> String {
    // `PreparedMemory::new` rejects content that cannot be serialized.
    let text = content.to_json().unwrap_or_default();
    derived_memory_id(&event.author, event.timestamp, &text)
}

/// Returns the tool's name and the text of its response, if the part is a response with text.
fn tool_text(part: &Part) -> Option<(String, String)> {
    let response = part.function_response.as_ref()?;
    let text = texts_in(response.response.as_ref()?);
    let name = response.name.clone().unwrap_or_default();
    (!text.is_empty()).then_some((name, text))
}
