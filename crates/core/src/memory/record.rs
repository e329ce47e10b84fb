//! The stored form of a memory: ADK's `MemoryEntry` with its provenance.

use std::fmt;

use super::{MemoryEntry, timestamp_text};
use crate::{content::Content, json::JsonMap};

/// The scope of memories: one user of one app. No query returns memories of another scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryScope {
    /// The app.
    pub app: String,
    /// The user.
    pub user: String,
}

impl MemoryScope {
    /// Creates the scope of the memories of `user` in `app`.
    pub fn new(app: impl Into<String>, user: impl Into<String>) -> MemoryScope {
        MemoryScope {
            app: app.into(),
            user: user.into(),
        }
    }
}

impl fmt::Display for MemoryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.app, self.user)
    }
}

/// How a memory came to exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Ingested from a session.
    #[default]
    Turn,
    /// Added directly by `add_memory`.
    Direct,
}

/// The origin of a memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
// Exhaustive on purpose: a new variant must stop stores from compiling.
pub enum MemoryOrigin {
    /// A message of the user.
    #[default]
    Person,
    /// A message of an agent.
    Agent,
    /// A result of a tool. Tool results are untrusted.
    Tool {
        /// The tool.
        name: String,
    },
    /// Added directly.
    Direct,
}

/// The kinds of [`MemoryOrigin`], for filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OriginKind {
    /// Messages of the user.
    Person,
    /// Messages of agents.
    Agent,
    /// Results of tools.
    Tool,
    /// Added directly.
    Direct,
}

impl MemoryOrigin {
    /// Returns the kind of the origin.
    pub fn kind(&self) -> OriginKind {
        match self {
            MemoryOrigin::Person => OriginKind::Person,
            MemoryOrigin::Agent => OriginKind::Agent,
            MemoryOrigin::Tool { .. } => OriginKind::Tool,
            MemoryOrigin::Direct => OriginKind::Direct,
        }
    }

    /// Returns the name of the tool, if the memory is a tool result.
    pub fn tool(&self) -> Option<&str> {
        match self {
            MemoryOrigin::Tool { name } => Some(name),
            _ => None,
        }
    }
}

/// A memory's provenance and metadata, without its content.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryInfo {
    /// Its number among the user's memories, in the order of arrival. Numbers restart only when
    /// the user is erased.
    pub seq: u64,
    /// Its id: the id of its event, or the id with which it was added.
    pub id: String,
    /// The revision of the scope at the last change of the memory's body.
    pub revision: u64,
    /// How it became a memory.
    pub kind: MemoryKind,
    /// The session that the memory comes from.
    pub session: Option<String>,
    /// The position of its event in the session.
    pub position: u64,
    /// The id of its event.
    pub event_id: Option<String>,
    /// The name of the author.
    pub author: Option<String>,
    /// Its origin.
    pub origin: MemoryOrigin,
    /// The time of the message, in seconds since 1970.
    pub timestamp: f64,
    /// When it was ingested, in microseconds since 1970.
    pub created_us: i64,
    /// When it was edited, if ever. An ingest does not change an edited memory.
    pub updated_us: Option<i64>,
    /// When it expires, in microseconds since 1970; `None` if it never expires.
    pub expires_us: Option<i64>,
    /// Custom metadata.
    pub custom_metadata: JsonMap,
}

/// The fields of a memory that filters use.
#[derive(Debug, Clone, Copy)]
pub struct FilterFields<'a> {
    /// The time of the message.
    pub timestamp: f64,
    /// The name of the author.
    pub author: Option<&'a str>,
    /// Its session.
    pub session: Option<&'a str>,
    /// How it became a memory.
    pub kind: MemoryKind,
    /// Its origin.
    pub origin: OriginKind,
    /// The name of the tool, if the memory is a tool result.
    pub tool: Option<&'a str>,
    /// Custom metadata.
    pub custom_metadata: &'a JsonMap,
}

impl MemoryInfo {
    /// Returns the fields that filters use.
    pub fn filter_fields(&self) -> FilterFields<'_> {
        FilterFields {
            timestamp: self.timestamp,
            author: self.author.as_deref(),
            session: self.session.as_deref(),
            kind: self.kind,
            origin: self.origin.kind(),
            tool: self.origin.tool(),
            custom_metadata: &self.custom_metadata,
        }
    }

    /// Whether the memory has not expired at `now_us`.
    pub fn is_alive(&self, now_us: i64) -> bool {
        self.expires_us.is_none_or(|expires| now_us < expires)
    }
}

/// A stored memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryRecord {
    /// Its provenance and metadata.
    pub info: MemoryInfo,
    /// The message.
    pub content: Content,
    /// Its embeddings, as far as they are computed.
    pub vectors: MemoryVectors,
}

impl MemoryRecord {
    /// Returns the memory as ADK's entry. The author of every tool result is labeled, so that a
    /// tool's name cannot make the result look like a user's message.
    pub fn entry(&self) -> MemoryEntry {
        let author = match &self.info.origin {
            MemoryOrigin::Tool { name } => Some(format!("{name} (tool)")),
            _ => self.info.author.clone(),
        };
        MemoryEntry {
            content: self.content.clone(),
            custom_metadata: self.info.custom_metadata.clone(),
            id: Some(self.info.id.clone()),
            author,
            timestamp: timestamp_text(self.info.timestamp),
            ..MemoryEntry::default()
        }
    }
}

/// The vectors of a memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryVectors {
    /// The vector from the table that is compiled into Retain: one byte per dimension.
    pub fixed: Option<MemoryVector>,
    /// The vector from an [`Embedder`](super::Embedder): little-endian floats, four bytes per
    /// dimension.
    pub embedding: Option<MemoryVector>,
}

/// A vector and its model.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryVector {
    /// The id of the model. Vectors of different models cannot be compared.
    pub model: String,
    /// The number of dimensions.
    pub dims: usize,
    /// The components, as [`MemoryVectors`] describes.
    pub bytes: Vec<u8>,
}

impl MemoryVector {
    /// Creates a vector of floats from `model`.
    ///
    /// ```
    /// let vector = retain_core::MemoryVector::from_floats("m", &[0.5, -1.0]);
    /// assert_eq!((vector.dims, vector.bytes.len()), (2, 8));
    /// assert_eq!(vector.floats(), [0.5, -1.0]);
    /// ```
    pub fn from_floats(model: impl Into<String>, floats: &[f32]) -> MemoryVector {
        MemoryVector {
            model: model.into(),
            dims: floats.len(),
            bytes: floats.iter().flat_map(|it| it.to_le_bytes()).collect(),
        }
    }

    /// Returns the components as floats; empty if the bytes are not one float per dimension.
    pub fn floats(&self) -> Vec<f32> {
        let (chunks, rest) = self.bytes.as_chunks::<4>();
        match rest.is_empty() && chunks.len() == self.dims {
            true => chunks.iter().map(|it| f32::from_le_bytes(*it)).collect(),
            false => Vec::new(),
        }
    }
}
