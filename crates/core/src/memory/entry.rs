//! `MemoryEntry`: one memory; `SearchMemoryResponse`: the results of a search.

use super::timestamp::seconds_of_text;
use crate::{
    content::Content,
    json::JsonMap,
    wire::{wire_object, wire_text},
};

wire_object! {
    /// One memory: a message with its author and time.
    ///
    /// ADK defines no camelCase names for it, so both spellings use these names.
    pub struct MemoryEntry: MEMORY_ENTRY {
        /// The message.
        content: Content,
        /// Custom metadata; keys are never renamed.
        custom_metadata: JsonMap,
        /// Its id, if it has one.
        id: Option<String>,
        /// The author.
        author: Option<String>,
        /// The time in ISO 8601, as ADK writes it. [`timestamp_text`](crate::timestamp_text)
        /// formats seconds.
        timestamp: Option<String>,
    }
}

wire_object! {
    /// The results of a search.
    pub struct SearchMemoryResponse: SEARCH_MEMORY_RESPONSE {
        /// The memories, the best first.
        memories: Vec<MemoryEntry>,
    }
}

wire_text!(MemoryEntry, SearchMemoryResponse);

impl MemoryEntry {
    /// Returns the time in seconds since 1970. A time without an offset is UTC.
    ///
    /// Returns `None` if the timestamp is missing or is not ISO 8601; a service may set any text.
    ///
    /// ```
    /// use retain_core::{MemoryEntry, timestamp_text};
    /// let entry = MemoryEntry {
    ///     timestamp: timestamp_text(1_700_000_000.25),
    ///     ..MemoryEntry::default()
    /// };
    /// assert_eq!(entry.timestamp.as_deref(), Some("2023-11-14T22:13:20.250000"));
    /// assert_eq!(entry.timestamp_seconds(), Some(1_700_000_000.25));
    /// ```
    pub fn timestamp_seconds(&self) -> Option<f64> {
        seconds_of_text(self.timestamp.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_response_round_trips_in_snake_case_only() {
        let text = concat!(
            r#"{"memories":[{"content":{"parts":[{"text":"red"}],"role":"user"},"#,
            r#""custom_metadata":{"someKey":1},"id":"e1","author":"ada","timestamp":"then"},"#,
            r#"{"content":{},"custom_metadata":{}}],"next":{"page_token":"x"}}"#
        );
        let found = SearchMemoryResponse::from_json(text).unwrap();
        assert_eq!(found.memories.len(), 2);
        assert_eq!(found.memories[0].timestamp_seconds(), None);
        assert_eq!(found.memories[1].timestamp_seconds(), None);
        assert_eq!(found.to_json().unwrap(), text);
        assert_eq!(found.to_snake_json().unwrap(), text);
        let empty = SearchMemoryResponse::default();
        assert_eq!(empty.to_json().unwrap(), r#"{"memories":[]}"#);
    }
}
