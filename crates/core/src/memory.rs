//! `MemoryEntry`: one thing remembered beyond a conversation.

use crate::{
    content::Content,
    json::JsonMap,
    wire::{wire_object, wire_text},
};

wire_object! {
    /// One thing remembered: what was said, by whom and when.
    ///
    /// ADK has no camelCase form of it: both forms are written with these names.
    pub struct MemoryEntry {
        /// What was said.
        content: Content = "content",
        /// The user's own notes; never re-cased.
        custom_metadata: JsonMap = "custom_metadata",
        /// Its id, if it has one.
        id: Option<String> = "id",
        /// Who said it.
        author: Option<String> = "author",
        /// When: ISO 8601, as ADK writes it.
        timestamp: Option<String> = "timestamp",
    }
}

wire_text!(MemoryEntry);
