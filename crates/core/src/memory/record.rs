//! What is kept of a memory beyond ADK's `MemoryEntry`: where it comes from, and since when.

use std::fmt;

use super::{MemoryEntry, timestamp_text};
use crate::{content::Content, json::JsonMap};

/// Whose memories: those of a user of an app. Nothing crosses it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryScope {
    /// The app.
    pub app: String,
    /// The user.
    pub user: String,
}

impl MemoryScope {
    /// The memories of `user` in `app`.
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

/// How a memory came to be one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// It was said in a conversation.
    #[default]
    Turn,
    /// It was given as a memory, by `add_memory`.
    Direct,
}

/// Who a memory comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum MemoryOrigin {
    /// The user said it.
    #[default]
    Person,
    /// An agent said it.
    Agent,
    /// A tool answered it. What tools say was written by nobody who is to be trusted.
    Tool {
        /// The tool.
        name: String,
    },
    /// It was given as a memory.
    Direct,
}

/// The kinds of [`MemoryOrigin`], to choose by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OriginKind {
    /// Said by the user.
    Person,
    /// Said by an agent.
    Agent,
    /// Answered by a tool.
    Tool,
    /// Given as a memory.
    Direct,
}

impl MemoryOrigin {
    /// Its kind.
    pub fn kind(&self) -> OriginKind {
        match self {
            MemoryOrigin::Person => OriginKind::Person,
            MemoryOrigin::Agent => OriginKind::Agent,
            MemoryOrigin::Tool { .. } => OriginKind::Tool,
            MemoryOrigin::Direct => OriginKind::Direct,
        }
    }

    /// The tool it comes from, if it does.
    pub fn tool(&self) -> Option<&str> {
        match self {
            MemoryOrigin::Tool { name } => Some(name),
            _ => None,
        }
    }
}

/// What is known of a memory, without what it says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryAbout {
    /// Its number among the user's memories: ascending by arrival, never used twice.
    pub seq: u64,
    /// Its id: that of its event, or the one it was given with.
    pub id: String,
    /// The scope's revision at which its body came to be as it is.
    pub revision: u64,
    /// How it came to be a memory.
    pub kind: MemoryKind,
    /// The conversation it was said in.
    pub session: Option<String>,
    /// Its position in the conversation's log.
    pub position: u64,
    /// The event it was said with.
    pub event_id: Option<String>,
    /// Who said it, by name.
    pub author: Option<String>,
    /// Who it comes from.
    pub origin: MemoryOrigin,
    /// When it was said, in seconds since 1970.
    pub timestamp: f64,
    /// When it was taken up, in microseconds since 1970.
    pub created_us: i64,
    /// When it was changed by hand, if ever. Ingesting does not change it again.
    pub updated_us: Option<i64>,
    /// When its time is up.
    pub expires_us: Option<i64>,
    /// The user's own notes.
    pub custom_metadata: JsonMap,
}

/// What filters ask of a memory.
#[derive(Debug, Clone, Copy)]
pub struct MemoryFacts<'a> {
    /// When it was said.
    pub timestamp: f64,
    /// Who said it.
    pub author: Option<&'a str>,
    /// In which session.
    pub session: Option<&'a str>,
    /// How it came to be a memory.
    pub kind: MemoryKind,
    /// Who it comes from.
    pub origin: OriginKind,
    /// The tool it comes from.
    pub tool: Option<&'a str>,
    /// The user's own notes.
    pub custom_metadata: &'a JsonMap,
}

impl MemoryAbout {
    /// What filters ask.
    pub fn facts(&self) -> MemoryFacts<'_> {
        MemoryFacts {
            timestamp: self.timestamp,
            author: self.author.as_deref(),
            session: self.session.as_deref(),
            kind: self.kind,
            origin: self.origin.kind(),
            tool: self.origin.tool(),
            custom_metadata: &self.custom_metadata,
        }
    }

    /// Whether its time is not up.
    pub fn is_alive(&self, now_us: i64) -> bool {
        self.expires_us.is_none_or(|expires| now_us < expires)
    }
}

/// A memory as it is kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryRecord {
    /// Where it comes from.
    pub about: MemoryAbout,
    /// What was said.
    pub content: Content,
    /// What it means, as far as that was worked out.
    pub vectors: MemoryVectors,
}

impl MemoryRecord {
    /// As ADK has it. What a tool said is labelled by its author, whatever the tool is called: a reader
    /// of the entry must not take it for what a person said.
    pub fn entry(&self) -> MemoryEntry {
        let author = match &self.about.origin {
            MemoryOrigin::Tool { name } => Some(format!("{name} (tool)")),
            _ => self.about.author.clone(),
        };
        MemoryEntry {
            content: self.content.clone(),
            custom_metadata: self.about.custom_metadata.clone(),
            id: Some(self.about.id.clone()),
            author,
            timestamp: timestamp_text(self.about.timestamp),
            ..MemoryEntry::default()
        }
    }
}

/// The vectors of a memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryVectors {
    /// From a table that is compiled in: a byte a dimension.
    pub fixed: Option<MemoryVector>,
    /// From an [`Embedder`](super::Embedder): four bytes a dimension, little-endian floats.
    pub embedding: Option<MemoryVector>,
}

/// A vector, and what made it.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryVector {
    /// The id of what made it. Vectors of two models have nothing to do with one another.
    pub model: String,
    /// How many dimensions it has.
    pub dims: usize,
    /// The numbers.
    pub bytes: Vec<u8>,
}

impl MemoryVector {
    /// A vector of floats that `model` made.
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

    /// The numbers as floats; empty if they are none.
    pub fn floats(&self) -> Vec<f32> {
        let (chunks, rest) = self.bytes.as_chunks::<4>();
        match rest.is_empty() && chunks.len() == self.dims {
            true => chunks.iter().map(|it| f32::from_le_bytes(*it)).collect(),
            false => Vec::new(),
        }
    }
}
